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

If several edges come in, each has its name. A decoder cell inverts such a row:

>>> decoder = ConvG3.of({"decoder": (8, 8, 8), "lateral": (1, 16, 16)}, filter=6)
>>> y, _ = decoder({"decoder": h, "lateral": frames[-1]})
>>> y.shape
torch.Size([2, 1, 16, 16])

Single edges may differ from the others in filter, norm and initial gain:

>>> own = ConvLSTM.of((1, 16, 16), channels=8, edges={"state": {"filter": 5, "norm": "none"}})
>>> own.state
Edge(conv, 8x16x16 -> 32x16x16, (5, 5), stride (1, 1))
"""

from ladderspec.errors import did_you_mean, require_torch

require_torch()

from ladderspec.cells.functions import convolve, convolve_transposed, f  # noqa: E402
from ladderspec.nn.cells import Standalone, cells_by_name  # noqa: E402
from ladderspec.nn.modules import CellModule, Edge, initialise  # noqa: E402
from ladderspec.nn.norms import FIRST, BatchNorm, LayerNorm, TimeStep  # noqa: E402


def __getattr__(name: str) -> type[Standalone]:
    """The module class of a registered cell."""
    known = cells_by_name()
    if name not in known:
        hint = did_you_mean(name, known)
        raise AttributeError(f"module {__name__} has no {name!r}" + (f": {hint}" if hint else ""))
    first, *_ = known[name].values()
    made = type(name, (Standalone,), {"__doc__": first.__doc__, "__module__": __name__})
    globals()[name] = made
    return made


__all__ = [
    "FIRST",
    "BatchNorm",
    "CellModule",
    "Edge",
    "LayerNorm",
    "TimeStep",
    "convolve",
    "convolve_transposed",
    "f",
    "initialise",
]


def __dir__() -> list[str]:
    return [*__all__, *cells_by_name()]
