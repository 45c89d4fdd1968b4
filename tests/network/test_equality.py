"""The plan never changes results: outputs, gradients and statistics equal a plain loop over t."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from hypothesis import Phase, given, settings
from torch import Tensor

from ladderspec.api import build, graph, load
from ladderspec.language.read import Spec
from ladderspec.names import is_input, size_of
from ladderspec.network.net import Net
from ladderspec.schedule.plan import schedule
from ladderspec.wiring.graph import Graph, groups_of, parameters
from ladderspec.wiring.readings import readouts_of
from ladderspec.wiring.sharing import holders
from tests.interpreter import Interpreter, Iteration, apart, read
from tests.random_specs import FEATURES, features, sizes_of, specs

SPECS = sorted(str(p) for p in Path("specs").rglob("*.yaml") if "experiments" not in p.parts)
QUICK = settings(deadline=None, max_examples=250, derandomize=True, phases=[Phase.generate])


@pytest.fixture(autouse=True)
def _float64(one_thread):
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


# --- the two networks -----------------------------------------------------------------------------


def pair_of(spec: Spec) -> tuple[Net, Interpreter]:
    """A network and its plain interpreter, with the same weights, away from starts like 0 and 1."""
    net, plain = build(spec), Interpreter(graph(spec))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    shared = plain.state_dict().keys()
    plain.load_state_dict({k: v for k, v in net.state_dict().items() if k in shared})
    net.noise = None
    return net, plain


def frames_of(net: Net, batch: int = 5, length: int = 4) -> Any:
    """Random frames; if the network has several inputs, all of them by name."""
    time = () if net.plan.iterations else (net.plan.length or length,)
    found = {
        form.name: torch.rand(batch, *(time if form.timed else ()), *form.shape)
        for form in net.inputs.forms
    }
    return found if len(found) > 1 else found["input"]


def seen_by(net: Net, history: list[Iteration]) -> dict[str, dict[str, Tensor]]:
    """The values that tasks read from the interpreter's history, (B, T, ...)."""
    return {
        name: {
            node: apart(
                readout(read(history, node).flatten(0, 1)).unflatten(0, (-1, len(history))),
                net.graph,
            )
            for node, readout in readouts.items()
        }
        for name, readouts in net.readouts.items()
    }


def by_node(net: Net, outputs: dict[str, object]) -> dict[str, dict[str, Tensor]]:
    return {
        name: seen if isinstance(seen, dict) else dict.fromkeys(net.readouts[name], seen)
        for name, seen in outputs.items()
    }


def close(ours: Tensor, theirs: Tensor, name: str, scale: float = 0.0) -> None:
    """To 1e-9 of the largest entry: entries that cancel are as exact as their neighbours."""
    scale = max(scale, theirs.abs().max().item()) if theirs.numel() else 0.0
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9 * scale + 1e-13, msg=name)


def mixed(outputs: dict[str, dict[str, Tensor]]) -> Tensor:
    """A cost that reads every output at every t, each with another weight."""
    total = torch.zeros(())
    for seen in outputs.values():
        for value in seen.values():
            weights = torch.linspace(-1, 1, value[0].numel()).view_as(value[0])
            total = total + (value * weights).sum()
    return total


def compare_training(net: Net, plain: Interpreter, frames: Tensor, strict: bool = True) -> bool:
    """Outputs, carry, gradients and running statistics of one training pass.

    Unless `strict`, nothing is compared where the plain loop itself does not know its numbers;
    returns whether they were compared.
    """
    torch.manual_seed(1)  # of the start of groups
    out = net(frames)
    torch.manual_seed(1)
    history = plain(frames)
    ours, theirs = by_node(net, out), seen_by(net, history)
    wanted = gradients(mixed(theirs), plain.parameters())
    if not strict and is_ill_conditioned(net, plain, frames, theirs, wanted):
        return False
    for name in theirs:
        for node in theirs[name]:
            close(ours[name][node], theirs[name][node], f"{name} at {node}")
    for node in net.plan.carry:
        last = [output for output, _ in (at[node] for at in reversed(history))]
        for value, expected in zip(out.carry.values[node], last, strict=False):
            folded = value.flatten(0, 1) if net.groups and not is_input(node) else value
            wanted_here = expected[:: net.groups] if is_input(node) else expected
            close(folded, wanted_here, f"carry of {node}")
    buffers = dict(net.named_buffers())
    for name, buffer in plain.named_buffers():
        close(buffers[name], buffer, name)
    names = [name for name, _ in plain.named_parameters()]
    parameters = dict(net.named_parameters())
    found = gradients(mixed(ours), [parameters[name] for name in names])
    for name, a, b in zip(names, found, wanted, strict=True):
        close(a, b, f"gradient of {name}", scale=largest(wanted))
    return True


def gradients(cost: Tensor, parameters: Iterable[Tensor]) -> list[Tensor]:
    """Zeros from before the first t are not computed with: no gradient is a gradient of zeros."""
    if not (several := list(parameters)):
        return []
    found = torch.autograd.grad(cost, several, allow_unused=True, materialize_grads=True)
    return list(found)


def largest(values: list[Tensor]) -> float:
    # Gradients through decoder-to-encoder loops are ill-conditioned: small ones are sums of large
    # terms, so that the largest of all sets the scale.
    return max((value.abs().max().item() for value in values), default=0.0)


def is_ill_conditioned(
    net: Net,
    plain: Interpreter,
    frames: Tensor,
    seen: dict[str, dict[str, Tensor]],
    wanted: list[Tensor],
) -> bool:
    """Whether the last digits of the weights decide: norms over one or two numbers make it so."""
    kept = [buffer.clone() for buffer in plain.buffers()]
    before = [parameter.detach().clone() for parameter in plain.parameters()]
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter.mul_(1 + 1e-15 * torch.randn_like(parameter))
    torch.manual_seed(1)
    others = seen_by(net, plain(frames))
    moved = gradients(mixed(others), plain.parameters())
    with torch.no_grad():
        for parameter, value in zip(plain.parameters(), before, strict=True):
            parameter.copy_(value)
        for buffer, value in zip(plain.buffers(), kept, strict=True):
            buffer.copy_(value)
    pairs = [(list(others[name].values()), list(seen[name].values())) for name in seen]
    pairs.append((moved, wanted))
    return any(
        largest([a - b for a, b in zip(new, old, strict=True)]) > 1e-11 * largest(old) + 1e-13
        for new, old in pairs
    )


# --- shipped specs --------------------------------------------------------------------------------


def variants() -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    for path in SPECS:
        if "_small" not in path and "_tiny" not in path:
            found += [(path, variant) for variant in [None, *load(path).config.variants]]
    return found


def tiny(path: str, variant: str | None) -> Spec:
    smaller = {"width": 2, "frames": 4}  # rounding errors grow over many frames
    params = load(path).config.params
    width = {f"params.{name}": value for name, value in smaller.items() if name in params}
    return load(path, variant, set=width)


@pytest.mark.parametrize(("path", "variant"), variants())
def test_shipped_specs_equal_a_plain_loop(path, variant):
    net, plain = pair_of(tiny(path, variant))
    compare_training(net, plain, frames_of(net))


@pytest.mark.parametrize("path", [path for path in SPECS if "_tiny" in path])
def test_reduced_specs_equal_a_plain_loop(path):
    net, plain = pair_of(load(path))
    compare_training(net, plain, frames_of(net))


# --- random specs ---------------------------------------------------------------------------------


def test_random_specs_equal_a_plain_loop():
    covered: Counter[str] = Counter()

    @given(specs())
    @QUICK
    def check(spec: Spec) -> None:
        net, plain = pair_of(spec)
        compared = compare_training(net, plain, frames_of(net), strict=False)
        covered.update({*features(spec, net.plan), "all"} if compared else {"ill-conditioned"})

    check()
    assert covered.pop("ill-conditioned", 0) < covered.pop("all") / 5
    assert covered.keys() == FEATURES, f"never drawn: {FEATURES - covered.keys()}"
    assert min(covered.values()) >= 3, covered.most_common()[-3:]


def test_random_specs_with_groups_equal_a_plain_loop():
    covered: Counter[str] = Counter()

    @given(specs(grouped=True))
    @QUICK
    def check(spec: Spec) -> None:
        net, plain = pair_of(spec)
        set_statistics_of_data(net, plain)
        compared = compare_training(net, plain, frames_of(net, batch=3), strict=False)
        groups = groups_of(net.graph)
        drawn = {groups.likelihood, f"K = {groups.count}", *net.tasks}
        covered.update({*drawn, "all"} if compared else {"ill-conditioned"})

    check()
    assert covered.pop("ill-conditioned", 0) < covered.pop("all") / 5
    assert covered.keys() >= {
        "gaussian",
        "bernoulli",
        "K = 1",
        "K = 2",
        "K = 3",
        "segment",
        "digit",
    }


@pytest.mark.parametrize("grouped", [False, True])
def test_random_specs_with_several_inputs_equal_a_plain_loop(grouped):
    covered: Counter[str] = Counter()

    @given(specs(grouped=grouped, inputs=True))
    @QUICK
    def check(spec: Spec) -> None:
        net, plain = pair_of(spec)
        if grouped:
            set_statistics_of_data(net, plain)
        compared = compare_training(net, plain, frames_of(net, batch=4), strict=False)
        covered.update({*_features_of_inputs(net), "all"} if compared else {"ill-conditioned"})

    check()
    assert covered.pop("ill-conditioned", 0) < covered.pop("all") / 5
    static = set() if grouped else {"static"}  # with groups, all cells follow the explanation
    assert covered.keys() == static | {
        "frame", "sequence", "map", "vector", "until", "frames until", "delay", "two", "one",
        "pruned", "learned initial",
    }  # fmt: skip
    assert min(covered.values()) >= 3, covered.most_common()[-3:]


def _features_of_inputs(net: Net) -> set[str]:
    frames, *further = net.inputs.forms
    edges = [edge for a, _, edge in net.graph.edges(data=True) if a.startswith("input.")]
    constant = {form.node for form in net.inputs.forms if not form.timed}
    cells = set(net.graph) - {form.node for form in net.inputs.forms}
    has = {
        "frame": any(form.timed for form in further),
        "sequence": any(not form.timed for form in further),
        "map": any(len(form.shape) == 3 for form in further),
        "vector": any(len(form.shape) == 1 for form in further),
        "until": any(form.until for form in further),
        "frames until": bool(frames.until),
        "delay": any(edge["delay"] for edge in edges),
        "one": len(further) == 1,
        "two": len(further) == 2,
        "pruned": any(note.startswith("input.") for note in net.graph.graph["notes"]),
        "learned initial": any(net.graph.nodes[form.node]["cell_parameters"] for form in further),
        "static": any(nx.ancestors(net.graph, node) <= constant for node in cells),
    }
    return {name for name, there in has.items() if there}


def set_statistics_of_data(net: Net, plain: Interpreter) -> None:
    for each in (net, plain):
        each.get_submodule("decoder.input").mean.fill_(0.4)
        each.get_submodule("decoder.input").std.fill_(0.7)


def owners_are_gone(wired: Graph) -> bool:
    """Whether something shares with what was removed: its tensors then are in no node."""
    known = {holder.name for holder in holders(wired)}
    return any((h.attributes["shared"] or h.name) not in known for h in holders(wired))


@given(specs())
@settings(deadline=None, max_examples=60)
def test_predicted_shapes_and_counts_are_those_of_the_module(spec: Spec) -> None:
    wired = graph(spec)
    net = build(spec).eval()
    for node, count in sizes_of(wired).items():
        home = sum(p.numel() for p in net.get_submodule(node).parameters())
        assert home == count or owners_are_gone(wired)
    total = sum(p.numel() for p in net.parameters())
    assert total == parameters(wired) + sum(
        size_of(shape)
        for form in readouts_of(wired)
        if wired.graph["tasks"][form.task]["task"].counted_apart
        for shape in form.head.values()
    )
    frames = frames_of(net, batch=2)
    values = net.values(frames, *wired)
    for node in wired:
        seen = values[node] if isinstance(values, dict) else values
        assert tuple(seen.shape[2:]) == wired.nodes[node]["shape"], node
    assert schedule(wired).equations.keys() == net.plan.equations.keys()
