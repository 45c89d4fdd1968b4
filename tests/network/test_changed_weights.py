"""Nothing is stale: whatever changes the weights, all calls give what a fresh network gives.

One table: ways of changing weights, times kinds of calls. Every network has streamed before, long
enough that its iterations are replayed.
"""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize, prune, vector_to_parameters
from torch.optim.swa_utils import AveragedModel

from ladderspec.api import build, load, loads
from ladderspec.network.net import Net
from tests.network.test_compile import GROUPS

SPECS = {
    "rladder": ("specs/ommnist/rladder_tiny.yaml", None),
    "music": ("specs/music/rladder_tiny.yaml", None),
    "ladder": ("specs/related/ladder_tiny.yaml", None),
    "groups": (GROUPS, None),
}
Change = Callable[[Net], Net]
pytestmark = pytest.mark.usefixtures("one_thread")


# --- ways of changing weights ---------------------------------------------------------------------


def _gradients(net: Net) -> None:
    generator = torch.Generator().manual_seed(3)
    for parameter in net.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator).to(parameter)


def _optimiser(kind: Any, **options: Any) -> Change:
    def change(net: Net) -> Net:
        _gradients(net)
        kind(net.parameters(), lr=0.05, **options).step()
        return net

    return change


def _data(net: Net) -> Net:
    for parameter in net.parameters():
        parameter.data.mul_(1.3)
    return net


def _numpy(net: Net) -> Net:
    for parameter in net.parameters():
        parameter.detach().numpy()[...] *= 0.7
    return net


def _new_data(net: Net) -> Net:
    for parameter in net.parameters():
        parameter.data = parameter.data * 1.2
    return net


def _copy(net: Net) -> Net:
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(0.5 * parameter)
    return net


def _vector(net: Net) -> Net:
    flat = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
    vector_to_parameters(1.1 * flat, net.parameters())
    return net


def _load(net: Net) -> Net:
    net.load_state_dict({k: v * 0.9 for k, v in net.state_dict().items()})
    return net


def _buffers(net: Net) -> Net:
    for buffer in net.buffers():
        buffer.add_(0.3)
    return net


def _averaged(net: Net) -> Net:
    """Weights of a moving average are put in the place of the network's own."""
    for module in net.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None:
                setattr(module, name, nn.Parameter(0.8 * parameter.detach()))
    return net


class _Double(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


def _weights(net: Net) -> list[tuple[nn.Module, str]]:
    return [(m, "weight") for m in net.modules() if "weight" in m._parameters]


def _parametrised(net: Net) -> Net:
    module, name = _weights(net)[0]
    parametrize.register_parametrization(module, name, _Double())
    return net


def _pruned(net: Net) -> Net:
    module, name = _weights(net)[-1]
    prune.l1_unstructured(module, name, amount=0.5)
    return net


def _hooked(net: Net) -> Net:
    module, _ = _weights(net)[0]
    module.register_forward_hook(lambda module, given, result: 3 * result)
    return net


def _swapped(net: Net) -> Net:
    module, _ = _weights(net)[0]
    forward = module.forward
    module.forward = lambda *given, **named: 0.5 * forward(*given, **named)  # type: ignore[method-assign]
    return net


CHANGES: dict[str, Change] = {
    "sgd": _optimiser(torch.optim.SGD),
    "fused sgd": _optimiser(torch.optim.SGD, fused=True),
    "adam": _optimiser(torch.optim.Adam),
    "fused adam": _optimiser(torch.optim.Adam, fused=True),
    "fused adamw": _optimiser(torch.optim.AdamW, fused=True),
    "fused adagrad": _optimiser(torch.optim.Adagrad, fused=True),
    "data": _data,
    "numpy view": _numpy,
    "new data": _new_data,
    "copy_": _copy,
    "vector_to_parameters": _vector,
    "load_state_dict": _load,
    "buffers": _buffers,
    "average in its place": _averaged,
    "parametrised": _parametrised,
    "pruned": _pruned,
    "hook": _hooked,
    "forward replaced": _swapped,
    "double": lambda net: net.double(),
    "deepcopy": lambda net: _data(copy.deepcopy(net)),
    "pickled": lambda net: _data(pickle.loads(pickle.dumps(net))),
    "trained and evaluated": lambda net: _data(net.train().eval()),
}


# --- kinds of calls -------------------------------------------------------------------------------


def _frames(net: Net, batch: int = 2) -> Tensor:
    time = () if net.plan.iterations else (4,)
    generator = torch.Generator().manual_seed(5)
    frames = torch.rand(batch, *time, *net.shape, generator=generator)
    return frames.to(next(net.parameters()).dtype)


def _stream(net: Net) -> list[Tensor]:
    frames, found = _frames(net), []
    with torch.inference_mode():
        carry = net.initial_carry(2)
        for t in range(4):
            seen, carry = net.iterate(frames if net.plan.iterations else frames[:, t], carry)
            found += [value for value in seen.values() if isinstance(value, Tensor)]
    return found


def _whole(net: Net) -> list[Tensor]:
    with torch.no_grad():
        return [value for value in net(_frames(net)).values() if isinstance(value, Tensor)]


def _cost(net: Net) -> list[Tensor]:
    return [net.cost(_frames(net), {"label": torch.tensor([1, 2])}).total.detach()]


def _threads(net: Net) -> list[Tensor]:
    found: dict[int, list[Tensor]] = {}

    def run(number: int) -> None:
        found[number] = _stream(net)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [*found[0], *found[1]]


CALLS: dict[str, Callable[[Net], list[Tensor]]] = {
    "iterate": _stream,
    "net(frames)": _whole,
    "cost": _cost,
    "two threads": _threads,
}


def _net(spec: str) -> Net:
    path, variant = SPECS[spec]
    net = build(loads(path) if "\n" in path else load(path, variant)).eval()
    with torch.no_grad():
        for buffer in net.buffers():
            buffer.add_(0.1 * torch.rand(buffer.shape, generator=torch.Generator().manual_seed(1)))
    return net


def _programs(net: Net) -> Mapping[Any, Any]:
    """The captured programs of a network."""
    return {} if net.replay.guard is None else net.replay.guard.programs


def test_the_size_of_the_table() -> None:
    assert len(CHANGES) * len(CALLS) * len(SPECS) == 22 * 4 * 4


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("change", CHANGES)
def test_every_call_sees_the_new_weights(spec: str, change: str) -> None:
    net = _net(spec)
    for _ in range(6):
        _stream(net)
    assert _programs(net), "its iterations are replayed"
    changed, fresh = CHANGES[change](net), CHANGES[change](_net(spec))
    for name, call in CALLS.items():
        for _ in range(2):
            for ours, theirs in zip(call(changed), call(fresh), strict=True):
                torch.testing.assert_close(
                    ours, theirs, rtol=0, atol=0, msg=f"{name} after {change}"
                )


@pytest.mark.parametrize("spec", SPECS)
def test_functional_call_and_back(spec: str) -> None:
    net = _net(spec)
    for _ in range(6):
        before = _stream(net)
    other = {name: 0.5 * p for name, p in net.named_parameters()}
    within = torch.func.functional_call(
        _Streams(net), {f"net.{k}": v for k, v in other.items()}, ()
    )
    fresh = _net(spec)
    fresh.load_state_dict(other, strict=False)
    for ours, theirs in zip(within, _stream(fresh), strict=True):
        assert torch.equal(ours, theirs)
    for ours, theirs in zip(_stream(net), before, strict=True):
        assert torch.equal(ours, theirs)


class _Streams(nn.Module):
    def __init__(self, net: Net) -> None:
        super().__init__()
        self.net = net

    def forward(self) -> list[Tensor]:
        return _stream(self.net)


@pytest.mark.parametrize("spec", ["rladder", "groups"])
def test_replay_gives_the_same_numbers_bit_by_bit(spec: str) -> None:
    net = _net(spec)
    plain = _stream(net)
    for _ in range(8):
        replayed = _stream(net)
    assert len(_programs(net)) == 4  # one for each t: batch norm has statistics for each
    for ours, theirs in zip(replayed, plain, strict=True):
        assert torch.equal(ours, theirs)


def test_half_precision_after_streaming() -> None:
    net = _net("rladder")
    for _ in range(6):
        _stream(net)
    fresh = _net("rladder").to(torch.bfloat16)
    for ours, theirs in zip(_stream(net.to(torch.bfloat16)), _stream(fresh), strict=True):
        assert torch.equal(ours, theirs)
    encoder = net.get_submodule("encoder.conv_1")
    encoder.float()  # a part alone: refused by torch, not computed with old weights
    with pytest.raises(RuntimeError, match=r"dtype|type"):
        _stream(net)


def test_no_tensor_made_from_weights_outlives_a_call() -> None:
    """After calls of all kinds, a network holds its parameters, its buffers and nothing else."""
    net = _net("rladder")
    for _ in range(6):
        for call in CALLS.values():
            call(net)
    owned = {id(x) for x in [*net.parameters(), *net.buffers()]}
    found = [x for x in _tensors(net, set()) if id(x) not in owned and x.grad_fn is None]
    assert found == []


def _tensors(value: Any, seen: set[int]) -> list[Tensor]:
    """All tensors that can be reached from a value."""
    if id(value) in seen:
        return []
    seen.add(id(value))
    if isinstance(value, Tensor):
        return [value]
    inner: list[Any] = []
    if isinstance(value, dict):
        inner = [*value.values()]
    elif isinstance(value, list | tuple | set):
        inner = [*value]
    elif type(value).__module__.startswith(("ladderspec", "torch.nn")):
        inner = [*vars(value).values()]
    elif callable(value) and hasattr(value, "__globals__") and value.__name__ == "program":
        inner = [*value.__globals__.values()]
    return [tensor for each in inner for tensor in _tensors(each, seen)]


SHARED = """
input: {channels: 2}
time: {iterations: 4}
levels:
  - {name: a, encoder: {cell: FC, channels: 3, norm: layer}}
  - {name: b, encoder: {cell: LSTM, channels: 4}}
edges: {add: [encoder.input(t-1) -> encoder.b]}
tasks: {digit: {kind: classification, at: encoder.b, when: all}}
"""


def test_inputs_that_are_one_tensor_are_not_confused() -> None:
    """The input of t is what the carry holds at t + 1: captured programs keep the two apart."""
    net, fresh = (build(loads(SHARED)).eval() for _ in range(2))
    torch.manual_seed(0)
    for _ in range(8):
        x = torch.rand(2, 2)
        with torch.inference_mode():
            carry, found = net.initial_carry(2), []
            for _ in range(4):
                seen, carry = net.iterate(x, carry)
                found.append(seen["digit"])
            torch.testing.assert_close(torch.stack(found, 1), fresh(x)["digit"])
    assert _programs(net)


def test_a_frame_that_is_a_buffer_of_the_network() -> None:
    text = SHARED.replace("channels: 2", "channels: 3").replace("layer", "batch")
    net, fresh = (build(loads(text)).eval() for _ in range(2))
    for x in (*[net.get_buffer("encoder.a.encoder.norm.running_mean")] * 8, torch.ones(4, 3)):
        with torch.inference_mode():
            found = [n.iterate(x, n.initial_carry(4))[0]["digit"] for n in (net, fresh)]
        torch.testing.assert_close(*found, rtol=0, atol=0)


def test_a_carry_of_one_tensor() -> None:
    net = _net("rladder")
    frames = _frames(net)
    for _ in range(6):
        _stream(net)
    with torch.inference_mode():
        start = net.initial_carry(2)
        like = {(k, v.shape) for k, kept in start.values.items() for v in kept}
        zeros = {shape: torch.zeros(shape) for _, shape in like}
        shared = {k: tuple(zeros[v.shape] for v in kept) for k, kept in start.values.items()}
        for _ in range(5):
            ours = net.iterate(frames[:, 0], start._replace(values=shared))[0]
            theirs = net.iterate(frames[:, 0], net.initial_carry(2))[0]
            torch.testing.assert_close(ours["digit"], theirs["digit"], rtol=0, atol=0)


def test_attributes_that_decide_are_guarded_and_training_is_never_replayed() -> None:
    net, fresh = _net("rladder"), _net("rladder")
    for _ in range(6):
        _stream(net)
    for each in (net, fresh):
        each.get_submodule("encoder.lstm1.encoder.norm").groups = 2
    for ours, theirs in zip(_stream(net), _stream(fresh), strict=True):
        assert torch.equal(ours, theirs)
    net.train()
    for _ in range(6):
        _stream(net)
    assert not _programs(net)


def test_replay_comes_back_after_a_hook_and_a_failed_capture_is_not_repeated() -> None:
    net = _net("rladder")
    handle = net.get_submodule("encoder.conv_1").register_forward_hook(lambda *_: None)
    for _ in range(5):
        _stream(net)
    assert not _programs(net)
    handle.remove()
    for _ in range(5):
        _stream(net)
    assert _programs(net)


# --- rows of running statistics -------------------------------------------------------------------


def _trained_rows(net: Net) -> dict[str, Tensor]:
    """Running statistics as training leaves them that computes the odd iterations alone."""
    generator = torch.Generator().manual_seed(7)
    found = {}
    for name, buffer in net.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            found[name] = buffer.clone()
            found[name][1::2] = torch.rand(buffer[1::2].shape, generator=generator) + 0.5
    return found


def _copied(net: Net, rows: dict[str, Tensor]) -> nn.Module:
    for name, values in rows.items():
        net.get_buffer(name).copy_(values)
    return _Streams(net)


def _moving_average(net: Net, rows: dict[str, Tensor]) -> nn.Module:
    average = AveragedModel(_Streams(net), use_buffers=True).eval()
    average.update_parameters(average.module)
    trained = copy.deepcopy(net)
    _copied(trained, rows)
    average.n_averaged.fill_(0)  # so that the average is that of the last network alone
    average.update_parameters(_Streams(trained))
    return average


def _for_one_call(net: Net, rows: dict[str, Tensor]) -> Callable[[], list[Tensor]]:
    given = {f"net.{name}": values for name, values in rows.items()}
    return lambda: torch.func.functional_call(_Streams(net), given, ())


@pytest.mark.parametrize("fill", [_copied, _moving_average, _for_one_call])
def test_rows_that_are_filled_later(fill: Callable[..., Callable[[], list[Tensor]]]) -> None:
    """An iteration without statistics uses the nearest row, whenever that row was filled."""
    path, variant = SPECS["rladder"]
    net, fresh = (build(load(path, variant)).eval() for _ in range(2))
    rows = _trained_rows(net)
    fresh.load_state_dict(rows, strict=False)
    before = _stream(net)
    changed = fill(net, rows)
    for ours, theirs, old in zip(changed(), _stream(fresh), before, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
        assert not torch.equal(ours, old)
