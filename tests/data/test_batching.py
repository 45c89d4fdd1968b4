"""Chunks of long sequences, with a carried state."""

import numpy as np
import pytest

from ladderspec.data import Form
from ladderspec.data.batching import chunks

FORMS = {"frames": Form((1,), True), "mask": Form((), True), "name": Form(())}


def ragged(lengths):
    longest = max(lengths)
    mask = np.arange(longest) < np.array(lengths)[:, None]
    frames = (np.arange(mask.size).reshape(mask.shape) + 1.0) * mask
    return {"frames": frames[..., None], "mask": mask, "name": np.arange(len(lengths))}


@pytest.mark.parametrize("ahead", [1, 2])
@pytest.mark.parametrize("steps", [1, 2, 3, 5, 100, None])
@pytest.mark.parametrize("lengths", [[7, 7], [9, 4, 2, 1], [1], [2, 1], [6]])
def test_over_all_chunks_each_target_is_scored_once(lengths, steps, ahead):
    batch = ragged(lengths)
    seen = []
    for chunk in chunks(batch, FORMS, steps, ahead):
        frames, mask = chunk.batch["frames"][..., 0], chunk.batch["mask"]
        assert len(frames) == chunk.rows
        assert chunk.batch["name"].tolist() == list(range(chunk.rows))
        targets, scored = frames[:, ahead:], mask[:, ahead:]
        assert targets.shape[1] <= chunk.steps
        seen += targets[scored].tolist()
    expected = batch["frames"][:, ahead:, 0][batch["mask"][:, ahead:]]
    assert sorted(seen) == sorted(expected.tolist())


def test_a_carried_state_runs_through_the_chunks():
    """A running sum over chunks equals that over the whole sequences."""
    batch = ragged([11, 8, 3])
    whole = batch["frames"][..., 0].cumsum(1)
    carry = np.zeros(3)
    for chunk in chunks(batch, FORMS, 4):
        carry = carry[: chunk.rows]
        inputs = chunk.batch["frames"][:, : chunk.steps, 0]
        outputs = carry[:, None] + inputs.cumsum(1)
        window = slice(chunk.start, chunk.start + chunk.steps)
        np.testing.assert_array_equal(outputs, whole[: chunk.rows, window])
        carry = outputs[:, -1]


def test_chunks_need_the_longest_first():
    with pytest.raises(ValueError, match="sorted longest first"):
        list(chunks(ragged([3, 5]), FORMS, 2))
