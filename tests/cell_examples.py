"""One row per case of a cell: what it says, where it stands, what arrives.

Every test that holds for all cells runs over this table; a new cell adds its rows here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ladderspec.cells import Cell, Inlet, Site, registered
from ladderspec.cells.base import iterations_of
from ladderspec.cells.grouping import Groups
from ladderspec.names import Role, Shape, Side
from ladderspec.nn import CellModule, initialise

E, D = Side.ENCODER, Side.DECODER


@dataclass(frozen=True)
class Row:
    """`inlets` by key: a role, or `skip_...`. Decoders know their level and the row they invert."""

    cell: str
    side: Side
    inlets: dict[str, Shape]
    fields: dict[str, Any] = field(default_factory=dict)
    level: Shape | None = None
    row: Shape | None = None
    groups: Groups | None = None

    def __str__(self) -> str:
        said = [f"{key}={value}".replace(" ", "") for key, value in self.fields.items()]
        return "-".join([self.cell, self.side, *self.inlets, *said])

    @property
    def config(self) -> Cell:
        return registered(self.side)[self.cell](**self.fields)

    @property
    def site(self) -> Site:
        inlets = [
            Inlet(key, Role.SKIP if key.startswith("skip") else Role(key), 0, shape)
            for key, shape in self.inlets.items()
        ]
        return Site(self.side, tuple(inlets), self.level, self.row, self.groups)

    @property
    def out(self) -> Shape:
        return self.config.out_shape(self.site)

    def promised(self) -> dict[str, Shape]:
        """Parameter names and shapes as the cell declares them."""
        found = dict(self.config.parameters(self.site, self.out))
        for key, projection in self.projections().items():
            found |= {f"{key}.{name}": each for name, each in projection.parameters.items()}
        return {name: each.shape for name, each in found.items() if not each.buffer}

    def projections(self) -> dict[str, Any]:
        site, out, cell = self.site, self.out, self.config
        return {inlet.key: cell.project(site, inlet, out) for inlet in site.inlets}

    def build(self, iterations: int | None = None, seed: int = 0) -> nn.Module:
        own = self.config.parameters(self.site, self.out)
        count = iterations_of(self.config, iterations)
        module = CellModule(self.config, self.site, self.out, self.projections(), own, count)
        initialise(module, seed)
        return module

    def values(self, batch: int = 3, **options: Any) -> dict[str, Tensor]:
        return {key: torch.randn(batch, *shape, **options) for key, shape in self.inlets.items()}

    def previous(self, batch: int = 3, **options: Any) -> dict[str, Tensor]:
        shapes = self.config.state_shapes(self.out)
        return {name: torch.randn(batch, *shape, **options) for name, shape in shapes.items()}


MAP, ODD, HALF, SAME = (2, 4, 4), (2, 5, 7), (3, 3, 4), (1, 5, 7)
SKIP = "skip_decoder_input_1"
STATE = {"encoder": ODD, "state": HALF, "decoder_to_encoder": HALF, SKIP: ODD}
DENSE = {"encoder": (2, 2, 2), "state": (3,), "decoder_to_encoder": (5,), SKIP: (1, 4, 4)}
DECODER = {"lateral": ODD, "decoder": HALF, "recurrent_decoder": ODD, SKIP: SAME}
DECODER_STATE = {"lateral": ODD, "decoder": HALF, "state": ODD}
GROUP = {"kind": "group", "groups": 2}

BITS = Groups(count=3, likelihood="bernoulli")
ROWS = [
    Row("Conv", E, {"encoder": MAP}, {"channels": 3}),
    Row("Conv", E, {"encoder": ODD}, {"channels": 3, "filter": 4, "stride": 2}),
    Row("Conv", E, {"encoder": ODD}, {"channels": 3, "filter": (1, 2), "norm": "layer"}),
    Row("Conv", E, {"encoder": MAP}, {"channels": 2, "norm": "none", "activation": "leaky_relu"}),
    Row("Conv", E, {"encoder": MAP}, {"channels": 2, "statistics": "shared", "activation": "elu"}),
    Row("Conv", E, {"encoder": ODD, "decoder_to_encoder": (4,), SKIP: HALF}, {"channels": 3}),
    Row("Conv", E, {"encoder": ODD, SKIP: ODD}, {"channels": 3, "norm": "joint"}),
    Row("Conv", D, {"lateral": ODD, "decoder": HALF}, {"filter": 4}, ODD, HALF),
    Row("Conv", D, {"decoder": HALF}, {"channels": 4, "activation": "tanh"}, ODD, HALF),
    Row("Conv", E, {"encoder": ODD, SKIP: HALF}, {"channels": 4, "dilation": 2, "filter": 4}),
    Row("Conv", E, {"encoder": ODD}, {"channels": 4, "dilation": (3, 1), "stride": 2}),
    Row("Conv", E, {"encoder": MAP}, {"channels": 4, "channel_groups": 2, "norm": "instance"}),
    Row("Conv", E, {"encoder": MAP}, {"channels": 4, "norm": GROUP, "activation": "relu6"}),
    Row("Conv", E, {"encoder": MAP}, {"channels": 4, "norm": {**GROUP, "terms": "joint"}}),
    Row("Conv", E, {"encoder": MAP}, {"channels": 2, "activation": "hard_tanh"}),
    Row("FC", E, {"encoder": MAP}, {"channels": 3}),
    Row("FC", E, {"encoder": (4,), SKIP: MAP}, {"channels": 3, "norm": "none"}),
    Row("FC", E, {"encoder": (4,), SKIP: MAP}, {"channels": 3, "norm": "joint"}),
    Row("FC", D, {"lateral": MAP, "decoder": (5,)}, {"activation": "sigmoid"}, MAP, (5,)),
    Row("ConvLSTM", E, {"encoder": MAP, "state": (3, 4, 4)}, {"channels": 3}),
    Row("ConvLSTM", E, STATE, {"channels": 3, "stride": 2, "filter": 4, "forget_bias": 0.5}),
    Row("ConvLSTM", E, STATE, {"channels": 3, "stride": 2, "norm": "joint"}),
    Row("ConvLSTM", E, STATE, {"channels": 3, "stride": 2, "norm": "batch"}),
    Row("ConvLSTM", Side.LATERAL, {"state": MAP, "lateral": MAP}, {"channels": 2, "norm": "none"}),
    Row("LSTM", E, {"encoder": (4,), "state": (3,)}, {"channels": 3}),
    Row("LSTM", E, DENSE, {"channels": 3}),
    Row("LSTM", E, DENSE, {"channels": 3, "norm": {"kind": "layer", "terms": "joint"}}),
    Row("ConvGRU", E, STATE, {"channels": 3, "stride": 2}),
    Row("ConvGRU", E, STATE, {"channels": 3, "stride": 2, "norm": "joint"}),
    Row("GRU", E, {"encoder": (4,), "state": (3,)}, {"channels": 3}),
    Row("GRU", E, DENSE, {"channels": 3, "norm": "layer"}),
    Row("GRU", E, DENSE, {"channels": 3, "norm": {"kind": "layer", "terms": "joint"}}),
    Row("ConvLSTM", E, STATE, {"channels": 3, "stride": 2, "dilation": 2}),
    Row("ConvLSTM", D, {**DECODER_STATE, SKIP: SAME}, {"filter": 4}, ODD, HALF),
    Row("ConvLSTM", D, DECODER_STATE, {"channels": 2, "norm": "joint"}, ODD, HALF),
    Row("ConvGRU", D, DECODER_STATE, {"norm": "batch", "dilation": 2}, ODD, HALF),
    Row("Pool", E, {"encoder": MAP}),
    Row("Pool", E, {"encoder": ODD}, {"mode": "average"}),
    Row("Pool", E, {"encoder": ODD}, {"filter": 3, "stride": 2}),
    Row("Pool", E, {"encoder": ODD}, {"filter": 3, "stride": 2, "mode": "average"}),
    Row("Pool", E, {"encoder": ODD}, {"filter": "global"}),
    Row("Pool", E, {"encoder": ODD}, {"filter": "global", "mode": "average"}),
    Row("SoftMax", E, {"encoder": MAP}, {"channels": 3}),
    Row("SoftMax", E, {"encoder": (4,), SKIP: (2,)}, {"channels": 3, "norm": "joint"}),
    Row("SoftMax", E, {"encoder": MAP}, {"weights": "none"}),
    Row("SoftMax", E, {"encoder": ODD, SKIP: (4,)}, {"channels": 3, "weights": "conv"}),
    Row("Sum", E, {"encoder": ODD, SKIP: ODD}, {"activation": "relu"}),
    Row("Sum", E, {"encoder": ODD, SKIP: (2, 3, 4)}, {"resample": "bilinear", "crelu": True}),
    Row("Sum", E, {"encoder": (4,), SKIP: (4,)}),
    Row("Sum", D, {"lateral": ODD, "decoder": (2, 3, 4)}, {"resample": "nearest"}, ODD, HALF),
    Row("G1", D, {"lateral": MAP, "decoder": (5,)}, {}, MAP, (5,)),
    Row("G1", D, {"lateral": (4,), "decoder": (5,), SKIP: MAP}, {"norm": "layer"}, (4,), (5,)),
    Row("G1", D, {"decoder": HALF}, {"norm": "none", "w": "ladder"}, MAP, HALF),
    Row("convG1", D, {"lateral": ODD, "decoder": HALF, SKIP: SAME}, {"filter": 4}, ODD, HALF),
    Row("convG1", D, {"decoder": HALF}, {"norm": "layer"}, ODD, HALF),
    Row("convG2", D, DECODER, {}, ODD, HALF),
    Row("convG2", D, DECODER, {"inner": 4, "norm": "joint"}, ODD, HALF),
    Row("convG2", D, {"decoder": HALF}, {"channels": 1, "norm": "batch"}, ODD, HALF),
    Row("convG2", D, DECODER, {"inner": 4, "norm": GROUP}, ODD, HALF),
    Row("convG3", D, DECODER, {"filter": 6}, ODD, HALF),
    Row("convG3", D, DECODER, {"inner": 4, "inner_filter": 2, "norm": "joint"}, ODD, HALF),
    Row("convG3", D, {"lateral": (5,), "decoder": HALF}, {"channels": 4}, ODD, HALF),
    Row("Identity", D, {"decoder": HALF}, {}, ODD, HALF),
    Row("Average", D, {"decoder": (2, 3, 4)}, {}, ODD, (2, 3, 4)),
    Row("Average", D, {"decoder": (2,)}, {}, ODD, (2,)),
    Row("Readout", D, {"decoder": HALF}, {"filter": 4}, ODD, HALF, Groups(count=3)),
    Row("Readout", D, {"decoder": HALF}, {"norm": "layer"}, ODD, HALF, BITS),
    Row("Readout", D, {"decoder": (5,)}, {}, (4,), (5,), Groups(count=3)),
]
