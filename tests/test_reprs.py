"""Reprs of the stages of the pipeline, and refusals of saving and adopting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import ladderspec as ls
from ladderspec.errors import UsageError

TINY = "specs/ommnist/rladder_tiny.yaml"


def test_reprs_say_what_they_are_in_a_few_lines() -> None:
    spec = ls.load(TINY, "no_prediction")
    stages = [spec, ls.plan(spec), ls.graph(spec), ls.build(spec)]
    assert repr(spec).splitlines() == [
        "<spec rladder-ommnist-tiny: RLadder w/o prediction task",
        f"  from {TINY}",
        "  17 levels, tasks digit",
        "  variants no_prediction, no_classification, no_decoder_to_encoder, hierarchical_rnn,"
        " temporal_baseline",
        "  with no_prediction>",
    ]
    for stage in stages:
        assert "rladder-ommnist-tiny" in repr(stage).splitlines()[0]
        assert len(repr(stage).splitlines()) <= 6
    assert str(stages[2]) == repr(stages[2])
    assert repr(ls.load(TINY, without="lateral")).endswith("\n  with further changes>")
    for stage in stages[2:]:
        assert "  32 nodes, " in repr(stage)
        assert "\n  input 1x16x16, 5 frames\n" in repr(stage)
        assert "tasks digit at encoder.class" in repr(stage)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda net, _: net.adopt("weights.pt"), "adopt takes tensors by name.* not `weights.pt`"),
        (lambda net, _: net.adopt({"a": 3}), "adopt takes tensors by name"),
        (
            lambda net, place: ls.save(None, place),
            "network of ladderspec is needed, not None",
        ),
        (lambda net, place: ls.save(torch.nn.Linear(2, 2), place), "not Linear"),
        (lambda net, _: ls.save(net, None), "folder: None is not a path"),
    ],
)
def test_wrong_arguments(
    call: Callable[[torch.nn.Module, Path], object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        call(ls.build(TINY), tmp_path)


def test_modules_that_are_shared_by_hand_are_not_saved(tmp_path: Path) -> None:
    net = ls.build(TINY)
    net.encoder.conv_2 = net.encoder.conv_3
    with pytest.raises(UsageError, match=r"is the same tensor as encoder.conv_2.bias"):
        ls.save(net, tmp_path)
