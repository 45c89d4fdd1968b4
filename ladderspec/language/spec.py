"""The fields of the language as pydantic models, and their JSON Schema. No YAML, no graph."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, GetCoreSchemaHandler
from pydantic_core import core_schema

from ladderspec.cells import Cell, Config, registered
from ladderspec.cells.fields import AS_TUPLE, OneLine, refusal
from ladderspec.cells.grouping import Groups
from ladderspec.cells.input import FurtherInput, Input
from ladderspec.errors import spell, tick
from ladderspec.language.edges import Edges, Names, Selectors, not_too_many
from ladderspec.language.repair import UNKNOWN, Unknown
from ladderspec.names import INPUT, LEVEL_NAME, Side
from ladderspec.tasks import Task
from ladderspec.tasks import registered as registered_tasks

# --- cells and tasks by name ----------------------------------------------------------------------


class CellOf:
    """Marks a field that holds a cell: chosen by its key `cell`, or written as that name alone."""

    def __init__(self, side: Side, optional: bool = True) -> None:
        self.side, self.optional = side, optional

    def choices(self) -> dict[str, type[Cell]]:
        """The cells of the side by name."""
        return registered(self.side)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        choices = {word: handler(cell) for word, cell in self.choices().items()}
        choices[UNKNOWN] = handler(Unknown)
        union = core_schema.tagged_union_schema(choices, discriminator="cell")
        schema = core_schema.no_info_before_validator_function(_cell, union)
        return core_schema.nullable_schema(schema) if self.optional else schema

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        union = schema["schema"]["schema"] if self.optional else schema["schema"]
        choices = {word: cell for word, cell in union["choices"].items() if word != UNKNOWN}
        names = {"type": "string", "enum": sorted(choices)}
        empty = [{"type": "null"}] if self.optional else []
        return {"anyOf": [names, handler({**union, "choices": choices}), *empty]}


def _cell(value: Any) -> Any:
    return {"cell": value} if isinstance(value, str) else value


class ChosenByKind:
    """Marks a field that holds an object of a registered class, chosen by its key `kind`.

    Args:
        choices: The classes by name, asked for when a model is built.
    """

    def __init__(self, choices: Callable[[], Mapping[str, type[BaseModel]]]) -> None:
        self.choices = choices

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        choices = {name: handler(each) for name, each in self.choices().items()}
        return core_schema.tagged_union_schema(choices, discriminator="kind")


TaskField = Annotated[Task, ChosenByKind(registered_tasks)]
EncoderField = Annotated[Cell, CellOf(Side.ENCODER, optional=False)]
DecoderField = Annotated[Cell | None, CellOf(Side.DECODER)]
LateralField = Annotated[Cell | None, CellOf(Side.LATERAL)]


# --- names ----------------------------------------------------------------------------------------


def _name(value: Any) -> Any:
    if value is None:
        return value
    shown = str(value)
    if not isinstance(value, str) or not LEVEL_NAME.fullmatch(value):
        meant = spell(shown)
        hint = f"did you mean `{meant}`?" if meant else "like `conv2`: a-z first, then a-z, 0-9, _"
        raise refusal("S107", f"{tick(shown)} is not a valid name", hint)
    if len(value) > 60:
        raise refusal("S107", f"a name of {len(value)} characters", "at most 60")
    return value


# Attributes that torch sets on every module: levels and tasks are submodules of these names.
SET_BY_TORCH = frozenset({"training"})


def _module_name(value: Any) -> Any:
    name = _name(value)
    if name in SET_BY_TORCH:
        raise refusal("S107", f"{tick(name)} is a word of torch's own", "choose another name")
    return name


def _level_name(value: Any) -> Any:
    if value == INPUT:
        raise refusal("S107", "`input` is the level below the first row", "choose another name")
    return _module_name(value)


def _input_name(value: Any) -> Any:
    if value == INPUT:
        hint = "choose another name; fields of the frames belong under `input:`"
        raise refusal("S107", "`input` is the input at the bottom of the ladder", hint)
    return _module_name(value)


def _inputs(value: Any) -> Any:
    fields = set(value) & {"channels", "size", "noise"} if isinstance(value, dict) else set()
    if any(not isinstance(value[field], dict) for field in fields):
        message = "`inputs` has further inputs by name, each a mapping"
        raise refusal("S104", message, "did you mean `input:`?")
    return not_too_many(value)


Name = Annotated[str, BeforeValidator(_name)]
InputName = Annotated[str, BeforeValidator(_input_name)]
TaskName = Annotated[str, BeforeValidator(_module_name)]
LevelName = Annotated[str, BeforeValidator(_level_name)]


# --- the parts of a spec --------------------------------------------------------------------------


class Row(Config):
    """One row of the table: the cell that computes a level, and the decoder that inverts it."""

    name: LevelName | None = Field(
        None, description="Name of the level. Default: cell and position, like `pool5`."
    )
    label: OneLine | None = Field(None, description="Label drawn beside the level.")
    repeat: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="Number of copies of the row: NAME_1, NAME_2, ..."
    )
    encoder: EncoderField = Field(
        description="Encoder cell, which computes this level from the level below."
    )
    decoder: DecoderField = Field(
        None, description="Decoder cell, which estimates the level below from the decoder above."
    )


class Time(Config):
    """The unit of t: frames of a sequence, or iterations on one input."""

    frames: Annotated[int, Field(ge=1, le=100000)] | Literal["any"] | None = Field(
        None, description="Length of a sequence, or `any`."
    )
    iterations: Annotated[int, Field(ge=1, le=100000)] | None = Field(
        None, description="Number of iterations on one input."
    )


def _time(value: Any) -> Any:
    known = isinstance(value, dict) and set(value) <= {"frames", "iterations"}
    if known and len(value) != 1:
        hint = "{frames: 5}, {frames: any} or {iterations: 3}"
        raise refusal("S105", "time is either frames or iterations", hint)
    return value


class Expect(Config):
    """Properties that the network must have, checked whenever the spec is read."""

    parameters: Annotated[int, Field(ge=0)] | None = Field(
        None, description="Number of parameters."
    )
    shape: dict[
        str,
        Annotated[tuple[int, ...], AS_TUPLE],
    ] = Field(default_factory=dict, description="Shapes of nodes: {encoder.pool5: [32, 16, 16]}.")


class Variant(Config):
    """A named patch of the spec."""

    title: OneLine | None = Field(None, description="Title in tables and drawings.")
    of: Names = Field((), description="Variants that this one builds on.")
    set: Annotated[Mapping[str, Any], BeforeValidator(not_too_many)] = Field(
        default_factory=dict, description="Fields by node: {encoder.lstm1.channels: 16}."
    )
    tasks: Mapping[str, Any] = Field(
        default_factory=dict, description="Tasks added or changed; null removes one."
    )
    edges: Edges = Field(Edges.model_construct(), description="Changes to the arrows.")
    without: Selectors = Field((), description="Roles, arrows, nodes, levels or tasks to remove.")
    expect: Expect | None = Field(None, description="Properties to check: parameters and shapes.")


Parameter = int | float


MAX_VARIANTS = 200  # each is checked by itself


def _few_variants(value: Any) -> Any:
    if isinstance(value, dict) and len(value) > MAX_VARIANTS:
        raise refusal("S106", f"more than {MAX_VARIANTS} variants")
    return value


class SpecConfig(Config):
    """A recurrent ladder network as a table of layers."""

    name: str | None = Field(
        None, description="Name of the network. Default: the name of the file."
    )
    title: OneLine | None = Field(None, description="Title in tables and drawings.")
    description: str | None = Field(None, description="Description of the network in one line.")
    extends: str | None = Field(
        None, description="Spec file to build on. Fields of this file override its fields."
    )
    params: Mapping[str, Any] = Field(
        default_factory=dict, description="Parameters: numbers used as $name or $(name * 2)."
    )
    input: Input = Field(description="Input: channels and size of a frame, and noise on it.")
    inputs: Annotated[dict[InputName, FurtherInput], BeforeValidator(_inputs)] = Field(
        default_factory=dict,
        description="Further inputs by name. Arrows read them: input.NAME -> encoder.conv.",
    )
    time: Annotated[Time, BeforeValidator(_time)] = Field(
        Time(iterations=1), description="Time axis: {frames: 5}, {frames: any} or {iterations: 3}."
    )
    groups: Groups | None = Field(
        None, description="Groups: copies of the network that explain one input together."
    )
    levels: Annotated[
        tuple[Row, ...],
        AS_TUPLE,
        Field(min_length=1),
    ] = Field(description="Rows of the table of layers, input side first.")
    top: DecoderField = Field(
        None,
        description="Decoder cell of the topmost level. It reads the encoder of that level.",
    )
    laterals: dict[str, LateralField] = Field(
        default_factory=dict, description="Cells on the lateral arrows, by level."
    )
    defaults: Mapping[str, Mapping[str, Any]] = Field(
        default_factory=dict,
        description="Default fields by cell: {Conv: {activation: leaky_relu}}.",
    )
    tasks: Annotated[dict[TaskName, TaskField], BeforeValidator(not_too_many)] = Field(
        default_factory=dict, description="Tasks by name: what is learned, and at which node."
    )
    edges: Edges = Field(Edges.model_construct(), description="Changes to the arrows.")
    without: Selectors = Field((), description="Roles, arrows, nodes, levels or tasks to remove.")
    variants: Annotated[dict[Name, Variant], BeforeValidator(_few_variants)] = Field(
        default_factory=dict, description="Named patches of this spec."
    )
    expect: Expect | None = Field(None, description="Properties to check: parameters and shapes.")


_built_for: set[type[Config]] = set()


def refresh() -> None:
    """Rebuild the models if cells or tasks were registered since they were built."""
    known: set[type[Config]] = set(registered_tasks().values())
    known |= {cell for side in Side for cell in registered(side).values()}
    if _built_for and known != _built_for:
        for model in (Row, SpecConfig):
            model.model_rebuild(force=True)
    _built_for.clear()
    _built_for.update(known)


# --- JSON Schema ----------------------------------------------------------------------------------

REFERENCE = {"type": "string", "pattern": r"^\$([a-z][a-z0-9_]*|\(.*\))$"}
_NUMBERS = ("integer", "number")


def fields_schema() -> dict[str, Any]:
    """All fields with their types; every number may also be written as `$param`."""
    refresh()
    _complete(Config)
    schema: dict[str, Any] = _with_references(SpecConfig.model_json_schema())
    return schema


def _complete(model: type[BaseModel]) -> None:
    """Build classes whose building was deferred: before 2.14, pydantic needs it for defaults."""
    for inner in model.__subclasses__():
        inner.model_rebuild(raise_errors=False)
        _complete(inner)


def file_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a file, whose base may hold the required fields."""
    schema = fields_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "ladderspec"
    schema.pop("required", None)  # a base file may hold them
    schema["anyOf"] = [{"required": ["input", "levels"]}, {"required": ["extends"]}]
    for name, model in schema["$defs"].items():
        if name not in ("Input", "FurtherInput", "Groups") and "cell" in model.get(
            "properties", {}
        ):
            model["required"] = ["cell"]  # `defaults` may set the rest
    for table in ("inputs", "tasks", "variants", "laterals"):  # null removes an inherited entry
        entry = schema["properties"][table]["additionalProperties"]
        schema["properties"][table]["additionalProperties"] = {"anyOf": [entry, {"type": "null"}]}
    name = schema["$defs"]["Row"]["properties"]["name"]
    name["pattern"] = f"^{LEVEL_NAME.pattern}$"
    return schema


def _with_references(node: Any) -> Any:
    if isinstance(node, list):
        return [_with_references(item) for item in node]
    if not isinstance(node, dict):
        return node
    plain = {key: _with_references(value) for key, value in node.items()}
    if plain.get("type") in _NUMBERS:
        outside = {
            key: plain.pop(key) for key in ("title", "description", "default") if key in plain
        }
        return {**outside, "anyOf": [plain, REFERENCE]}
    return plain


def dump_schema() -> str:
    """The JSON Schema of a file as text."""
    return json.dumps(file_schema(), indent=1, ensure_ascii=False, sort_keys=False) + "\n"
