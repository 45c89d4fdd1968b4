"""Cells made by hand, from shapes and fields; mistakes are refused by name."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import nn

from ladderspec import nn as cells
from ladderspec.cells import Projection, ShapeProblem
from ladderspec.names import Side
from ladderspec.nn import (
    FC,
    G1,
    GRU,
    LSTM,
    Average,
    CellModule,
    Conv,
    ConvG1,
    ConvG3,
    ConvLSTM,
    Edge,
    Identity,
    Pool,
    Readout,
)
from tests.cell_examples import ROWS, Row

MAP, GATES = (1, 6, 6), (8, 6, 6)  # four gates of two channels


def by_hand(row: Row) -> CellModule:
    kind = {name.lower(): getattr(cells, name) for name in dir(cells)}[row.cell.lower()]
    inputs = {key: shape for key, shape in row.inlets.items() if key != "state"}
    out = {"out": row.level} if row.level else {}
    made: CellModule = kind.of(inputs, **out, groups=row.groups, **row.fields)
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
    assert ConvG3.of((2, 3, 3), out=(1, 9, 9), stride=4).decoder.projection.stride == (4, 4)
    assert ConvG3.of((2, 3, 3), out=(1, 9, 9)).decoder.projection.stride == (3, 3)


def test_single_edges_have_filter_norm_and_gain_of_their_own() -> None:
    edges = {"state": {"filter": (5, 3), "norm": "none"}, "decoder_to_encoder": {"gain": 0.5}}
    shapes = {"encoder": MAP, "decoder_to_encoder": MAP}
    cell = ConvLSTM.of(shapes, channels=2, edges=edges)
    assert cell.state.weight.shape == (8, 2, 5, 3)
    assert cell.state.norm is None
    assert cell.decoder_to_encoder.gain.eq(0.5).all()
    assert cell.encoder.weight.shape == (8, 1, 3, 3)
    assert ConvLSTM.of(MAP, channels=2, edges={"state": {"filter": 5}}).state.gain.eq(1 / 8).all()


def conv(source: Any, target: Any, **fields: Any) -> Edge:
    return Edge(Projection("conv", source, target, **fields))


EDGES: dict[str, tuple[Any, str]] = {
    "stride": (
        lambda: conv(MAP, GATES, stride=(2, 2)),
        r"conv edge from 1x6x6 to 8x6x6 cannot have stride \(2, 2\): it is 6x6 to 3x3",
    ),
    "transposed stride": (
        lambda: Projection("transposed", (8, 3, 3), (1, 7, 7), (3, 3), (2, 2)),
        r"from 8x3x3 to 1x7x7 cannot have stride \(2, 2\): it is the inverse of 7x7 to 4x4",
    ),
    "vector": (lambda: conv((3,), GATES), "from maps to maps, not from 3 to 8x6x6"),
    "shape": (lambda: conv((1, 6), GATES), "from maps to maps, not from 1x6 to 8x6x6"),
    "no map": (lambda: Projection("none", MAP, GATES), "cannot lead from 1x6x6 to 8x6x6"),
    "kind": (lambda: Projection("convolution", MAP, GATES), "no edge 'convolution'"),
    "norm": (lambda: conv(MAP, GATES, norm="layr"), "no norm 'layr'"),
    "filter": (lambda: conv(MAP, GATES, filter=(3, 3, 3)), r"`filter` .* not \(3, 3, 3\)"),
    "one number": (lambda: conv(MAP, GATES, filter=3), r"`filter` .* \(height, width\), not 3"),
}


@pytest.mark.parametrize("name", EDGES)
def test_mistakes_are_refused_when_an_edge_is_made(name: str) -> None:
    make, message = EDGES[name]
    with pytest.raises(ShapeProblem, match=message):
        make()


def of_state(**options: Any) -> Any:
    return lambda: ConvLSTM.of(MAP, channels=8, edges={"state": options})


MISTAKES: dict[str, tuple[Any, str]] = {
    "numbers alone": (lambda: ConvLSTM(1, 8, 3), r"`ConvLSTM.of\(shape, ...\)` makes a ConvLSTM"),
    "edges": (lambda: ConvLSTM({"encoder": conv(MAP, GATES)}), r"`ConvLSTM.of\(shape, ...\)`"),
    "gate": (
        lambda: ConvG1.of({"decoder": MAP, "lateral": GATES}, out=MAP),
        "ConvG1: .* h is 8x6x6, the output 1x6x6",
    ),
    "dense gate": (
        lambda: G1.of({"decoder": (3,), "lateral": (4,)}, out=(5,)),
        "G1: .* h is 4, the output 5",
    ),
    "mode": (lambda: Pool.of(MAP, mode="median"), "`mode` is 'median'.*`max` or `average`"),
    "window": (lambda: Pool.of(MAP, filter=(3, 3, 3)), r"`filter.*` is \(3, 3, 3\)"),
    "spread": (
        lambda: Average.of(MAP, out=(1, 9, 9), stride=2),
        r"Average: stride \(2, 2\) leads from 9x9 to 5x5, not to 6x6",
    ),
    "row stride": (
        lambda: ConvG3.of(MAP, out=(1, 9, 9), stride="2"),
        r"ConvG3: `stride` is '2': one whole number or a list of two is needed \(write 2\)",
    ),
    "joint": (
        lambda: Conv.of(MAP, channels=2, norm={"kind": "local", "terms": "joint"}),
        "`norm.kind` is 'local'.*`batch`, `layer`",
    ),
    "edge": (
        lambda: Conv.of(MAP, channels=2, edges={"state": {}}),
        "it has no edge 'state', only enc",
    ),
    "edge: options": (
        lambda: ConvLSTM.of(MAP, channels=2, edges={"state": 5}),
        "ConvLSTM: `edges.state` is 5: expected a mapping",
    ),
    "edge: field": (of_state(fliter=5), "`edges.state`: it has no field `fliter`: did you mean `f"),
    "edge: filter": (of_state(filter=(3, 3, 3)), r"`edges.state.filter` is \(3, 3, 3\)"),
    "edge: norm": (of_state(norm="layr"), "`edges.state.norm` is 'layr'.*did you mean `layer`"),
    "edge: gain": (of_state(gain=-1), "`edges.state.gain` is -1"),
    "edge: no norm": (of_state(norm="none", gain=2), "gives its 'state' edge no `gain` of its own"),
    "edge: no filter": (
        lambda: LSTM.of(MAP, channels=2, edges={"encoder": {"filter": 3}}),
        "LSTM: it gives its 'encoder' edge no `filter` of its own",
    ),
    "edge: no such norm": (
        lambda: G1.of((3,), out=(5,), edges={"decoder": {"norm": "layer"}}),
        "G1: it gives its 'decoder' edge no `norm` of its own",
    ),
    "of: field": (lambda: ConvLSTM.of(MAP, channels=8, filtr=3), "no field `filtr`: did you mean"),
    "of: value": (lambda: ConvLSTM.of(MAP, channels=0), "ConvLSTM: `channels` is 0: "),
    "of: missing": (lambda: ConvLSTM.of(MAP), "`channels` is missing"),
    "of: norm": (lambda: ConvLSTM.of(MAP, channels=8, norm="layr"), "`layr`.*did you mean"),
    "of: activation": (lambda: Conv.of(MAP, channels=8, activation="rleu"), "'rleu'.*did you mean"),
    "of: key": (lambda: Conv.of({"encodr": MAP}, channels=8), "no edge 'encodr': did you mean"),
    "of: role": (lambda: Pool.of({"encoder": MAP, "skip_a": MAP}), "Pool: it takes no skip_a edge"),
    "of: needs": (lambda: LSTM.of({"skip_a": (3,)}, channels=2), "needs a shape for its encoder"),
    "of: state": (lambda: LSTM.of({"state": (3,)}, channels=2), "`state` edge follows"),
    "of: shape": (lambda: GRU.of(3, channels=2), "`inputs.encoder` is 3: a shape is"),
    "of: maps": (lambda: ConvLSTM.of((3,), channels=2), "works on maps, not on a vector"),
    "of: level": (lambda: ConvG3.of((2, 3, 3)), "ConvG3: give `out`"),
    "of: out shape": (lambda: ConvG3.of(MAP, out=(1, 9)), r"`out` is \(1, 9\): a shape is"),
    "of: out": (lambda: Conv.of(MAP, out=MAP, channels=2), "`out` is for decoders"),
    "of: single": (lambda: Identity.of({"decoder": MAP, "lateral": MAP}), "exactly one edge"),
    "of: sizes": (lambda: ConvG3.of((2, 3, 3), out=(1, 4, 4)), "no stride leads from 2x3x3"),
    "of: stride": (
        lambda: ConvG3.of((2, 3, 3), out=(1, 9, 9), stride=2),
        r"ConvG3: stride \(2, 2\) leads from 9x9 to 5x5, not to 3x3",
    ),
    "of: iterations": (
        lambda: FC.of((3,), channels=2, iterations=0),
        "FC: `iterations` is 0: it must be at least 1",
    ),
    "of: groups": (
        lambda: Readout.of(MAP, out=MAP, groups=3),
        "Readout: `groups` is 3: expected a mapping",
    ),
    "of: group field": (
        lambda: Readout.of(MAP, out=MAP, groups={"cuont": 3}),
        "`groups`: it has no field `cuont`",
    ),
    "of: specs": (lambda: Conv.of(MAP, channels=2, initial="learned"), "`initial` is a field of s"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_refused_when_a_cell_is_made(name: str) -> None:
    make, message = MISTAKES[name]
    with pytest.raises((ValueError, TypeError)) as refused:
        make()
    assert re.search(message, str(refused.value)), str(refused.value)


CALLS: dict[str, tuple[Any, str]] = {
    "bare": (lambda cell, x, h: cell(x), "dict of values for encoder, state, not a Tensor"),
    "strange": (
        lambda cell, x, h: cell({"encoder": x, "input": x}),
        "LSTM has no edge 'input'; it has encoder, state",
    ),
    "another": (lambda cell, x, h: cell({"x": x, "state": h}), "LSTM has no edge 'x'"),
    "lacking": (lambda cell, x, h: cell({"state": h}, {"c": h}), "needs a value for encoder"),
    "no previous": (
        lambda cell, x, h: cell({"encoder": x, "state": h}),
        "the output as `state`, the dict as `previous`; c is missing",
    ),
    "empty previous": (lambda cell, x, h: cell({"encoder": x, "state": h}, {}), "; c is missing"),
    "no state": (lambda cell, x, h: cell({"encoder": x}, {"c": h}), "; state is missing"),
    "array": (lambda cell, x, h: cell({"encoder": x.numpy()}), "for encoder is a ndarray, not a t"),
    "nothing": (lambda cell, x, h: cell({"encoder": None}), "for encoder is a NoneType, not a ten"),
    "channels": (lambda cell, x, h: cell({"encoder": h}), "encoder takes (B, 3), not (4, 2)"),
    "one sample": (lambda cell, x, h: cell({"encoder": x[0]}), "encoder takes (B, 3), not (3,)"),
    "batch": (
        lambda cell, x, h: cell({"encoder": x[:2], "state": h}, {"c": h}),
        "LSTM got values of different batch sizes, [2, 4]",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_mistakes_are_refused_when_a_cell_is_called(name: str) -> None:
    call, message = CALLS[name]
    with pytest.raises((ValueError, TypeError)) as refused:
        call(LSTM.of((3,), channels=2), torch.rand(4, 3), torch.rand(4, 2))
    assert message in str(refused.value)


def test_one_number_stands_for_two() -> None:
    assert Conv.of(MAP, channels=8, filter=3, stride=2).encoder.weight.shape == (8, 1, 3, 3)
    assert ConvG3.of(MAP, out=MAP, inner_filter=3).W_s.shape == (1, 1, 3, 3)
    assert Pool.of(MAP, filter=3, stride=2)({"encoder": torch.rand(2, *MAP)})[0].shape[2:] == (3, 3)


def test_an_unknown_cell_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no 'ConvLTSM': did you mean `ConvLSTM`"):
        _ = cells.ConvLTSM
