"""Uses -> definitions: which classes the file holds, how they are called, what they can do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ladderspec.export.uses import Facts, Use

Key = tuple[str, frozenset[str]]

ARROWS = {"conv_arrow": "Conv", "up_arrow": "Up", "dense_arrow": "Dense"}
CELLS = {
    "conv": "Conv",
    "fc": "FC",
    "lstm": "LSTM",
    "gru": "GRU",
    "softmax": "SoftMax",
    "g1": "G1",
    "conv_g1": "ConvG1",
    "conv_g2": "ConvG2",
    "conv_g3": "ConvG3",
}
OTHERS = {"gate": "Gate", "average": "Average", "average_pool": "AveragePool"}

# As a module where cells differ in it, else as an expression of the sum a.
MODULES = {
    "none": "nn.Identity()",
    "relu": "nn.ReLU()",
    "leaky_relu": "nn.LeakyReLU(0.1)",
    "elu": "nn.ELU()",
    "gelu": "nn.GELU()",
    "silu": "nn.SiLU()",
    "softplus": "nn.Softplus()",
    "tanh": "nn.Tanh()",
    "sigmoid": "nn.Sigmoid()",
}
EXPRESSIONS = {
    "none": "a",
    "relu": "torch.relu(a)",
    "leaky_relu": "functional.leaky_relu(a, 0.1)",
    "elu": "functional.elu(a)",
    "gelu": "functional.gelu(a)",
    "silu": "functional.silu(a)",
    "softplus": "functional.softplus(a)",
    "tanh": "torch.tanh(a)",
    "sigmoid": "torch.sigmoid(a)",
}
HALVING = ("relu", "leaky_relu", "elu", "gelu", "silu")  # let about half of the variance through


@dataclass(frozen=True)
class Definition:
    """One class of the file."""

    name: str
    piece: str
    features: frozenset[str]
    uses: tuple[Use, ...]

    @property
    def timed(self) -> bool:
        """Whether it is called with t."""
        return "timed" in self.features

    @property
    def activations(self) -> list[str]:
        return list(dict.fromkeys(use.activation for use in self.uses))


def define(uses: Sequence[Use], facts: Facts) -> dict[Key, Definition]:
    """The classes that the modules of a network need."""
    groups: dict[Key, list[Use]] = {}
    for use in _all(uses):
        groups.setdefault(use.key, []).append(use)
    names = _names(groups)
    driven = _driven(uses)
    found = {}
    for key, group in groups.items():
        features = key[1].union(*(use.asks for use in group), _activated(key[1], group))
        features |= {"pairs"} if facts.pairs else set()
        features |= {"driven"} if key in driven else set()
        features |= {"timed"} if key in driven or "per_t" in key[1] else set()
        found[key] = Definition(names[key], key[0], features, tuple(group))
    return found


def expression(use: Use, classes: Mapping[Key, Definition]) -> str:
    """What makes a module."""
    if not use.piece:
        return use.arguments[0]
    made = classes[use.key]
    arguments = [*use.arguments]
    arguments += [f"act={MODULES[use.activation]}"] if "chosen" in made.features else []
    arguments += [f"{a.key}={expression(a.use, classes)}" for a in use.arrows if a.use is not None]
    return f"{made.name}({', '.join(arguments)})"


def _all(uses: Iterable[Use]) -> list[Use]:
    """Cells and arrows, without what is torch's own."""
    found = []
    for use in uses:
        found += [use] if use.piece else []
        found += [arrow.use for arrow in use.arrows if arrow.use is not None]
    return found


def _activated(kind: frozenset[str], group: Sequence[Use]) -> set[str]:
    """Cells that differ in their activation are told it; others have it in their class."""
    activations = {use.activation for use in group}
    if len(activations) > 1:
        return {"chosen"}
    if activations == {"none"} and "joint" not in kind and not any(use.asks for use in group):
        return {"bare"}
    return {"halving"} if activations <= set(HALVING) and not kind else set()


def _driven(uses: Sequence[Use]) -> set[Key]:
    """Arrows that are called with t, as batch norm asks, and cells that have such arrows.

    A cell calls all of its arrows alike, and all cells of a class do.
    """
    arrows = [
        {a.use.key for a in use.arrows if a.use is not None and a.use.piece != "gate"}
        for use in uses
    ]
    families = [{use.key, *keys} for use, keys in zip(uses, arrows, strict=True)]
    found = set[Key]()
    new = {key for keys in arrows for key in keys if "per_t" in key[1]}
    while new:
        found |= new
        new = set[Key]().union(*(family for family in families if family & found)) - found
    return found


# --- names ----------------------------------------------------------------------------------------


def _names(groups: Mapping[Key, Sequence[Use]]) -> dict[Key, str]:
    """Every class by its cell's word; of several for one cell, the most used has it alone."""
    apart = any("per_t" in kind for _, kind in groups)
    names: dict[Key, str] = {}
    firsts: dict[str, frozenset[str]] = {}
    for key in sorted(groups, key=lambda key: -len(groups[key])):
        name = _arrow_name(key, apart) if key[0] in ARROWS else _cell_name(key)
        first = firsts.setdefault(name, key[1])
        if first != key[1]:
            name = _other_name(name, key[1], first, apart)
        alike = sum(taken.rstrip("0123456789") == name for taken in names.values())
        names[key] = f"{name}{alike + 1}" if name in names.values() else name
    return names


def _arrow_name(key: Key, apart: bool) -> str:
    piece, kind = key
    if piece == "conv_arrow" and not kind:
        return "SameConv"
    short = "LN" if "layer" in kind else "BN" if "batch" in kind else ""
    return ARROWS[piece] + ("Shared" if "shared" in kind and apart else "") + short


def _cell_name(key: Key) -> str:
    piece, kind = key
    return ("Conv" if "conv" in kind else "") + (OTHERS | CELLS)[piece]


def _other_name(name: str, kind: frozenset[str], first: frozenset[str], apart: bool) -> str:
    """`JointLayerNormConvLSTM`, `G1WithoutLateral`: what tells a class from the most used one."""
    words, options = [], []
    if (kind ^ first) - _OPTIONS.keys():
        normed = kind | {feature.removesuffix("_drives") for feature in kind}
        words += ["Joint"] if "joint" in kind else []
        words += ["Shared"] if "shared" in normed and apart else []
        words += [word for feature, word in _NORMS.items() if feature in normed] or ["Plain"]
    for feature, word in _OPTIONS.items():
        if feature in kind ^ first:
            options.append(f"With{'' if feature in kind else 'out'}{word}")
    return "".join([*words, name, *options])


_NORMS = {"layer": "LayerNorm", "batch": "BatchNorm"}
_OPTIONS = {"lateral": "Lateral", "read_out": "ReadOut"}
