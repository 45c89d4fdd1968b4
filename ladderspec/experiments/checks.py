"""What words alone can say of a run before anything is trained: where it starts, what it names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from ladderspec.corridor import graph
from ladderspec.data import DataWords
from ladderspec.errors import Finding, Findings, did_you_mean, one_of, tick
from ladderspec.language.read import Spec
from ladderspec.learn.inputs import EvaluationNoise, noise_of, tasks_of
from ladderspec.learn.words import Evaluation, Training
from ladderspec.text.tree import Node

WATCHES = (("stop", "watch"), ("optimiser", "schedule", "watch"))


def check_starts(said: Mapping[str, Node | None], findings: Findings) -> None:
    """Every row starts from another row, or from a folder that is there."""
    starts = {row: None if node is None else node.value for row, node in said.items()}
    for row, node in said.items():
        if node is None or node.value is None:
            continue
        if node.value in starts:
            way = list(_way(starts, row))
            if way[-1] == row:
                message = f"{tick(row)} starts from itself"
                message += f": {' <- '.join([row, *way])}" if len(way) > 1 else ""
                findings.add(Finding("S105", message, node.place, node.path))
        elif not (Path(node.source.name).parent / node.value).is_dir():
            message = f"no row or folder {tick(node.value)} to start from"
            findings.add(_unknown(message, node.value, starts, node))


def _way(starts: dict[str, str | None], name: str) -> Iterator[str]:
    """The rows that a row starts from, one after another, until one comes again."""
    seen = set[str]()
    start = starts[name]
    while start in starts and start not in seen:
        yield start
        seen.add(start)
        start = starts[start]


def check_names(
    spec: Spec, training: Training, evaluation: Evaluation, said: Node, findings: Findings
) -> None:
    """Measures and tasks that training names are those of the network."""
    watched = [node for place in WATCHES if (node := _at(said, place)) is not None]
    clipped = training.optimiser.clip.tasks
    if not watched and not clipped:
        return
    wired = graph(spec)
    tasks = tasks_of(wired)
    measures = EvaluationNoise(evaluation.noise, noise_of(wired)).units(tasks)
    for node in watched:
        if node.value not in measures:
            findings.add(_unknown(f"no measure {tick(node.value)}", node.value, measures, node))
    for name in clipped:
        if name not in tasks:
            node = said.find(("optimiser", "clip", "tasks", name))[0]
            findings.add(_unknown(f"no task {tick(name)} to clip", name, tasks, node))


def check_noise(
    spec: Spec, row: str, evaluation: Evaluation, said: Node, findings: Findings
) -> None:
    """`noise: true` needs a network with noise on its input."""
    node = said.get("noise")
    if evaluation.noise and node is not None and noise_of(graph(spec)) is None:
        message = f"row {tick(row)} has no noise to evaluate with: its spec has no `input.noise`"
        hint = "like `set: {input.noise.gaussian: 0.3}`, or `noise: false`"
        findings.add(Finding("S105", message, node.place, node.path, hint))


def _at(said: Node, place: tuple[str, ...]) -> Node | None:
    node, depth = said.find(place)
    return node if depth == len(place) and node.value is not None else None


def check_batch(data: DataWords, training: Training, said: Node, findings: Findings) -> None:
    """A batch holds the labelled items that are asked for."""
    wanted, node = data.labelled_per_batch, said.get("labelled_per_batch")
    if wanted is not None and node is not None and wanted > training.batch:
        message = f"a batch of {training.batch} cannot hold {wanted} labelled items"
        findings.add(Finding("S106", message, node.place, node.path))


def _unknown(message: str, name: str, known: Collection[str], node: Node) -> Finding:
    hint = did_you_mean(name, known) or f"there are {one_of(known, 'and')}"
    return Finding("S105", message, node.place, node.path, hint)
