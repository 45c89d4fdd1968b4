"""Definition -> its text: the template of its piece, with the words that it needs.

And what the definitions need besides each other, by name, in the order of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ladderspec.export.code import names_in, render
from ladderspec.export.definitions import ARROWS, CELLS, EXPRESSIONS, Definition
from ladderspec.export.formulas import drives, linear, norm_name, within
from ladderspec.export.uses import Facts
from ladderspec.names import Role, Side

_INPUTS = frozenset(Role) - {Role.STATE}
TYPES = {
    "Pair": "Pair = tuple[int, int]  # height and width",
    "Five": "Five = tuple[float, float, float, float, float]  # w0 to w4 of f(u, w)",
    "State": "State = tuple[Tensor, Tensor]  # h and c of an LSTM",
}
FUNCTIONS = ("new_weight", "convolve", "f", "coefficients", "spread")
OFFSETS = {"Offset": "nn.Module", "LinearOffset": "nn.Linear", "ConvOffset": "nn.Conv2d"}
STANDARD = {"deque": "collections", "pairwise": "itertools", "prod": "math"}
IMPORTED = frozenset({"torch", "Tensor", "nn", "functional", *STANDARD})


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


# --- what else the file holds ---------------------------------------------------------------------


def before_arrows(definitions: Iterable[Definition], facts: Facts, over: str) -> dict[str, str]:
    """Types, functions and norms; `over` is what t counts."""
    features = frozenset[str]().union(*(each.features for each in definitions))
    kept = over.upper()
    apart = "  # batch norm has statistics for each" if "per_t" in features else ""
    found = {kept: f"{kept} = {facts.kept}{apart}", **TYPES}
    found |= {name: render(name, features, size_words(facts)) for name in FUNCTIONS}
    for kind, rows in (("per_t", kept), ("shared", "1")):
        if kind in features:
            name = batch_norm_name(frozenset({kind}), apart="per_t" in features)
            found[name] = render("batch_norm", {kind}, {"name": name, "kept": rows})
    return found


def before_cells(definitions: Iterable[Definition]) -> dict[str, str]:
    """What all cells are."""
    features = frozenset[str]().union(*(each.features for each in definitions))
    return {"Cell": render("cell", features, {})}


def before_network() -> dict[str, str]:
    """What tasks own, and dictionaries of modules."""
    found = {}
    for name, base in OFFSETS.items():
        kind = name.removesuffix("Offset").lower()
        features = {"headed", kind} if kind else set()
        found[name] = render("offset", features, {"name": name, "base": base})
    return found | {"Levels": render("levels", (), {})}


def needed(texts: Iterable[str], helpers: Mapping[str, str]) -> set[str]:
    """The names that these texts use, and those that their helpers use in turn."""
    wanted, new = set[str](), set[str]().union(*map(names_in, texts))
    while new:
        wanted |= new
        new = set[str]().union(*(names_in(helpers[name]) for name in new & helpers.keys())) - wanted
    return wanted


def imports(names: set[str]) -> list[str]:
    """The imports, sorted as formatters do."""
    standard = [f"from {module} import {n}" for n, module in STANDARD.items() if n in names]
    parts = [name for name in ("Tensor", "nn") if name in names]
    torch = ["import torch"] if "torch" in names else []
    torch += [f"from torch import {', '.join(parts)}"] if parts else []
    torch += ["from torch.nn import functional"] if "functional" in names else []
    return [*standard, *([""] if standard else []), *torch]
