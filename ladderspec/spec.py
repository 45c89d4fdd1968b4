"""The words of the language: what a spec may say, as pydantic tables. No YAML, no graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, GetCoreSchemaHandler, WithJsonSchema
from pydantic_core import PydanticCustomError, core_schema

from ladderspec.cells import Cell, Words, registered
from ladderspec.cells._contract import Initial, NormKind, PairField, by_form
from ladderspec.cells.input import Input
from ladderspec.cells.unknown import UNKNOWN, Unknown
from ladderspec.names import LEVEL_NAME, Side
from ladderspec.notation import NotationProblem, parse_arrows, parse_selector
from ladderspec.tasks import AnyTask

# --- cells by their word --------------------------------------------------------------------------


class CellOf:
    """Marks a field that holds a cell: chosen by its word `cell`, or written as that word alone."""

    def __init__(self, side: Side) -> None:
        self.side = side

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        choices = {word: handler(cell) for word, cell in registered(self.side).items()}
        choices[UNKNOWN] = handler(Unknown)
        union = core_schema.tagged_union_schema(choices, discriminator="cell")
        schema = core_schema.no_info_before_validator_function(_cell, union)
        return core_schema.nullable_schema(schema)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        union = schema["schema"]["schema"]
        choices = {word: cell for word, cell in union["choices"].items() if word != UNKNOWN}
        words = {"type": "string", "enum": sorted(choices)}
        return {"anyOf": [words, handler({**union, "choices": choices}), {"type": "null"}]}


def _cell(value: Any) -> Any:
    return {"cell": value} if isinstance(value, str) else value


EncoderField = Annotated[Cell | None, CellOf(Side.ENCODER)]
DecoderField = Annotated[Cell | None, CellOf(Side.DECODER)]
LateralField = Annotated[Cell | None, CellOf(Side.LATERAL)]


# --- names, selectors, arrows ---------------------------------------------------------------------


def _level_name(value: str) -> str:
    if not LEVEL_NAME.fullmatch(value) or len(value) > 60:
        raise PydanticCustomError(
            "name", "`{name}` is no name", {"name": value, "hint": "like `conv2`: a-z, 0-9 and _"}
        )
    if value == "input":
        raise PydanticCustomError(
            "name", "`input` is the level below the first row", {"hint": "choose another name"}
        )
    return value


def _selector(value: str) -> str:
    try:
        parse_selector(value)
    except NotationProblem as problem:
        context = {"problem": problem.message, "hint": problem.hint}
        raise PydanticCustomError("notation", "{problem}", context) from None
    return value


def _arrow(value: str) -> str:
    try:
        arrows = parse_arrows(value)
    except NotationProblem as problem:
        context = {"problem": problem.message, "hint": problem.hint}
        raise PydanticCustomError("notation", "{problem}", context) from None
    if any("*" in end or "?" in end for arrow in arrows for end in (arrow.source, arrow.target)):
        raise PydanticCustomError("notation", "an arrow to add names its ends, not patterns", {})
    return value


def _list(value: Any) -> Any:
    return (
        tuple(value) if isinstance(value, list) else (value,) if isinstance(value, str) else value
    )


_STRINGS = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 0}]
}

LevelName = Annotated[str, BeforeValidator(lambda v: _level_name(v) if isinstance(v, str) else v)]
Selector = Annotated[str, BeforeValidator(lambda v: _selector(v) if isinstance(v, str) else v)]
Selectors = Annotated[tuple[Selector, ...], BeforeValidator(_list), WithJsonSchema(_STRINGS)]
Names = Annotated[tuple[str, ...], BeforeValidator(_list), WithJsonSchema(_STRINGS)]


class ArrowWords(Words):
    """One declared arrow: `arrow: a(t-1) -> b`, or `from`, `to` and `delay`."""

    arrow: Annotated[str, BeforeValidator(lambda v: _arrow(v) if isinstance(v, str) else v)] = (
        Field(description="`decoder.input(t-1) -> encoder.conv_2`; a chain adds one arrow per hop.")
    )
    filter: PairField | None = Field(None, description="Default: that of the cell it enters.")
    norm: NormKind | None = Field(None, description="Default: that of the cell it enters.")
    initial: Initial | None = Field(None, description="Sets that of the node it comes from.")
    label: str | None = Field(None, description="Drawn beside the arrow.")


def _arrow_words(value: Any) -> Any:
    """Both notations in one: a bare text, or from / to / delay."""
    if isinstance(value, str):
        return {"arrow": value}
    if isinstance(value, dict) and "from" in value and "to" in value and "arrow" not in value:
        rest = {key: item for key, item in value.items() if key not in ("from", "to", "delay")}
        delay = value.get("delay", 0)
        if not isinstance(delay, int) or isinstance(delay, bool) or delay < 0:
            raise PydanticCustomError(
                "notation", "`delay` is a number of iterations", {"hint": "0, 1, 2, ..."}
            )
        text = f"{value['from']}(t-{delay}) -> {value['to']}" if delay else None
        return {**rest, "arrow": text or f"{value['from']} -> {value['to']}"}
    return value


_ARROW_SCHEMA = {
    "anyOf": [
        {"type": "string", "examples": ["decoder.input(t-1) -> encoder.conv_2"]},
        {
            "type": "object",
            "properties": {
                "arrow": {"type": "string"},
                "from": {"type": "string"},
                "to": {"type": "string"},
                "delay": {"type": "integer", "minimum": 0},
                "filter": {},
                "norm": {"enum": ["batch", "layer", "none"]},
                "initial": {"enum": ["zeros", "learned"]},
                "label": {"type": "string"},
            },
            "additionalProperties": False,
        },
    ]
}
ArrowField = Annotated[ArrowWords, BeforeValidator(_arrow_words), WithJsonSchema(_ARROW_SCHEMA)]


class RoleWords(Words):
    """Where the arrows of one role are, and with which delay."""

    levels: Annotated[
        by_form(word=Literal["none", "stateful", "all"] | None, list=tuple[str, ...]),
        BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v),
    ] = Field(None, description="none, stateful, all, or a list of levels.")
    delay: Annotated[int, Field(ge=0, le=999)] | None = Field(
        None, description="In iterations; default: that of the table of roles."
    )


def _role_words(value: Any) -> Any:
    return {"levels": value} if isinstance(value, str | list) else value


_ROLE_SCHEMA = {
    "anyOf": [
        {"type": "string", "enum": ["none", "stateful", "all"]},
        {"type": "array", "items": {"type": "string"}},
        {
            "type": "object",
            "properties": {
                "levels": {
                    "anyOf": [
                        {"type": "string", "enum": ["none", "stateful", "all"]},
                        {"type": "array", "items": {"type": "string"}},
                    ]
                },
                "delay": {"type": "integer", "minimum": 0},
            },
            "additionalProperties": False,
        },
    ]
}
RoleField = Annotated[RoleWords | None, BeforeValidator(_role_words), WithJsonSchema(_ROLE_SCHEMA)]


class Edges(Words):
    """Changes to the arrows that follow from the rows."""

    encoder: RoleField = Field(None, description="encoder l-1 -> encoder l")
    state: RoleField = Field(None, description="encoder l(t-1) -> encoder l; stateful cells")
    lateral: RoleField = Field(None, description="encoder l -> decoder l")
    decoder: RoleField = Field(None, description="decoder l+1 -> decoder l")
    decoder_to_encoder: RoleField = Field(None, description="decoder l(t-1) -> encoder l")
    upward_diagonal: RoleField = Field(None, description="decoder l-1(t-1) -> encoder l")
    downward_diagonal: RoleField = Field(None, description="decoder l+1(t-1) -> decoder l")
    recurrent_decoder: RoleField = Field(None, description="decoder l(t-1) -> decoder l")
    add: Annotated[tuple[ArrowField, ...], BeforeValidator(_list)] = Field(
        (), description="Single arrows."
    )


# --- the tables of a spec -------------------------------------------------------------------------


class Row(Words):
    """One row of the table: the cell that makes a level, and the decoder that inverts it."""

    name: LevelName | None = Field(None, description="Default: cell and position, like `pool5`.")
    label: str | None = Field(None, description="Drawn beside the level.")
    repeat: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="The row several times: NAME_1, NAME_2, ..."
    )
    encoder: EncoderField = Field(description="The cell that makes this level.")
    decoder: DecoderField = Field(
        None, description="The cell that estimates the level below from what comes down."
    )


class Time(Words):
    """What t counts: frames of a sequence, or iterations on one input."""

    frames: Annotated[int, Field(ge=1, le=100000)] | Literal["any"] | None = Field(
        None, description="Length of a sequence, or `any`."
    )
    iterations: Annotated[int, Field(ge=1, le=100000)] | None = Field(
        None, description="How often one input is looked at."
    )


def _time(value: Any) -> Any:
    known = isinstance(value, dict) and set(value) <= {"frames", "iterations"}
    if known and len(value) != 1:
        hint = "{frames: 5}, {frames: any} or {iterations: 3}"
        raise PydanticCustomError("time", "time is frames or iterations", {"hint": hint})
    return value


class Expect(Words):
    """Facts that must hold, checked on every read."""

    parameters: Annotated[int, Field(ge=0)] | None = Field(None, description="Their number.")
    shape: dict[
        str,
        Annotated[
            tuple[int, ...], BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v)
        ],
    ] = Field(default_factory=dict, description="Of nodes: {encoder.pool5: [32, 16, 16]}.")


class Variant(Words):
    """A named patch of the spec."""

    title: str | None = Field(None, description="What tables and drawings call it.")
    of: Names = Field((), description="Variants that it builds on.")
    set: Mapping[str, Any] = Field(
        default_factory=dict, description="Fields by node: {encoder.lstm1.channels: 16}."
    )
    tasks: Mapping[str, Any] = Field(
        default_factory=dict, description="Tasks added or changed; null removes one."
    )
    edges: Edges = Field(Edges.model_construct(), description="Changes to the arrows.")
    without: Selectors = Field(
        (), description="What is removed: roles, arrows, nodes, levels, tasks."
    )
    expect: Expect | None = Field(None, description="Facts that must hold.")


AnyTaskField = Annotated[AnyTask, Field(discriminator="kind")]
Parameter = int | float


class SpecWords(Words):
    """A recurrent ladder network as a table of layers."""

    name: str | None = Field(None, description="Default: the name of the file.")
    title: str | None = Field(None, description="What tables and drawings call it.")
    description: str | None = Field(None, description="What it is, in a line.")
    extends: str | None = Field(
        None, description="A file whose words hold where this one is silent."
    )
    params: Mapping[str, Any] = Field(
        default_factory=dict, description="Numbers to use as $name or $(name * 2)."
    )
    input: Input = Field(description="Channels and size of a frame, and noise on it.")
    time: Annotated[Time, BeforeValidator(_time)] = Field(
        Time(iterations=1), description="{frames: 5}, {frames: any} or {iterations: 3}."
    )
    levels: Annotated[tuple[Row, ...], BeforeValidator(_list), Field(min_length=1)] = Field(
        description="The rows of the table, input side first."
    )
    top: DecoderField = Field(None, description="A decoder on the topmost level, from its lateral.")
    laterals: dict[str, LateralField] = Field(
        default_factory=dict, description="Cells on the lateral arrows, by level."
    )
    defaults: Mapping[str, Mapping[str, Any]] = Field(
        default_factory=dict, description="Fields by cell: {Conv: {activation: leaky_relu}}."
    )
    tasks: dict[str, AnyTaskField] = Field(
        default_factory=dict, description="What is learnt, where."
    )
    edges: Edges = Field(Edges.model_construct(), description="Changes to the arrows.")
    without: Selectors = Field(
        (), description="What is removed: roles, arrows, nodes, levels, tasks."
    )
    variants: dict[str, Variant] = Field(default_factory=dict, description="Named patches.")
    expect: Expect | None = Field(None, description="Facts that must hold.")


_built_for: set[type[Cell]] = set()


def fresh() -> None:
    """Make the words know every cell that is registered by now."""
    cells = {cell for side in Side for cell in registered(side).values()}
    if _built_for and cells != _built_for:
        for model in (Row, SpecWords):
            model.model_rebuild(force=True)
    _built_for.update(cells)
