"""Uses -> definitions: which classes and functions the file holds, and the text of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ladderspec.export.cells import ACTIVATIONS
from ladderspec.export.formulas import drives, fold, linear, norm_name, within
from ladderspec.export.template import render
from ladderspec.export.uses import Facts, Use
from ladderspec.names import Role, Side

Key = tuple[str, frozenset[str]]

ARROWS = {"conv_arrow": "Conv", "up_arrow": "Up", "dense_arrow": "Dense"}
CELLS = {  # the word in a spec, and the letter of the bias
    "conv": ("Conv", "b"),
    "fc": ("FC", "b"),
    "lstm": ("LSTM", "b"),
    "gru": ("GRU", "b"),
    "softmax": ("SoftMax", "b"),
    "g1": ("G1", "b"),
    "conv_g1": ("convG1", "b"),
    "conv_g2": ("convG2", "c"),
    "conv_g3": ("convG3", "c"),
}
OTHERS = {"gate": "Gate", "average": "Average", "average_pool": "AveragePool"}


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


def define(uses: Sequence[Use], facts: Facts) -> dict[Key, Definition]:
    """The classes that the modules of a network need."""
    groups: dict[Key, list[Use]] = {}
    for use in _all(uses):
        groups.setdefault(use.key, []).append(use)
    driven = _driven(uses)
    names = _names(groups)
    found = {}
    for key, group in groups.items():
        features = key[1].union(*(use.asks for use in group))
        features |= {"pairs"} if facts.pairs else set()
        features |= {"driven"} if key in driven else set()
        features |= {"timed"} if key in driven or "per_t" in key[1] else set()
        found[key] = Definition(names[key], key[0], features, tuple(group))
    return found


def _all(uses: Iterable[Use]) -> list[Use]:
    """Cells and arrows, without what is torch's own."""
    found = []
    for use in uses:
        found += [use] if use.piece else []
        found += [arrow.use for arrow in use.arrows if arrow.use is not None]
    return found


def _driven(uses: Iterable[Use]) -> set[Key]:
    """Arrows that are called with t, as batch norm asks, and cells that have such arrows.

    A cell calls all of its arrows alike, and all cells of a class do.
    """
    families = [
        (use.key, {a.use.key for a in use.arrows if a.use is not None and a.use.piece != "gate"})
        for use in uses
    ]
    found = {arrow for _, arrows in families for arrow in arrows if "per_t" in arrow[1]}
    while more := {
        key
        for cell, arrows in families
        if cell in found or not found.isdisjoint(arrows)
        for key in (cell, *arrows)
    } - found:
        found |= more
    return found


# --- names ----------------------------------------------------------------------------------------


def _names(groups: Mapping[Key, Sequence[Use]]) -> dict[Key, str]:
    """Every class by its cell's word; of several for one cell, the most used has it alone."""
    apart = any("per_t" in kind for _, kind in groups)
    names: dict[Key, str] = {}
    for key in sorted(groups, key=lambda key: -len(groups[key])):
        name = _arrow_name(key, apart) if key[0] in ARROWS else _base(key)
        names[key] = name + _suffix(key[1], apart) if name in names.values() else name
    return names


def _base(key: Key) -> str:
    piece, kind = key
    if piece in OTHERS:
        return OTHERS[piece]
    word = CELLS[piece][0]
    return f"Conv{word}" if "conv" in kind else word[0].upper() + word[1:]


def _arrow_name(key: Key, apart: bool) -> str:
    piece, kind = key
    if piece == "conv_arrow" and not kind:
        return "SameConv"
    return ARROWS[piece] + _norm_suffix(kind, apart)


def _norm_suffix(kind: frozenset[str], apart: bool) -> str:
    return ("Shared" if "shared" in kind and apart else "") + norm_name(kind)


def _suffix(kind: frozenset[str], apart: bool) -> str:
    """What tells a class from the most used one of its cell."""
    words = ["Joint"] if "joint" in kind else []
    words += [_norm_suffix(kind, apart) or "Plain"]
    words += [word for feature, word in _KINDS.items() if feature in kind]
    return "".join(words)


_KINDS = {"lateral": "Lateral", "read_out": "ReadOut"}


# --- text -----------------------------------------------------------------------------------------


def text_of(definition: Definition, definitions: Iterable[Definition], facts: Facts) -> str:
    """The text of a class."""
    apart = any("per_t" in each.features for each in definitions)
    words = {"name": definition.name, **size_words(facts)}
    words["BatchNorm"] = batch_norm_name(definition.features, apart)
    if definition.piece in ARROWS:
        use = definition.uses[0]
        words["formula"] = within(norm_name(use.kind), linear(use, "W", "x"))
    elif definition.piece in CELLS:
        words |= _cell_words(definition, facts)
    return render(definition.piece, definition.features, words)


def size_words(facts: Facts) -> dict[str, str]:
    if facts.pairs:
        return {"size": "Pair", "one": "(1, 1)", "inner": "*inner_filter"}
    return {"size": "int", "one": "1", "inner": "inner_filter, inner_filter"}


def batch_norm_name(features: frozenset[str], apart: bool) -> str:
    return "SharedBatchNorm" if "shared" in features and apart else "BatchNorm"


def _cell_words(definition: Definition, facts: Facts) -> dict[str, str]:
    word, offset = CELLS[definition.piece]
    word = f"Conv{word}" if "conv" in definition.features else word
    sides = {use.side for use in definition.uses}
    side = "Encoder cell" if sides == {Side.ENCODER} else "Decoder cell"
    norm = norm_name(definition.features)
    words = {
        "title": f"{side if len(sides) == 1 and Side.LATERAL not in sides else 'Cell'} {word}",
        "y": "e" if sides == {Side.ENCODER} else "y",
        "jointly": norm,
    }
    uses = definition.uses
    if definition.piece == "gru":
        words["state"] = drives(uses, "", frozenset({Role.STATE}))
        driven = drives(uses, "" if "joint" in definition.features else offset, _INPUTS)
    elif "joint" in definition.features:
        driven = f"{norm}({drives(uses, '')}) + {offset}"
    elif definition.piece in ("g1", "conv_g1"):
        driven = within(norm, drives(uses, offset))
    else:
        driven = drives(uses, offset)
    words["drives"] = fold(driven, 8)
    if word in ("Conv", "FC"):
        words |= _activation(facts.activations[word], words["drives"])
    return words


_INPUTS = frozenset(Role) - {Role.STATE}


def _activation(known: Sequence[str], driven: str) -> dict[str, str]:
    if len(known) > 1:
        return {"activated": f"act({driven})", "activation": "self.activation(a)"}
    name = known[0]
    return {
        "activated": driven if name == "none" else f"{name}({driven})",
        "activation": ACTIVATIONS[name][1],
    }
