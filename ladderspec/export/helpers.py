"""What the classes of the file may need besides each other, by name, in the order of the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ladderspec.export.code import names_in
from ladderspec.export.definitions import Definition
from ladderspec.export.template import render
from ladderspec.export.text import batch_norm_name, size_words
from ladderspec.export.uses import Facts

TYPES = {
    "Pair": "Pair = tuple[int, int]  # height and width",
    "Five": "Five = tuple[float, float, float, float, float]  # w0 to w4 of f(u, w)",
    "State": "State = tuple[Tensor, Tensor]  # h and c of an LSTM",
}
FUNCTIONS = ("new_weight", "convolve", "f", "coefficients", "spread")
OFFSETS = {"Offset": "nn.Module", "LinearOffset": "nn.Linear", "ConvOffset": "nn.Conv2d"}
STANDARD = {"deque": "collections", "pairwise": "itertools", "prod": "math"}
IMPORTED = frozenset({"torch", "Tensor", "nn", "functional", *STANDARD})


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
