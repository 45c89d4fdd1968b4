"""Properties of every cell, over the table in tests/cell_examples.py."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from ladderspec.cells import registered
from ladderspec.names import Side
from ladderspec.nn import FIRST, CellModule, TimeStep
from tests.cell_examples import ROWS, Row

CONV_CELLS = {"Conv", "ConvLSTM", "ConvGRU", "Pool", "convG1", "convG2", "convG3"}


pytestmark = pytest.mark.usefixtures("one_thread")


every_row = pytest.mark.parametrize("row", ROWS, ids=str)


def _flat(result: tuple[Tensor, dict[str, Tensor]]) -> list[Tensor]:
    return [result[0], *result[1].values()]


def _call(row: Row, module: nn.Module, values, previous, step: TimeStep = FIRST) -> list[Tensor]:
    return _flat(module(values, previous or None, step))


def _weighted(tensors: list[Tensor]) -> Tensor:
    """A weight for every number: behind a batch norm, sums and sums of squares are constant."""
    generator = torch.Generator().manual_seed(0)
    return sum(
        (torch.randn(x.shape, generator=generator, dtype=x.dtype) * x).sum() for x in tensors
    )


def test_every_registered_cell_has_a_row():
    there = {(row.cell, row.side) for row in ROWS}
    twice = {(cell, Side.ENCODER) for cell, side in there if side is Side.LATERAL}
    for side in (Side.ENCODER, Side.DECODER):
        missing = {(cell, side) for cell in registered(side)} - there - twice
        assert not missing, f"add a row to tests/cell_examples.py: {missing}"


@every_row
def test_output_has_the_shape_that_is_declared(row):
    module = row.build()
    output, extras = module(row.values(), row.previous() or None)
    assert output.shape == (3, *row.out)
    assert {name: tuple(value.shape[1:]) for name, value in extras.items() if name != "logits"} == (
        row.config.state_shapes(row.out)
    )
    assert ("logits" in extras) == (row.cell == "SoftMax")
    assert all(value.isfinite().all() for value in _flat((output, extras)))


@every_row
def test_parameters_are_those_that_is_declared(row):
    found = {name: tuple(p.shape) for name, p in row.build().named_parameters()}
    assert found == row.promised()


@every_row
def test_gradients(row):
    module = row.build(iterations=2).double()
    values = row.values(dtype=torch.float64, requires_grad=True)
    previous = row.previous(dtype=torch.float64, requires_grad=True)
    parameters = {
        name: (p + 0.1 * torch.randn_like(p)).detach().requires_grad_()
        for name, p in module.named_parameters()
    }

    def run(*tensors: Tensor) -> tuple[Tensor, ...]:
        given = iter(tensors)
        v, s, p = ({name: next(given) for name in part} for part in (values, previous, parameters))
        return tuple(_flat(functional_call(module, p, (v, s or None))))

    tensors = [*values.values(), *previous.values(), *parameters.values()]
    assert torch.autograd.gradcheck(run, tensors, fast_mode=True)


@every_row
def test_save_and_load(row, tmp_path):
    module = row.build(iterations=2)
    values, previous = row.values(), row.previous()
    _call(row, module, values, previous)  # moves the running statistics
    torch.save(module.state_dict(), tmp_path / "cell.pt")
    other = row.build(iterations=2, seed=1)
    other.load_state_dict(torch.load(tmp_path / "cell.pt", weights_only=True))
    expected = _call(row, module.eval(), values, previous)
    for same in (other, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        torch.testing.assert_close(_call(row, same.eval(), values, previous), expected)


@pytest.mark.parametrize("row", [row for row in ROWS if row.groups is None], ids=str)
def test_samples_are_independent_in_evaluation(row):
    module = row.build(iterations=2)
    values, previous = row.values(), row.previous()
    _call(row, module, values, previous)
    module.eval()
    together = _call(row, module, values, previous)
    for b in range(3):
        one = _call(
            row,
            module,
            {key: value[b : b + 1] for key, value in values.items()},
            {key: value[b : b + 1] for key, value in previous.items()},
        )
        torch.testing.assert_close(one, [value[b : b + 1] for value in together])


@every_row
def test_channels_last(row):
    module = row.build()
    values, previous = row.values(), row.previous()
    expected = _call(row, module, values, previous)

    def last(given: dict[str, Tensor]) -> dict[str, Tensor]:
        return {
            key: x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
            for key, x in given.items()
        }

    found = _call(
        row, row.build().to(memory_format=torch.channels_last), last(values), last(previous)
    )
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    if row.cell in CONV_CELLS:
        for value in found:
            assert value.dim() != 4 or value.is_contiguous(memory_format=torch.channels_last)


@every_row
def test_autocast(row):
    module = row.build()
    values, previous = row.values(), row.previous()
    expected = _call(row, module, values, previous)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = _call(row, row.build(), values, previous)
    for low, high in zip(found, expected, strict=True):
        torch.testing.assert_close(low.float(), high, rtol=0.1, atol=0.2)
    if any(value.requires_grad for value in found):
        sum(value.float().sum() for value in found).backward()


@every_row
def test_half_precision_parameters(row):
    module = row.build().to(torch.bfloat16)
    values, previous = row.values(dtype=torch.bfloat16), row.previous(dtype=torch.bfloat16)
    for value in _call(row, module, values, previous):
        assert value.dtype == torch.bfloat16
        assert value.isfinite().all()


@every_row
def test_nothing_is_made_on_another_device(row):
    module = row.build().to("meta")
    for value in _call(row, module, row.values(device="meta"), row.previous(device="meta")):
        assert value.device.type == "meta"


@pytest.mark.parametrize("row", {(row.cell, row.side): row for row in ROWS}.values(), ids=str)
def test_compiles_into_one_graph(row):
    module = row.build(iterations=2)
    values, previous = row.values(), row.previous()
    torch._dynamo.reset()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    found = _flat(compiled(values, previous or None, TimeStep(1)))
    expected = _call(row, row.build(iterations=2), values, previous, TimeStep(1))
    torch.testing.assert_close(found, expected)


@every_row
def test_an_arrow_that_may_lack_says_nothing_when_it_carries_zeros(row):
    module = row.build().eval()
    assert isinstance(module, CellModule)
    values = row.values()
    for key in row.inlets:
        if not module.may_lack(key):
            continue
        without = {k: v for k, v in values.items() if k != key}
        zeros = {**values, key: torch.zeros_like(values[key])}
        stateless = key == "state"
        previous = row.previous()
        found = _call(row, module, without, {} if stateless else previous)
        if stateless:
            previous = {k: torch.zeros_like(v) for k, v in previous.items()}
        torch.testing.assert_close(found, _call(row, module, zeros, previous))
