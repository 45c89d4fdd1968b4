"""The cells of the language: fields, shapes, parameters and computation of each in one class.

Adding a cell is adding a class here, in a file of its own or of its family; a user's cell uses the
same API (docs/own_cells.md). Nothing here imports torch before a cell computes.
"""

import importlib
import pkgutil

from ladderspec.cells.activations import ACTIVATIONS, Activation, register_activation
from ladderspec.cells.base import (
    Cell,
    DecoderCell,
    EncoderCell,
    Site,
    register,
    registered,
)
from ladderspec.cells.fields import Config
from ladderspec.cells.norms import NORMS, Norm, register_norm
from ladderspec.cells.parameters import (
    Parameter,
    Parameters,
    blocks,
    normal,
    ones,
    weight,
    zeros,
)
from ladderspec.cells.projections import (
    Inlet,
    Projection,
    ShapeProblem,
    between,
    pre_activation,
)

# Every module of this package may register cells.
for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")

__all__ = [
    "ACTIVATIONS",
    "NORMS",
    "Activation",
    "Cell",
    "Config",
    "DecoderCell",
    "EncoderCell",
    "Inlet",
    "Norm",
    "Parameter",
    "Parameters",
    "Projection",
    "ShapeProblem",
    "Site",
    "between",
    "blocks",
    "normal",
    "ones",
    "pre_activation",
    "register",
    "register_activation",
    "register_norm",
    "registered",
    "weight",
    "zeros",
]
