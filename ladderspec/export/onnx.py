"""One iteration as ONNX: a frame and what is remembered in, what tasks see and the next memory out.

Inputs are `frame`, further inputs like `input.action`, then `carry.encoder.lstm1`,
`carry.encoder.lstm1.c`, ...; outputs are the tasks by name, then `next.encoder.lstm1`, ...: every
`next.NAME` goes back in as `carry.NAME`. A value of two iterations ago is `carry.NAME.2`. `carry.t`
counts from 0; it is there if batch norms keep statistics by t, or if an input is shown `until`
some t. What is remembered at first is zero, or as in the metadata `initial`: arrays by the
name of the input, to be broadcast to its shape. With groups, carries are (batch, K, ...).
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from ladderspec.cells.functions import per_channel
from ladderspec.errors import UsageError
from ladderspec.network.history import Carry
from ladderspec.network.net import Net
from ladderspec.network.portable import Iteration
from ladderspec.nn import BatchNorm
from ladderspec.version import __version__
from ladderspec.wiring.readings import readouts_of

OPSET = 18  # what the exporter of torch is written for


def to_onnx(net: Net) -> bytes:
    """The iteration of a network in evaluation, for any batch."""
    try:
        for name in ("onnx", "onnxscript"):
            import_module(name)
    except ImportError:
        raise UsageError(
            "ONNX needs onnx and onnxscript; `pip install 'ladderspec[export]'` brings them"
        ) from None
    training = net.training
    net.eval()
    try:
        return _export(net)
    finally:
        net.train(training)


def _export(net: Net) -> bytes:
    flat = _Flat(net)
    like = next(net.parameters(), torch.zeros(()))
    given = [like.new_zeros(2, *form.shape) for form in net.inputs.forms]  # 1 would stay 1 in torch
    inputs = [*given, *(value for kept in net.initial_carry(2).values.values() for value in kept)]
    batch = torch.export.Dim("batch", min=1)
    shapes: list[Any] = [{0: batch} for _ in inputs]
    if flat.timed:
        inputs, shapes = [*inputs, torch.tensor(0, device=like.device)], [*shapes, None]
    with torch.no_grad(), _quiet():
        program = torch.onnx.export(
            flat,
            tuple(inputs),
            dynamo=True,
            opset_version=OPSET,
            input_names=flat.inputs,
            output_names=flat.outputs,
            dynamic_shapes={"inputs": tuple(shapes)},
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    for key, value in (("initial", _initial(net)), ("producer", f"ladderspec {__version__}")):
        model.metadata_props.add(key=key, value=value)
    data: bytes = model.SerializeToString()
    return data


class _Flat(nn.Module):
    """An iteration on tensors alone, and the names of what goes in and comes out."""

    def __init__(self, net: Net) -> None:
        super().__init__()
        self.iterate = Iteration(net)
        self.forms = [form.name for form in net.inputs.forms]
        self.depths = {name: len(kept) for name, kept in net.initial_carry(1).values.items()}
        norms = [part for part in net.modules() if isinstance(part, BatchNorm)]
        self.timed = any(form.until for form in net.inputs.forms)  # whether t decides anything
        self.timed |= any(norm.running_mean.shape[0] > 1 for norm in norms)
        kept = [
            f"{name}.{age}" if age > 1 else name
            for name, depth in self.depths.items()
            for age in range(1, depth + 1)
        ]
        kept += ["t"] if self.timed else []
        tasks = [form.name for form in readouts_of(net.graph)]
        if not tasks:
            raise UsageError("the spec has no task: an iteration would give nothing")
        given = ["frame", *(form.node for form in net.inputs.forms[1:])]
        self.inputs = [*given, *(f"carry.{name}" for name in kept)]
        self.outputs = [*tasks, *(f"next.{name}" for name in kept)]
        for name in tasks:
            if [*self.inputs, *self.outputs].count(name) > 1:
                message = f"task `{name}` needs another name: ONNX has this one for the carry"
                raise UsageError(message)

    def forward(self, *inputs: Tensor) -> list[Tensor]:
        given = iter(inputs)
        frames = {name: next(given) for name in self.forms}
        kept = {name: tuple(next(given) for _ in range(n)) for name, n in self.depths.items()}
        seen, carry = self.iterate(frames, Carry(next(given) if self.timed else 0, kept))
        outputs: list[Tensor] = []
        for each in seen.values():
            outputs += each.values() if isinstance(each, dict) else [each]
        outputs += [value for kept in carry.values.values() for value in kept]
        return [*outputs, carry.t] if self.timed else outputs


def _initial(net: Net) -> str:
    """Initial values that are not zero: learned by channel, or the start of groups.

    Each is an array by the input's name, to be broadcast to its shape.
    """
    executor = net.executor
    values = executor.initial_values(net.groups or 1)
    for slot, channels in executor.learned_initial_values().items():
        values[slot] = per_channel(channels, values[slot])
    found = {f"carry.{slot}": values[slot].tolist() for slot in values if slot in executor.carried}
    return json.dumps(found)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the messages of torch's exporter."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
