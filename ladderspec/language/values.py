"""Tree -> tree: the numbers of `params`, and the fields that `set` changes by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ladderspec.errors import Finding, Findings, Problem, did_you_mean, one_of, spell, tick
from ladderspec.language.rows import row_names
from ladderspec.names import INPUT
from ladderspec.text.arithmetic import (
    FOREIGN,
    PARAM_NAME,
    ArithmeticProblem,
    BrokenParam,
    Lookup,
    UnknownParam,
    evaluate,
    expression,
    names_in,
    solve,
)
from ladderspec.text.notation import matches
from ladderspec.text.tree import Node, Span, items_of

Set = tuple[str, Node, Node]


def set_params(tree: Node, sets: Sequence[Set], findings: Findings) -> Node:
    params = tree.get("params")
    known = dict(items_of(params))
    for path, value, at in sets:
        head, _, name = path.partition(".")
        if head != "params":
            continue
        if name not in known:
            there = (
                f"known: {one_of(list(known)[:12], 'and')}" if known else "there are no `params`"
            )
            hint = did_you_mean(name, known) or there
            place, where = at.key_place(path), f"{at.path}.{path}".lstrip(".")
            findings.add(Finding("G202", f"no parameter {tick(name)} to set", place, where, hint))
        else:
            known[name] = value
    return (
        tree.replaced({**tree.value, "params": params.replaced(known)})
        if params is not None and known
        else tree
    )


def solve_params(tree: Node, findings: Findings) -> Lookup:
    params = tree.get("params")
    lookup = solve({name: node.value for name, node in items_of(params)})
    known = [name for name, _ in items_of(params)]
    for name, node in items_of(params):
        if findings.enough:
            break
        if not PARAM_NAME.fullmatch(name):
            assert params is not None
            meant = spell(name)
            hint = f"did you mean `{meant}`?" if meant else "a-z, 0-9 and _"
            if meant and meant == name.lower():
                hint = f"names of parameters are lower case: `{meant}`"
            place = params.key_place(name)
            findings.add(
                Finding("S107", f"{tick(name)} is not a valid name", place, node.path, hint)
            )
            continue
        try:
            lookup(name)
        except ArithmeticProblem as problem:
            _report(problem, node, known, findings)
    return lookup


def check_used(tree: Node, others: Sequence[Node], findings: Findings) -> None:
    """A parameter that nothing uses is most likely misspelt; an inherited one may be unused."""
    params = dict(items_of(tree.get("params")))
    own = {name: node for name, node in params.items() if node.source is tree.source}
    used = {each for node in [tree, *others] for each in _names_in(node)} if own else set()
    if used - params.keys():
        return  # an unknown one was probably meant to be an unused one
    inherited = [name for name in params if name not in own]
    for name, node in own.items():
        place = tree.value["params"].key_place(name)
        reported = findings.blames(place) or findings.blames(node.place)
        if name not in used and not reported and not findings.enough:
            hint = did_you_mean(name, inherited) or f"use it as `${name}`, or remove it"
            message = f"nothing uses the parameter {tick(name)}"
            findings.add(Finding("G202", message, place, node.path, hint))


def _names_in(node: Node) -> Iterator[str]:
    """The parameters that the texts below a node use."""
    value = node.value
    if isinstance(value, str):
        if value[:1] == "$" and (text := expression(value)) is not None:
            yield from names_in(text)
        elif foreign := FOREIGN.search(value):  # refused where a number is needed
            yield foreign[1] or foreign[2]
    elif isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from _names_in(child)


def _report(
    problem: ArithmeticProblem, node: Node, known: Sequence[str], findings: Findings
) -> None:
    if isinstance(problem, BrokenParam):
        findings.blame(node.place)  # reported where the parameter is defined
        return
    hint = problem.hint
    if isinstance(problem, UnknownParam):
        there = f"known: {one_of(known[:12], 'and')}" if known else "declare it under `params`"
        hint = did_you_mean(problem.name, known) or there
    findings.add(Finding("S109", problem.message, node.place, node.path, hint))


def substitute(node: Node, lookup: Lookup, known: Sequence[str], findings: Findings) -> Node:
    """Replace `$...` by numbers; nodes without one stay the same objects."""
    value = node.value
    if isinstance(value, str):
        if value[:1] != "$" or (text := expression(value)) is None:
            return node
        try:
            return node.replaced(evaluate(text, lookup))
        except ArithmeticProblem as problem:
            if not findings.blames(node.place) and not findings.enough:
                _report(problem, node, known, findings)
            return node
    if isinstance(value, dict):
        new = {key: substitute(child, lookup, known, findings) for key, child in value.items()}
        return node.replaced(new) if any(new[k] is not value[k] for k in new) else node
    if isinstance(value, list):
        items = [substitute(child, lookup, known, findings) for child in value]
        changed = any(a is not b for a, b in zip(items, value, strict=True))
        return node.replaced(items) if changed else node
    return node


# --- set ------------------------------------------------------------------------------------------

Path = tuple[str | int, ...]

_TABLES = {"task": "tasks", "lateral": "laterals", "inputs": "inputs"}
_EXAMPLES = "`encoder.NAME.FIELD`, `decoder.NAME.FIELD`, `task.NAME.FIELD` or `params.NAME`"


class Refused(Problem):
    """A path that leads nowhere."""


def assign(tree: Node, path: str, value: Node, at: Node, findings: Findings) -> Node:
    """Set the field at `path`, like `encoder.lstm1.channels`; `at` is the `set` table with it."""
    try:
        targets = _targets(tree, path)
    except Refused as refused:
        place, where = at.key_place(path), f"{at.path}.{path}".lstrip(".")
        findings.add(Finding("G202", refused.message, place, where, refused.hint))
        return tree
    key = at.key_place(path)
    for target in targets:
        tree = _put(tree, target, value, (key.source, key.start, key.end))
    return tree


def _targets(tree: Node, path: str) -> list[Path]:
    """The places in the tree that a path names; a pattern may name several."""
    head, _, rest = path.partition(".")
    name, _, field = rest.partition(".")
    if head == "input" and field and name in dict(items_of(tree.get("inputs"))):
        raise Refused(f"{tick(path)} cannot be set", f"write `inputs.{rest}`")
    if head == "groups" and rest != "count" and tree.get("groups") is None:
        raise Refused(f"{tick(path)} cannot be set: the spec has no `groups`")
    if head in ("input", "time", "groups", "defaults") and rest:
        return [tuple(path.split("."))]
    if head in _TABLES:
        table = tree.get(_TABLES[head])
        known = list(table.value) if table is not None and isinstance(table.value, dict) else []
        places: dict[str, Path] = {each: (_TABLES[head], each) for each in known}
    elif head == "encoder":
        places = {n: ("levels", i, head) for i, n in enumerate(row_names(tree)) if n}
    elif head == "decoder":
        places = _decoders(tree)
    else:
        is_param = path in dict(items_of(tree.get("params")))
        meant = f"did you mean `params.{path}`?" if is_param else f"like {_EXAMPLES}"
        raise Refused(f"{tick(path)} cannot be set", meant)
    found = [place for each, place in places.items() if matches(each, name)]
    if not found and (head in _TABLES or not _doubtful(tree)):
        raise Refused(f"no {tick(f'{head}.{name}')} to set", _instead(tree, head, name, places))
    if not field:
        example = "weight" if head == "task" else "channels"
        raise Refused(f"{tick(path)} names no field", f"like `{head}.{name}.{example}`")
    return [(*place, *field.split(".")) for place in found]


def _decoders(tree: Node) -> dict[str, Path]:
    """The place of the decoder of each level: in the row above it, or in `top`."""
    names = row_names(tree)
    places: dict[str, Path] = {}
    for index, level in enumerate([INPUT, *names]):
        where: Path = ("top",) if index == len(names) else ("levels", index, "decoder")
        if level and tree.find(where)[1] == len(where):
            places[level] = where
    return places


def _doubtful(tree: Node) -> bool:
    """Whether rows are wrong, so that a name may be missing for that reason."""
    names = row_names(tree)
    return not names or None in names


def _instead(tree: Node, head: str, name: str, places: dict[str, Path]) -> str:
    names = [INPUT, *(n for n in row_names(tree) if n)]
    if head == "decoder" and name in names:
        return "the decoder of a level is on the row above it; that of the last level is `top`"
    if head == "encoder" and name == INPUT:
        return "like `input.channels`"
    if close := did_you_mean(name, places):
        return close.replace("`", f"`{head}.", 1)
    known = [f"{head}.{place}" for place in list(places)[:6]]
    table = _TABLES.get(head, head)
    return f"known: {one_of(known, 'and')}" if known else f"the spec has no `{table}`"


def _put(node: Node, path: Path, value: Node, span: Span) -> Node:
    if not path:
        return value
    head, rest = path[0], path[1:]
    if isinstance(node.value, list) and isinstance(head, int):
        items = list(node.value)
        items[head] = _put(items[head], rest, value, span)
        return node.replaced(items)
    fields = node.value if isinstance(node.value, dict) else {}
    inside = fields.get(str(head))
    if inside is None or (rest and not isinstance(inside.value, dict | list)):
        inside = value.replaced({})  # written by the patch, so mistakes in it are reported there
        inside.keys = {}
    changed = node.replaced({**fields, str(head): _put(inside, rest, value, span)})
    changed.keys = {**node.keys, str(head): span} if str(head) not in fields else node.keys
    return changed
