"""The config of edges: selectors, single arrows in both notations, roles by level and delay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    GetPydanticSchema,
    Tag,
    WithJsonSchema,
    create_model,
    model_validator,
)

from ladderspec.cells.fields import (
    AS_TUPLE,
    Config,
    Initial,
    NormName,
    OneLine,
    PairField,
    by_form,
    refusal,
)
from ladderspec.errors import tick
from ladderspec.names import LEVEL_NAME, TABLE
from ladderspec.text.notation import (
    MAX_DELAY,
    ArrowNotation,
    NotationProblem,
    parse_arrows,
    parse_end,
    parse_selector,
)

MAX_ITEMS = 5000  # of one list or table


def as_list(value: Any) -> Any:
    """A single text is short for a list of one."""
    value = not_too_many(value)
    if isinstance(value, list):
        return tuple(value)
    return (value,) if isinstance(value, str) else value


def not_too_many(value: Any) -> Any:
    if isinstance(value, dict | list) and len(value) > MAX_ITEMS:
        raise refusal("S106", f"more than {MAX_ITEMS:,} entries")
    return value


def _selector(value: Any) -> Any:
    if not isinstance(value, str):
        raise refusal("S104", "a selector is a text", "like `lateral`, `decoder.*` or `task.digit`")
    try:
        parse_selector(value)
    except NotationProblem as problem:
        raise refusal("S111", problem.message, problem.hint) from None
    return value


_STRINGS = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 0}]
}
Selector = Annotated[str, BeforeValidator(_selector)]
Selectors = Annotated[tuple[Selector, ...], BeforeValidator(as_list), WithJsonSchema(_STRINGS)]
Names = Annotated[tuple[str, ...], BeforeValidator(as_list), WithJsonSchema(_STRINGS)]


# --- single arrows --------------------------------------------------------------------------------


def _plain(name: str) -> str:
    if "*" in name or "?" in name:
        raise refusal("S111", "an arrow to add names its ends, not patterns")
    return name


def _chain(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        hops = parse_arrows(value)
    except NotationProblem as problem:
        raise refusal("S111", problem.message, problem.hint) from None
    for hop in hops:
        _plain(hop.source + hop.target)
    return value


def _end(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return _plain(parse_end(value)[0]) and value
    except NotationProblem as problem:
        raise refusal("S111", problem.message, problem.hint) from None


def _share(value: Any) -> Any:
    """A level, an arrow, or `none`."""
    if not isinstance(value, str):
        return value
    if "->" not in value:
        if not LEVEL_NAME.fullmatch(value):
            hint = "a level, like `conv_1`, or an arrow, like `encoder.input -> encoder.conv_1`"
            raise refusal("S111", f"{tick(value)} is neither a level nor an arrow", hint)
    elif _chain(value) and len(parse_arrows(value)) > 1:
        raise refusal("S111", "an arrow shares weights with one arrow, not with a chain")
    return value


Delay = Annotated[int, Field(ge=0, le=MAX_DELAY)]
Gain = Annotated[float, Field(ge=0, le=1000)]
Tap = Literal["output", "normalised", "logits"]


class _MapConfig(Config):
    """The map from source to target."""

    gain: Gain | None = Field(
        None, description="Initial norm gain. Default: 1, but 1/8 for state and 1/64 for feedback."
    )
    map: Literal["identity"] | None = Field(
        None, description="Linear map. `identity`: no weights. Default: a map with weights."
    )
    resample: Literal["nearest", "bilinear"] | None = Field(
        None, description="Resampling by an arrow without weights between maps of two sizes."
    )
    scale: Annotated[float, Field(ge=-1000, le=1000)] | None = Field(
        None, description="Constant factor of an arrow without weights. Default: 1."
    )
    share: Annotated[str, BeforeValidator(_share)] | None = Field(
        None,
        description="Weight sharing: the level whose arrow of this role owns the weights, or an"
        " arrow. `none`: weights of its own, even if its cell shares.",
        examples=["conv_1", "encoder.input -> encoder.conv_1"],
    )
    tap: Tap | None = Field(
        None,
        description="Value that the arrow carries: the output of its source (default), its"
        " normalised pre-activation with noise, or the logits of a SoftMax.",
    )


class _EdgeConfig(_MapConfig):
    filter: PairField | None = Field(
        None, description="Filter size. Default: that of the target cell."
    )
    norm: NormName | None = Field(None, description="Norm. Default: that of the target cell.")
    initial: Initial | None = Field(
        None, description="Initial value of the source node: zeros or learned."
    )
    label: OneLine | None = Field(None, description="Label drawn beside the arrow.")


class ArrowConfig(_EdgeConfig):
    """Declared arrows as a text: `a(t-1) -> b`; a chain adds one arrow per hop."""

    arrow: Annotated[str, BeforeValidator(_chain)] = Field(
        description="Arrow, with its delay at the source: `decoder.input(t-1) -> encoder.conv_2`."
        " A chain adds one arrow per hop."
    )

    @property
    def hops(self) -> tuple[ArrowNotation, ...]:
        return parse_arrows(self.arrow)


class EndsConfig(_EdgeConfig):
    """A declared arrow by its ends: `from`, `to` and `delay`."""

    source: Annotated[str, BeforeValidator(_end)] = Field(
        alias="from", description="Source node, like `decoder.input`."
    )
    target: Annotated[str, BeforeValidator(_end)] = Field(
        alias="to", description="Target node, like `encoder.conv_2`."
    )
    delay: Delay | None = Field(None, description="Delay in iterations. Default: 0.")

    @model_validator(mode="after")
    def _one_delay(self) -> EndsConfig:
        if parse_end(self.target)[1]:
            raise refusal("S111", "the delay belongs to the source of an arrow", "`delay: 1`")
        if parse_end(self.source)[1] and self.delay is not None:
            raise refusal("S111", "the delay is given twice", "write it in `from` or as `delay`")
        return self

    @property
    def hops(self) -> tuple[ArrowNotation, ...]:
        source, delay = parse_end(self.source)
        return (ArrowNotation(source, parse_end(self.target)[0], self.delay or delay),)


_ENDS = {"from", "to", "delay", "source", "target"}


def _notation(value: Any) -> str:
    by_ends = isinstance(value, EndsConfig) or (
        isinstance(value, dict) and "arrow" not in value and not _ENDS.isdisjoint(value)
    )
    return "ends" if by_ends else "text"


def _arrow_config(value: Any) -> Any:
    if isinstance(value, dict | ArrowConfig | EndsConfig):
        return value
    if isinstance(value, str):
        return {"arrow": value}
    raise refusal("S104", "an arrow is a text or a mapping", "like `decoder.a(t-1) -> encoder.a`")


def _or_short(*forms: dict[str, Any]) -> Any:
    """Adds short forms to the JSON Schema of a field."""
    return GetPydanticSchema(
        lambda source, handler: handler(source),
        lambda schema, handler: {"anyOf": [*forms, handler(schema)]},
    )


ArrowField = Annotated[
    Annotated[ArrowConfig, Tag("text")] | Annotated[EndsConfig, Tag("ends")],
    Discriminator(_notation),
    BeforeValidator(_arrow_config),
    _or_short({"type": "string", "examples": ["decoder.input(t-1) -> encoder.conv_2"]}),
]


# --- roles ----------------------------------------------------------------------------------------


if TYPE_CHECKING:
    Where = Literal["none", "stateful", "all"] | tuple[str, ...] | None
else:
    Where = Annotated[
        by_form(word=Literal["none", "stateful", "all"] | None, list=tuple[str, ...]),
        AS_TUPLE,
    ]


class RoleConfig(Config):
    """The levels, the delay, the initial norm gain and the tap of the arrows of one role."""

    levels: Where = Field(
        None, description="Levels that have such an arrow: none, stateful, all, or a list."
    )
    delay: Delay | None = Field(
        None, description="Delay in iterations. Default: that of the table of roles."
    )
    gain: Gain | None = Field(None, description="Initial norm gain of these arrows.")
    tap: Tap | None = Field(
        None,
        description="Value that these arrows carry: output, normalised or logits. Sources without"
        " a norm, or without logits, give their output.",
    )


class SomeConfig(_MapConfig):
    """Changes to the arrows of one role at some levels; the others stay as they are."""

    levels: Names = Field(description="Levels whose arrows change: names or patterns.")
    delay: Delay | None = Field(None, description="Delay in iterations.")


def _role_config(value: Any) -> Any:
    if isinstance(value, dict | RoleConfig | tuple) or value is None:
        return value
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        return tuple(value)
    if isinstance(value, str | list):
        return {"levels": value}
    message = "a role takes a word, a list of levels, or a mapping"
    raise refusal("S104", message, "`none`, `stateful`, `all`, [conv_1] or {delay: 1}")


_SHORT_ROLES = (
    {"type": "string", "enum": ["none", "stateful", "all"]},
    {"type": "array", "items": {"type": "string"}},
)
if TYPE_CHECKING:

    class _Roles(Config): ...

else:
    RoleField = Annotated[
        by_form(mapping=RoleConfig | None, list=tuple[SomeConfig, ...]),
        BeforeValidator(_role_config),
        _or_short(*_SHORT_ROLES),
    ]
    _Roles = create_model(
        "_Roles",
        __base__=Config,
        **{
            role.value: (RoleField, Field(None, description=row.description))
            for role, row in TABLE.items()
        },
    )


class Edges(_Roles):
    """Changes to the arrows that follow from the rows, by role."""

    add: Annotated[tuple[ArrowField, ...], BeforeValidator(as_list)] = Field(
        (), description="Single arrows to add."
    )
