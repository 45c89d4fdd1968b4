"""The data sets by their words: built in, or from installed packages."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Annotated, Any, TypeVar

from pydantic import GetCoreSchemaHandler, ValidationError
from pydantic_core import core_schema

from ladderspec.data._contract import DataError, DataWords
from ladderspec.errors import did_you_mean, one_of

GROUP = "ladderspec.data"

_SETS: dict[str, type[DataWords]] = {}
W = TypeVar("W", bound=DataWords)


def register(words: type[W]) -> type[W]:
    """Make a data set known under the word of its `set` field."""
    annotation = words.model_fields["set"].annotation
    _SETS[str(getattr(annotation, "__args__")[0])] = words  # noqa: B009 (mypy: Literal)
    return words


def registered(installed: bool = False) -> dict[str, type[DataWords]]:
    """The data sets by their words; `installed` looks for plugins too."""
    if installed:
        load_installed()
    return dict(_SETS)


@cache
def load_installed() -> tuple[str, ...]:
    """Import what installed packages offer in the entry-point group `ladderspec.data`."""
    names = []
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            raise DataError(f"plugin `{entry.name}` ({entry.value}) fails: {error!r}") from error
        names.append(entry.name)
    return tuple(names)


def words_of(set: str, **fields: Any) -> DataWords:
    """The words of a data set, checked.

    >>> words_of("occluded_mnist", canvas=24).canvas
    24
    """
    known = registered()
    if set not in known:
        known = registered(installed=True)
    if set not in known:
        hint = did_you_mean(set, known) or f"there are {one_of(known)}"
        raise DataError(f"no data set `{set}`; {hint}")
    try:
        return known[set].model_validate({"set": set, **fields})
    except ValidationError as error:
        lines = [_say(item, known[set]) for item in error.errors(include_url=False)]
        raise DataError("; ".join(lines)) from None


def _say(item: Any, words: type[DataWords]) -> str:
    name = ".".join(map(str, item["loc"]))
    if item["type"] == "extra_forbidden":
        hint = did_you_mean(name, words.model_fields) or f"known: {one_of(words.model_fields)}"
        return f"unknown word `{name}` ({hint})"
    if item["type"] == "missing":
        about = (words.model_fields[name].description or "").rstrip(".")
        return f"`{name}` is missing" + (f": {about[0].lower()}{about[1:]}" if about else "")
    hint = item.get("ctx", {}).get("hint", "")
    return f"{name}: {item['msg']}".lstrip(": ") + (f" ({hint})" if hint else "")


class DataOf:
    """Marks a field of an experiment that holds the words of a data set, or its word alone."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        choices = {word: handler(words) for word, words in registered(installed=True).items()}
        union = core_schema.tagged_union_schema(choices, discriminator="set")
        return core_schema.no_info_before_validator_function(_long_form, union)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        return {
            "anyOf": [{"type": "string", "enum": sorted(registered())}, handler(schema["schema"])]
        }


def _long_form(value: Any) -> Any:
    return {"set": value} if isinstance(value, str) else value


DataField = Annotated[DataWords, DataOf()]
