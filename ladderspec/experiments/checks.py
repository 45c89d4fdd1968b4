"""Checks of an experiment before anything is trained: names, starts, metrics, paper, freeze."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ladderspec.api import graph
from ladderspec.data import DataConfig
from ladderspec.errors import Finding, Findings, did_you_mean, one_of, tick
from ladderspec.experiments.config import ExperimentConfig
from ladderspec.experiments.runs import Run
from ladderspec.experiments.training import (
    TEACHER,
    EvaluationConfig,
    EvaluationNoise,
    TrainingConfig,
    noise_of,
    tasks_of,
)
from ladderspec.language.read import Spec
from ladderspec.text.notation import matches, parse_selector
from ladderspec.text.tree import Node
from ladderspec.wiring.graph import Graph, steps_of
from ladderspec.wiring.selection import select
from ladderspec.wiring.sharing import holders

_WATCHES = (("stop", "watch"), ("optimiser", "schedule", "watch"))


def check_tables(config: ExperimentConfig, tree: Node, findings: Findings) -> None:
    """The names of rows and of columns are unique, and `base` is one of the rows."""
    for table in ("rows", "columns"):
        seen = set[str]()
        for item in tree.value[table].value if table in tree.value else ():
            name = item.value["name"]
            if name.value in seen:
                message = f"two {table} are called {tick(name.value)}"
                findings.add(Finding("S107", message, name.place, name.path))
            seen.add(name.value)
    names, base = [row.name for row in config.rows], tree.get("base")
    if base is not None and base.value is not None and base.value not in names:
        findings.add(_unknown(f"no row {tick(base.value)}", base.value, names, base))


def check_length(training: TrainingConfig, section: Node, findings: Findings) -> None:
    """Training has either `updates` or `epochs`."""
    if (training.updates is None) == (training.epochs is None):
        both = training.updates is not None
        message = "both `updates` and `epochs`" if both else "neither `updates` nor `epochs`"
        code, hint = "S105" if both else "S102", "like `updates: 1000` or `epochs: 10`"
        findings.add(Finding(code, message, section.mark, section.path, hint))


def check_starts(nodes: Mapping[str, Node | None], findings: Findings) -> None:
    """`start` names another row or an existing folder, and no row starts from itself."""
    starts = {row: None if node is None else node.value for row, node in nodes.items()}
    for row, node in nodes.items():
        if node is None or node.value is None:
            continue
        if node.value in starts:
            chain = list(_chain(starts, row))
            if chain[-1] == row:
                message = f"{tick(row)} starts from itself"
                message += f": {' <- '.join([row, *chain])}" if len(chain) > 1 else ""
                findings.add(Finding("S105", message, node.place, node.path))
        elif not os.path.isdir(Path(node.source.name).parent / node.value):
            message = f"no row or folder {tick(node.value)} to start from"
            findings.add(_unknown(message, node.value, starts, node))


def _chain(starts: dict[str, str | None], name: str) -> Iterator[str]:
    """The rows that a row starts from, one after another, until one is repeated."""
    seen = set[str]()
    start = starts[name]
    while start in starts and start not in seen:
        yield start
        seen.add(start)
        start = starts[start]


def check_names(
    spec: Spec,
    training: TrainingConfig,
    evaluation: EvaluationConfig,
    section: Node,
    findings: Findings,
) -> None:
    """The metrics and tasks that the section `training` names exist in the network."""
    watched = [node for path in _WATCHES if (node := _at(section, path)) is not None]
    clipped = training.optimiser.clip.tasks
    if not watched and not clipped:
        return
    wired = graph(spec)
    tasks = tasks_of(wired)
    metrics = EvaluationNoise(evaluation.noise, noise_of(wired)).metrics(tasks)
    for node in watched:
        if node.value not in metrics:
            findings.add(_unknown_measure(node, metrics))
    for name in clipped:
        if name not in tasks:
            node = section.find(("optimiser", "clip", "tasks", name))[0]
            findings.add(_unknown(f"no task {tick(name)} to clip", name, tasks, node))


def _unknown_measure(node: Node, metrics: Collection[str]) -> Finding:
    """All measures of a task that the name begins with, else those that there are."""
    message, task = f"no measure {tick(node.value)}", str(node.value).partition(".")[0]
    if measures := [name for name in metrics if name.startswith(f"{task}.")]:
        hint = f"task `{task}` is measured by {one_of(measures, 'and')}"
        return Finding("S105", message, node.place, node.path, hint)
    return _unknown(message, node.value, metrics, node)


def _at(section: Node, path: tuple[str, ...]) -> Node | None:
    node, depth = section.find(path)
    return node if depth == len(path) and node.value is not None else None


def check_noise(
    spec: Spec, row: str, evaluation: EvaluationConfig, section: Node, findings: Findings
) -> None:
    """`evaluation: {noise: true}` needs a network with input noise."""
    node = section.get("noise")
    if evaluation.noise and node is not None and noise_of(graph(spec)) is None:
        message = f"row {tick(row)} has no noise to evaluate with: its spec has no `input.noise`"
        hint = "like `set: {input.noise.gaussian: 0.3}`, or `noise: false`"
        findings.add(Finding("S105", message, node.place, node.path, hint))


def check_batch(
    data: DataConfig, training: TrainingConfig, section: Node, findings: Findings
) -> None:
    """A batch has room for the `labelled_per_batch` of the section `data`."""
    wanted, node = data.labelled_per_batch, section.get("labelled_per_batch")
    if wanted is not None and node is not None and wanted > training.batch:
        message = f"a batch of {training.batch} cannot hold {wanted} labelled items"
        findings.add(Finding("S106", message, node.place, node.path))


def check_baselines(names: Iterable[Node], data: Iterable[DataConfig], findings: Findings) -> None:
    """Every name in `baselines` is one that the data offer."""
    for node in names:
        for config in data:
            known = config.baselines()
            if node.value not in known:
                hint = "leave out `baselines`: this data set offers none"
                if known:
                    hint = did_you_mean(node.value, known) or f"it offers {one_of(known, 'and')}"
                message = f"{config.set} has no baseline {tick(node.value)}"
                findings.add(Finding("S105", message, node.place, node.path, hint))
                break


def _unknown(message: str, name: str, known: Collection[str], node: Node) -> Finding:
    hint = did_you_mean(name, known) or f"there are {one_of(known, 'and')}"
    return Finding("S105", message, node.place, node.path, hint)


# --- frozen parameters ----------------------------------------------------------------------------


def check_frozen(graph: Graph, selectors: Iterable[Node], findings: Findings) -> None:
    """Every selector of `freeze` selects something."""
    for node in selectors:
        if not frozen_prefixes(graph, node.value):
            message = f"{tick(node.value)} selects nothing to freeze"
            findings.add(Finding("G202", message, node.place, node.path))


def frozen_prefixes(graph: Graph, text: str) -> list[str]:
    """Prefixes of the names of the parameters that a selector of `freeze` selects.

    Shared parameters have the name of their owner: a cell that shares freezes them for all.
    """
    selector = parse_selector(text)
    if selector.kind == "task":
        return [f"task.{name}." for name in graph.graph["tasks"] if matches(name, selector.pattern)]
    if selector.kind == "level":
        levels = graph.nodes(data="level")
        found = [f"{node}." for node, level in levels if matches(level, selector.pattern)]
    else:
        nodes, edges = select(graph, selector)
        found = [f"{node}." for node in nodes] + [f"{target}.{key}." for _, target, key in edges]
    return found + [
        f"{holder.attributes['shared']}.{name}"
        for holder in holders(graph)
        if holder.attributes["shared"] and f"{holder.name}.".startswith(tuple(found))
        for name in holder.parameters
    ]


# --- the paper's numbers --------------------------------------------------------------------------


def check_paper(
    config: ExperimentConfig, tree: Node, cells: Sequence[Run], findings: Findings
) -> None:
    """Every number of the paper belongs to one cell of the table and to one of its metrics."""
    measures = _measures(cells)
    rows, columns = ([each.name for each in table] for table in (config.rows, config.columns))
    steps = {run.row: steps_of(run.graph) for run in cells}
    for table, others, kind in (("rows", columns, "column"), ("columns", rows, "row")):
        for change in tree.value[table].value if table in tree.value else ():
            paper, owner = change.get("paper"), change.value["name"].value
            for name, node in paper.value.items() if paper is not None else ():
                if isinstance(node.value, dict):
                    _check_name(name, node, others, kind, findings)
                    for inner, number in node.value.items():
                        _check_name(inner, number, measures, "measure", findings)
                        _check_count(
                            number, steps.get(owner if table == "rows" else name), findings
                        )
                elif len(others) > 1:
                    _refuse_everywhere(name, node, others, kind, findings)
                else:
                    _check_name(name, node, measures, "measure", findings)
                    _check_count(node, steps.get(owner if table == "rows" else rows[0]), findings)


def _measures(cells: Iterable[Run]) -> list[str]:
    """All metrics of any network: `digit`, `digit.error`, `teacher.digit.error`."""
    found: dict[str, None] = {}
    for run in cells:
        tasks = run.spec.config.tasks
        units = EvaluationNoise(run.evaluation.noise, run.spec.config.input.noise).metrics(tasks)
        names = [*tasks, *units]
        found |= dict.fromkeys([*names, *(f"{TEACHER}{each}" for each in names)])
    return list(found)


def _check_count(node: Node, steps: int | None, findings: Findings) -> None:
    """A list of numbers has one for each iteration."""
    if isinstance(node.value, list) and len(node.value) != steps:
        many = "any number of frames" if steps is None else f"{steps} iterations"
        message = f"{len(node.value)} numbers, but the network has {many}"
        hint = "give one number" + (f", or {steps}" if steps is not None else "")
        findings.add(Finding("S106", message, node.place, node.path, hint))


def _check_name(name: str, node: Node, known: Sequence[str], kind: str, findings: Findings) -> None:
    if name not in known:
        plain = [each for each in known if "." not in each]
        hint = did_you_mean(name, known) or (f"there are {one_of(plain, 'and')}" if plain else "")
        findings.add(Finding("S105", f"no {kind} {tick(name)}", node.place, node.path, hint))


def _refuse_everywhere(
    name: str, node: Node, others: Sequence[str], kind: str, findings: Findings
) -> None:
    message = f"{tick(name)} would apply to all {len(others)} {kind}s"
    hint = f"say of which {kind}: `paper: {{{others[0]}: {{{name}: {node.plain()}}}}}`"
    findings.add(Finding("S105", message, node.place, node.path, hint))
