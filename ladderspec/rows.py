"""Tree -> tree: the rows of the table written out and named; then `set` and `defaults`."""

from __future__ import annotations

from collections.abc import Iterator

from ladderspec.errors import Finding, Findings, did_you_mean
from ladderspec.names import INPUT, LEVEL_NAME
from ladderspec.notation import matches
from ladderspec.tree import Node

MAX_ROWS = 5000


def expand(tree: Node) -> Node:
    """Repeated rows written out, every row named, every cell a mapping."""
    levels = tree.get("levels")
    if levels is None or not isinstance(levels.value, list):
        return tree
    rows: list[Node] = []
    for row in levels.value:
        if not isinstance(row.value, dict):
            rows.append(row)
            continue
        rows += _copies(row, len(rows) + 1)
        if len(rows) > MAX_ROWS:
            break  # refused by the words
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
        yield row  # refused by the words
        return
    for k in range(times):
        if name is not None and isinstance(name.value, str):
            several = repeat is not None and LEVEL_NAME.fullmatch(name.value)
            named = name.replaced(f"{name.value}_{k + 1}") if several else name
        elif name is None:
            named = row.replaced(f"{_cell_word(fields.get('encoder')) or 'row'}{position + k}")
        else:
            named = name
        yield row.replaced({**fields, "name": named})


def _cell(node: Node) -> Node:
    """`G1` is short for `{cell: G1}`."""
    return node.replaced({"cell": node}) if isinstance(node.value, str) else node


def _cell_word(node: Node | None) -> str:
    word = node.get("cell") if node is not None else None
    text = word.value if word is not None and isinstance(word.value, str) else ""
    return "".join(c for c in text.lower() if c.isalnum() and c.isascii())


def row_names(tree: Node) -> list[str | None]:
    """The names of the rows, input side first; None for a row that is none."""
    levels = tree.get("levels")
    rows = levels.value if levels is not None and isinstance(levels.value, list) else []
    names = [row.get("name") for row in rows]
    return [str(name.value) if name is not None else None for name in names]


def cell_words(tree: Node) -> set[str]:
    """The words by which the spec asks for cells."""
    levels, laterals = tree.get("levels"), tree.get("laterals")
    rows = levels.value if levels is not None and isinstance(levels.value, list) else []
    cells = [row.get(side) for row in rows for side in ("encoder", "decoder")]
    if laterals is not None and isinstance(laterals.value, dict):
        cells += laterals.value.values()
    words = [cell.get("cell") for cell in [*cells, tree.get("top")] if cell is not None]
    return {str(word.value) for word in words if word is not None}


# --- set ------------------------------------------------------------------------------------------


def assign(tree: Node, path: str, value: Node, at: Node | None, findings: Findings) -> Node:
    """Change a field of nodes, tasks or tables by name: `encoder.lstm1.channels`."""
    head, _, rest = path.partition(".")
    name, _, field = rest.partition(".")
    place = at.key_place(path) if at else None

    def refuse(message: str, hint: str = "") -> Node:
        findings.add(Finding("G202", message, place, path, hint))
        return tree

    if head in ("encoder", "decoder"):
        names = row_names(tree)
        places = {n: i for i, n in enumerate(names) if n} if head == "encoder" else _decoders(names)
        found = [i for n, i in places.items() if matches(n, name)]
        if not found:
            hint = did_you_mean(f"{head}.{name}", [f"{head}.{n}" for n in places])
            return refuse(f"no node `{head}.{name}` to set", hint)
        if not field:
            return refuse(f"`{path}` names a node, not a field of it", f"like `{path}.filter`")
        for index in found:
            where = ("top",) if index == len(names) else ("levels", index, head)
            if tree.find(where)[1] < len(where):
                return refuse(f"no node `{head}.{name}` to set", "its row has no decoder")
            tree = _put(tree, (*where, *field.split(".")), value)
        return tree
    tables = {"task": "tasks", "lateral": "laterals"}
    if head in tables:
        table = tree.get(tables[head])
        known = list(table.value) if table is not None and isinstance(table.value, dict) else []
        found_names = [n for n in known if matches(n, name)]
        if not found_names:
            return refuse(f"no `{head}.{name}` to set", did_you_mean(name, known))
        if not field:
            return refuse(f"`{path}` names no field", f"like `{path}.weight`")
        for each in found_names:
            tree = _put(tree, (tables[head], each, *field.split(".")), value)
        return tree
    if head in ("input", "time", "defaults") and rest:
        return _put(tree, tuple(path.split(".")), value)
    return refuse(
        f"`{path}` cannot be set",
        "like `encoder.NAME.FIELD`, `decoder.NAME.FIELD`, `task.NAME.FIELD`, `params.NAME`",
    )


def _decoders(names: list[str | None]) -> dict[str, int]:
    """By level, the row that holds its decoder: the row above; past the last row stands `top`."""
    levels = [INPUT, *names]
    return {level: index for index, level in enumerate(levels) if level}


def _put(node: Node, path: tuple[str | int, ...], value: Node) -> Node:
    if not path:
        return value
    head, rest = path[0], path[1:]
    if isinstance(node.value, list) and isinstance(head, int):
        items = list(node.value)
        items[head] = _put(items[head], rest, value)
        return node.replaced(items)
    fields = node.value if isinstance(node.value, dict) else {}
    inside = fields.get(str(head), value.replaced({}))
    return node.replaced({**fields, str(head): _put(inside, rest, value)})


# --- defaults -------------------------------------------------------------------------------------


def fill_defaults(tree: Node, findings: Findings) -> Node:
    """Fields by cell, where the cell itself is silent."""
    defaults = tree.get("defaults")
    if defaults is None or not isinstance(defaults.value, dict):
        return tree
    used: set[str] = set()

    def fill(cell: Node) -> Node:
        word = cell.get("cell")
        fields = defaults.value.get(word.value) if word is not None else None
        if fields is None or not isinstance(fields.value, dict) or word is None:
            return cell
        used.add(str(word.value))
        return cell.replaced({**fields.value, **cell.value})

    def fill_row(row: Node) -> Node:
        if not isinstance(row.value, dict):
            return row
        cells = {key: fill(row.value[key]) for key in ("encoder", "decoder") if key in row.value}
        return row.replaced({**row.value, **cells})

    changes: dict[str, Node] = {}
    levels, top, laterals = tree.get("levels"), tree.get("top"), tree.get("laterals")
    if levels is not None and isinstance(levels.value, list):
        changes["levels"] = levels.replaced([fill_row(row) for row in levels.value])
    if top is not None:
        changes["top"] = fill(top)
    if laterals is not None and isinstance(laterals.value, dict):
        changes["laterals"] = laterals.replaced({n: fill(c) for n, c in laterals.value.items()})
    for word in defaults.value:
        if word not in used:
            place, words = defaults.key_place(word), sorted(cell_words(tree))
            hint = did_you_mean(word, words)
            path = f"defaults.{word}"
            findings.add(Finding("G202", f"no cell `{word}` in this spec", place, path, hint))
    return tree.replaced({**tree.value, **changes})
