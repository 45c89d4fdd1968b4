"""A user's cell has what a cell of the library has: no rule asks for a cell by its name."""

from __future__ import annotations

from typing import ClassVar, Literal

import pytest
import torch
from torch import Tensor

from ladderspec import build, graph, loads
from ladderspec.cells import EncoderCell, Inlet, Parameters, Projection, Site, register, weight
from ladderspec.cells.fields import Count
from ladderspec.names import Shape
from ladderspec.schedule.plan import schedule
from tests.wiring.test_notes import notes

SPEC = """
input: {channels: 4, size: [2, 2]}
levels:
  - {name: a, encoder: {cell: Peaked, channels: 3}}
tasks: {label: {kind: classification, at: encoder.a}}
"""


class Peaked(EncoderCell):
    """e = softmax(2 w e_below), at every place; its logits are 2 w e_below."""

    cell: Literal["Peaked"] = "Peaked"
    channels: Count = 3

    takes: ClassVar = frozenset({"encoder"})
    returns: ClassVar = ("logits",)

    def out_shape(self, site: Site) -> Shape:
        return (self.channels, *site.main().shape[1:])

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return Projection("none", inlet.shape, inlet.shape)

    def parameters(self, site: Site, out: Shape) -> Parameters:
        return {"w": weight(out[0], site.main().shape[0])}

    @staticmethod
    def compute(encoder: Tensor, *, w: Tensor) -> tuple[Tensor, Tensor]:
        logits = 2 * (encoder.movedim(1, -1) @ w.mT).movedim(-1, 1)
        return logits.softmax(1), logits


@pytest.fixture(scope="module", autouse=True)
def _registered(cells_of_the_module: None) -> None:
    register(Peaked)


def test_the_logits_of_a_cell_are_read_as_those_of_a_softmax() -> None:
    assert not any("SoftMax" in note for note in notes(SPEC))
    net, x = build(loads(SPEC)), torch.rand(1, 4, 2, 2)
    (w,) = net.parameters()
    expected = 2 * torch.einsum("oi,bihw->bohw", w, x)
    torch.testing.assert_close(net(x)["label"][:, 0], expected)


def test_a_matrix_is_counted_whatever_its_name() -> None:
    plan = schedule(graph(loads(SPEC)))
    assert plan.equations["encoder.a"].multiplications == 3 * 4
