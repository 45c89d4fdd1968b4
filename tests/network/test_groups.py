"""Networks with groups: vectors of Tagger's code, hand-written loops, every way of calling."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from ladderspec.api import build, loads
from ladderspec.cells.grouping import bernoulli_maps, gaussian_maps
from ladderspec.network.history import Carry
from ladderspec.network.net import Net
from ladderspec.tasks import Classification
from ladderspec.tasks.grouping import bernoulli_cost, gaussian_cost
from ladderspec.trained.store import open_net, save

TEXT = """
input: {{channels: {channels}, size: [6, 8], noise: {{{noise}}}}}
time: {{{time}}}
groups: {{count: {count}, likelihood: {likelihood}{variance}}}
levels:
  - name: lstm
    encoder: {{cell: ConvLSTM, channels: 3, filter: 4, stride: 2, norm: batch}}
    decoder: {{cell: Readout, filter: 4}}
  - {{name: conv, encoder: {{cell: Conv, channels: 4}}, decoder: {{cell: convG1, filter: 3}}}}
  - {{name: pool, encoder: {{cell: Pool, mode: average, filter: global}}, decoder: Average}}
  - {{name: class, encoder: {{cell: SoftMax, channels: 4}}, decoder: G1}}
tasks:
  digit: {{kind: classification, at: encoder.class, none: last}}
  segment: {{kind: grouping{ahead}}}
"""


def text(
    count: int = 3,
    time: str = "iterations: 3",
    likelihood: str = "gaussian",
    ahead: int = 0,
    channels: int = 1,
    variance: str = ", variance: 0.3",
) -> str:
    return TEXT.format(
        count=count,
        time=time,
        likelihood=likelihood,
        channels=channels,
        ahead=f", ahead: {ahead}" if ahead else "",
        noise="gaussian: 0.2" if likelihood == "gaussian" else "flip: 0.2",
        variance=variance if likelihood == "gaussian" else "",
    )


def network(moved: bool = True, **options: object) -> Net:
    net = build(loads(text(**options)))  # type: ignore[arg-type]
    if moved:
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
    decoder = net.get_submodule("decoder.input")
    decoder.mean.fill_(0.4)
    decoder.std.fill_(0.3)
    return net


@pytest.fixture(autouse=True)
def _float64(one_thread):
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)


def close(a: Tensor, b: Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=tolerance)


# --- numbers of Tagger's code ---------------------------------------------------------------------

Z = torch.tensor([[0.5, 0.5, 0.5], [0.1, 0.7, 0.9]], dtype=torch.float64)
M = torch.tensor([[0.6, 0.25, 0.5], [0.4, 0.75, 0.5]], dtype=torch.float64)
V = 2.414213562373095  # a variance in the cost, a standard deviation in L(pi)


def test_gaussian_maps_and_cost_of_the_original_code():
    x, noisy = torch.tensor([0.2, 0.9, 0.5]), torch.tensor([0.35, 0.8, 0.45])
    delta, fit = gaussian_maps(noisy.expand(2, 3), Z, M, 0.2**2 + V**2, 2)
    close(
        fit,
        torch.tensor(
            [
                [0.500852016231, 0.498295972486, 0.504259982197],
                [0.499147983769, 0.501704027514, 0.495740017803],
            ]
        ),
    )
    close(delta, torch.tensor([[-0.09, 0.075, -0.025], [0.1, 0.075, -0.225]]))
    cost = gaussian_cost(x[None, None], Z[None], M[None], V)
    close(cost, torch.tensor([[0.452645975782, 0.455106726253, 0.457098084184]]))
    close(cost.mean(), torch.tensor(0.454950262073))


def test_bernoulli_maps_and_cost_of_the_original_code():
    x, noisy = torch.tensor([0.0, 1.0, 1.0]), torch.tensor([1.0, 1.0, 0.0])
    delta, fit = bernoulli_maps(noisy.expand(2, 3), Z, M, 0.2, 2)
    close(
        fit,
        torch.tensor(
            [
                [0.65785318822, 0.44643813796, 0.65785318822],
                [0.34214681178, 0.55356186204, 0.34214681178],
            ]
        ),
    )
    close(
        delta,
        torch.tensor(
            [
                [0.891089108911, 0.254237288136, -0.789473684211],
                [0.594059405941, 0.762711864407, -0.789473684211],
            ]
        ),
    )
    cost = bernoulli_cost(x[None, None], Z[None], M[None])
    close(cost, torch.tensor([[0.415563929986, 0.430829071004, 0.356732088429]]))
    close(cost.mean(), torch.tensor(0.401041696473))


def test_classes_of_groups_combine_as_in_the_original_code():
    scores = torch.tensor([[[0.1, 0.6, 0.3], [0.05, 0.15, 0.8]]]).log()
    task = Classification(kind="classification", at="encoder.class", none="last")
    close(task.combine(scores).exp(), torch.tensor([[1 / 6, 5 / 6]]))


# --- shapes and ways of calling -------------------------------------------------------------------


def test_public_values_carry_the_axis_of_groups():
    net = network().eval()
    x = torch.rand(2, 1, 6, 8)
    outputs = net(x)
    assert outputs["segment"].shape == (2, 3, 3, 2, 6, 8)
    assert outputs["digit"].shape == (2, 3, 3, 4)
    assert outputs.carry.values["encoder.lstm"][0].shape == (2, 3, 3, 3, 4)
    assert net.values(x, "encoder.groups").shape == (2, 3, 3, 4, 6, 8)
    assert net.values(x, "encoder.input").shape == (2, 3, 1, 6, 8)
    close(outputs["segment"][:, :, :, 1].sum(2), torch.ones(2, 3, 6, 8), 1e-12)


def test_an_output_is_a_function_of_the_input_in_evaluation():
    net = network().eval()
    x = torch.rand(3, 1, 6, 8)
    together, alone = net(x)["segment"], net(x[1:2])["segment"]
    close(together[1:2], alone, 1e-12)
    net.train()
    assert not torch.allclose(net(x)["segment"], net(x)["segment"])


def test_iterate_equals_forward():
    for options in ({}, {"time": "frames: 4", "likelihood": "bernoulli", "ahead": 1}):
        net = network(**options).eval()
        frames = torch.rand(2, 1, 6, 8) if not options else torch.rand(2, 4, 1, 6, 8).round()
        whole, carry = net(frames), net.initial_carry(2)
        for t in range(net.plan.length):
            seen, carry = net.iterate(frames if not options else frames[:, t], carry)
            close(seen["segment"], whole["segment"][:, t], 1e-12)
            close(seen["digit"], whole["digit"][:, t], 1e-12)


def test_a_permuted_start_permutes_the_outputs():
    net = network().eval()
    x, carry = torch.rand(2, 1, 6, 8), net.initial_carry(2)
    order = [2, 0, 1]
    permuted = Carry(
        carry.t, {n: tuple(v[:, order] for v in kept) for n, kept in carry.values.items()}
    )
    a, b = net(x, carry=carry), net(x, carry=permuted)
    for name in ("segment", "digit"):
        close(a[name][:, :, order], b[name], 1e-12)


def test_one_group_is_a_network_whose_pi_is_one():
    net = network(count=1).eval()
    x = torch.rand(2, 1, 6, 8)
    seen = net(x)["segment"]
    close(seen[:, :, :, 1], torch.ones_like(seen[:, :, :, 1]), 0)
    # Without the softmax: the input maps are mu, x - mu, 1 and 1.
    maps = net.values(x, "encoder.groups")[:, :, 0]
    mu = torch.cat([torch.full((2, 1, 1, 6, 8), 0.4), seen[:, :-1, 0, :1]], 1)
    wanted = torch.cat([mu, x[:, None] - mu, torch.ones(2, 3, 2, 6, 8)], 2)
    close(maps, wanted, 1e-12)
    assert len(net.state_dict()) == len(network(count=2).state_dict())


def test_unequal_lengths_equal_each_sequence_alone():
    net = network(time="frames: 4", ahead=1).eval()
    frames, lengths = torch.rand(3, 4, 1, 6, 8), [4, 2, 3]
    whole = net(frames, lengths)
    for b, length in enumerate(lengths):
        alone = net(frames[b : b + 1, :length])
        close(whole["segment"][b, :length], alone["segment"][0], 1e-12)
        for name, kept in alone.carry.values.items():
            close(whole.carry.values[name][0][b], kept[0][0], 1e-12)
    resumed = net(frames[:, :2], carry=whole.carry)
    assert resumed["segment"].shape == (3, 2, 3, 2, 6, 8)


def gradients(net: Net, total: Tensor) -> list[Tensor]:
    return list(
        torch.autograd.grad(
            total, list(net.parameters()), allow_unused=True, materialize_grads=True
        )
    )


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_checkpointing_changes_no_number(likelihood):
    net = network(time="frames: 4", likelihood=likelihood, ahead=1)
    frames, targets = torch.rand(3, 4, 1, 6, 8).round(), {"label": torch.tensor([0, 1, 2])}
    found = []
    for checkpoint in (False, True, 2):
        state = {name: value.clone() for name, value in net.state_dict().items()}
        torch.manual_seed(3)
        costs = net.cost(frames, targets, checkpoint=checkpoint)
        found.append([costs.total.detach(), *gradients(net, costs.total), *net.buffers()])
        found[-1] = [value.clone() for value in found[-1]]
        net.load_state_dict(state)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            close(a, b, 1e-11)


def test_the_cost_equals_one_that_is_written_by_hand():
    for likelihood in ("gaussian", "bernoulli"):
        net = network(likelihood=likelihood, variance=", variance: {learned: 0.3}").eval()
        x = torch.rand(3, 1, 6, 8).round()
        labels = torch.tensor([2, 0, 1])
        costs, outputs = net.cost(x, {"label": labels}), net(x)
        mu, pi = outputs["segment"].unbind(3)  # (B, T, K, H, W)
        target = x[:, None]
        if likelihood == "gaussian":
            v = net.get_submodule("encoder.groups").log_variance.exp()
            density = torch.exp(-((target - mu) ** 2) / (2 * v)) / v.sqrt()
            by_hand = -(density * (pi + 1e-5)).sum(2).log().mean()
        else:
            mixed = (mu * pi).sum(2) * (1 - 2e-4) + 1e-4
            by_hand = functional.binary_cross_entropy(mixed, target[:, :, 0].expand_as(mixed))
        close(costs["segment"], by_hand)
        p = outputs["digit"][:, -1].softmax(2)[:, :, :3].sum(1)
        p = p / p.sum(1, keepdim=True)
        close(costs["digit"], -p[torch.arange(3), labels].log().mean())


def test_colours_of_a_pixel_belong_to_one_group():
    net = network(channels=3).eval()
    x = torch.rand(2, 3, 6, 8)
    assert net(x)["segment"].shape == (2, 3, 3, 4, 6, 8)
    assert net.values(x, "encoder.groups").shape == (2, 3, 3, 8, 6, 8)


def test_vectors_have_one_pi_for_each_number():
    net = build(
        loads(
            """
input: {channels: 12, noise: {gaussian: 0.2}}
time: {iterations: 2}
groups: {count: 4, variance: 0.1}
defaults: {G1: {w: ladder, w_s: ladder, gate: sigmoid}}
levels:
  - {name: h1, encoder: {cell: FC, channels: 7}, decoder: Readout}
  - {name: h2, encoder: {cell: FC, channels: 5}, decoder: G1}
tasks: {segment: {kind: grouping}}
"""
        )
    )
    x = torch.rand(3, 12)
    assert net(x)["segment"].shape == (3, 2, 4, 24)
    assert net.values(x, "encoder.groups").shape == (3, 2, 4, 48)
    net.cost(x).total.backward()


def test_gradients_by_finite_differences():
    net = network(count=2, time="iterations: 2", variance=", variance: {learned: 0.3}")
    x = torch.rand(2, 1, 6, 8)
    parameters = dict(net.named_parameters())
    names = [
        "encoder.groups.log_variance",
        "decoder.input.c",
        "decoder.input.c_pi",
        "decoder.input.b",
    ]

    def cost(*values: Tensor) -> Tensor:
        torch.manual_seed(5)
        given = {**parameters, **dict(zip(names, values, strict=True))}
        state = {**given, **{n: b.clone() for n, b in net.named_buffers()}}
        return torch.func.functional_call(
            _Cost(net), {f"net.{n}": v for n, v in state.items()}, (x,)
        )

    values = [parameters[name].detach().clone().requires_grad_() for name in names]
    assert torch.autograd.gradcheck(cost, values)


class _Cost(torch.nn.Module):
    def __init__(self, net: Net) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net.cost(x, tasks=["segment"]).total


def test_generation_feeds_back_the_mean_of_the_mixture():
    net = network(time="frames: any", likelihood="bernoulli", ahead=1).eval()
    frames = torch.rand(2, 3, 1, 6, 8).round()
    found = net.generate(frames, 2)
    outputs = net(frames)
    mu, pi = outputs["segment"][:, -1].unbind(2)
    first = (mu * pi).sum(1, keepdim=True)
    close(found[:, 0], first, 1e-12)
    seen, _ = net.iterate(first, outputs.carry)
    mu, pi = seen["segment"].unbind(2)
    close(found[:, 1], (mu * pi).sum(1, keepdim=True), 1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_half_precision_gives_finite_numbers(dtype, likelihood):
    """Even if mu is 1: probabilities that are clipped to 1 - 1e-4 are 1 in half precision."""
    net = network(likelihood=likelihood)
    net.noise = None
    x, targets = torch.ones(4, 1, 6, 8), {"label": torch.tensor([0, 1, 2, 0])}
    wanted = net.eval()(x)
    low = copy.deepcopy(net).to(dtype)
    for name, seen in low(x.to(dtype)).items():
        assert seen.dtype == dtype
        close(seen.double(), wanted[name], 0.1)
    low.get_submodule("decoder.input").b.data.fill_(60 if likelihood == "bernoulli" else 2)
    cost = low.train().cost(x.to(dtype), targets).total
    cost.backward()
    assert cost.isfinite()
    assert all(parameter.grad.isfinite().all() for parameter in low.parameters())


def test_copies_saved_and_pickled_networks_give_the_same_numbers(tmp_path):
    net, x = network().eval(), torch.rand(2, 1, 6, 8)
    wanted = net(x)
    opened = open_net(save(net, tmp_path / "net")).double().eval()
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net)), opened):
        for name, seen in other(x).items():
            assert torch.equal(seen, wanted[name])


def test_phases_of_strided_filters_start_alike():
    net = network(moved=False)
    weight = dict(net.named_parameters())["decoder.input.decoder.weight"]
    assert weight.shape[2:] == (4, 4)
    blocks = weight.unfold(2, 2, 2).unfold(3, 2, 2)
    close(blocks, blocks[..., :1, :1].expand_as(blocks), 0)
    assert weight.unique().numel() == weight.numel() // 4


def test_iterations_beyond_those_of_training_are_warned_of():
    net, x = network(count=2).eval(), torch.rand(2, 1, 6, 8)
    message = r"`time: {iterations: 3}`: they get worse after iteration 3"
    carry = net.initial_carry(2)
    for _ in range(3):
        _, carry = net.iterate(x, carry)  # warnings are errors
    with pytest.warns(UserWarning, match=message) as found:
        net.iterate(x, carry)
    assert found[0].filename == __file__
    with pytest.warns(UserWarning, match=message):
        net(x, carry=carry)
    net(x, carry=net.initial_carry(2))
    net = network(count=2, time="frames: 3", ahead=1).eval()
    net(x[:, None].repeat(1, 3, 1, 1, 1), carry=net(x[:, None].repeat(1, 3, 1, 1, 1)).carry)


def test_statistics_of_the_data_set_the_start():
    net = network(channels=3)
    net.set_data_statistics(torch.tensor([0.1, 0.2, 0.3]), 0.5)
    start = net.initial_carry(2).values["decoder.input"][0]
    close(start[:, :, :3].mean((0, 1, 3, 4)), torch.tensor([0.1, 0.2, 0.3]), 1e-12)
    close(net.get_submodule("decoder.input").std, torch.full((3,), 0.5), 0)
    for mean, std in ((torch.rand(4), 1.0), (0.0, 0.0), (float("nan"), 1.0), ("half", 1.0)):
        with pytest.raises(ValueError, match=r"mean is|std"):
            net.set_data_statistics(mean, std)


def test_a_bernoulli_group_starts_at_a_half():
    net = build(loads(text(likelihood="bernoulli")))
    close(net.initial_carry(1).values["decoder.input"][0][:, :, 0], torch.full((1, 3, 6, 8), 0.5))
