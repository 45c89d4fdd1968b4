"""Shared weights: one tensor, counted once, under the name of its owner, even without it."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrize

import ladderspec as ls
from ladderspec.errors import UsageError
from ladderspec.network.net import Net
from ladderspec.trained.lesion import lesion, notes_on
from ladderspec.trained.store import net_of
from ladderspec.wiring import compare, graph_json
from ladderspec.wiring.graph import parameters
from tests.interpreter import Interpreter

SPEC = """
name: tied
input: {channels: 4, size: [8, 8]}
time: {iterations: 3}
levels:
  - {name: a, encoder: {cell: ConvGRU, channels: 4}, decoder: {cell: convG3}}
  - {name: b, encoder: {cell: ConvGRU, channels: 4, share: a}, decoder: {cell: convG3, share: a}}
  - {name: c, encoder: {cell: ConvGRU, channels: 4, stride: 2, share: a, initial: learned}}
  - {name: top, encoder: {cell: SoftMax, channels: 4, norm: batch}}
edges:
  add:
    - encoder.input(t-1) -> encoder.b
    - {arrow: encoder.input(t-1) -> encoder.c, share: encoder.input(t-1) -> encoder.b}
tasks:
  digit: {kind: classification, at: encoder.top}
  pixels: {kind: denoising, at: decoder.input}
"""


def made(text: str = SPEC, seed: int = 0, **changes: object) -> Net:
    return ls.build(ls.loads(text, **changes), seed)


def size(net: nn.Module) -> int:
    return sum(parameter.numel() for parameter in net.parameters())


def seen(net: nn.Module, node: str = "encoder.c") -> Tensor:
    torch.manual_seed(1)
    found = net.eval().values(torch.rand(2, 4, 8, 8).to(next(net.parameters())), node)
    assert isinstance(found, Tensor)
    return found


# --- what is computed -----------------------------------------------------------------------------


def test_a_shared_convolution_computes_what_torch_does_with_one_weight() -> None:
    net = made(
        """
input: {channels: 3, size: [7, 6]}
levels:
  - {name: a, encoder: {cell: Conv, channels: 3, norm: none, activation: tanh}}
  - {name: b, repeat: 2, encoder: {cell: Conv, channels: 3, norm: none, activation: tanh,
     stride: 2, share: a}}
"""
    ).double()
    x = torch.randn(2, 3, 7, 6, dtype=torch.float64)
    weight, bias = net.encoder.a.encoder.weight, net.encoder.a.bias
    y = x
    for stride in (1, 2, 2):
        y = functional.conv2d(y, weight, bias, stride, padding=1).tanh()
    found = net.values(x, "encoder.b_2")
    assert isinstance(found, Tensor)
    torch.testing.assert_close(found[:, 0], y, rtol=1e-9, atol=1e-9)
    y.sum().backward()
    wanted = [weight.grad.clone(), bias.grad.clone()]
    net.zero_grad()
    found.sum().backward()
    for grad, parameter in zip(wanted, (weight, bias), strict=True):
        torch.testing.assert_close(parameter.grad, grad, rtol=1e-9, atol=1e-9)


def test_a_network_equals_one_without_sharing_whose_weights_are_equal() -> None:
    """Outputs are equal; the gradient of a shared tensor is the sum of those of its copies."""
    words = SPEC.replace(", share: a", "").replace(
        "{arrow: encoder.input(t-1) -> encoder.c, share: encoder.input(t-1) -> encoder.b}",
        "encoder.input(t-1) -> encoder.c",
    )
    tied, loose = made().double(), made(words).double()
    owners = {
        "encoder.b.skip_encoder_input_1": "encoder.b.skip_encoder_input_1",
        "encoder.c.skip_encoder_input_1": "encoder.b.skip_encoder_input_1",
        "encoder.b": "encoder.a",
        "encoder.c": "encoder.a",
        "decoder.a": "decoder.input",
    }

    def owner(name: str) -> str:
        for mine, theirs in owners.items():
            if name.startswith(f"{mine}.") and "initial" not in name:
                return theirs + name.removeprefix(mine)
        return name

    state = tied.state_dict()
    given = {name: state[owner(name)] for name in loose.state_dict()}
    given = {n: v if v.shape == loose.state_dict()[n].shape else None for n, v in given.items()}
    assert None not in given.values()
    loose.load_state_dict(given)
    x, labels = torch.rand(3, 4, 8, 8, dtype=torch.float64), torch.tensor([0, 1, 2])
    one, two = tied.cost(x, labels).total, loose.cost(x, labels).total
    torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9)
    one.backward()
    two.backward()
    summed: dict[str, Tensor] = {}
    for name, parameter in loose.named_parameters():
        summed[owner(name)] = summed.get(owner(name), 0) + parameter.grad
    for name, parameter in tied.named_parameters():
        torch.testing.assert_close(parameter.grad, summed[name], rtol=1e-9, atol=1e-9)


# --- counted and registered once ------------------------------------------------------------------


@pytest.mark.parametrize("without", [[], ["level.a"], ["decoder_to_encoder"], ["state@c"]])
def test_shared_parameters_are_counted_and_registered_once(without: list[str]) -> None:
    spec = ls.loads(SPEC, without=[each for each in without if each != "state@c"])
    net = ls.build(spec)
    assert size(net) == parameters(net.graph)
    assert ls.plan(spec).equations.keys() == set(net.graph)
    assert sum(each.parameters for each in ls.plan(spec).equations.values()) == size(net)
    state = net.state_dict()
    assert not [name for name in state if name.startswith("encoder.b.encoder")]
    assert [n for n in state if n.startswith("encoder.c.")] == ["encoder.c.initial"]
    assert "encoder.a.encoder.weight" in state
    assert len({id(p) for p in net.parameters()}) == len(list(net.named_parameters()))


def test_an_expectation_counts_shared_weights_once() -> None:
    total = parameters(ls.graph(ls.loads(SPEC)))
    ls.loads(f"{SPEC}\nexpect: {{parameters: {total}}}\n")


def test_diff_names_what_is_shared() -> None:
    own = SPEC.replace("stride: 2, share: a", "stride: 2")
    one, two = (ls.graph(ls.loads(text)) for text in (own, SPEC))
    found = [str(each) for each in compare.compare(one, two)]
    assert "~ node  encoder.c  share unset -> a  (-16 parameters)" in found
    assert any("encoder.b -> encoder.c" in line and "encoder.a.encoder" in line for line in found)
    gained = sum(each.parameters for each in compare.compare(one, two))
    assert gained == parameters(two) - parameters(one) < 0


def test_batch_statistics_are_not_shared() -> None:
    text = SPEC.replace("channels: 4}", "channels: 4, norm: batch}").replace(
        "channels: 4, share", "channels: 4, norm: batch, share"
    )
    net = made(text)
    buffers = [name for name, _ in net.named_buffers() if "running_mean" in name]
    assert {"encoder.a.encoder.norm.running_mean", "encoder.b.encoder.norm.running_mean"} <= {
        *buffers
    }
    net.train().cost(torch.rand(4, 4, 8, 8), torch.tensor([0, 1, 2, 3]))
    a, b = net.encoder.a.encoder.norm, net.encoder.b.encoder.norm
    assert not torch.equal(a.running_mean, b.running_mean)


# --- initial values and ablations -----------------------------------------------------------------


def test_a_removed_owner_leaves_its_name_and_its_initial_values() -> None:
    whole, less = made(seed=3), made(seed=3, without="level.a")
    assert "encoder.a" not in less.graph
    state, left = whole.state_dict(), less.state_dict()
    shared = [name for name in left if name.startswith("encoder.a.")]
    assert "encoder.a.encoder.weight" in shared
    assert "encoder.a.state.weight" in shared
    for name in shared:
        torch.testing.assert_close(left[name], state[name], rtol=0, atol=0)
    adopted = less.adopt(state)
    assert not adopted.missing
    assert not adopted.reshaped


def test_a_dropped_level_below_the_owner_leaves_its_decoder_the_owner() -> None:
    text = """
input: {channels: 3, size: [16, 16]}
levels:
  - name: a
    repeat: 3
    encoder: {cell: Conv, channels: 3, stride: 2}
    decoder: {cell: Conv, share: a_2, filter: 4}
tasks: {pixels: {kind: denoising, at: decoder.input}}
"""
    net = made(text, without="level.a_1")  # now a_2 makes decoder.input
    assert net.graph.nodes["decoder.a_2"]["shared"] == "decoder.input"
    assert "decoder.a_2.decoder.weight" not in net.state_dict()


def test_a_variant_that_removes_the_arrow_of_the_owner() -> None:
    whole = made()
    less = made(without="encoder.input(t-1) -> encoder.b")
    name = "encoder.b.skip_encoder_input_1.weight"
    assert torch.equal(less.state_dict()[name], whole.state_dict()[name])
    edge = less.graph.edges["encoder.input", "encoder.c", "skip_encoder_input_1"]
    assert edge["parameters"] == 12 * 4 * 9 + 12
    assert size(less) == size(whole)


def test_a_dropped_row_leaves_the_decoders_of_others_their_own() -> None:
    text = """
input: {channels: 2, size: [6, 6]}
levels:
  - {name: a, encoder: {cell: Conv, channels: 2}, decoder: {cell: convG3}}
  - {name: b, encoder: {cell: Conv, channels: 2}, decoder: {cell: convG3, filter: 5}}
  - {name: c, encoder: {cell: Conv, channels: 2}, decoder: {cell: convG3, share: a}}
  - {name: d, encoder: {cell: Conv, channels: 2}, decoder: {cell: convG3, share: a}}
tasks: {pixels: {kind: denoising, at: decoder.input}}
"""
    net = made(text, without="level.a")  # now b makes decoder.input, which a made before
    assert net.graph.nodes["decoder.input"]["shared"] is None
    assert net.graph.nodes["decoder.c"]["shared"] == "decoder.b"
    assert net.graph.nodes["decoder.b"]["shared"] is None


# --- torch ----------------------------------------------------------------------------------------


def test_a_copy_shares_with_itself_alone() -> None:
    net = made()
    copied = copy.deepcopy(net)
    before = seen(net)
    torch.testing.assert_close(seen(copied), before)
    with torch.no_grad():
        copied.encoder.a.encoder.weight.mul_(2)
    assert not torch.allclose(seen(copied), before)
    torch.testing.assert_close(seen(net), before)


def test_what_is_done_to_the_owner_is_done_to_all() -> None:
    class Half(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x / 2

    net, halved = made(), made()
    with torch.no_grad():
        halved.encoder.a.encoder.weight.div_(2)
    parametrize.register_parametrization(net.encoder.a.encoder, "weight", Half())
    torch.testing.assert_close(seen(net), seen(halved))
    other = made()
    with torch.no_grad():
        other.encoder.a.encoder.weight.data = other.encoder.a.encoder.weight.data / 2
    torch.testing.assert_close(seen(other), seen(halved))


def test_functional_calls_and_types() -> None:
    net = made().eval()
    weights = {name: value * 0.5 for name, value in net.named_parameters()}
    x = torch.rand(2, 4, 8, 8)
    found = torch.func.functional_call(net, weights, (x,))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(0.5)
    torch.testing.assert_close(found["digit"], net(x)["digit"])
    double = copy.deepcopy(net).double()
    torch.testing.assert_close(double(x.double())["digit"].float(), net(x)["digit"])


def test_compiled_and_streamed() -> None:
    net = made(SPEC.replace("iterations: 3", "frames: any")).eval()
    frames = torch.rand(2, 6, 4, 8, 8)
    with torch.no_grad():
        whole, carry = net(frames)["digit"], net.initial_carry(2)
        for t in range(6):
            found, carry = net.iterate(frames[:, t], carry)
            torch.testing.assert_close(found["digit"], whole[:, t])
        compiled = torch.compile(net, backend="eager", fullgraph=True)
        torch.testing.assert_close(compiled(frames)["digit"], whole)


def test_the_optimiser_sees_a_shared_tensor_once() -> None:
    net = made()
    optimiser = torch.optim.SGD(net.parameters(), 0.1)
    x, labels = torch.rand(2, 4, 8, 8), torch.tensor([0, 1])
    before = net.encoder.a.encoder.weight.detach().clone()
    net.cost(x, labels).total.backward()
    grad = net.encoder.a.encoder.weight.grad.clone()
    optimiser.step()
    torch.testing.assert_close(net.encoder.a.encoder.weight, before - 0.1 * grad)


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("without", [(), ("level.a",)])
def test_a_graph_survives_json(without: tuple[str, ...]) -> None:
    graph = ls.graph(ls.loads(SPEC, without=without))
    again = graph_json.loads(graph_json.dumps(graph))
    assert ls.to_text(again) == ls.to_text(graph)
    assert parameters(again) == parameters(graph)


def test_a_file_with_a_chain_of_shares_is_refused() -> None:
    text = graph_json.dumps(ls.graph(ls.loads(SPEC)))
    chained = text.replace('"share": "encoder.a"', '"share": "encoder.b"')
    with pytest.raises((UsageError, ls.SpecError), match="shares"):
        graph_json.loads(chained)


@pytest.mark.parametrize("without", [(), ("level.a",)])
def test_a_saved_network_opens_again(tmp_path: Path, without: tuple[str, ...]) -> None:
    net = made(seed=2, without=without)
    opened = ls.open_net(ls.save(net, tmp_path / "net"))
    torch.testing.assert_close(seen(opened), seen(net))
    assert opened.state_dict().keys() == net.state_dict().keys()


def test_the_interpreter_agrees() -> None:
    for without in ((), ("level.a",)):
        spec = ls.loads(SPEC, without=without)
        net, plain = ls.build(spec).double().eval(), Interpreter(ls.graph(spec)).double().eval()
        x = torch.rand(2, 4, 8, 8, dtype=torch.float64)
        with torch.no_grad():
            found = plain(x)
            for t in range(3):
                expected = net.values(x, "encoder.c")[:, t]
                torch.testing.assert_close(found[t]["encoder.c"][0], expected, rtol=0, atol=1e-9)


# --- lesions --------------------------------------------------------------------------------------


def test_a_lesion_says_that_shared_weights_stay_in_use() -> None:
    graph = ls.graph(ls.loads(SPEC))
    (note,) = notes_on(graph, ["encoder.input(t-1) -> encoder.b"])
    assert note == (
        "encoder.input(t-1) -> encoder.b is removed, but its weights are shared and stay in use:"
        " encoder.input(t-1) -> encoder.c"
    )
    assert not notes_on(ls.graph(ls.loads(SPEC, add="encoder.a -> decoder.input")), ["skip@input"])
    net = made()
    less = net_of(lesion(graph, ["encoder.input(t-1) -> encoder.b"]))
    adopted = less.adopt(net.state_dict())
    assert not adopted.missing


# --- a module in the place of another one ---------------------------------------------------------


def test_what_shares_reads_the_module_that_stands_there_now() -> None:
    net, fresh = made(), made()
    mine = copy.deepcopy(net.get_submodule("encoder.a"))
    with torch.no_grad():
        for parameter in mine.parameters():
            parameter.add_(torch.randn_like(parameter))
    before = seen(net)
    net.encoder.a = mine
    fresh.load_state_dict(net.state_dict())
    assert torch.equal(seen(net), seen(fresh))
    assert not torch.equal(seen(net), before)
    net.values(torch.rand(2, 4, 8, 8), "encoder.c").sum().backward()
    assert any(parameter.grad is not None for parameter in mine.parameters())


def test_a_module_without_the_shared_weights_is_refused() -> None:
    net = made()
    net.encoder.a = nn.Identity()
    with pytest.raises(UsageError, match=r"shares weights with encoder\.a, but what now stands"):
        net.values(torch.rand(2, 4, 8, 8), "encoder.c")
