"""Where runs are trained: one option, the same jobs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ladderspec.ablation import here
from ladderspec.ablation.jobs import Engine
from ladderspec.ablation.local import Local, cores
from ladderspec.errors import UsageError


@dataclass(frozen=True)
class Asked:
    """What the command line says of engines."""

    name: str = "here"
    workers: int | None = None
    threads: int | None = None
    device: str | None = None
    slurm: tuple[str, ...] = ()


def choose(asked: Asked, output: Path) -> Engine:
    """The engine that is asked for; what does not fit it is refused."""
    if asked.workers is not None and asked.workers < 1:
        raise UsageError(f"--workers {asked.workers}: at least one")
    if asked.workers is not None and asked.name in ("ray", "slurm"):
        raise UsageError(f"--workers: {asked.name} itself decides how many runs there are at once")
    if asked.slurm and asked.name != "slurm":
        raise UsageError("--slurm needs --engine slurm")
    if asked.name == "here":
        return here.run
    if asked.name == "processes":
        return Local(asked.workers or cores())
    if asked.name == "ray":
        from ladderspec.ablation.on_ray import OnRay

        return OnRay(asked.threads or 1, int((asked.device or "").startswith("cuda")))
    from ladderspec.ablation.on_slurm import OnSlurm

    options = dict(_option(text) for text in asked.slurm)
    return OnSlurm(output / "slurm", asked.threads or 1, options)


def _option(text: str) -> tuple[str, Any]:
    """
    >>> _option("timeout_min=600"), _option("slurm_partition=gpu")
    (('timeout_min', 600), ('slurm_partition', 'gpu'))
    """
    word, equals, value = text.partition("=")
    if not equals or not value:
        raise UsageError(f"--slurm {text}: OPTION=VALUE, like timeout_min=600")
    return word, int(value) if value.isdecimal() else value
