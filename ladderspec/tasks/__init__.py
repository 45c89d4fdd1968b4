"""The tasks of the language: fields, target, cost, metrics and labels of each in one class.

Adding a task is adding a class here, in a file of its own or of its family; a user's task uses the
same API (docs/own_tasks.md). Nothing here imports torch before a task computes.
"""

import importlib
import pkgutil

from ladderspec.tasks.base import (
    Metric,
    Panel,
    Ramp,
    Reading,
    Task,
    register,
    registered,
)
from ladderspec.tasks.classification import Classification, Consistency
from ladderspec.tasks.grouping import Grouping
from ladderspec.tasks.reconstruction import Activity, Denoising, Prediction, Probe, Reconstruction

# Every module of this package may register tasks.
for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")

__all__ = [
    "Activity",
    "Classification",
    "Consistency",
    "Denoising",
    "Grouping",
    "Metric",
    "Panel",
    "Prediction",
    "Probe",
    "Ramp",
    "Reading",
    "Reconstruction",
    "Task",
    "register",
    "registered",
]
