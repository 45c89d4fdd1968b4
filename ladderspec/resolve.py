"""Tree -> tree: variants, `params`, dropped levels and tasks; and the order of application.

Everything here works on trees that may still be wrong in other ways: what is not understood is left
for the words (spec.py) to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ladderspec.arithmetic import (
    PARAM_NAME,
    ArithmeticProblem,
    UnknownParam,
    evaluate,
    expression,
    solve,
)
from ladderspec.errors import Finding, Findings, did_you_mean, one_of
from ladderspec.extends import merge
from ladderspec.notation import NotationProblem, matches, parse_selector
from ladderspec.rows import assign, expand, fill_defaults, row_names
from ladderspec.tree import Node


@dataclass(frozen=True)
class Choice:
    """A patch that is to be applied: the spec's own, a variant, or the command line's."""

    name: str
    node: Node


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
            tree = merge(tree, tree.replaced({"tasks": tasks}))
    lookup = _params(tree, findings)
    tree = _substitute(tree, lookup, findings)
    sets = [(p, _substitute(v, lookup, findings), at) for p, v, at in sets]
    tree = expand(tree)
    for path, value, at in sets:
        if not path.startswith("params."):
            tree = assign(tree, path, value, at, findings)
    tree = fill_defaults(tree, findings)
    return _drop(tree, [Choice("spec", tree), *choices], findings)


def _items(node: Node | None) -> Iterator[tuple[str, Node]]:
    if node is not None and isinstance(node.value, dict):
        yield from node.value.items()


def _with(tree: Node, **changes: Node) -> Node:
    return tree.replaced({**tree.value, **changes})


# --- variants -------------------------------------------------------------------------------------


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


# --- params ---------------------------------------------------------------------------------------

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


# --- dropped levels and tasks ---------------------------------------------------------------------


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
