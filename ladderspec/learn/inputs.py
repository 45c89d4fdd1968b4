"""The input of each task in evaluation: with the noise of the spec, without it, or both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ladderspec.cells.input import Noise
from ladderspec.tasks import Task
from ladderspec.wiring.graph import Graph

CLEAN = "clean_"  # `denoise.clean_error`: on clean input, beside `denoise.error` on noisy input


@dataclass(frozen=True)
class Pass:
    """One run over the data: the tasks that are measured, each with the prefix of its measures."""

    noisy: bool
    prefixes: dict[str, str]


@dataclass(frozen=True)
class EvaluationNoise:
    """`evaluation.noise` of an experiment, together with `input.noise` of the network."""

    choice: bool | None
    noise: Noise | None

    def inputs(self, task: Task) -> dict[str, bool]:
        """Whether noise is added, by the prefix of the measures.

        >>> from ladderspec.tasks import Denoising
        >>> task = Denoising(kind="denoising", at="decoder.input")
        >>> EvaluationNoise(None, Noise(gaussian=0.3)).inputs(task)
        {'': True, 'clean_': False}
        """
        if self.noise is None or not self.noise.active or self.choice is False:
            return {"": False}
        if self.choice:
            return {"": True}
        return {"": True, CLEAN: False} if task.denoises else {"": False}

    def any_noisy(self, tasks: Mapping[str, Task]) -> bool:
        """Whether any task is measured on noisy input."""
        return any(noisy for task in tasks.values() for noisy in self.inputs(task).values())

    def passes(self, tasks: Mapping[str, Task]) -> list[Pass]:
        """The passes over the data that measure all tasks, that on noisy input first."""
        found: dict[bool, dict[str, str]] = {}
        for name, task in tasks.items():
            for prefix, noisy in self.inputs(task).items():
                found.setdefault(noisy, {})[name] = prefix
        kinds = [noisy for noisy in (True, False) if noisy in found]
        return [Pass(noisy, found[noisy]) for noisy in kinds] or [Pass(False, {})]

    def units(self, tasks: Mapping[str, Task]) -> dict[str, str]:
        """`{"digit.error": "%", ...}`, the most telling measure of each task first."""
        return {
            f"{name}.{prefix}{measure}": unit
            for name, task in tasks.items()
            for prefix in self.inputs(task)
            for measure, unit in task.units.items()
        }


def noise_of(graph: Graph) -> Noise | None:
    """`input.noise` of a network."""
    noise: Noise | None = graph.nodes["encoder.input"]["cell"].noise
    return noise


def tasks_of(graph: Graph) -> dict[str, Task]:
    """The tasks of a network."""
    return {name: entry["task"] for name, entry in graph.graph["tasks"].items()}
