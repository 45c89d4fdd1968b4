"""The metric of the task `grouping`: which iterations count."""

from __future__ import annotations

from pathlib import Path

import pytest

from ladderspec.learn.train import train
from tests.training import one_run

SPEC = """
name: nano-groups
input: {channels: 1, size: [16, 16], noise: {gaussian: 0.2}}
time: {TIME}
groups: {count: 2, variance: 0.01}
levels:
  - name: lstm1
    encoder: {cell: ConvLSTM, channels: 3, filter: 4, stride: 2}
    decoder: {cell: Readout, filter: 4}
  - {name: pool, encoder: {cell: Pool, mode: average, filter: global}, decoder: Average}
  - {name: fc, encoder: {cell: FC, channels: 4}, decoder: G1}
tasks:
  segment: {kind: grouping, truth: groups, AHEAD}
"""
EXPERIMENT = """
name: nano
data: {DATA, digits: embedded, canvas: 16, valid: 40}
spec: nano.yaml
rows: [{name: tagger}]
training: {updates: 2, batch: 4, optimiser: {lr: 0.01}}
evaluation: {statistics: 2, items: 20, batch: 100}
machine: {log: 2, threads: 1, pictures: 0}
"""
STILL = ("iterations: 3", "ahead: 0", "set: textured_mnist, textures: builtin, brightness: apart")
MOVING = ("frames: 4", "ahead: 1", "set: moving_mnist, frames: 4, digit: 8")


@pytest.mark.parametrize(("words", "last"), [(STILL, True), (MOVING, False)])
def test_the_last_iteration_on_one_input_counts_and_every_frame(
    tmp_path: Path, words: tuple[str, str, str], last: bool
) -> None:
    time, ahead, data = words
    spec = SPEC.replace("TIME", time).replace("AHEAD", ahead)
    run = one_run(tmp_path, EXPERIMENT.replace("DATA", data), spec)
    result = train(run, tmp_path / run.id, quiet=True)
    for split in ("valid", "test"):
        at_each = result["by_time"][split]["segment.ami"]
        assert len(at_each) == 3
        assert len(set(at_each)) == 3
        overall = result["metrics"][split]["segment.ami"]
        if last:
            assert overall == at_each[-1]
        else:  # some frames have no pixel that counts, so that the mean is weighted
            assert min(at_each) < overall < max(at_each)
            assert overall == pytest.approx(sum(at_each) / 3, abs=0.01)
