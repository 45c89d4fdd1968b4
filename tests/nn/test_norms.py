"""Layer norm and batch norm against torch's own, and against sums written out."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
import torch
from torch import Tensor, nn

from ladderspec.nn import BatchNorm, LayerNorm, TimeStep
from ladderspec.nn.norms import make_norm


@pytest.fixture(autouse=True)
def _float64():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def _affine(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.randn(x.shape[1]), torch.randn(x.shape[1])


@pytest.mark.parametrize("shape", [(4, 6, 3, 5), (4, 6)])
@pytest.mark.parametrize("groups", [1, 3])
def test_layer_norm_is_group_norm(shape, groups):
    x = torch.randn(shape)
    gain, bias = _affine(x)
    torch_norm = nn.GroupNorm(groups, 6)
    torch_norm.load_state_dict({"weight": gain, "bias": bias})
    torch.testing.assert_close(LayerNorm(groups)(x, gain, bias), torch_norm(x))


def test_layer_norm_written_out():
    x = torch.randn(2, 4, 3, 5)
    normal = torch.empty_like(x)
    for sample in range(2):
        for group in (slice(0, 2), slice(2, 4)):
            values = x[sample, group]
            std = (((values - values.mean()) ** 2).mean() + 1e-5) ** 0.5
            normal[sample, group] = (values - values.mean()) / std
    torch.testing.assert_close(LayerNorm(groups=2)(x), normal)


def test_layer_norm_of_one_value_is_zero_for_a_batch_of_one_and_of_two():
    for batch in (1, 2):
        assert not LayerNorm()(torch.randn(batch, 1, 1, 1)).any()


def test_group_norm_is_that_of_torch():
    x = torch.randn(4, 6, 3, 5)
    gain, bias = _affine(x)
    torch_norm = nn.GroupNorm(3, 6)
    torch_norm.load_state_dict({"weight": gain, "bias": bias})
    torch.testing.assert_close(make_norm("group", 6, 3)(x, gain, bias), torch_norm(x))


def test_instance_norm_is_that_of_torch():
    x = torch.randn(4, 6, 3, 5)
    gain, bias = _affine(x)
    torch_norm = nn.InstanceNorm2d(6, affine=True)
    torch_norm.load_state_dict({"weight": gain, "bias": bias})
    torch.testing.assert_close(make_norm("instance", 6)(x, gain, bias), torch_norm(x))


@pytest.mark.parametrize("shape", [(4, 3, 2, 5), (4, 3)])
def test_batch_norm_is_that_of_torch(shape):
    ours = BatchNorm(3)
    theirs = nn.BatchNorm2d(3) if len(shape) == 4 else nn.BatchNorm1d(3)
    for _ in range(3):
        x = torch.randn(shape) * 2 + 1
        gain, bias = _affine(x)
        with torch.no_grad():
            theirs.weight.copy_(gain)
            theirs.bias.copy_(bias)
        torch.testing.assert_close(ours(x, gain, bias), theirs(x))
    torch.testing.assert_close(ours.running_mean[0], theirs.running_mean)
    torch.testing.assert_close(ours.running_var[0], theirs.running_var)
    ours.eval()
    theirs.eval()
    torch.testing.assert_close(ours(x, gain, bias), theirs(x))
    torch.testing.assert_close(ours(x[:1], gain, bias), theirs(x[:1]))


def test_each_iteration_has_its_own_statistics_and_the_last_kept_serves_later_ones():
    norm = BatchNorm(3, iterations=2)
    alone = [nn.BatchNorm2d(3, affine=False), nn.BatchNorm2d(3, affine=False)]
    batches = [torch.randn(8, 3, 2, 2) + shift for shift in (0.0, 5.0, 9.0)]
    for t, x in enumerate(batches):
        torch.testing.assert_close(norm(x, step=TimeStep(t)), alone[min(t, 1)](x))
    torch.testing.assert_close(norm.running_mean, torch.stack([bn.running_mean for bn in alone]))
    torch.testing.assert_close(norm.running_var, torch.stack([bn.running_var for bn in alone]))
    norm.eval()
    for t, x in enumerate(batches):
        expected = alone[min(t, 1)].eval()(x)
        torch.testing.assert_close(norm(x, step=TimeStep(t)), expected)
        torch.testing.assert_close(norm(x, step=TimeStep(torch.tensor(t))), expected)


def test_t_as_data_can_be_exported():
    class At(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = BatchNorm(3, iterations=4)

        def forward(self, x: Tensor, t: Tensor) -> Tensor:
            return self.norm(x, step=TimeStep(t))

    at = At().eval()
    at.norm.running_mean.normal_()
    batch = {0: torch.export.Dim("batch", min=1)}
    shapes = {"x": batch, "t": None}
    program = torch.export.export(at, (torch.randn(2, 3), torch.tensor(0)), dynamic_shapes=shapes)
    x = torch.randn(5, 3)
    for t in (0, 2, 9):
        torch.testing.assert_close(
            program.module()(x, torch.tensor(t)), at.norm(x, step=TimeStep(t))
        )


@pytest.mark.parametrize("field", [(), (1, 1)])
def test_one_value_per_channel_cannot_be_trained_on(field):
    norm = BatchNorm(3, iterations=2)
    with pytest.raises(ValueError, match="one value per channel"):
        norm(torch.randn(1, 3, *field))
    norm(torch.randn(1, 3, 1, 2))  # two values
    norm.eval()(torch.randn(1, 3, *field))


def test_the_last_of_a_batch_is_normalised_by_what_is_kept():
    norm, kept = BatchNorm(3), torch.tensor([1.0, 2.0, 3.0])
    norm.running_mean[0] = kept
    x = torch.randn(1, 3)
    y = norm(x, step=TimeStep(0, torch.tensor([True])))
    torch.testing.assert_close(y, (x - kept) / (1 + 1e-5) ** 0.5)
    torch.testing.assert_close(norm.running_mean[0], kept)


@pytest.mark.parametrize("shape", [(5, 3, 2, 4), (5, 3)])
def test_statistics_come_from_the_sequences_still_alive(shape):
    alive = torch.tensor([True, False, True, True, False])
    x = torch.randn(shape, requires_grad=True)
    gain, bias = _affine(x)
    masked, picked = BatchNorm(3), BatchNorm(3)
    y = masked(x, gain, bias, TimeStep(0, alive))
    expected = picked(x[alive], gain, bias)
    torch.testing.assert_close(y[alive], expected)
    torch.testing.assert_close(dict(masked.named_buffers()), dict(picked.named_buffers()))
    ours, theirs = (torch.autograd.grad((z**3).sum(), x)[0] for z in (y[alive], expected))
    torch.testing.assert_close(ours, theirs)


def test_running_statistics_of_part_of_a_batch_are_exact_in_float64():
    torch.set_default_dtype(torch.float32)  # as for a network of float64 among others
    norm, x = BatchNorm(3).double(), torch.randn(5, 3, dtype=torch.float64)
    alive = torch.tensor([True, False, True, True, False])
    norm(x, step=TimeStep(0, alive))
    mean, var = x[alive].mean(0), x[alive].var(0)
    torch.testing.assert_close(norm.running_mean[0], 0.1 * mean, rtol=1e-14, atol=0)
    torch.testing.assert_close(norm.running_var[0], 0.9 + 0.1 * var, rtol=1e-14, atol=0)


@pytest.mark.parametrize("shape", [(4, 2, 5, 5), (4, 2)])
def test_all_alive_is_no_mask(shape):
    plain, masked = BatchNorm(2, iterations=2), BatchNorm(2, iterations=2)
    for t in range(3):
        x, alive = torch.randn(shape), torch.ones(4, dtype=torch.bool)
        y = plain(x, step=TimeStep(t))
        torch.testing.assert_close(masked(x, step=TimeStep(t, alive)), y)
    torch.testing.assert_close(dict(masked.named_buffers()), dict(plain.named_buffers()))


def test_if_one_sequence_is_left_the_running_statistics_serve():
    norm = BatchNorm(3, iterations=2)
    norm.running_mean.normal_()
    norm.running_var.uniform_(1, 2)
    kept = {name: buffer.clone() for name, buffer in norm.named_buffers()}
    x = torch.randn(2, 4, 3)
    norm(x[0], step=TimeStep(0, torch.tensor([True] * 4)))
    y = norm(x[1], step=TimeStep(1, torch.tensor([True, False, False, False])))
    for name, buffer in norm.named_buffers():
        assert not torch.equal(buffer[0], kept[name][0])
        torch.testing.assert_close(buffer[1], kept[name][1])
    torch.testing.assert_close(y, norm.eval()(x[1], step=TimeStep(1)))


@pytest.mark.parametrize("alive", [None, torch.tensor([True, True, True, False])])
def test_a_second_pass_leaves_the_running_statistics_as_they_are(alive):
    norm, x = BatchNorm(3), torch.randn(4, 3)
    y = norm(x, step=TimeStep(0, alive))
    kept = {name: buffer.clone() for name, buffer in norm.named_buffers()}
    torch.testing.assert_close(norm(x, step=TimeStep(0, alive, recomputed=True)), y)
    torch.testing.assert_close(dict(norm.named_buffers()), kept)


PROCESS = """
    import sys
    import torch
    from torch import distributed
    from ladderspec.nn import BatchNorm, TimeStep

    rank, folder = int(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", f"file://{folder}/meet", rank=rank, world_size=2)

    def share(whole):
        return whole[:, 2 * rank : 2 * rank + 2]

    found = []
    for masked in (False, True):
        given = torch.load(f"{folder}/given.pt", weights_only=True)
        norm = BatchNorm(3, iterations=2).double()
        x, gain = share(given["x"]).requires_grad_(), given["gain"].requires_grad_()
        alive = share(given["alive"]) if masked else None
        steps = [TimeStep(t, alive[t] if masked else None) for t in (0, 1)]
        y = torch.stack([norm(x[t], gain, None, step) for t, step in enumerate(steps)])
        (y * share(given["weight"])).sum().backward()
        found.append({"y": y.detach(), "x": x.grad, "gain": gain.grad, **norm.state_dict()})
    torch.save(found, f"{folder}/found{rank}.pt")
    distributed.destroy_process_group()
"""


def test_two_processes_equal_one_on_the_whole_batch(tmp_path):
    x = torch.randn(2, 4, 3, 2, 2)  # two iterations, four sequences
    weight, gain = torch.randn_like(x), torch.randn(3)
    alive = torch.tensor([[True] * 4, [False, False, True, True]])
    torch.save({"x": x, "weight": weight, "gain": gain, "alive": alive}, tmp_path / "given.pt")
    (tmp_path / "process.py").write_text(textwrap.dedent(PROCESS))
    command = [sys.executable, str(tmp_path / "process.py")]
    here = {**os.environ, "PYTHONPATH": os.getcwd()}
    running = [subprocess.Popen([*command, str(k), str(tmp_path)], env=here) for k in (0, 1)]
    assert [process.wait(timeout=120) for process in running] == [0, 0]
    parts = [torch.load(tmp_path / f"found{rank}.pt", weights_only=True) for rank in (0, 1)]

    for (one, two), mask in zip(zip(*parts, strict=True), (None, alive), strict=True):
        norm = BatchNorm(3, iterations=2)
        x, gain = x.detach().requires_grad_(), gain.detach().requires_grad_()
        steps = [TimeStep(t, None if mask is None else mask[t]) for t in (0, 1)]
        y = torch.stack([norm(x[t], gain, None, step) for t, step in enumerate(steps)])
        (y * weight).sum().backward()
        for name, expected in (("y", y.detach()), ("x", x.grad)):
            halves = [half[name] for half in (one, two)]
            torch.testing.assert_close(torch.cat(halves, dim=1), expected)
        torch.testing.assert_close(one["gain"] + two["gain"], gain.grad)
        for name, buffer in norm.named_buffers():
            torch.testing.assert_close(one[name], buffer)
            torch.testing.assert_close(two[name], buffer)


def evaluated(norm: BatchNorm) -> Tensor:
    """The output of evaluation for one value at each t, by int and by tensor."""
    x = torch.linspace(-1, 1, 6).view(2, 3)
    one_by_one = [norm(x, step=TimeStep(t)) for t in range(norm.iterations)]
    for t, y in enumerate(one_by_one):
        torch.testing.assert_close(norm(x, step=TimeStep(torch.tensor(t))), y)
        mean, std = norm.moments(x, TimeStep(t))
        torch.testing.assert_close((x - mean) / std, y)
    return torch.stack(one_by_one)


def test_what_training_never_computed_is_evaluated_like_the_nearest_t():
    norm, like = BatchNorm(3, iterations=6), BatchNorm(3, iterations=6)
    for _ in range(4):
        for t in (1, 4):
            norm(torch.randn(8, 3) + t, step=TimeStep(t))
    trained = {name: kept.clone() for name, kept in norm.state_dict().items()}
    for row, nearest in enumerate([1, 1, 1, 4, 4, 4]):
        for name, kept in like.named_buffers():
            kept[row] = trained[name][nearest]
    assert torch.equal(evaluated(norm.eval()), evaluated(like.eval()))
    for name, kept in norm.state_dict().items():
        assert torch.equal(kept, trained[name]), name
    norm.train()(torch.randn(8, 3), step=TimeStep(5))  # now there is another one
    seen = evaluated(norm.eval())
    assert torch.equal(seen[3], seen[4])
    assert not torch.equal(seen[4], seen[5])
    fresh = BatchNorm(3, iterations=6).eval()
    unchanged = torch.linspace(-1, 1, 6).view(2, 3)
    torch.testing.assert_close(evaluated(fresh)[0], unchanged, rtol=1e-5, atol=0)  # but for eps


def test_statistics_may_be_loaded_before_or_after_evaluation_begins():
    trained, before, after = (BatchNorm(3, iterations=4) for _ in range(3))
    trained(torch.randn(8, 3) + 1, step=TimeStep(2))
    before.load_state_dict(trained.state_dict())
    before.eval()
    after.eval()
    after.load_state_dict(trained.state_dict())
    assert torch.equal(evaluated(after), evaluated(before))
    assert torch.equal(evaluated(after)[0], evaluated(after)[2])
    after.load_state_dict({name: torch.rand(4, 3) for name in ("running_mean", "running_var")})
    assert not torch.equal(evaluated(after)[0], evaluated(after)[2])
