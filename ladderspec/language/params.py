"""Tree -> tree: `params`, and the numbers they stand for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ladderspec.errors import Finding, Findings, did_you_mean, one_of, spell, tick
from ladderspec.text.arithmetic import (
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
from ladderspec.text.tree import Node, items_of

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
            hint = f"did you mean `{spell(name)}`?" if spell(name) else "a-z, 0-9 and _"
            place = params.key_place(name)
            findings.add(Finding("S107", f"{tick(name)} is no name", place, node.path, hint))
            continue
        try:
            lookup(name)
        except ArithmeticProblem as problem:
            _report(problem, node, known, findings)
    return lookup


def check_used(tree: Node, others: Sequence[Node], findings: Findings) -> None:
    """A parameter that nothing uses is most likely misspelt; an inherited one may stand idle."""
    params = dict(items_of(tree.get("params")))
    own = {name: node for name, node in params.items() if node.source is tree.source}
    used = {word for node in [tree, *others] for word in _names_in(node)} if own else set()
    if used - params.keys():
        return  # one that is not there was meant for one that stands idle
    inherited = [name for name in params if name not in own]
    for name, node in own.items():
        place = tree.value["params"].key_place(name)
        said = findings.blames(place) or findings.blames(node.place)
        if name not in used and not said and not findings.enough:
            hint = did_you_mean(name, inherited) or f"use it as `${name}`, or remove it"
            message = f"nothing uses the parameter {tick(name)}"
            findings.add(Finding("G202", message, place, node.path, hint))


def _names_in(node: Node) -> Iterator[str]:
    """The parameters that the texts below a node speak of."""
    value = node.value
    if isinstance(value, str):
        if value[:1] == "$" and (text := expression(value)) is not None:
            yield from names_in(text)
    elif isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from _names_in(child)


def _report(
    problem: ArithmeticProblem, node: Node, known: Sequence[str], findings: Findings
) -> None:
    if isinstance(problem, BrokenParam):
        findings.blame(node.place)  # said where the parameter is defined
        return
    hint = problem.hint
    if isinstance(problem, UnknownParam):
        there = f"known: {one_of(known[:12], 'and')}" if known else "declare it under `params`"
        hint = did_you_mean(problem.name, known) or there
    findings.add(Finding("S109", problem.message, node.place, node.path, hint))


def substitute(node: Node, lookup: Lookup, known: Sequence[str], findings: Findings) -> Node:
    """Numbers in place of `$...`; nodes without one are kept as they are."""
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
