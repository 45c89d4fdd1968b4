"""The original Ladder: noise in cells, taps, the clean pass, weights by node.

The reference is written from the formulas of Rasmus et al. 2015 with torch alone.
"""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import Phase, given, settings
from torch import Tensor
from torch.nn import functional

import ladderspec as ls
from ladderspec.language.read import Spec
from ladderspec.network.net import Net
from tests.interpreter import Interpreter
from tests.network.test_equality import close, frames_of, gradients, largest, pair_of
from tests.random_specs import features, specs

SIZES = (12, 9, 7, 5)
WEIGHTS = {"decoder.input": 1000.0, "decoder.h1": 10.0, "else": 0.1}
EPS = 1e-5
SPEC = f"""
input: {{channels: 12, noise: {{gaussian: 0.3}}}}
defaults:
  FC: {{noise: {{gaussian: 0.3}}}}
  SoftMax: {{noise: {{gaussian: 0.3}}}}
  G1: {{w: ladder, w_s: ladder}}
edges: {{lateral: {{tap: normalised}}}}
levels:
  - {{name: h1, encoder: {{cell: FC, channels: 9}}, decoder: G1}}
  - {{name: h2, encoder: {{cell: FC, channels: 7}}, decoder: G1}}
  - {{name: class, encoder: {{cell: SoftMax, channels: 5}}, decoder: G1}}
top: {{cell: G1, weights: none}}
tasks:
  digit: {{kind: classification, at: encoder.class}}
  denoise: {{kind: denoising, at: decoder.*, target: clean, weight: {WEIGHTS}}}
""".replace("'", "")
LEVELS = ("h1", "h2", "class")


def network(text: str = SPEC, **changes: object) -> Net:
    net = ls.build(ls.loads(text, **changes)).double()  # type: ignore[arg-type]
    torch.manual_seed(7)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return net


class Reference:
    """The original algorithm, from a table of parameters."""

    def __init__(self, net: Net, stop: bool = False) -> None:
        self.p = {n: p.detach().clone().requires_grad_() for n, p in net.named_parameters()}
        self.running: dict[str, tuple[Tensor, Tensor]] = {}
        self.stop = stop

    def up(self, x: Tensor, noise: list[Tensor]) -> tuple[list[Tensor], list[Tensor], Tensor]:
        """z and h of every level, noisy or clean, and the logits."""
        z, h = [x + noise[0]], [x + noise[0]]
        self.moments = [(x.new_zeros(()), x.new_ones(()))]
        for name, n in zip(LEVELS, noise[1:], strict=True):
            weight = self.p[f"encoder.{name}.encoder.weight"]
            pre = h[-1] @ weight.T
            mean, var = pre.mean(0), pre.var(0, unbiased=False)
            self.running[name] = (0.1 * mean, 0.9 + 0.1 * pre.var(0))
            self.moments.append((mean, (var + EPS).sqrt()))
            z.append((pre - mean) / (var + EPS).sqrt() + n)
            a = self.p[f"encoder.{name}.encoder.gain"] * z[-1] + self.p[f"encoder.{name}.bias"]
            h.append(a.softmax(1) if name == "class" else a.relu())
        return z, h, a

    def down(self, z: list[Tensor], top: Tensor) -> list[Tensor]:
        """The estimates of all levels, the input first."""
        estimates: list[Tensor] = []
        above = top
        for name, noisy in zip(("class", "h2", "h1", "input"), reversed(z), strict=True):
            p = {k.split(f"decoder.{name}.")[-1]: v for k, v in self.p.items()}
            u = above if name == "class" else above @ p["decoder.weight"].T
            u = u + p["b"]
            u = (u - u.mean(0)) / (u.var(0, unbiased=False) + EPS).sqrt()
            v = self.gate(u, p["w"])
            s = self.gate(u, p["lateral.w_s"])
            above = s * noisy + (1 - s) * v
            estimates.insert(0, above)
        return estimates

    @staticmethod
    def gate(u: Tensor, w: Tensor) -> Tensor:
        a, b, c, d, e = w
        return a * torch.sigmoid(b * u + c) + d * u + e

    def costs(self, x: Tensor, label: Tensor, noise: list[Tensor]) -> tuple[Tensor, Tensor]:
        z, h, logits = self.up(x, noise)
        silent = [torch.zeros(()) for _ in noise]
        clean, _, _ = self.up(x, silent)
        moments = self.moments
        supervised = functional.cross_entropy(logits, label)
        total = x.new_zeros(())
        lambdas = (1000.0, 10.0, 0.1, 0.1)
        for weight, made, target, (mean, std) in zip(
            lambdas, self.down(z, h[-1]), clean, moments, strict=True
        ):
            if self.stop:
                target, mean, std = target.detach(), mean.detach(), std.detach()
            total = total + weight * ((made - mean) / std - target).pow(2).mean()
        return supervised, total


def drawn(x: Tensor, seed: int) -> list[Tensor]:
    """The noise of a pass, in the documented order: the input, then the cells upwards."""
    torch.manual_seed(seed)
    return [0.3 * torch.randn(len(x), size, dtype=x.dtype) for size in SIZES]


@pytest.mark.parametrize("stop", [False, True])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_costs_gradients_and_statistics_are_those_of_the_original(
    stop: bool, checkpoint: bool
) -> None:
    text = SPEC.replace("target: clean", f"target: clean, stop: {str(stop).lower()}")
    net = network(text)
    x, label = torch.rand(16, 12, dtype=torch.float64), torch.arange(16) % 5
    reference = Reference(net, stop)
    supervised, denoising = reference.costs(x, label, drawn(x, 3))
    (supervised + denoising).backward()
    torch.manual_seed(3)
    costs = net.cost(x, label, checkpoint=checkpoint)
    costs.total.backward()
    torch.testing.assert_close(costs["digit"], supervised, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(costs["denoise"], denoising, rtol=1e-9, atol=1e-9)
    for name, parameter in net.named_parameters():
        torch.testing.assert_close(
            parameter.grad, reference.p[name].grad, rtol=1e-9, atol=1e-9, msg=name
        )
    for name, (mean, var) in reference.running.items():  # of the clean pass, which came last
        norm = net.get_submodule(f"encoder.{name}.encoder.norm")
        torch.testing.assert_close(norm.running_mean[0], mean.detach(), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(norm.running_var[0], var.detach(), rtol=1e-9, atol=1e-9)


def test_evaluation_is_without_noise() -> None:
    net = network().eval()
    x = torch.rand(6, 12, dtype=torch.float64)
    first = net(x)
    assert torch.equal(first["digit"], net(x)["digit"])
    assert torch.equal(
        net.cost(x, torch.arange(6) % 5).total, net.cost(x, torch.arange(6) % 5).total
    )


# --- any network ----------------------------------------------------------------------------------


def plain_cost(net: Net, plain: Interpreter, frames: Tensor) -> Tensor:
    """The cost of the task `levels`, from two passes of the plain loop."""
    clean = plain(frames, clean=True)
    torch.manual_seed(1)
    noisy = plain(frames)
    task = net.tasks["levels"]
    times = range(len(noisy)) if task.when == "all" else [len(noisy) - 1]
    total = torch.zeros(())
    targets = net.graph.graph["tasks"]["levels"]["clean"]
    weights = task.node_weights(targets) or dict.fromkeys(targets, 1 / len(targets))
    for node, (source, tap) in targets.items():
        costs = []
        for t in times:
            made, (output, further) = noisy[t][node][0], clean[t][source]
            target = further["normalised"] if tap == "normalised" else output
            further = {k: v.detach() if task.stops else v for k, v in further.items()}
            target = target.detach() if task.stops else target
            if tap == "normalised" and "moments" in further:
                wide = (1, -1, *(1 for _ in made.shape[2:]))
                mean, std = further["moments"]
                made = (made - mean.view(wide)) / std.view(wide)
            costs.append((made - target).pow(2).mean())
        total = total + weights[node] * torch.stack(costs).mean()
    return total


def test_random_specs_with_a_clean_pass_equal_a_plain_loop(one_thread):
    covered: Counter[str] = Counter()

    @given(specs())
    @settings(deadline=None, max_examples=150, derandomize=True, phases=[Phase.generate])
    def check(spec: Spec) -> None:
        if "levels" not in spec.config.tasks:
            return
        net, plain = pair_of(spec)
        frames = frames_of(net)
        kept = [buffer.clone() for buffer in plain.buffers()]
        theirs = plain_cost(net, plain, frames)
        names = [name for name, _ in plain.named_parameters()]
        wanted = gradients(theirs, plain.parameters())
        with torch.no_grad():  # is it a matter of the last digits?
            for buffer, value in zip(plain.buffers(), kept, strict=True):
                buffer.copy_(value)
            for parameter in plain.parameters():
                parameter.mul_(1 + 1e-15 * torch.randn_like(parameter))
        moved = gradients(plain_cost(net, plain, frames), plain.parameters())
        if largest([a - b for a, b in zip(moved, wanted, strict=True)]) > 1e-11 * largest(wanted):
            covered["ill-conditioned"] += 1
            return
        for checkpoint in (False, True):
            torch.manual_seed(1)
            ours = net.cost(frames, tasks=["levels"], checkpoint=checkpoint)["levels"]
            close(ours, theirs, "cost")
            parameters = dict(net.named_parameters())
            found = gradients(ours, [parameters[name] for name in names])
            for name, a, b in zip(names, found, wanted, strict=True):
                close(a, b, f"gradient of {name}", scale=largest(wanted))
        covered.update({*features(spec, net.plan), "all"})

    torch.set_default_dtype(torch.float64)
    try:
        check()
    finally:
        torch.set_default_dtype(torch.float32)
    assert covered["all"] >= 20, covered
    assert covered["ill-conditioned"] < covered["all"] / 3
    assert min(covered[name] for name in ("noise in a cell", "tap", "iterations", "loop")) >= 3
