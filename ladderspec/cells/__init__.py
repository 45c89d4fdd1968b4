"""The cells a spec can name: their words, shapes and parameters. Never imports torch.

Adding a cell is adding a file here and one of the same name in `ladderspec.nn`; a user's cell is
one file of its own (see docs/own_cells.md).
"""

from ladderspec.cells import (
    average,
    conv,
    conv_g1,
    conv_g2,
    conv_g3,
    conv_gru,
    conv_lstm,
    fc,
    g1,
    gru,
    identity,
    input,
    lstm,
    pool,
    softmax,
)
from ladderspec.cells._arrows import Inlet, Projection, ShapeProblem
from ladderspec.cells._contract import (
    Cell,
    DecoderCell,
    EncoderCell,
    Site,
    cell_word,
    register,
    registered,
)
from ladderspec.cells._fields import Words

__all__ = [
    "Cell",
    "DecoderCell",
    "EncoderCell",
    "Inlet",
    "Projection",
    "ShapeProblem",
    "Site",
    "Words",
    "average",
    "cell_word",
    "conv",
    "conv_g1",
    "conv_g2",
    "conv_g3",
    "conv_gru",
    "conv_lstm",
    "fc",
    "g1",
    "gru",
    "identity",
    "input",
    "lstm",
    "pool",
    "register",
    "registered",
    "softmax",
]
