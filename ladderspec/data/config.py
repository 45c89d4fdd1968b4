"""Configs of data sets, and the registry that finds them by name."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import Field, ValidationError

from ladderspec.cells import Config
from ladderspec.data import sets
from ladderspec.data.dataset import Baseline, DataError, DataSet
from ladderspec.errors import did_you_mean, one_of, registered_name_meant
from ladderspec.names import Shape, show_shape
from ladderspec.plugins import literal_name, load_installed, refuse_replacement
from ladderspec.wording import plain_words


class DataConfig(Config):
    """`data` of an experiment file: `data: {set: occluded_mnist, canvas: 24}`."""

    set: str
    input: str = Field("frames", description="Input field: the one that the network sees.")
    seed: Annotated[int, Field(ge=0)] | None = Field(
        None, description="Random seed of the data; default: the seed of the run."
    )
    labelled_per_batch: Annotated[int, Field(ge=0)] | None = Field(
        None,
        description="Number of labelled items in every training batch, repeated as often as needed;"
        " default: labelled and unlabelled items are mixed at random.",
    )

    about: ClassVar[str] = ""  # one line for `ladderspec data list`
    revision: ClassVar[int] = 1  # raise it when a default or a computation changes

    @abstractmethod
    def open(self, seed: int = 0, folder: Path | None = None) -> DataSet:
        """Read the files and return the data set; `folder`: default `sources.folder()`."""

    def files(self) -> tuple[str, ...]:
        """Paths in `sources.FILES` of the files to read."""
        return ()

    @property
    def note(self) -> str:
        """What a reader of a table must know of the data, as a sentence."""
        return ""

    def content(self, folder: Path | None = None) -> str | None:
        """A digest of files of the user's own; None if all files are published ones.

        A run that was started with other content is not resumed.
        """
        return None

    def baselines(self) -> dict[str, Baseline]:
        """Reference methods by the name that `baselines` of an experiment file uses."""
        return {}

    def advice(self, shape: Shape) -> str:
        """How to make the data fit a network with this input shape."""
        return f"change `input` in the spec to {show_shape(shape)} or the data"


def config_of_run(identity: Mapping[str, Any]) -> DataConfig:
    """The config of a finished run from the identity of its data: fields, and a revision.

    Raises DataError if the data set has another revision now: its batches would be others.
    """
    fields = dict(identity)
    trained = fields.pop("revision", 1)
    config = data_config(**fields)
    if config.revision != trained:
        raise DataError(
            f"the run was trained on revision {trained} of {config.set}, but this version of"
            f" ladderspec has revision {config.revision}, with other defaults or batches"
        )
    return config


# --- the registry ---------------------------------------------------------------------------------

_SETS: dict[str, type[DataConfig]] = {}
C = TypeVar("C", bound=DataConfig)


def register(config: type[C]) -> type[C]:
    """Make a data set known under the name in its field `set`. Use it as a class decorator.

    Raises:
        UsageError: if it has no name, or if ladderspec has a data set of that name.
    """
    name = literal_name(config, "set")
    if not config.__module__.startswith("ladderspec."):
        import_built_in()
        refuse_replacement("data set", name, _SETS.get(name), config)
    _SETS[name] = config
    return config


def registered(installed: bool = False) -> dict[str, type[DataConfig]]:
    """Data sets by name; `installed`: also those of installed packages."""
    import_built_in()
    if installed:
        load_installed()
    return dict(_SETS)


@cache
def import_built_in() -> None:
    """Import the modules of `ladderspec.data.sets`.

    On first use, not on import: they import numpy, which reading and drawing a spec do not need.
    """
    for module in iter_modules(sets.__path__):
        import_module(f"{sets.__name__}.{module.name}")


def data_config(set: str, **fields: Any) -> DataConfig:
    """The validated config of a data set.

    >>> data_config("occluded_mnist", canvas=24).canvas
    24
    """
    known = registered()
    if set not in known:
        known = registered(installed=True)
    if set not in known:
        hint = registered_name_meant(set, known, "data set")
        raise DataError(f"no data set `{set}`; {hint}")
    try:
        return known[set].model_validate({"set": set, **fields})
    except ValidationError as error:
        lines = [_explain(item, known[set]) for item in error.errors(include_url=False)]
        raise DataError("; ".join(lines)) from None


def _explain(item: Any, config: type[DataConfig]) -> str:
    """The message for one item of pydantic's errors."""
    name = ".".join(map(str, item["loc"]))
    if item["type"] == "extra_forbidden":
        hint = did_you_mean(name, config.model_fields) or f"known: {one_of(config.model_fields)}"
        return f"unknown field `{name}` ({hint})"
    if item["type"] == "missing":
        about = (config.model_fields[name].description or "").rstrip(".")
        return f"`{name}` is missing" + (f": {about[0].lower()}{about[1:]}" if about else "")
    hint = item.get("ctx", {}).get("hint", "")
    given = f"`{name}` is {item['input']!r}: " if name else ""
    return given + plain_words(item) + (f" ({hint})" if hint else "")
