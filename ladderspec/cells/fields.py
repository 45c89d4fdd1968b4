"""Field types of specs: what a value may be, and the message for a wrong one."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetPydanticSchema,
    Tag,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError, PydanticKnownError

from ladderspec.cells.activations import ACTIVATIONS
from ladderspec.cells.functions import Pair as Pair
from ladderspec.cells.norms import TERMS, norm_names
from ladderspec.errors import registered_name_meant, tick


class Config(BaseModel):
    """Everything that a file may say is a frozen table of known fields."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, defer_build=True, allow_inf_nan=False
    )


# Files have lists, and frozen configs have tuples.
AS_TUPLE = BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)


def refusal(code: str, message: str, hint: str = "") -> PydanticCustomError:
    """A mistake in a field, with the code, the message and the hint that users see."""
    return PydanticCustomError(code, "{message}", {"message": message, "hint": hint})


def pair(value: Any) -> Any:
    """One number stands for two equal ones."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (value, value)
    if isinstance(value, list) and len(value) == 2:
        return tuple(value)
    if isinstance(value, tuple | NoneType):
        return value
    hint = "height and width: [3, 5]" if isinstance(value, list) else "like 3 or [3, 5]"
    numbers = re.findall(r"\d+", value)[:2] if isinstance(value, str) else []
    if len(numbers) == 2 or value == f"({''.join(numbers)}":
        hint = f"write [{', '.join([*numbers, *numbers][:2])}]"
    elif numbers and value.strip(" ,") == numbers[0]:
        hint = f"write {numbers[0]}"
    raise refusal("S104", "one whole number or a list of two is needed", hint)


_COUNT = {"type": "integer", "minimum": 1, "maximum": 4096}
PAIR_SCHEMA: dict[str, Any] = {
    "anyOf": [_COUNT, {"type": "array", "items": _COUNT, "minItems": 2, "maxItems": 2}]
}


def _one_line(value: Any) -> Any:
    """A text without line breaks; one at the end, as in a block of YAML, is removed."""
    if isinstance(value, str) and "\n" in value.rstrip("\n"):
        raise refusal("S104", "a text on one line is needed", "remove the line break")
    return value.rstrip("\n") if isinstance(value, str) else value


OneLine = Annotated[str, BeforeValidator(_one_line)]
Count = Annotated[int, Field(ge=1, le=65536)]
Size = Annotated[int, Field(ge=1, le=4096)]
PairField = Annotated[tuple[Size, Size], BeforeValidator(pair), WithJsonSchema(PAIR_SCHEMA)]


def by_form(**forms: Any) -> Any:
    """A union discriminated by form (mapping, list or word), so that a mistake is reported once."""

    def form(value: Any) -> str:
        found = "word"
        if isinstance(value, dict | BaseModel):
            found = "mapping"
        elif isinstance(value, list | tuple):
            found = "list"
        return found if found in forms else next(iter(forms))

    tagged = tuple(Annotated[kind, Tag(tag)] for tag, kind in forms.items())
    return Annotated[Union[tagged], Discriminator(form)]  # noqa: UP007 (built from a tuple)


Initial = Literal["zeros", "learned"]
Statistics = Literal["per_iteration", "shared"]


def _name_of(names: Callable[[], list[str]]) -> Any:
    """A field that takes one of the registered names, those of plug-ins included."""

    def known(value: Any) -> Any:
        if isinstance(value, str) and value in names():
            return value
        expected = " or ".join(map(repr, names()))  # reported as a pydantic Literal would be
        raise PydanticKnownError("literal_error", {"expected": expected})

    schema = GetPydanticSchema(None, lambda *_: {"type": "string", "enum": names()})
    return Annotated[str, BeforeValidator(known), schema]


if TYPE_CHECKING:
    ActivationName = str
    NormName = str
else:
    ActivationName = _name_of(lambda: list(ACTIVATIONS))
    NormName = _name_of(norm_names)


class NormChoice(Config):
    """How the pre-activation of a cell is normalised."""

    kind: NormName | None = Field(None, description="Kind of norm. Default: that of the cell.")
    terms: Literal["separate", "joint"] = Field(
        "separate",
        description="Normalised values: the term of each arrow (`separate`), or the sum of all"
        " terms, with the gain on the node (`joint`).",
    )
    groups: Annotated[int, Field(ge=2, le=65536)] | None = Field(
        None, description="Number of groups of channels, with `kind: group`."
    )


def _norm(value: Any) -> Any:
    if isinstance(value, dict | NormChoice):
        return value
    words = [*norm_names(), *TERMS]
    if value not in words:
        meant = "none" if value in (None, False, "no", "off") else value
        hint = registered_name_meant(meant, words, "norm")
        shown = str(value).lower() if isinstance(value, bool) else value
        raise refusal("S105", f"there is no norm {tick(shown)}", hint)
    return {"terms" if value in TERMS else "kind": value}


def _with_groups(choice: NormChoice) -> NormChoice:
    if choice.kind == "group" and choice.groups is None:
        hint = "`norm: {kind: group, groups: 4}`; one group of all channels is `layer`"
        raise refusal("S102", "group norm needs its number of `groups`", hint)
    if choice.groups is not None and choice.kind != "group":
        hint = "`norm: {kind: group, groups: 4}`"
        raise refusal("S105", "only group norm has `groups` of channels", hint)
    return choice


def _norm_schema(core_schema: Any, handler: Any) -> dict[str, Any]:
    words = [name for name in norm_names() if name != "group"]  # which needs its groups
    return {"anyOf": [{"type": "string", "enum": [*words, *TERMS]}, handler(core_schema)]}


NormField = Annotated[
    NormChoice,
    BeforeValidator(_norm),
    AfterValidator(_with_groups),
    GetPydanticSchema(None, _norm_schema),
]


class Noise(Config):
    """Random corruption in training, drawn for every pass."""

    gaussian: Annotated[float, Field(ge=0)] | None = Field(
        None, description="Standard deviation of Gaussian noise."
    )
    flip: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="Probability that a bit is flipped."
    )

    @property
    def active(self) -> bool:
        """Whether it changes anything."""
        return bool(self.gaussian or self.flip)


Five = tuple[float, float, float, float, float]
STARTS: dict[str, Five] = {"even": (1, 1, 0, 0, 0), "ladder": (0, 1, 0, 0, 0)}


def _five(value: Any) -> Any:
    if isinstance(value, str) and value in STARTS:
        return STARTS[value]
    if isinstance(value, list | tuple) and len(value) == 5:
        return tuple(value)
    raise refusal(
        "S104", "a start of w is five numbers or a word", "`even`, `ladder` or [1, 1, 0, 0, 0]"
    )


# Start of w in f(u, w) [eq:fdec]. CHOICE: `even` has gradients everywhere from the first update;
# `ladder` is that of the original Ladder code, whose cells wake up one after another.
FunctionStart = Annotated[
    Five,
    BeforeValidator(_five),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "enum": list(STARTS)},
                {"type": "array", "items": {"type": "number"}, "minItems": 5, "maxItems": 5},
            ]
        }
    ),
]
