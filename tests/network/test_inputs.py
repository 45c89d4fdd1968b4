"""Inputs that a network takes, and messages about others."""

from __future__ import annotations

import copy
import re

import numpy as np
import pytest
import torch

import ladderspec as ls
from ladderspec.network.net import Net

OMMNIST = "specs/ommnist/rladder_tiny.yaml"


@pytest.fixture(scope="module")
def net() -> Net:
    torch.set_num_threads(1)
    return ls.build(ls.load(OMMNIST)).eval()


@pytest.fixture(scope="module")
def loose() -> Net:
    return ls.build(ls.load(OMMNIST, "no_decoder_to_encoder")).eval()


X = torch.rand(4, 5, 1, 16, 16, generator=torch.Generator().manual_seed(0))
Y = torch.arange(4)


# --- frames and targets ---------------------------------------------------------------------------


def test_frames_of_other_types_are_those_of_the_network(net):
    expected = net(X)["digit"]
    for frames in (X.numpy(), X.numpy().astype(np.float64), X.double(), X.tolist()):
        assert torch.equal(net(frames)["digit"], expected)
    frame, carry = X[:, 0], net.initial_carry(4)
    assert torch.equal(net.iterate(frame.double(), carry)[0]["digit"], expected[:, 0])
    twin = copy.deepcopy(net).double()
    assert twin(X)["digit"].dtype == torch.float64
    for frames in ("frames", None, [[1, 2], [3]]):
        with pytest.raises(ValueError, match="frames are a tensor or an array of numbers, not"):
            net(frames)
    for frames in (X + 0j, X.to_sparse()):
        with pytest.raises(ValueError, match="frames are dense real numbers, but these are"):
            net(frames)


def test_no_sequence_and_no_time(net):
    for frames in (X[:0], X[:, :0]):
        with pytest.raises(ValueError, match=r"B and T at least 1, but these are \("):
            net(frames)
    with pytest.raises(ValueError, match=r"a frame is \(B, 1, 16, 16\), but these are \(4, 5, 1,"):
        net.iterate(X, net.initial_carry(4))


@pytest.mark.parametrize("lengths", [[1.0, 2, 3, 4], 3, [], [[1, 2, 3, 4]], [1, 2, 3, 9], "abcd"])
def test_lengths_are_whole_numbers(net, lengths):
    with pytest.raises(ValueError, match="lengths are 4 whole numbers from 0 to 5, not"):
        net(X, lengths)


def test_a_target_is_of_every_sequence_or_of_every_t(net):
    plain = net.cost(X, Y)["digit"]
    for target in (Y.int(), Y.to(torch.uint8), Y.numpy(), Y.tolist(), Y[:, None].expand(4, 5)):
        assert torch.equal(net.cost(X, target)["digit"], plain)
    over_time = torch.randint(10, (4, 5), generator=torch.Generator().manual_seed(1))
    last = net.cost(X, over_time[:, -1])["digit"]
    assert torch.equal(net.cost(X, over_time)["digit"], last)
    for wrong in (over_time.T, over_time.reshape(5, 4), Y[:, None], torch.eye(10)[Y].long()):
        with pytest.raises(ValueError, match=r"target is \(4,\), or \(4, 5\) over time, but this"):
            net.cost(X, wrong)
    with pytest.raises(ValueError, match=r"labels are whole numbers, not torch.float32"):
        net.cost(X, Y.float())
    with pytest.raises(ValueError, match="labels are from 0 to 9, or -1 where missing; these go"):
        net.cost(X, Y + 8)
    with pytest.raises(ValueError, match="target of task `digit` is a tensor or an array"):
        net.cost(X, ["a", "b", "c", "d"])
    swapped = X.transpose(0, 1)
    with pytest.raises(ValueError, match="task `next_frame` sees"):
        net.cost(X, {"label": Y, "next_frame": swapped})


def test_misspelt_names_are_refused(net):
    for words in ({"tasks": ["digt"]}, {"weights": {"digt": 2.0}}):
        with pytest.raises(ValueError, match="no task `digt`: did you mean `digit`"):
            net.cost(X, Y, **words)
    with pytest.raises(ValueError, match="compares with `next_fram`: did you mean `next_frame`"):
        net.cost(X, {"label": Y, "next_fram": X})
    assert net.cost(X, {"label": Y, "place": X}).keys() == {"digit", "next_frame"}
    assert net.cost(X, Y, tasks="digit").keys() == {"digit"}
    for task in ("digit", "nosuch"):
        with pytest.raises(ValueError, match=f"no task with an offset `{task}`: .*next_frame"):
            net.set_offset(0.1, task)


# --- values ---------------------------------------------------------------------------------------


def test_the_state_of_a_cell_at_all_t(loose):
    found = loose.values(X, "encoder.top.c")
    assert found.shape == (4, 5, 16)
    carry = loose.initial_carry(4)
    for t in range(5):
        _, carry = loose.iterate(X[:, t], carry)
        torch.testing.assert_close(found[:, t], carry.values["encoder.top.c"][0])


def test_nodes_by_name(net):
    both = net.values(X, ["encoder.top", "decoder.input"])
    assert both.keys() == {"encoder.top", "decoder.input"}
    assert net.values(X, ["encoder.top"]).keys() == {"encoder.top"}
    with pytest.raises(ValueError, match=r"name at least one node; there are encoder.input, "):
        net.values(X)
    with pytest.raises(ValueError, match=r"no node decoder.conv2 \(did you mean `decoder.conv_2`"):
        net.values(X, "decoder.conv2")


# --- the carry ------------------------------------------------------------------------------------


def test_a_carry_is_one_of_this_network_for_these_frames(net, loose):
    carry = net.initial_carry(4)
    for given, message in [
        (net.initial_carry(1), r"encoder.lstm1 is \(4, 4, 16, 16\) for these frames, but this is"),
        (loose.initial_carry(4), "of another network: it lacks decoder.top, "),
        (carry.to(torch.float64), r"torch.float64 on cpu, but the frames .* `carry.to\(...\)`"),
        (carry._replace(t=torch.zeros(3)), r"each of 4 sequences, but it is \(3,\)"),
        ({}, r"a carry is what `net.initial_carry\(4\)` gives"),
    ]:
        for call in (
            lambda given=given: net(X, carry=given),
            lambda given=given: net.iterate(X[:, 0], given),
            lambda given=given: net.cost(X, Y, carry=given),
            lambda given=given: net.values(X, "encoder.top", carry=given),
            lambda given=given: net.generate(X, 2, carry=given),
        ):
            with pytest.raises(ValueError, match=message):
                call()
    with pytest.raises(ValueError, match=r"of another network: it has decoder.top, "):
        loose.iterate(X[:, 0], carry)
    with pytest.raises(ValueError, match=r"a carry is needed; the first is `net.initial_carry\(4"):
        net.iterate(X[:, 0], None)
    with pytest.raises(ValueError, match="at least 1, not 0"):
        net.initial_carry(0)


def test_a_carry_moves(net):
    carry = net(X, [5, 4, 3, 2]).carry
    double = carry.to(torch.float64)
    assert {v.dtype for kept in double.values.values() for v in kept} == {torch.float64}
    assert double.t is carry.t
    there = double.to("cpu", torch.float32)
    assert torch.equal(net(X, carry=there)["digit"], net(X, carry=carry)["digit"])
    assert carry.to("meta").t.device.type == "meta"


# --- ends -----------------------------------------------------------------------------------------


def test_what_stands_beyond_the_end_is_never_seen():
    clean, padded = ls.build(OMMNIST), ls.build(OMMNIST)
    junk, target = X.clone(), X.clone()
    junk[1, 3:] = target[1, 3:] = torch.nan
    lengths = [5, 3, 5, 4]
    ours = padded.cost(junk, {"label": Y, "next_frame": target}, lengths)
    theirs = clean.cost(X, {"label": Y, "next_frame": X}, lengths)
    assert torch.equal(ours.total, theirs.total)
    ours.total.backward()
    theirs.total.backward()
    for a, b in zip(padded.parameters(), clean.parameters(), strict=True):
        assert torch.equal(a.grad, b.grad)
    for a, b in zip(padded.buffers(), clean.buffers(), strict=True):
        assert torch.equal(a, b)


def test_generate_needs_a_frame_of_every_sequence(net):
    with pytest.raises(ValueError, match="a sequence without a frame cannot be continued"):
        net.generate(X, 2, lengths=[5, 0, 3, 1])
    with pytest.raises(ValueError, match="at least 0, not -1"):
        net.generate(X, -1)


@pytest.mark.parametrize("odd", [2.5, "3", None, True])
def test_counts_are_whole_numbers(net, odd):
    shown = re.escape(repr(odd))
    with pytest.raises(ValueError, match=f"to generate is a whole number, at least 0, not {shown}"):
        net.generate(X, odd)
    with pytest.raises(ValueError, match=f"a number of sequences, at least 1, not {shown}"):
        net.initial_carry(odd)
    if odd not in (None, True):
        with pytest.raises(ValueError, match=f"True, or a number of t, at least 1, not {shown}"):
            net.cost(X, Y, checkpoint=odd)
    assert net.generate(X, np.int64(2)).shape[1] == 2


def test_nodes_weights_and_means_of_wrong_types(net):
    for nodes in ((3,), ([3],), (None,)):
        with pytest.raises(ValueError, match="a node is given by its name, not as"):
            net.values(X, *nodes)
    with pytest.raises(ValueError, match="the weight of task `digit` is a number, not '2'"):
        net.cost(X, Y, weights={"digit": "2"})
    with pytest.raises(ValueError, match="the weight of task `digit` is a number, not tensor"):
        net.cost(X, Y, weights={"digit": torch.ones(3)})
    for mean, shown in (
        (torch.zeros(8, 32), "(8, 32)"),
        (torch.zeros(3, 3), "(3, 3)"),
        ("half", "'half'"),
    ):
        said = re.escape(f"a mean is a number or a frame (1, 16, 16), not {shown}")
        with pytest.raises(ValueError, match=said):
            net.set_offset(mean)


def test_checkpoints_of_a_negative_length(net):
    with pytest.raises(
        ValueError, match="checkpoint is True, or a number of t, at least 1, not -1"
    ):
        net.cost(X, Y, checkpoint=-1)


@pytest.mark.parametrize("tasks", [None, ["next_frame"]])
def test_one_frame_leaves_no_parameter_without_a_gradient(tasks):
    """Nothing comes from the past and nothing is predicted; what learns still hears of it."""
    net = ls.build(OMMNIST)
    costs = net.cost(X[:, :1], Y, tasks=tasks)
    assert costs["next_frame"] == 0
    costs.total.backward()
    assert [name for name, p in net.named_parameters() if p.grad is None] == []
    if tasks:
        assert not any(p.grad.any() for p in net.parameters())
