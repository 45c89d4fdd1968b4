"""Cells made by hand: from shapes and fields, or arrow by arrow; mistakes are refused by name."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import nn

from ladderspec import nn as cells
from ladderspec.names import Side
from ladderspec.nn import (
    FC,
    G1,
    GRU,
    LSTM,
    Arrow,
    Average,
    Cell,
    Conv,
    ConvG1,
    ConvG2,
    ConvG3,
    ConvGRU,
    ConvLSTM,
    Identity,
    Pool,
)
from tests.cells import ROWS, Row

MAP, GATES = (1, 6, 6), (8, 6, 6)  # four gates of two channels


def by_hand(row: Row) -> Cell:
    kind = {name.lower(): getattr(cells, name) for name in cells.__all__}[row.cell.lower()]
    inputs = {key: shape for key, shape in row.inlets.items() if key != "state"}
    made: Cell = kind.of(inputs, **({"out": row.level} if row.level else {}), **row.fields)
    return made


@pytest.mark.parametrize("row", [row for row in ROWS if row.side is not Side.LATERAL], ids=str)
def test_of_makes_what_a_spec_would(row: Row) -> None:
    made, built = by_hand(row), row.build()
    made.load_state_dict(built.state_dict())
    values, previous = row.values(), row.previous() or None
    for ours, theirs in zip(made(values, previous), built(values, previous), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_one_shape_is_that_from_below() -> None:
    lstm, torchs = LSTM.of((3,), channels=2, forget_bias=0.0), nn.LSTM(3, 2)
    with torch.no_grad():
        i, f, g, o = torchs.weight_ih_l0.chunk(4)
        lstm.encoder.weight.copy_(torch.cat([i, f, o, g]))
        i, f, g, o = torchs.weight_hh_l0.chunk(4)
        lstm.state.weight.copy_(torch.cat([i, f, o, g]))
        torchs.bias_ih_l0.zero_(), torchs.bias_hh_l0.zero_()
    x = torch.randn(4, 5, 3)
    h, extras = lstm({"encoder": x[0]})
    for t in range(1, 4):
        h, extras = lstm({"encoder": x[t], "state": h}, extras)
    torch.testing.assert_close(h, torchs(x)[0][-1])


def test_a_decoder_inverts_a_row_of_some_stride() -> None:
    v = torch.arange(3.0).expand(1, 1, 1, 3)
    spread = Average.of((1, 1, 3), out=(1, 1, 9), stride=(1, 4))({"decoder": v})[0]
    assert spread.flatten().tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2]
    assert ConvG3.of((2, 3, 3), out=(1, 9, 9), stride=4).decoder.stride == (4, 4)
    assert ConvG3.of((2, 3, 3), out=(1, 9, 9)).decoder.stride == (3, 3)


def conv(source: Any, target: Any, **words: Any) -> Arrow:
    return Arrow("conv", source, target, **words)


MISTAKES: dict[str, tuple[Any, str]] = {
    "numbers alone": (lambda: ConvLSTM(1, 8, 3), r"takes a dict of arrows.*`ConvLSTM.of` makes"),
    "numbers for arrows": (lambda: ConvLSTM({"encoder": 1}), "takes a dict of arrows"),
    "gate channels": (
        lambda: ConvLSTM({"encoder": conv(MAP, (10, 6, 6))}),
        "ConvLSTM has 4 gates: 10 channels",
    ),
    "three gates": (lambda: ConvGRU({"encoder": conv(MAP, GATES)}), "3 gates: 8 channels"),
    "branches": (lambda: ConvG2({"decoder": conv(MAP, GATES)}), "3 gates: 8 channels"),
    "state": (
        lambda: ConvLSTM({"encoder": conv(MAP, GATES), "state": conv((8, 6, 6), GATES)}),
        "gives 2x6x6, .* not from 8x6x6",
    ),
    "sum": (
        lambda: ConvLSTM({"encoder": conv(MAP, GATES), "state": conv((2, 6, 6), (12, 6, 6))}),
        "`state` leads to 12x6x6 and `encoder` to 8x6x6",
    ),
    "stride": (
        lambda: conv(MAP, GATES, stride=2),
        r"conv arrow from 1x6x6 to 8x6x6 cannot have stride \(2, 2\): it is 6x6 to 3x3",
    ),
    "transposed stride": (
        lambda: Arrow("transposed", (8, 3, 3), (1, 7, 7), 3, 2),
        r"from 8x3x3 to 1x7x7 cannot have stride \(2, 2\): it is the inverse of 7x7 to 4x4",
    ),
    "vector": (lambda: conv((3,), GATES), "from maps to maps, not from 3 to 8x6x6"),
    "shape": (lambda: conv((1, 6), GATES), r"`source` is a shape.* not \(1, 6\)"),
    "kind": (lambda: Arrow("convolution", MAP, GATES), "no arrow 'convolution'"),
    "norm": (lambda: conv(MAP, GATES, norm="layr"), "no norm 'layr': did you mean `layer`"),
    "joint": (lambda: Conv({"encoder": conv(MAP, GATES)}, joint="group"), "no norm 'group'"),
    "activation": (
        lambda: Conv({"encoder": conv(MAP, GATES)}, activation="rleu"),
        "no activation 'rleu': did you mean `relu`",
    ),
    "units": (
        lambda: FC({"encoder": Arrow("dense", MAP, (5,))}, (4,)),
        "FC gives 4, 4 units, but its arrows lead to 5",
    ),
    "gate": (
        lambda: ConvG1({"decoder": conv(MAP, MAP), "lateral": Arrow("none", GATES, GATES)}),
        "is 8x6x6 and its output 1x6x6",
    ),
    "dense gate": (
        lambda: G1({"decoder": Arrow("dense", (3,), (4,))}, (5,)),
        "G1 gives 5, 5 units, but its arrows lead to 4",
    ),
    "filter": (lambda: conv(MAP, GATES, filter=(3, 3, 3)), r"`filter` is .* not \(3, 3, 3\)"),
    "mode": (lambda: Pool({"encoder": Arrow("none", MAP, MAP)}, "median"), "no mode 'median'"),
    "spread": (
        lambda: Average({"decoder": Arrow("none", MAP, MAP)}, (1, 9, 9), 2),
        r"cannot have stride \(2, 2\)",
    ),
    "of: field": (lambda: ConvLSTM.of(MAP, channels=8, filtr=3), "no field `filtr`: did you mean"),
    "of: value": (lambda: ConvLSTM.of(MAP, channels=0), "ConvLSTM: `channels` is 0: "),
    "of: missing": (lambda: ConvLSTM.of(MAP), "`channels` is missing"),
    "of: norm": (lambda: ConvLSTM.of(MAP, channels=8, norm="layr"), "`layr`.*did you mean"),
    "of: activation": (lambda: Conv.of(MAP, channels=8, activation="rleu"), "`activation` is 'rl"),
    "of: arrow": (lambda: Conv.of({"encodr": MAP}, channels=8), "no arrow 'encodr': did you mean"),
    "of: role": (lambda: Pool.of({"encoder": MAP, "skip_a": MAP}), "Pool takes no skip_a arrow"),
    "of: needs": (lambda: LSTM.of({"skip_a": (3,)}, channels=2), "needs a shape for its encoder"),
    "of: state": (lambda: LSTM.of({"state": (3,)}, channels=2), "`state` arrow follows"),
    "of: shape": (lambda: GRU.of(3, channels=2), "`encoder` is a shape.* not 3"),
    "of: maps": (lambda: ConvLSTM.of((3,), channels=2), "works on maps, not on a vector"),
    "of: level": (lambda: ConvG3.of((2, 3, 3)), "ConvG3: say `out`"),
    "of: out": (lambda: Conv.of(MAP, out=MAP, channels=2), "`out` is for decoders"),
    "of: single": (lambda: Identity.of({"decoder": MAP, "lateral": MAP}), "exactly one arrow"),
    "of: sizes": (lambda: ConvG3.of((2, 3, 3), out=(1, 4, 4)), "no stride leads from 2x3x3"),
    "of: stride": (
        lambda: ConvG3.of((2, 3, 3), out=(1, 9, 9), stride=2),
        r"from 2x3x3 to 1x9x9 cannot have stride \(2, 2\)",
    ),
    "of: specs": (lambda: Conv.of(MAP, channels=2, initial="learned"), "`initial` belongs to spec"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_refused_when_a_cell_is_made(name: str) -> None:
    make, said = MISTAKES[name]
    with pytest.raises((ValueError, TypeError)) as refused:
        make()
    assert re.search(said, str(refused.value)), str(refused.value)


CALLS: dict[str, tuple[Any, str]] = {
    "bare": (lambda cell, x, h: cell(x), "dict of values for encoder, state, not with a Tensor"),
    "strange": (
        lambda cell, x, h: cell({"encoder": x, "input": x}),
        "LSTM has no arrow 'input'; it has encoder, state",
    ),
    "another": (lambda cell, x, h: cell({"x": x, "state": h}), "LSTM has no arrow 'x'"),
    "lacking": (lambda cell, x, h: cell({"state": h}, {"c": h}), "needs a value for encoder"),
    "no previous": (
        lambda cell, x, h: cell({"encoder": x, "state": h}),
        "the output as `state`, the dict as `previous`; c is missing",
    ),
    "empty previous": (lambda cell, x, h: cell({"encoder": x, "state": h}, {}), "; c is missing"),
    "no state": (lambda cell, x, h: cell({"encoder": x}, {"c": h}), "; state is missing"),
}


@pytest.mark.parametrize("name", CALLS)
def test_mistakes_are_refused_when_a_cell_is_called(name: str) -> None:
    call, said = CALLS[name]
    with pytest.raises((ValueError, TypeError)) as refused:
        call(LSTM.of((3,), channels=2), torch.rand(4, 3), torch.rand(4, 2))
    assert said in str(refused.value)


def test_one_number_stands_for_two() -> None:
    assert conv(MAP, (8, 3, 3), filter=3, stride=2).weight.shape == (8, 1, 3, 3)
    assert ConvG3({"decoder": conv(MAP, MAP)}, 1, 3).W_s.shape == (1, 1, 3, 3)
    pool = Pool({"encoder": Arrow("none", MAP, MAP)}, "max", 3, 2)
    assert pool({"encoder": torch.rand(2, *MAP)})[0].shape == (2, 1, 3, 3)
