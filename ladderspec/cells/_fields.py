"""The words of cells: what a field of a spec may say, and what is said of a wrong one."""

from __future__ import annotations

import re
from types import NoneType
from typing import Annotated, Any, Literal, Union

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from ladderspec.errors import did_you_mean, one_of, tick

Pair = tuple[int, int]


class Words(BaseModel):
    """Everything a spec may say is a frozen table of known words."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, defer_build=True, allow_inf_nan=False
    )


def refusal(code: str, message: str, hint: str = "") -> PydanticCustomError:
    """A mistake in a field, in the words and with the code that users see."""
    return PydanticCustomError(code, "{message}", {"message": message, "hint": hint})


def pair(value: Any) -> Any:
    """One number stands for two alike."""
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

Count = Annotated[int, Field(ge=1, le=65536)]
Size = Annotated[int, Field(ge=1, le=4096)]
PairField = Annotated[tuple[Size, Size], BeforeValidator(pair), WithJsonSchema(PAIR_SCHEMA)]


def by_form(**forms: Any) -> Any:
    """A union told apart by its form (mapping, list or word), so that a mistake is said once."""

    def form(value: Any) -> str:
        if isinstance(value, dict | BaseModel):
            return "mapping"
        return "list" if isinstance(value, list | tuple) else "word"

    tagged = [Annotated[kind, Tag(tag)] for tag, kind in forms.items()]
    known = list(forms)
    return Annotated[
        Union[tuple(tagged)],  # noqa: UP007 (built from a list)
        Discriminator(lambda value: form(value) if form(value) in known else known[0]),
    ]


Activation = Literal[
    "none", "relu", "leaky_relu", "elu", "gelu", "silu", "softplus", "tanh", "sigmoid"
]
Initial = Literal["zeros", "learned"]
Statistics = Literal["per_iteration", "shared"]
NormKind = Literal["batch", "layer", "none"]


class Norm(Words):
    """How the drives of a cell are normalised."""

    kind: NormKind | None = Field(None, description="None: the cell's own kind.")
    terms: Literal["separate", "joint"] = Field(
        "separate",
        description="Each arrow's drive by itself, or their sum with the gain on the node.",
    )


_NORM_WORDS = ["batch", "layer", "none", "joint", "separate"]


def _norm(value: Any) -> Any:
    if isinstance(value, dict | Norm):
        return value
    if value not in _NORM_WORDS:
        meant = "none" if value in (None, False, "no", "off") else value
        hint = did_you_mean(meant, _NORM_WORDS) or f"{one_of(_NORM_WORDS)}, or {{kind, terms}}"
        shown = str(value).lower() if isinstance(value, bool) else value
        raise refusal("S105", f"there is no norm {tick(shown)}", hint)
    return {"terms" if value in ("joint", "separate") else "kind": value}


_NORM_SCHEMA = {
    "anyOf": [
        {"type": "string", "enum": _NORM_WORDS},
        {
            "type": "object",
            "properties": {"kind": {"enum": _NORM_WORDS[:3]}, "terms": {"enum": _NORM_WORDS[3:]}},
            "additionalProperties": False,
        },
    ]
}
NormField = Annotated[Norm, BeforeValidator(_norm), WithJsonSchema(_NORM_SCHEMA)]

Five = tuple[float, float, float, float, float]
_STARTS: dict[str, Five] = {"even": (1, 1, 0, 0, 0), "ladder": (0, 1, 0, 0, 0)}


def _five(value: Any) -> Any:
    if isinstance(value, str) and value in _STARTS:
        return _STARTS[value]
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
                {"type": "string", "enum": list(_STARTS)},
                {"type": "array", "items": {"type": "number"}, "minItems": 5, "maxItems": 5},
            ]
        }
    ),
]
