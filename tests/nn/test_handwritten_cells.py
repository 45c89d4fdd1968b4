"""The ground truth: a spec, walked plainly, equals the networks written out by hand.

Weights are copied over; outputs, gradients and running statistics agree in float64.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from benchmarks import handwritten as hand
from benchmarks.contest import GROUPED
from ladderspec.api import graph, load
from tests.interpreter import Interpreter, read

OMMNIST = "specs/ommnist/rladder.yaml"
MUSIC = "specs/music/rladder.yaml"

Tensors = dict[str, Tensor]


@pytest.fixture(autouse=True)
def _float64(one_thread):
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


# --- names of the one in names of the other ------------------------------------------------------


def _arrow(ours: str, theirs: str, map: str = "conv", norm: str = "norm") -> dict[str, str]:
    return {f"{ours}.weight": f"{theirs}{map}.weight", f"{ours}.gain": f"{theirs}{norm}.weight"}


def _statistics(ours: str, theirs: str) -> dict[str, str]:
    return {f"{ours}.{name}": f"{theirs}.{name}" for name in ("running_mean", "running_var")}


def _conv(ours: str, theirs: str, map: str = "conv") -> dict[str, str]:
    return {
        **_arrow(f"{ours}.encoder", f"{theirs}.", map),
        **_statistics(f"{ours}.encoder.norm", f"{theirs}.norm"),
        f"{ours}.bias": f"{theirs}.norm.bias",
    }


def _softmax(ours: str, theirs: str) -> dict[str, str]:
    return _conv(ours, theirs, "linear")


ROLES = {"encoder": "x", "state": "h", "decoder_to_encoder": "d"}


def _conv_lstm(ours: str, theirs: str) -> dict[str, str]:
    names = {f"{ours}.bias": f"{theirs}.bias"}
    for role, letter in ROLES.items():
        names |= _arrow(f"{ours}.{role}", f"{theirs}.", f"conv_{letter}", f"norm_{letter}")
    return names


def _lstm(ours: str, theirs: str) -> dict[str, str]:
    names = {f"{ours}.bias": f"{theirs}.linear_x.bias"}
    return names | {f"{ours}.{r}.weight": f"{theirs}.linear_{x}.weight" for r, x in ROLES.items()}


def _g1(ours: str, theirs: str) -> dict[str, str]:
    return {
        f"{ours}.decoder.weight": f"{theirs}.linear.weight",
        f"{ours}.b": f"{theirs}.linear.bias",
        f"{ours}.w": f"{theirs}.w",
        f"{ours}.lateral.w_s": f"{theirs}.w_s",
        **_statistics(f"{ours}.norm", f"{theirs}.norm"),
    }


def _conv_g3(ours: str, theirs: str) -> dict[str, str]:
    return {
        **_arrow(f"{ours}.decoder", f"{theirs}.", "conv_top", "norm_top"),
        **_arrow(f"{ours}.lateral", f"{theirs}.", "conv_lateral", "norm_lateral"),
        f"{ours}.c": f"{theirs}.bias",
        **{f"{ours}.{a}": f"{theirs}.conv_{b}.weight" for a, b in zip("DE", "de", strict=True)},
        f"{ours}.W_s": f"{theirs}.conv_s.weight",
    }


def _conv_g2(ours: str, theirs: str) -> dict[str, str]:
    branch = f"{theirs}.*"  # mu1, mu2, s are one tensor here
    return {
        **_arrow(f"{ours}.decoder", f"{branch}.", "conv_top", "norm_top"),
        **_arrow(f"{ours}.lateral", f"{branch}.", "conv_lateral", "norm_lateral"),
        f"{ours}.c": f"{branch}.bias",
        f"{ours}.w": f"{branch}.w",
    }


Naming = dict[str, tuple[Callable[[str, str], dict[str, str]], str]]  # ours: what it is, theirs

ENCODER: Naming = {
    "encoder.lstm1": (_conv_lstm, "encoder.lstm2"),
    **{f"encoder.conv_{i}": (_conv, f"encoder.conv{i + 2}") for i in (1, 2, 3)},
    "encoder.lstm6": (_conv_lstm, "encoder.lstm7"),
    **{f"encoder.wide_{i}": (_conv, f"encoder.conv{i + 7}") for i in (1, 2, 3)},
    **{f"encoder.conv{i}": (_conv, f"encoder.conv{i + 1}") for i in (11, 12, 13)},
    "encoder.top": (_lstm, "encoder.lstm16"),
    "encoder.class": (_softmax, "encoder.softmax17"),
}
LEVELS = ["input", "lstm1", "conv_1", "conv_2", "conv_3", "pool5", "lstm6", "wide_1", "wide_2"]
LEVELS += ["wide_3", "pool10", "conv11", "conv12", "conv13", "pool14"]
RLADDER: Naming = {
    **ENCODER,
    **{
        f"decoder.{name}": (_g1 if level > 13 else _conv_g3, f"dec{level}")
        for level, name in enumerate(LEVELS, start=1)
    },
}
BASELINE: Naming = {
    **{f"encoder.conv_{i}": (_conv, f"conv{i + 1}") for i in (1, 2, 3)},
    **{f"encoder.wide_{i}": (_conv, f"conv{i + 5}") for i in (1, 2, 3)},
    **{f"encoder.conv{i}": (_conv, f"conv{i - 1}") for i in (11, 12, 13)},
    "encoder.top": (_lstm, "lstm14"),
    "encoder.class": (_softmax, "softmax15"),
}
MUSIC_NAMES: Naming = {
    **{f"encoder.lstm{i}": (_conv_lstm, f"lstm{i + 1}") for i in range(1, 6)},
    "encoder.top": (_lstm, "lstm8"),
    "encoder.class": (_softmax, "softmax9"),
    "decoder.input": (_conv_g2, "dec1"),
    **{f"decoder.lstm{i}": (_conv_g2, f"dec{i + 1}") for i in range(1, 5)},
    "decoder.lstm5": (_g1, "dec6"),
    "decoder.pool": (_g1, "dec7"),
}


def translate(naming: Naming, theirs: Tensors, like: Tensors) -> Tensors:
    """Tensors of the hand-written network under the names and in the shapes of ours."""
    found = {}
    for node, (kind, part) in naming.items():
        for name, other in kind(node, part).items():
            if name in like:  # a network without decoder lacks some arrows
                found[name] = _merged(other, theirs, like[name])
    return found


def _merged(name: str, theirs: Tensors, like: Tensor) -> Tensor:
    if "*" not in name:
        return theirs[name].reshape(like.shape)
    parts = [theirs[name.replace("*", branch)] for branch in ("mu1", "mu2", "s")]
    axis = next(i for i, n in enumerate(parts[0].shape) if like.shape[i] == 3 * n)
    return torch.cat(parts, axis).reshape(like.shape)


# --- the four networks ---------------------------------------------------------------------------

CASES = {
    "rladder": ((OMMNIST, None), hand.RLadder, RLADDER),
    "hierarchical_rnn": ((OMMNIST, "hierarchical_rnn"), hand.HierarchicalRNN, ENCODER),
    "temporal_baseline": ((OMMNIST, "temporal_baseline"), hand.TemporalBaseline, BASELINE),
    "music": ((MUSIC, None), hand.MusicRLadder, MUSIC_NAMES),
}
PLACES = {"digit": "encoder.class", "next_frame": "decoder.input"}


def _randomise(net: nn.Module) -> None:
    """Away from starts such as 0 and 1, where mistakes could hide."""
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))


def _outputs(net: Interpreter, frames: Tensor, tasks: Tensors) -> Tensors:
    history = net(frames)
    return {task: read(history, PLACES[task]) for task in tasks}


def _cost(outputs: Tensors) -> Tensor:
    """Reads every output of every sample at every t, each with a weight of its own.

    Samples must differ in weight: behind a batch norm, their plain sum is constant.
    """
    generator = torch.Generator().manual_seed(0)
    return sum(
        (torch.randn(value.shape, generator=generator) * (value + value**2)).sum()
        for value in outputs.values()
    )


def _close(ours: Tensor, theirs: Tensor, name: str, scale: float | None = None) -> None:
    scale = theirs.abs().max().item() if scale is None else scale
    torch.testing.assert_close(
        ours, theirs, rtol=0, atol=1e-9 * scale, msg=lambda text: f"{name}: {text}"
    )


@pytest.mark.parametrize("case", CASES)
def test_equals_the_network_written_by_hand(case):
    (path, variant), cls, naming = CASES[case]
    ours, theirs = Interpreter(graph(load(path, variant))), cls()
    _randomise(theirs)
    like = ours.state_dict()
    weights = translate(naming, theirs.state_dict(), like)
    assert weights.keys() == like.keys()
    ours.load_state_dict(weights)

    frames = torch.rand(3, 2, *ours.graph.nodes["encoder.input"]["shape"])
    expected = theirs(frames)
    outputs = _outputs(ours, frames, expected)
    for task in expected:
        _close(outputs[task], expected[task], task)

    _cost(expected).backward()
    _cost(outputs).backward()
    gradients = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    wanted = translate(naming, {**theirs.state_dict(), **gradients}, like)
    for name, parameter in ours.named_parameters():
        if name.endswith(".b"):  # batch norm takes it out again, so that rounding is all there is
            _close(parameter.grad, wanted[name], name, scale=1.0)
            continue
        assert wanted[name].abs().max() > 1e-3, f"{name}: no gradient to compare"
        _close(parameter.grad, wanted[name], name)
    for name, buffer in ours.named_buffers():
        _close(buffer, wanted[name], name)

    with torch.no_grad():  # every t is computed, so that there are statistics of each
        longer = torch.rand(2, 5, *frames.shape[2:])
        _outputs(ours, longer, theirs(longer))
        ours.eval()
        theirs.eval()
        one = torch.rand(1, 6, *frames.shape[2:])  # a batch of one, beyond the kept statistics
        expected = theirs(one)
        outputs = _outputs(ours, one, expected)
    for task in expected:
        _close(outputs[task], expected[task], f"{task} in evaluation")


# --- a network with groups -----------------------------------------------------------------------


def _conv_lstm_with_batch_norm(ours: str, theirs: str) -> dict[str, str]:
    names = {f"{ours}.bias": f"{theirs}.norm_x.bias"}
    for role, x in ROLES.items():
        names |= _arrow(f"{ours}.{role}", f"{theirs}.", f"conv_{x}", f"norm_{x}")
        names |= _statistics(f"{ours}.{role}.norm", f"{theirs}.norm_{x}")
    return names


def _conv_g1(ours: str, theirs: str) -> dict[str, str]:
    names = _g1(ours, theirs)
    linear = {f"{ours}.decoder.weight": "conv.weight", f"{ours}.b": "conv.bias"}
    return names | {name: f"{theirs}.{part}" for name, part in linear.items()}


def _readout(ours: str, theirs: str) -> dict[str, str]:
    names = {f"{ours}.{name}": name for name in ("c", "b", "c_pi", "mean", "std")}
    names |= {f"{ours}.noise": "start", f"{ours}.decoder.weight": f"{theirs}.weight"}
    return names | _statistics(f"{ours}.norm", "norm1")


RTAGGER: Naming = {
    **{f"encoder.lstm{i}": (_conv_lstm_with_batch_norm, f"lstm{i + 1}") for i in (1, 3, 5)},
    **{f"encoder.conv{i}": (_conv, f"conv{i + 1}") for i in (2, 4)},
    "encoder.class": (_softmax, "softmax8"),
    "decoder.pool": (_g1, "dec7"),
    **{f"decoder.{name}{i}": (_conv_g1, f"dec{i + 1}")
       for name, i in (("conv", 4), ("lstm", 3), ("conv", 2), ("lstm", 1))},
    "decoder.input": (_readout, "dec1"),
}  # fmt: skip


@pytest.mark.parametrize("case", GROUPED)
def test_groups_equal_the_network_written_by_hand(case):
    """In training with the same random numbers, and in evaluation."""
    ours, theirs = GROUPED[case].ours(), GROUPED[case].theirs()
    assert sum(p.numel() for p in theirs.parameters()) == 248_569
    _randomise(theirs)
    theirs.mean.fill_(0.4)
    theirs.std.fill_(0.3)
    like = ours.state_dict()
    weights = translate(RTAGGER, theirs.state_dict(), like)
    assert weights.keys() == like.keys()
    ours.load_state_dict(weights)
    assert torch.equal(ours.get_buffer("decoder.input.noise"), theirs.start)

    images, labels = torch.rand(3, 1, 24, 24), torch.tensor([3, 0, 9])
    torch.manual_seed(7)
    expected = theirs.cost(images, labels)
    torch.manual_seed(7)
    cost = ours.cost(images, labels).total
    _close(cost, expected, "cost")
    cost.backward()
    expected.backward()
    gradients = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    wanted = translate(RTAGGER, {**theirs.state_dict(), **gradients}, like)
    scale = max(gradient.abs().max().item() for gradient in gradients.values())
    for name, parameter in ours.named_parameters():
        _close(parameter.grad, wanted[name], name, scale)
    for name, buffer in ours.named_buffers():
        _close(buffer, wanted[name], name)

    ours.eval()
    theirs.eval()
    with torch.no_grad():
        expected, outputs = theirs(images[:1]), ours(images[:1])
    for task in expected:
        _close(outputs[task], expected[task], f"{task} in evaluation")
