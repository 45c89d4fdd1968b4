"""Tree -> tree: `extends`, variants, `params`, `repeat`, `set`, `defaults`, dropped levels and tasks.

In this order, which is that of the language. Everything here works on trees that may still be wrong
in other ways: what is not understood is left for the words (spec.py) to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ladderspec.arithmetic import (
    PARAM_NAME,
    ArithmeticProblem,
    UnknownParam,
    evaluate,
    expression,
    solve,
)
from ladderspec.errors import Finding, Findings, Source, SpecError, did_you_mean, one_of
from ladderspec.names import INPUT, LEVEL_NAME
from ladderspec.notation import NotationProblem, matches, parse_selector
from ladderspec.tree import Node, parse

MAX_ROWS = 5000


@dataclass(frozen=True)
class Choice:
    """A patch that is to be applied: the spec's own, a variant, or the command line's."""

    name: str
    node: Node


# --- extends -----------------------------------------------------------------------------------------


def read_source(path: Path, name: str | None = None) -> Source:
    """A file's text; CRLF and a byte order mark are read past."""
    name = name or str(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SpecError([Finding("F001", f"cannot read {name}: {reason}")]) from None
    return decode(name, data)


def decode(name: str, data: bytes) -> Source:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"{name} is not UTF-8: byte {data[error.start]:#04x} on line {line}"
        raise SpecError([Finding("Y001", message, hint="save it as UTF-8")]) from None
    return Source(name, text.replace("\r\n", "\n").replace("\r", "\n"))


def extend(tree: Node, path: Path | None, root: Path | None, findings: Findings) -> Node:
    """Put the words of the file that `extends` names under those of this one."""
    seen = [path.resolve()] if path else []
    layers = [tree]
    while (link := layers[-1].get("extends")) is not None and link.value is not None:
        problem = _linked(link, seen[-1] if seen else None, root, seen)
        if isinstance(problem, Finding):
            findings.add(problem)
            break
        try:
            base = parse(read_source(problem, _shown(problem, link)), findings)
        except SpecError as error:
            unread = error.findings[0]
            if unread.code == "F001":
                unread = Finding("S110", unread.message, link.place, link.path)
            findings.add(unread)
            break
        seen.append(problem)
        layers.append(base)
    merged = layers.pop()
    while layers:
        merged = _merge(_without_expect(merged), layers.pop())
    return merged


def _linked(link: Node, here: Path | None, root: Path | None, seen: list[Path]) -> Path | Finding:
    def refuse(message: str, hint: str = "") -> Finding:
        return Finding("S110", message, link.place, link.path, hint)

    if not isinstance(link.value, str):
        return refuse("`extends` names a file")
    if here is None:
        return refuse("`extends` needs a file to be relative to", "save the spec to a file")
    target = (here.parent / link.value).resolve()
    if target in seen:
        chain = " -> ".join(p.name for p in [*seen[seen.index(target) :], target])
        return refuse(f"`extends` goes in a circle: {chain}")
    allowed = (root or seen[0].parent).resolve()
    if not target.is_relative_to(allowed):
        return refuse(
            f"`{link.value}` lies outside {allowed.name or allowed}/",
            "a spec extends files of its own folder tree; `--root` widens it",
        )
    return target


def _shown(target: Path, link: Node) -> str:
    """A base file's name as the user would write it."""
    return str(Path(link.source.name).parent / str(link.value)) if link.value else str(target)


def _without_expect(tree: Node) -> Node:
    """`expect` holds for the file that says it, and is not inherited."""
    tree = _dropped(tree, "expect")
    variants = tree.get("variants")
    if variants is None or not isinstance(variants.value, dict):
        return tree
    kept = {name: _dropped(variant, "expect") for name, variant in variants.value.items()}
    return tree.replaced({**tree.value, "variants": variants.replaced(kept)})


def _dropped(node: Node, key: str) -> Node:
    if node.get(key) is None:
        return node
    return node.replaced({k: v for k, v in node.value.items() if k != key})


def _merge(base: Node, over: Node) -> Node:
    """Mappings merge, lists and scalars replace, null deletes."""
    if not isinstance(base.value, dict) or not isinstance(over.value, dict):
        return over
    merged = dict(base.value)
    for key, node in over.value.items():
        if node.value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged[key], node) if key in merged else node
    result = over.replaced(merged)
    result.keys = {**base.keys, **over.keys} if base.source is over.source else over.keys
    return result


# --- variants ----------------------------------------------------------------------------------------


def choose(tree: Node, wanted: Sequence[str], findings: Findings) -> list[Choice]:
    """The chosen variants with those they build on, each once, in order of application."""
    variants = tree.get("variants")
    known = variants.value if variants is not None and isinstance(variants.value, dict) else {}
    chosen: dict[str, Choice] = {}

    def visit(name: str, asked: Node | None, above: tuple[str, ...]) -> None:
        if name in above:
            if asked is not None:
                chain = " -> ".join([*above[above.index(name) :], name])
                findings.add(
                    Finding(
                        "S113", f"variants build on each other: {chain}", asked.place, asked.path
                    )
                )
            return
        if name in chosen:
            return
        if name not in known:
            hint = did_you_mean(name, known) or (f"there are {one_of(known)}" if known else "")
            place, path = (asked.place, asked.path) if asked is not None else (None, "")
            message = f"no variant `{name}`" + ("" if known else ": the spec has no variants")
            findings.add(Finding("S113", message, place, path, hint))
            return
        for base in _texts(known[name].get("of")):
            visit(str(base.value), base, (*above, name))
        chosen[name] = Choice(name, known[name])

    for name in wanted:
        visit(name, None, ())
    return list(chosen.values())


def _texts(node: Node | None) -> list[Node]:
    """One text or a list of texts, as nodes."""
    if node is None:
        return []
    items = node.value if isinstance(node.value, list) else [node]
    return [item for item in items if isinstance(item.value, str)]


# --- the order of application --------------------------------------------------------------------------


def resolve(tree: Node, choices: Sequence[Choice], findings: Findings) -> Node:
    """Apply what the chosen patches say of fields, tasks, params, levels; spell everything out."""
    if not isinstance(tree.value, dict):
        return tree
    sets = [
        (path, value, choice.node.get("set"))
        for choice in choices
        for path, value in _items(choice.node.get("set"))
    ]
    tree = _set_params(tree, sets, findings)
    for choice in choices:
        if (tasks := choice.node.get("tasks")) is not None:
            tree = _merge(tree, tree.replaced({"tasks": tasks}))
    lookup = _params(tree, findings)
    tree = _substitute(tree, lookup, findings)
    sets = [(p, _substitute(v, lookup, findings), at) for p, v, at in sets]
    tree = _expand(tree)
    for path, value, at in sets:
        if not path.startswith("params."):
            tree = _set(tree, path, value, at, findings)
    tree = _apply_defaults(tree, findings)
    return _drop(tree, [Choice("spec", tree), *choices], findings)


def _items(node: Node | None) -> Iterator[tuple[str, Node]]:
    if node is not None and isinstance(node.value, dict):
        yield from node.value.items()


def _with(tree: Node, **changes: Node) -> Node:
    return tree.replaced({**tree.value, **changes})


# --- params ------------------------------------------------------------------------------------------

Set = tuple[str, Node, Node | None]


def _set_params(tree: Node, sets: Sequence[Set], findings: Findings) -> Node:
    params = tree.get("params")
    known = dict(params.value) if params is not None and isinstance(params.value, dict) else {}
    for path, value, at in sets:
        head, _, name = path.partition(".")
        if head != "params":
            continue
        if name not in known:
            place = at.key_place(path) if at else None
            hint = did_you_mean(name, known)
            findings.add(Finding("G202", f"no parameter `{name}` to set", place, path, hint))
        known[name] = value
    return _with(tree, params=(params or tree).replaced(known)) if known else tree


def _params(tree: Node, findings: Findings) -> Callable[[str], int | float]:
    params = tree.get("params")
    values = {name: node.value for name, node in _items(params)}
    lookup = solve(values)
    for name, node in _items(params):
        if not PARAM_NAME.fullmatch(name):
            assert params is not None
            hint = "a-z, 0-9 and _"
            findings.add(
                Finding("S107", f"`{name}` is no name", params.key_place(name), node.path, hint)
            )
            continue
        try:
            lookup(name)
        except ArithmeticProblem as problem:
            findings.add(_param_finding(problem, node, values))
    return lookup


def _param_finding(problem: ArithmeticProblem, node: Node, known: dict[str, object]) -> Finding:
    hint = ""
    if isinstance(problem, UnknownParam):
        hint = did_you_mean(problem.name, known) or "declare it under `params`"
    return Finding("S109", str(problem), node.place, node.path, hint)


def _substitute(node: Node, lookup: Callable[[str], int | float], findings: Findings) -> Node:
    """Numbers in place of `$...`; nodes without one are kept as they are."""
    value = node.value
    if isinstance(value, str):
        if value[:1] != "$" or (text := expression(value)) is None:
            return node
        try:
            return node.replaced(evaluate(text, lookup))
        except ArithmeticProblem as problem:
            findings.add(_param_finding(problem, node, {}))
            return node
    if isinstance(value, dict):
        new = {key: _substitute(child, lookup, findings) for key, child in value.items()}
        return node.replaced(new) if any(new[k] is not value[k] for k in new) else node
    if isinstance(value, list):
        items = [_substitute(child, lookup, findings) for child in value]
        changed = any(a is not b for a, b in zip(items, value, strict=True))
        return node.replaced(items) if changed else node
    return node


# --- rows --------------------------------------------------------------------------------------------


def _expand(tree: Node) -> Node:
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
    return _with(tree, **changes)


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


# --- set ---------------------------------------------------------------------------------------------


def _set(tree: Node, path: str, value: Node, at: Node | None, findings: Findings) -> Node:
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


# --- defaults and dropped levels -------------------------------------------------------------------------


def _apply_defaults(tree: Node, findings: Findings) -> Node:
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
            place, words = defaults.key_place(word), sorted(_cell_words(tree))
            hint = did_you_mean(word, words)
            path = f"defaults.{word}"
            findings.add(Finding("G202", f"no cell `{word}` in this spec", place, path, hint))
    return _with(tree, **changes)


def _cell_words(tree: Node) -> set[str]:
    levels = tree.get("levels")
    rows = levels.value if levels is not None and isinstance(levels.value, list) else []
    cells = [row.get(side) for row in rows for side in ("encoder", "decoder")]
    words = [cell.get("cell") for cell in cells if cell is not None]
    return {str(word.value) for word in words if word is not None}


def _drop(tree: Node, choices: Sequence[Choice], findings: Findings) -> Node:
    """Remove the rows and tasks that `without: [level.NAME, task.NAME]` names."""
    for choice in choices:
        for node in _texts(choice.node.get("without")):
            try:
                selector = parse_selector(node.value)
            except NotationProblem:
                continue  # refused by the words
            if selector.kind == "level":
                tree = _drop_levels(tree, selector.pattern, node, findings)
            elif selector.kind == "task":
                tree = _drop_tasks(tree, selector.pattern, node, findings)
    return tree


def _drop_levels(tree: Node, pattern: str, node: Node, findings: Findings) -> Node:
    names = row_names(tree)
    kept = [i for i, name in enumerate(names) if name is None or not matches(name, pattern)]
    if len(kept) == len(names):
        hint = did_you_mean(pattern, [name for name in names if name])
        findings.add(Finding("G202", f"no level `{pattern}`", node.place, node.path, hint))
        return tree
    levels = tree.value["levels"]
    return _with(tree, levels=levels.replaced([levels.value[i] for i in kept]))


def _drop_tasks(tree: Node, pattern: str, node: Node, findings: Findings) -> Node:
    tasks = tree.get("tasks")
    known = tasks.value if tasks is not None and isinstance(tasks.value, dict) else {}
    kept = {name: task for name, task in known.items() if not matches(name, pattern)}
    if tasks is None or len(kept) == len(known):
        hint = did_you_mean(pattern, known)
        findings.add(Finding("G202", f"no task `{pattern}`", node.place, node.path, hint))
        return tree
    return _with(tree, tasks=tasks.replaced(kept))
