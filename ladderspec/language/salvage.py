"""A tree with mistakes -> the tree without them, so that the rest can still be checked.

Wrong cells become unknown ones, wrong tasks, variants and arrows are left out; `unsure` says what
must then not be concluded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ladderspec.cells.unknown import UNKNOWN
from ladderspec.errors import spell
from ladderspec.text.tree import Node

Loc = tuple[str | int, ...]


def salvage(tree: Node, locs: Sequence[Loc]) -> tuple[Node, frozenset[str]] | None:
    """Without what stands at `locs`; None where nothing is left to go on with."""
    by_head: dict[str, list[Loc]] = defaultdict(list)
    for loc in locs:
        by_head[str(loc[0]) if loc else ""].append(loc[1:])
    fields, unsure = dict(tree.value), set[str]()
    for head, rests in by_head.items():
        if head == "levels":
            levels = fields.get("levels")
            if levels is None or not isinstance(levels.value, list) or () in rests:
                return None
            fields[head] = _rows(levels, rests, unsure)
        elif head == "input":
            fields[head] = tree.replaced({})
            unsure.add("input")
        elif head == "top":
            fields[head] = _unknown(fields[head])
        elif head in ("edges", "without"):
            fields[head] = _pruned(fields[head], rests)
        elif head == "":
            return None
        elif head in ("tasks", "variants", "laterals") and () not in rests:
            wrong = {rest[0] for rest in rests}
            fields[head] = _entries(fields[head], wrong, head == "laterals")
        else:
            fields.pop(head, None)
        unsure |= {head} & {"time", "tasks", "edges", "without", "laterals"}
    return tree.replaced(fields), frozenset(unsure)


def _unknown(node: Node) -> Node:
    return node.replaced({"cell": node.replaced(UNKNOWN)})


def _rows(levels: Node, rests: Sequence[Loc], unsure: set[str]) -> Node:
    rows = list(levels.value)
    for rest in rests:
        index, field = int(rest[0]), rest[1] if len(rest) > 1 else ""
        row = rows[index]
        fields = dict(row.value) if isinstance(row.value, dict) else {}
        if field in ("encoder", "decoder") and field in fields:
            fields[str(field)] = _unknown(fields[str(field)])
        elif field == "label":
            fields.pop("label")
        else:  # no row at all, no encoder, or a wrong name or number of copies
            unsure.add("levels")
            name = fields.pop("name", None)
            fields.pop("repeat", None)
            fields["name"] = row.replaced(_free_name(name, index, rows))
            fields.setdefault("encoder", _unknown(row))
        rows[index] = row.replaced(fields)
    return levels.replaced(rows)


def _free_name(name: Node | None, index: int, rows: Sequence[Node]) -> str:
    """The name that was meant, if it is free."""
    taken = {str(node.value) for row in rows if (node := row.get("name")) is not None}
    meant = spell(str(name.value)) if name is not None and name.value is not None else ""
    return meant if meant not in {*taken, "", "input"} else f"row{index + 1}_"


def _entries(table: Node, wrong: set[str | int], cells: bool) -> Node:
    if cells:
        return table.replaced({k: _unknown(v) if k in wrong else v for k, v in table.value.items()})
    return table.replaced({k: v for k, v in table.value.items() if k not in wrong})


def _pruned(node: Node, rests: Sequence[Loc]) -> Node:
    """Without the entries at `rests`; a list without its wrong items."""
    if () in rests or not isinstance(node.value, dict | list):
        return node.replaced([] if isinstance(node.value, list) else {})
    if isinstance(node.value, list):
        wrong = {rest[0] for rest in rests}
        return node.replaced([item for i, item in enumerate(node.value) if i not in wrong])
    fields = dict(node.value)
    for key in {str(rest[0]) for rest in rests}:
        inside = [rest[1:] for rest in rests if rest[0] == key]
        whole = key != "add" or not isinstance(fields.get(key, node).value, list)
        if whole:
            fields.pop(key, None)
        else:
            fields[key] = _pruned(fields[key], inside)
    return node.replaced(fields)
