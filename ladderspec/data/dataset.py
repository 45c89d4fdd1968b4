"""Data sets: their configs, their interface, and the registry that finds them by name.

A data set has named fields, splits, and batches by index. A batch is a pure function of (config,
seed, split, epoch, indices): any process gets the same numbers in any order, so workers need no
state and a run resumes anywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from pydantic import Field, ValidationError

from ladderspec.cells import Config
from ladderspec.data import sets
from ladderspec.data.plugin_checks import checking
from ladderspec.errors import LadderspecError, did_you_mean, one_of, registered_name_meant
from ladderspec.names import Shape, show_shape
from ladderspec.plugins import admit, is_built_in, literal_name, load_installed
from ladderspec.wording import plain_words

if TYPE_CHECKING:  # numpy is imported when a data set is opened
    import numpy as np
    from numpy.typing import NDArray

    from ladderspec.data.batching import Batch, Indices
    from ladderspec.data.sheet import ImageSheet


class DataError(LadderspecError):
    """Data that are missing or damaged, or do not fit the network."""


class Split(StrEnum):
    TRAIN = "train"
    VALID = "valid"
    TEST = "test"
    BOTH = "train+valid"  # for a final training on everything but the test items

    @property
    def trains(self) -> bool:
        """Whether the split is shuffled and augmented."""
        return self in (Split.TRAIN, Split.BOTH)

    @property
    def phrase(self) -> str:
        """Its data in titles and messages: `validation data`."""
        return f"{_KINDS[self]} data"


_KINDS = {
    Split.TRAIN: "training",
    Split.VALID: "validation",
    Split.TEST: "test",
    Split.BOTH: "training and validation",
}


@dataclass(frozen=True)
class Form:
    """Shape of one item of a field."""

    shape: Shape  # of one frame, or of the whole item if the field has no time axis
    time: bool = False
    text: str = ""  # what the field contains
    noisy: str | None = None  # the field that contains this one with noise added

    def __str__(self) -> str:
        shape = show_shape(self.shape) if self.shape else "a number"
        return f"{shape} per frame" if self.time else shape


@dataclass(frozen=True)
class Baseline:
    """A reference method that needs no training.

    Args:
        metric: The metric that it scores, as tasks call it: `ami`.
        scores: Scores on the first items of a split, by the name of each variant. Its arguments
            are the data set, the split and the number of items.
        items: The number of items.
        unit: The unit of that metric, which tells it from others of its name.
    """

    metric: str
    scores: Callable[[DataSet, str, int], Mapping[str, float]]
    items: int = 1000
    unit: str = ""


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
        """A sentence about the data that readers of a table need."""
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


class DataSet(ABC):
    """An opened data set. Fields are numpy arrays: batch axis first, then time, then the form."""

    config: DataConfig
    forms: Mapping[str, Form]
    classes: int | None = None  # number of classes of the field `label`
    steps: int | None = None  # number of frames that a network runs over; None: see `lengths`
    photographs: bool = False  # in pictures of the input, 1 is white; otherwise 1 is ink on paper

    def __init__(self, config: DataConfig, seed: int = 0, folder: Path | None = None) -> None:
        self.config, self.folder = config, folder
        self.seed = seed if config.seed is None else config.seed

    @abstractmethod
    def size(self, split: str) -> int:
        """Number of items of a split."""

    @abstractmethod
    def batch(
        self, split: str, epoch: int, indices: Indices, fields: Sequence[str] | None = None
    ) -> Batch:
        """The items with these indices; `fields`: those to compute, default all.

        Indices beyond `size` stand for the same items with other random draws.
        """

    def lengths(self, split: str) -> Indices | None:
        """Number of frames of every item; None: all have the same length."""
        return None

    def labelled(self, split: str) -> Indices | None:
        """Indices of the items whose label may be used; None: all of them."""
        return None

    def batches(
        self,
        split: str,
        epoch: int,
        size: int,
        *,
        labelled: int | None = None,
        drop_last: bool = False,
    ) -> list[Indices]:
        """The indices of the batches of an epoch, a pure function of (seed, split, epoch, size).

        Training splits are shuffled; the others keep their order. If lengths vary, a batch has
        items of similar length, sorted longest first.

        Args:
            labelled: Number of labelled items in every batch, repeated as often as needed.
                Default: `labelled_per_batch` of the config.
            drop_last: Drop the last batch if it is smaller than the others.
        """
        from ladderspec.data import batching

        chosen = labelled if labelled is not None else self.config.labelled_per_batch
        return batching.epoch_batches(self, Split(split), epoch, size, chosen or 0, drop_last)

    def mean(self, field: str | None = None, items: int = 1000) -> NDArray[np.float64]:
        """The mean frame of a field over the first training items."""
        import numpy as np

        from ladderspec.data.batching import first_items

        field = field or self.config.input
        batch = first_items(self, [field], items)
        values: NDArray[Any] = batch[field]
        if not self.forms[field].time:
            return np.asarray(values.mean(0, dtype=np.float64))
        mask = batch["mask"] if "mask" in batch else np.ones(values.shape[:2], bool)
        return np.asarray(values[mask].mean(0, dtype=np.float64))

    def check_input(self, shape: Shape, frames: int | str | None) -> None:
        """Raise DataError if a network with this input cannot read the data.

        Args:
            shape: Input shape of the network.
            frames: Number of frames as in `time` of a spec: an integer, `any`, or None for a
                network with a single input.
        """
        field, name = self.config.input, self.config.set
        form = self.form(field)
        if form.shape != shape:
            raise DataError(
                f"`{field}` of {name} is {show_shape(form.shape)}, but the network's input is"
                f" {show_shape(shape)}; {self.config.advice(shape)}"
            )
        if form.time and frames is None:
            raise DataError(
                f"`{field}` of {name} has a time axis, but the network has a single input;"
                " write `time: {frames: any}` in the spec, or choose another `input` of the data"
            )
        if frames is not None and not form.time:
            raise DataError(
                f"`{field}` of {name} has no time axis, but the network runs over frames;"
                " write `time: {iterations: 1}` in the spec, or choose another `input` of the data"
            )
        if form.time and isinstance(frames, int) and frames != self.steps:
            have = f"{self.steps} frames" if self.steps else "sequences of any length"
            raise DataError(
                f"{name} has {have}, but the network runs over {frames} frames;"
                " make them equal, or write `time: {frames: any}` in the spec"
            )

    def preview(self, split: str = "test", first: int = 0, count: int = 4) -> ImageSheet:
        """A contact sheet of `count` items; `.save("sheet.png")` writes it."""
        import numpy as np

        size = self.size(split)
        if not 0 <= first < size:
            raise DataError(f"{self.config.set} has {size} items in {split}, but no item {first}")
        title = f"{self.title}: {Split(split).phrase} from item {first} on, seed {self.seed}"
        return self.contact_sheet(title, split, np.arange(first, min(first + count, size)))

    @property
    def title(self) -> str:
        """Name of the data set on contact sheets."""
        return self.config.set

    def contact_sheet(self, title: str, split: str, indices: Indices) -> ImageSheet:
        """The picture of `preview`. By default, the input of each item as one row."""
        from ladderspec.data import sheet

        return sheet.items(self, title, split, indices)

    def requested(self, fields: Sequence[str] | None) -> list[str]:
        """The requested fields, checked; None: all."""
        return list(self.forms) if fields is None else [name for name in fields if self.form(name)]

    def form(self, field: str) -> Form:
        """The form of a field; DataError with the known fields if it does not exist."""
        if field not in self.forms:
            hint = did_you_mean(field, self.forms) or f"there are {one_of(self.forms)}"
            raise DataError(f"{self.config.set} has no field `{field}`; {hint}")
        return self.forms[field]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the config only: workers open the data themselves."""
        return type(self.config).open, (self.config, self.seed, self.folder)


# --- the registry ---------------------------------------------------------------------------------

_SETS: dict[str, type[DataConfig]] = {}
C = TypeVar("C", bound=DataConfig)


def register(config: type[C]) -> type[C]:
    """Make a data set known under the name in its field `set`. Use it as a class decorator.

    Raises:
        UsageError: if it has no name, or if ladderspec has a data set of that name.
    """
    name = literal_name(config, "set")
    if not is_built_in(config):
        import_built_in()
        admit("data set", name, _SETS.get(name), config)
        config.open = checking(config.open)  # type: ignore[method-assign]
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
