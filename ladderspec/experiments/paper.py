"""The paper's numbers: which belong to a cell of the table, and which to none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ladderspec.errors import Finding, Findings, did_you_mean, one_of, tick
from ladderspec.experiments.runs import Run
from ladderspec.experiments.words import Change, Column, ExperimentWords, Quoted, Row
from ladderspec.learn.inputs import EvaluationNoise
from ladderspec.learn.words import TEACHER
from ladderspec.text.tree import Node


def paper_of(row: Row, column: Column | None) -> dict[str, Quoted]:
    """What the paper reports of a cell: `digit`, or `{column: {digit: ...}}`."""
    found: dict[str, Any] = {}
    changes: list[tuple[Change, str]] = [(row, column.name if column else "")]
    if column is not None:
        changes.append((column, row.name))
    for change, other in changes:
        plain = {k: v for k, v in change.paper.items() if isinstance(v, Quoted)}
        beside = change.paper.get(other, {})
        found |= plain | (beside if isinstance(beside, dict) else {})
    return found


def check_paper(
    words: ExperimentWords, tree: Node, cells: Sequence[Run], findings: Findings
) -> None:
    """A number is of one cell, and of something that is measured there."""
    measures = _measures(cells)
    rows, columns = ([each.name for each in table] for table in (words.rows, words.columns))
    for table, others, kind in (("rows", columns, "column"), ("columns", rows, "row")):
        for change in tree.value[table].value if table in tree.value else ():
            paper = change.get("paper")
            for name, node in paper.value.items() if paper is not None else ():
                if isinstance(node.value, dict):
                    _check_name(name, node, others, kind, findings)
                    for inner, number in node.value.items():
                        _check_name(inner, number, measures, "measure", findings)
                elif len(others) > 1:
                    _refuse_everywhere(name, node, others, kind, findings)
                else:
                    _check_name(name, node, measures, "measure", findings)


def _measures(cells: Iterable[Run]) -> list[str]:
    """All that any network of the table reports: `digit`, `digit.error`, `teacher.digit.error`."""
    found: dict[str, None] = {}
    for run in cells:
        tasks = run.spec.words.tasks
        units = EvaluationNoise(run.evaluation.noise, run.spec.words.input.noise).units(tasks)
        names = [*tasks, *units]
        found |= dict.fromkeys([*names, *(f"{TEACHER}{each}" for each in names)])
    return list(found)


def _check_name(name: str, node: Node, known: Sequence[str], kind: str, findings: Findings) -> None:
    if name not in known:
        plain = [each for each in known if "." not in each]
        hint = did_you_mean(name, known) or (f"there are {one_of(plain, 'and')}" if plain else "")
        findings.add(Finding("S105", f"no {kind} {tick(name)}", node.place, node.path, hint))


def _refuse_everywhere(
    name: str, node: Node, others: Sequence[str], kind: str, findings: Findings
) -> None:
    message = f"{tick(name)} would stand in all {len(others)} {kind}s"
    hint = f"say of which {kind}: `paper: {{{others[0]}: {{{name}: {node.value}}}}}`"
    findings.add(Finding("S105", message, node.place, node.path, hint))
