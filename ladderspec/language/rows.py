"""Tree -> tree: rows repeated and named, and `defaults` filled in."""

from __future__ import annotations

from collections.abc import Iterator

from ladderspec.cells import registered
from ladderspec.errors import Finding, Findings, SpecError, did_you_mean, one_of, tick
from ladderspec.language.fields import fields_of
from ladderspec.names import LEVEL_NAME, Side
from ladderspec.text.tree import Node

MAX_ROWS = 5000


def expand(tree: Node, findings: Findings) -> Node:
    """Write out repeated rows, name every row, and make every cell a mapping."""
    levels = tree.get("levels")
    if levels is None or not isinstance(levels.value, list):
        return tree
    rows: list[Node] = []
    for row in levels.value:
        rows += _copies(row, len(rows) + 1) if isinstance(row.value, dict) else [row]
        if len(rows) > MAX_ROWS:
            message = f"more than {MAX_ROWS:,} rows"
            findings.add(Finding("S106", message, row.mark, row.path))
            raise SpecError(findings.sorted())
    changes = {"levels": levels.replaced(rows)}
    if (top := tree.get("top")) is not None:
        changes["top"] = _cell(top)
    if (laterals := tree.get("laterals")) is not None and isinstance(laterals.value, dict):
        cells = {name: _cell(node) for name, node in laterals.value.items()}
        changes["laterals"] = laterals.replaced(cells)
    return tree.replaced({**tree.value, **changes})


def _copies(row: Node, position: int) -> Iterator[Node]:
    fields = {key: _cell(n) if key in ("encoder", "decoder") else n for key, n in row.value.items()}
    repeat, name = fields.pop("repeat", None), fields.get("name")
    times = repeat.value if repeat is not None else 1
    if isinstance(times, bool) or not isinstance(times, int) or not 1 <= times <= 1000:
        yield row  # refused by the models
        return
    for k in range(times):
        if name is not None and isinstance(name.value, str):
            several = repeat is not None and LEVEL_NAME.fullmatch(name.value)
            named = name.replaced(f"{name.value}_{k + 1}") if several else name
        elif name is None or name.value is None:
            named = row.replaced(f"{_cell_word(fields.get('encoder')) or 'row'}{position + k}")
        else:
            named = name
        copy = {**fields, "name": named}
        if repeat is not None:
            cells = {side: copy[side] for side in ("encoder", "decoder") if side in copy}
            copy |= {side: _without_own(cell, named) for side, cell in cells.items()}
        yield row.replaced(copy)


def _without_own(cell: Node, name: Node) -> Node:
    """A cell that does not share with its own row: `share: conv_1` on all copies of `conv`."""
    share = cell.get("share")
    if share is None or share.value != name.value:
        return cell
    return cell.replaced({key: node for key, node in cell.value.items() if key != "share"})


def _cell(node: Node) -> Node:
    """`G1` is short for `{cell: G1}`."""
    return node.replaced({"cell": node}) if isinstance(node.value, str) else node


def _cell_word(node: Node | None) -> str:
    word = node.get("cell") if node is not None else None
    text = word.value if word is not None and isinstance(word.value, str) else ""
    return "".join(c for c in text.lower() if c.isalnum() and c.isascii())


def row_names(tree: Node) -> list[str | None]:
    """The names of the rows, input side first; None for an entry that is not a row."""
    levels = tree.get("levels")
    rows = levels.value if levels is not None and isinstance(levels.value, list) else []
    names = [row.get("name") for row in rows]
    return [str(name.value) if name is not None else None for name in names]


def cells(tree: Node) -> Iterator[tuple[Side, Node]]:
    """The values in the places of cells."""
    levels, laterals, top = tree.get("levels"), tree.get("laterals"), tree.get("top")
    for row in levels.value if levels is not None and isinstance(levels.value, list) else []:
        for side in (Side.ENCODER, Side.DECODER):
            if (cell := row.get(side.value)) is not None:
                yield side, cell
    if top is not None:
        yield Side.DECODER, top
    if laterals is not None and isinstance(laterals.value, dict):
        yield from ((Side.LATERAL, cell) for cell in laterals.value.values())


def name_of(cell: Node) -> str | None:
    """The name of a cell."""
    name = cell.get("cell")
    return name.value if name is not None and isinstance(name.value, str) else None


def cell_names(tree: Node) -> set[str]:
    """The names of all cells of the spec."""
    return {name for _, cell in cells(tree) if (name := name_of(cell)) is not None}


# --- defaults -------------------------------------------------------------------------------------


def fill_defaults(tree: Node, written: set[str], findings: Findings) -> Node:
    """Give cells the fields of `defaults` that they do not set themselves.

    An encoder cell and a decoder cell may share a name: each takes the fields that it has.
    """
    defaults = tree.get("defaults")
    if defaults is None or not isinstance(defaults.value, dict) or not defaults.value:
        return tree
    fields = _known_fields(tree, defaults, written, findings)

    def fill(side: Side, cell: Node) -> Node:
        name = name_of(cell)
        given = fields.get((side, name)) if name is not None else None
        if given is None or not isinstance(cell.value, dict):
            return cell
        filled = cell.replaced({**given.value, **cell.value})
        filled.keys = {**given.keys, **cell.keys}
        return filled

    def fill_row(row: Node) -> Node:
        if not isinstance(row.value, dict):
            return row
        sides = (Side.ENCODER, Side.DECODER)
        found = {side.value: fill(side, row.value[side]) for side in sides if side in row.value}
        return row.replaced({**row.value, **found})

    changes: dict[str, Node] = {}
    levels, top, laterals = tree.get("levels"), tree.get("top"), tree.get("laterals")
    if levels is not None and isinstance(levels.value, list):
        changes["levels"] = levels.replaced([fill_row(row) for row in levels.value])
    if top is not None:
        changes["top"] = fill(Side.DECODER, top)
    if laterals is not None and isinstance(laterals.value, dict):
        filled = {name: fill(Side.LATERAL, cell) for name, cell in laterals.value.items()}
        changes["laterals"] = laterals.replaced(filled)
    return tree.replaced({**tree.value, **changes})


def _known_fields(
    tree: Node, defaults: Node, written: set[str], findings: Findings
) -> dict[tuple[Side, str | None], Node]:
    """By side and cell, the defaults that such a cell has a field for."""
    used: dict[str, set[Side]] = {}
    for side, cell in cells(tree):
        if (name := name_of(cell)) is not None:
            used.setdefault(name, set()).add(side)
    found: dict[tuple[Side, str | None], Node] = {}
    for name, given in defaults.value.items():
        place, path = defaults.key_place(name), f"{defaults.path}.{name}"
        unused = name not in used and name not in written  # `set` may have replaced it
        if unused and given.source is tree.source:  # an inherited one may be unused
            there = f"it has {one_of(sorted(used), 'and')}" if used else ""
            is_cell = any(name in registered(side) for side in Side)
            hint = (not is_cell and did_you_mean(name, sorted(used))) or there
            findings.add(Finding("G202", f"no cell {tick(name)} in this spec", place, path, hint))
        if name not in used or not isinstance(given.value, dict):
            continue
        known = {side: _fields(side, name) for side in sorted(used[name])}
        _check_fields(
            name, given, [field for fields in known.values() for field in fields], findings
        )
        for side, fields in known.items():
            known_here = {key: node for key, node in given.value.items() if key in fields}
            found[side, name] = given.replaced(known_here)
    return found


def _fields(side: Side, name: str) -> list[str]:
    return fields_of(registered(side).get(name))


def _check_fields(name: str, given: Node, known: list[str], findings: Findings) -> None:
    for key, node in given.value.items() if known else ():
        if key not in known and not findings.enough:
            hint = did_you_mean(key, known) or f"{name} has {one_of(dict.fromkeys(known), 'and')}"
            message = f"{name} has no field {tick(key)}"
            findings.add(Finding("S101", message, given.key_place(key), node.path, hint))
