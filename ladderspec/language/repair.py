"""A tree with mistakes -> a tree that can be checked further.

An unknown key is reported once; reading then continues as if it were spelt right, so that it is not
also reported as missing, and its value is checked as well. Wrong cells become unknown ones; wrong
tasks, variants and arrows are left out, and `unsure` names what must then not be concluded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from ladderspec.cells import Cell, Inlet, Projection, Site
from ladderspec.errors import Findings, spell
from ladderspec.names import Role, Shape, Side
from ladderspec.text.tree import Node, Span

Mark = tuple[int, int]  # the place of a key: source and offset
Loc = tuple[str | int, ...]  # as pydantic writes it
Action = Literal["drop", "rename", "move", "unfold"]


@dataclass(frozen=True)
class UnknownKey:
    """An unknown key, and what to do with it."""

    mark: Mark
    key: str
    action: Action
    word: str = ""  # rename: to this key; move: into the mapping under this key
    value: object = None  # rename: with this value, if the key contained it; unfold: the tag


@dataclass(frozen=True)
class UnknownKeys:
    """All unknown keys of a tree, and the findings about them."""

    found: dict[Mark, UnknownKey]
    findings: Findings

    def repair(self, tree: Node) -> Node:
        """The tree with the keys that were meant."""
        return _repaired(tree, self.found, {})


def mark_of(owner: Node, key: str) -> Mark:
    place = owner.key_place(key)
    return id(place.source), place.start


def _repaired(node: Node, unknown: dict[Mark, UnknownKey], seen: dict[int, Node]) -> Node:
    """The tree with the keys that were meant; an aliased node is repaired once."""
    if id(node) not in seen:
        items = node.value
        if isinstance(items, list):
            seen[id(node)] = node.replaced([_repaired(item, unknown, seen) for item in items])
        else:
            seen[id(node)] = _mended(node, unknown, seen) if isinstance(items, dict) else node
    return seen[id(node)]


def _mended(node: Node, unknown: dict[Mark, UnknownKey], seen: dict[int, Node]) -> Node:
    fields: dict[str, Node] = {}
    keys = dict(node.keys)
    moved: dict[str, dict[str, Node]] = {}
    for key, child in node.value.items():
        found = unknown.get(mark_of(node, key)) if key in node.keys else None
        child = _repaired(child, unknown, seen)
        if found is None:
            fields[key] = child
        elif found.action == "rename":
            word = key.removesuffix(found.key) + found.word  # `set` has whole paths as keys
            fields[word] = child if found.value is None else child.replaced(found.value)
            keys[word] = node.keys[key]
        elif found.action == "move":
            moved.setdefault(found.word, {})[key] = child
        elif found.action == "unfold":
            tag = str(found.value)
            fields[tag] = child.replaced(found.word)
            fields |= child.value if isinstance(child.value, dict) else {}
            keys |= {tag: node.keys[key], **child.keys}
    for word, inside in moved.items():
        spans = {key: node.keys[key] for key in inside}
        fields[word] = _with(fields.get(word, node.replaced(None)), inside, spans)
    result = node.replaced(fields)
    result.keys = keys
    return result


def _with(node: Node, inside: dict[str, Node], spans: dict[str, Span]) -> Node:
    """A mapping with further fields, or a list whose last row gets them."""
    if isinstance(node.value, list) and node.value:
        return node.replaced([*node.value[:-1], _with(node.value[-1], inside, spans)])
    fields = node.value if isinstance(node.value, dict) else {}
    result = node.replaced({**inside, **fields})
    result.keys = {**spans, **node.keys}
    return result


# --- wrong values ---------------------------------------------------------------------------------


def salvage(tree: Node, locs: Sequence[Loc]) -> tuple[Node, frozenset[str]] | None:
    """The tree without the values at `locs`; None if too little is left to check."""
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
        elif head == "inputs" and () not in rests:
            fields[head] = _inputs(fields[head], rests)
            unsure.add("inputs")
        elif head == "groups":
            fields[head] = tree.replaced({"count": tree.replaced(1)})
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
        else:  # not a row, no encoder, or a wrong name or number of copies
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


def _inputs(table: Node, rests: Sequence[Loc]) -> Node:
    """Wrong inputs keep their names, unless these are wrong."""
    named = {rest[0] for rest in rests if rest[-1] == "[key]"}
    wrong = {rest[0] for rest in rests}
    kept = {k: v.replaced({}) if k in wrong else v for k, v in table.value.items()}
    return table.replaced({k: v for k, v in kept.items() if k not in named})


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


# --- the stand-in of a wrong cell -----------------------------------------------------------------

UNKNOWN = "\0unknown"  # a name that no YAML text can hold


class Unknown(Cell):
    """Stands in for a cell that a spec got wrong, so that the rest can still be checked."""

    cell: Literal["\0unknown"] = "\0unknown"

    sides: ClassVar = frozenset(Side)
    takes: ClassVar = frozenset(Role)

    def out_shape(self, site: Site) -> Shape:
        raise UnknownShape

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        raise UnknownShape


class UnknownShape(Exception):
    """The shape follows from something that is wrong elsewhere."""
