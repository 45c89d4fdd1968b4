"""The tasks a spec can set: what they read and what they cost."""

from ladderspec.tasks._contract import Ramp, Reading, Task
from ladderspec.tasks.classification import Classification
from ladderspec.tasks.consistency import Consistency
from ladderspec.tasks.denoising import Denoising
from ladderspec.tasks.prediction import Prediction
from ladderspec.tasks.probe import Probe

AnyTask = Classification | Prediction | Denoising | Consistency | Probe

__all__ = [
    "AnyTask",
    "Classification",
    "Consistency",
    "Denoising",
    "Prediction",
    "Probe",
    "Ramp",
    "Reading",
    "Task",
]
