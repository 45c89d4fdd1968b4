"""Definition -> its text: the template of its piece, with the words that it needs."""

from __future__ import annotations

from collections.abc import Iterable

from ladderspec.export.activations import EXPRESSIONS
from ladderspec.export.definitions import ARROWS, CELLS, Definition
from ladderspec.export.formulas import drives, linear, norm_name, within
from ladderspec.export.template import render
from ladderspec.export.uses import Facts
from ladderspec.names import Role, Side

_INPUTS = frozenset(Role) - {Role.STATE}


def text_of(definition: Definition, all_of_them: Iterable[Definition], facts: Facts) -> str:
    """The text of a class."""
    apart = any("per_t" in each.features for each in all_of_them)
    words = {
        "name": definition.name,
        "BatchNorm": batch_norm_name(definition.features, apart),
        **size_words(facts),
    }
    if definition.piece in ARROWS:
        words |= _arrow_words(definition)
    elif definition.piece in CELLS:
        words |= _cell_words(definition)
    return render(definition.piece, definition.features, words)


def size_words(facts: Facts) -> dict[str, str]:
    """How filters and strides are written."""
    if facts.pairs:
        return {"size": "Pair", "one": "(1, 1)", "inner": "*inner_filter"}
    return {"size": "int", "one": "1", "inner": "inner_filter, inner_filter"}


def batch_norm_name(features: frozenset[str], apart: bool) -> str:
    """Of statistics that all t share, where there are others too."""
    return "SharedBatchNorm" if "shared" in features and apart else "BatchNorm"


def _arrow_words(definition: Definition) -> dict[str, str]:
    use = definition.uses[0]
    norm = norm_name(use.kind)
    gain = " of each branch" if "branched" in definition.features else ""
    gain += ", with a gain per channel" if norm else ""
    return {"formula": within(norm, linear(use, "W", "x")), "gain": gain}


def _cell_words(definition: Definition) -> dict[str, str]:
    features, uses = definition.features, definition.uses
    offset = "c" if definition.piece in ("conv_g2", "conv_g3") else "b"
    norm = norm_name(features)
    joint = "joint" in features
    words = {"title": _title(definition), "jointly": norm, "past": _past(definition)}
    words["y"] = "e" if all(use.side is Side.ENCODER for use in uses) else "y"
    if definition.piece == "gru":
        words["state"] = drives(uses, {Role.STATE})
        words["drives"] = drives(uses, _INPUTS) + ("" if joint else f" + {offset}")
    elif definition.piece in ("g1", "conv_g1"):
        words["drives"] = within(norm, f"{drives(uses)} + {offset}")
    else:
        words["drives"] = f"{within(norm if joint else '', drives(uses))} + {offset}"
    if definition.piece in ("conv", "fc"):
        words |= _activation(definition, words["drives"])
    return words


def _title(definition: Definition) -> str:
    """`Encoder cell ConvLSTM`, by the word of the spec."""
    word = CELLS[definition.piece].replace("ConvG", "convG")
    word = f"Conv{word}" if "conv" in definition.features else word
    sides = {use.side for use in definition.uses}
    if len(sides) > 1 or Side.LATERAL in sides:
        return f"Cell {word}"
    return f"{'Encoder' if Side.ENCODER in sides else 'Decoder'} cell {word}"


def _past(definition: Definition) -> str:
    """From when a cell knows its state."""
    arrows = [arrow for use in definition.uses for arrow in use.arrows]
    delays = {arrow.delay for arrow in arrows if arrow.role is Role.STATE}
    return f"(t-{delays.pop()})" if len(delays) == 1 else "(t-k)"


def _activation(definition: Definition, driven: str) -> dict[str, str]:
    if "chosen" in definition.features:
        return {"act": "act", "activated": f"act({driven})", "activation": "a"}
    (name,) = definition.activations
    activated = driven if name == "none" else f"{name}({driven})"
    return {"act": name, "activated": activated, "activation": EXPRESSIONS[name]}
