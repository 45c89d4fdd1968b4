"""The cells as ordinary PyTorch modules, usable without any YAML.

`of` makes one from the shape of what arrives, (channels, height, width), and the fields of a spec:

>>> import torch
>>> from ladderspec.nn import ConvG3, ConvLSTM
>>> lstm = ConvLSTM.of((1, 16, 16), channels=8, filter=3, stride=2)
>>> frames = torch.rand(5, 2, 1, 16, 16)  # (T, B, C, H, W)
>>> h, extras = lstm({"encoder": frames[0]})  # the state starts at zero
>>> for frame in frames[1:]:
...     h, extras = lstm({"encoder": frame, "state": h}, extras)
>>> h.shape, sorted(extras)
(torch.Size([2, 8, 8, 8]), ['c'])

Where several arrows come in, each has its name. A decoder cell inverts such a row:

>>> decoder = ConvG3.of({"decoder": (8, 8, 8), "lateral": (1, 16, 16)}, filter=6)
>>> y, _ = decoder({"decoder": h, "lateral": frames[-1]})
>>> y.shape
torch.Size([2, 1, 16, 16])

Underneath, a cell is made of arrows, each a linear map with a norm of its own:

>>> from ladderspec.nn import Arrow
>>> gates = (4 * 8, 16, 16)  # i, f, o, g of 8 channels
>>> plain = ConvLSTM(
...     {
...         "encoder": Arrow("conv", (1, 16, 16), gates, filter=3),
...         "state": Arrow("conv", (8, 16, 16), gates, filter=5, norm="layer"),
...     }
... )
>>> plain({"encoder": frames[0]})[0].shape
torch.Size([2, 8, 16, 16])
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
