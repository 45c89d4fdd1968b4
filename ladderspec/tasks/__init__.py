"""The tasks of a spec: which node each of them reads, its target, its cost and its metrics."""

from ladderspec.tasks.base import Ramp, Reading, Task
from ladderspec.tasks.classification import Classification, Consistency
from ladderspec.tasks.grouping import Grouping
from ladderspec.tasks.reconstruction import Denoising, Prediction, Probe

AnyTask = Classification | Prediction | Denoising | Consistency | Probe | Grouping

__all__ = [
    "AnyTask",
    "Classification",
    "Consistency",
    "Denoising",
    "Grouping",
    "Prediction",
    "Probe",
    "Ramp",
    "Reading",
    "Task",
]
