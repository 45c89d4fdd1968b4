"""The layers of an experiment: what the file says, then a column, then rows; and what is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from ladderspec.errors import Finding, Findings
from ladderspec.language.explain import explain
from ladderspec.language.extends import merge
from ladderspec.language.read import MAX_ROUNDS
from ladderspec.language.strays import find_strays
from ladderspec.text.tree import Node, items_of

M = TypeVar("M", bound=BaseModel)

# What a row or column says as a variant would, and the variant's own word for it.
PATCH = {"variant": "of", "set": "set", "tasks": "tasks", "edges": "edges", "without": "without"}


def checked(tree: Node, model: type[M], findings: Findings) -> tuple[M | None, Node]:
    """The words of a tree, with what is wrong said; misspelt keys are put right on the way."""
    for _ in range(MAX_ROUNDS):
        if not isinstance(tree.value, dict):
            findings.add(Finding("S104", "expected a mapping", tree.mark, tree.path))
            return None, tree
        try:
            return model.model_validate(tree.plain()), tree
        except ValidationError as error:
            items = error.errors(include_url=False, include_input=False)
            strays = find_strays(items, tree, model)
            if strays is None:
                explain(items, tree, model, findings)
                return None, tree
            findings.update(strays.said)
            tree = strays.repair(tree)
    return None, tree


def merged(layers: Sequence[Node], key: str) -> Node:
    """What the file says, then the column, then the rows."""
    found = layers[0].get(key)
    for layer in layers[1:]:
        over = layer.get(key)
        if over is not None:
            found = over if found is None else merge(_room_for(over, _long(found)), over)
    return layers[0].replaced({}) if found is None else found


def _room_for(over: Node, found: Node) -> Node:
    """Without `updates` where `epochs` are now said, and the other way round."""
    said = [word for word in ("updates", "epochs") if over.get(word) is not None]
    if len(said) != 1:
        return found
    (other,) = {"updates", "epochs"} - set(said)
    return found.replaced({word: node for word, node in items_of(found) if word != other})


def _long(node: Node) -> Node:
    """`data: music` as `data: {set: music}`."""
    return node.replaced({"set": node}) if isinstance(node.value, str) else node


def patch_of(node: Node | None) -> Node | None:
    """What a row or column says as a variant would; its `params` hold over those of variants."""
    if node is None:
        return None
    words = {own: node.value[word] for word, own in PATCH.items() if word in node.value}
    params = node.get("params")
    if params is not None and params.value:
        own = params.replaced({f"params.{name}": value for name, value in items_of(params)})
        words["set"] = merge(words["set"], own) if "set" in words else own
    return node.replaced(words) if words else None


def with_variant(tree: Node, name: str, patch: Node) -> tuple[Node, str]:
    """The spec with one more variant, and the name that it got."""
    variants = tree.get("variants")
    known: Mapping[str, Node] = variants.value if variants is not None else {}
    while name in known:
        name += "_"
    table = (variants or patch).replaced({**known, name: patch})
    return tree.replaced({**tree.value, "variants": table}), name
