"""The cells as ordinary PyTorch modules, usable without any YAML.

>>> import torch
>>> from ladderspec.nn import Arrow, ConvLSTM
>>> gates = (4 * 8, 16, 16)  # i, f, o, g of 8 channels
>>> cell = ConvLSTM(
...     {
...         "encoder": Arrow("conv", (1, 16, 16), gates, filter=(3, 3), norm="layer"),
...         "state": Arrow("conv", (8, 16, 16), gates, filter=(3, 3), norm="layer"),
...     }
... )
>>> frames = torch.rand(5, 2, 1, 16, 16)  # (T, B, C, H, W)
>>> h, extras = cell({"encoder": frames[0]})  # the state starts at zero
>>> for frame in frames[1:]:
...     h, extras = cell({"encoder": frame, "state": h}, extras)
>>> h.shape, sorted(extras)
(torch.Size([2, 8, 16, 16]), ['c'])
"""

from ladderspec.nn._arrow import Arrow
from ladderspec.nn._cell import Cell, Result, Values
from ladderspec.nn._norms import NOW, BatchNorm, LayerNorm, When, make_norm
from ladderspec.nn._own import Blocks, Normal, Owner, initialise
from ladderspec.nn._parts import convolve, convolve_transposed, f
from ladderspec.nn.average import Average
from ladderspec.nn.conv import Conv
from ladderspec.nn.conv_g1 import ConvG1
from ladderspec.nn.conv_g2 import ConvG2
from ladderspec.nn.conv_g3 import ConvG3
from ladderspec.nn.conv_gru import ConvGRU
from ladderspec.nn.conv_lstm import ConvLSTM
from ladderspec.nn.fc import FC
from ladderspec.nn.g1 import G1
from ladderspec.nn.gru import GRU
from ladderspec.nn.identity import Identity
from ladderspec.nn.lstm import LSTM
from ladderspec.nn.pool import Pool
from ladderspec.nn.softmax import SoftMax

__all__ = [
    "FC",
    "G1",
    "GRU",
    "LSTM",
    "NOW",
    "Arrow",
    "Average",
    "BatchNorm",
    "Blocks",
    "Cell",
    "Conv",
    "ConvG1",
    "ConvG2",
    "ConvG3",
    "ConvGRU",
    "ConvLSTM",
    "Identity",
    "LayerNorm",
    "Normal",
    "Owner",
    "Pool",
    "Result",
    "SoftMax",
    "Values",
    "When",
    "convolve",
    "convolve_transposed",
    "f",
    "initialise",
    "make_norm",
]
