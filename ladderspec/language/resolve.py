"""Tree -> tree: variants, `params`, dropped levels and tasks; and the order of application.

Everything here works on trees that may still have other mistakes: what is not understood is left
for the models (spec.py) to refuse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ladderspec.errors import (
    Finding,
    Findings,
    did_you_mean,
    name_or_pattern_meant,
    one_of,
    tick,
)
from ladderspec.language.extends import merge
from ladderspec.language.rows import cell_names, expand, fill_defaults, row_names
from ladderspec.language.values import assign, check_used, set_params, solve_params, substitute
from ladderspec.names import GROUPS, INPUT
from ladderspec.text.notation import NotationProblem, matches, parse_selector
from ladderspec.text.tree import Node, items_of

NO_GROUPS = "a network without groups has no `groups` and another decoder than Readout"


@dataclass(frozen=True)
class Choice:
    """A patch to apply: a variant, or the changes of the command line."""

    name: str
    node: Node


def resolve(tree: Node, choices: Sequence[Choice], findings: Findings) -> Node:
    """Apply the fields, tasks and params of the chosen patches; expand the rows."""
    if not isinstance(tree.value, dict):
        return tree
    sets = [
        (path, value, table)
        for choice in choices
        if (table := choice.node.get("set")) is not None
        for path, value in items_of(table)
    ]
    tree = set_params(tree, sets, findings)
    tree, gone = _drop(tree, tree, "task", findings), set[str]()
    for choice in choices:  # remove, then add
        before = {name for name, _ in items_of(tree.get("tasks"))}
        tree = _drop(tree, choice.node, "task", findings)
        gone |= before - {name for name, _ in items_of(tree.get("tasks"))}
        if (tasks := choice.node.get("tasks")) is not None:
            tree = _merge_tasks(tree, tasks, findings)
    lookup = solve_params(tree, findings)
    check_used(tree, [value for _, value, _ in sets], findings)
    known = [name for name, _ in items_of(tree.get("params"))]
    tree = substitute(tree, lookup, known, findings)
    sets = [(path, substitute(value, lookup, known, findings), at) for path, value, at in sets]
    tree = expand(tree, findings)
    written = cell_names(tree)
    for path, value, at in sets:
        if _task_of(path) in gone and tree.find(("tasks", _task_of(path)))[1] < 2:
            continue  # the task is removed by another patch
        if not path.startswith("params.") and not findings.enough:
            tree = assign(tree, path, value, at, findings)
    return fill_defaults(tree, written, findings)


def drop_levels(tree: Node, choices: Sequence[Choice], findings: Findings) -> Node:
    """Remove the rows that the spec or the chosen patches drop."""
    if not isinstance(tree.value, dict):
        return tree
    for patch in [tree, *(choice.node for choice in choices)]:
        tree = _drop(tree, patch, "level", findings)
    return tree


def _task_of(path: str) -> str:
    """The task that a path of `set` names."""
    head, _, rest = path.partition(".")
    return rest.partition(".")[0] if head == "task" else ""


def _merge_tasks(tree: Node, tasks: Node, findings: Findings) -> Node:
    there = tree.get("tasks")
    for name, node in items_of(tasks):
        if node.value is None and (there is None or there.get(name) is None):
            known = [each for each, _ in items_of(there)]
            hint = did_you_mean(name, known)
            findings.add(
                Finding("G202", f"no task {tick(name)} to remove", node.place, node.path, hint)
            )
    return merge(tree, tree.replaced({"tasks": tasks}))


def _with(tree: Node, **changes: Node) -> Node:
    return tree.replaced({**tree.value, **changes})


# --- variants -------------------------------------------------------------------------------------


def choose(tree: Node, wanted: Sequence[str], findings: Findings) -> list[Choice]:
    """The chosen variants with those they build on, each once, in order of application."""
    known = dict(items_of(tree.get("variants")))
    chosen: dict[str, Choice] = {}
    done: set[str] = set()
    stack: list[tuple[str, Node | None]] = [(name, None) for name in reversed(wanted)]
    above: list[str] = []
    while stack:
        name, asked = stack.pop()
        if above and above[-1] == name and asked is known[name]:  # after all that it builds on
            chosen.setdefault(above.pop(), Choice(name, known[name]))
        elif name in above:
            findings.add(_circle(above[above.index(name) :], known))
        elif name not in known:
            asking = {*above, *wanted} if asked is not None else set()
            others = {each: node for each, node in known.items() if each not in asking}
            findings.add(_no_variant(name, asked, others))
        elif name not in done:
            done.add(name)
            above.append(name)
            stack.append((name, known[name]))
            bases = _texts(known[name].get("of"))
            stack += [(base.value, base) for base in reversed(bases)]
    return list(chosen.values())


def _circle(names: Sequence[str], known: Mapping[str, Node]) -> Finding:
    """A cycle of variants, reported from the one that comes first in the text."""
    order = list(known)
    first = min(range(len(names)), key=lambda i: order.index(names[i]))
    chain = [*names[first:], *names[:first], names[first]]
    asked = next(n for n in _texts(known[chain[0]].get("of")) if n.value == chain[1])
    shown = " -> ".join(chain)
    message = f"a variant builds on itself: {shown}"
    return Finding("S113", message, asked.place, asked.path, "remove one `of`")


def _no_variant(name: str, asked: Node | None, known: Mapping[str, Node]) -> Finding:
    hint = did_you_mean(name, known) or (
        f"known: {one_of(list(known)[:12], 'and')}" if known else ""
    )
    place, path = (asked.place, asked.path) if asked is not None else (None, "")
    message = f"no variant {tick(name)}" + ("" if known else ": the spec has no variants")
    return Finding("S113", message, place, path, hint)


def _texts(node: Node | None) -> list[Node]:
    """One text or a list of texts, as nodes."""
    if node is None:
        return []
    items = node.value if isinstance(node.value, list) else [node]
    return [item for item in items if isinstance(item.value, str)]


# --- dropped levels and tasks ---------------------------------------------------------------------


def _drop(tree: Node, patch: Node, kind: str, findings: Findings) -> Node:
    """Remove the rows or tasks that `without: [level.NAME, task.NAME]` of a patch names."""
    drop = {"level": _drop_levels, "task": _drop_tasks}[kind]
    for node in _texts(patch.get("without")):
        if findings.enough:
            return tree
        if not node.value.strip().startswith(f"{kind}."):
            continue
        try:
            selector = parse_selector(node.value)
        except NotationProblem:
            continue  # refused by the models
        tree = drop(tree, selector.pattern, node, findings)
    return tree


def _drop_levels(tree: Node, pattern: str, node: Node, findings: Findings) -> Node:
    names = row_names(tree)
    left = [i for i, name in enumerate(names) if name is None or not matches(name, pattern)]
    if len(left) == len(names):
        known = [name for name in names if name]
        there = f"known: {one_of(known[:12], 'and')}" if known else ""
        meant = name_or_pattern_meant(pattern, known)
        hint = meant.replace("`", "`level.", 1) or there
        message = f"no level {tick(pattern)}"
        if pattern == INPUT:
            message, hint = "the input cannot be removed", ""
        elif pattern == GROUPS and tree.get("groups") is not None:
            message = "the level of the groups cannot be removed"
            hint = NO_GROUPS
        findings.add(Finding("G202", message, node.place, node.path, hint))
        return tree
    if not left:
        message = f"{tick(node.value)} would remove every row"
        findings.add(Finding("G205", message, node.place, node.path))
        return tree
    levels = tree.value["levels"]
    first = levels.value[left[0]].get("decoder")
    cell = first and (first.get("cell") or first).value
    if tree.get("groups") is not None and left[0] > 0 and cell != "Readout":
        message = f"{tick(node.value)} would remove the decoder that makes mu and pi of the groups"
        hint = f"let the next row make them: `set: {{decoder.{names[left[0] - 1]}.cell: Readout}}`"
        findings.add(Finding("G205", message, node.place, node.path, hint))
        return tree
    return _with(tree, levels=levels.replaced([levels.value[i] for i in left]))


def _drop_tasks(tree: Node, pattern: str, node: Node, findings: Findings) -> Node:
    tasks = tree.get("tasks")
    known = dict(items_of(tasks))
    left = {name: task for name, task in known.items() if not matches(name, pattern)}
    if tasks is None or len(left) == len(known):
        hint = did_you_mean(pattern, known) or ("" if known else "the spec has no tasks")
        message = f"no task {tick(pattern)}"
        findings.add(Finding("G202", message, node.place, node.path, hint))
        return tree
    return _with(tree, tasks=tasks.replaced(left))
