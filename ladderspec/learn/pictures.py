"""Sample pictures: frames, what the network predicts, what a probe reads."""

from __future__ import annotations

from pathlib import Path

from ladderspec.learn.learner import Learner
from ladderspec.runs import Run


def draw_samples(run: Run, learner: Learner, folder: Path) -> None:
    """One sheet for the first validation items."""
