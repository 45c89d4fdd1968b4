"""Let a trained network generate: continuations of sequences, as pictures and as MIDI files."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ladderspec.data import sheet
from ladderspec.data.sets.music import LOWEST
from ladderspec.data.sheet import ImageSheet
from ladderspec.errors import UsageError
from ladderspec.learn.evaluation import recalibrated
from ladderspec.learn.metrics import combined, over_time
from ladderspec.learn.pictures import (
    Shown,
    caption_colours,
    shown_by,
    strips_of,
    true_groups,
)
from ladderspec.names import INPUT
from ladderspec.network.generate import MOST_FRAMES, predictor
from ladderspec.network.inputs import Frames
from ladderspec.network.net import Net
from ladderspec.tasks import Panel
from ladderspec.trained.evaluate import first_items
from ladderspec.trained.run import TrainedRun

QUARTER = 480  # ticks of a quarter
TEMPO = 500_000  # microseconds of a quarter: 120 beats a minute
VELOCITY = 80


@dataclass(frozen=True)
class Continuation:
    """Sequences that a network continued.

    Args:
        given: The given frames, (items, T, ...).
        later: The generated ones, (items, frames, ...).
        rows: What a picture shows besides, (items, frames, ...), by caption: the truth as far as
            the data have it, the predictions of the given frames, what belongs to groups. Empty
            if the task shows nothing besides.
        photographs: Whether 1 is white in pictures.
    """

    given: NDArray[Any]
    later: NDArray[Any]
    rows: Mapping[str, Shown]
    photographs: bool = False


@torch.no_grad()
def generate(
    opened: TrainedRun,
    frames: int,
    split: str = "test",
    first: int = 0,
    count: int = 4,
    given: int | None = None,
    sample: bool = False,
    seed: int = 0,
) -> Continuation:
    """Let a network continue sequences in closed loop.

    Args:
        opened: the run.
        frames: how many frames to generate.
        split: the data to take the beginnings from.
        first: the first item.
        count: the number of items.
        given: frames given to the network. Default: all of the shortest item.
        sample: draw binary values from the predicted probabilities.
        seed: of these draws.
    """
    net = opened.net()
    collator = opened.collator(net)
    batch, items = first_items(collator, split, count, first)
    if batch.frames.dim() != len(net.shape) + 2:
        raise UsageError("the network has a single input: there is no sequence to continue")
    longest = min(batch.lengths or (batch.frames.shape[1],))
    shown = longest if given is None else given
    if not 1 <= shown <= longest:
        raise UsageError(f"between 1 and {longest} frames can be given here, not {shown}")
    if not 1 <= frames <= MOST_FRAMES:
        raise UsageError(f"between 1 and {MOST_FRAMES:,} frames can be generated, not {frames}")
    order = np.argsort(items)
    start = batch.frames[order, :shown]
    further = {name: value[order] for name, value in batch.inputs.items()}
    calibration = opened.training_batches(collator)
    with recalibrated(net, calibration), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            later = net.generate(_with(start, further, net), frames, sample=sample)
        except ValueError as error:
            raise UsageError(str(error)) from None
        rows = _predictions(net, start, later, further)
    if rows:
        truth = {"truth": Shown(Panel(batch.frames)), **true_groups(collator, batch, longest)}
        end = min(longest, shown + frames)
        rows = {name: each.reordered(order, end) for name, each in truth.items()} | rows
    photographs = collator.data.photographs
    return Continuation(start.cpu().numpy(), later.cpu().numpy(), rows, photographs)


def _with(
    frames: Tensor, further: Mapping[str, Tensor], net: Net, steps: int | None = None
) -> Frames:
    """Frames with the further inputs of the network, cut to `steps`."""
    if not further:
        return frames
    timed = {form.name for form in net.inputs.forms if form.timed}
    return {INPUT: frames} | {n: v[:, :steps] if n in timed else v for n, v in further.items()}


def _predictions(
    net: Net, given: Tensor, later: Tensor, further: Mapping[str, Tensor]
) -> dict[str, Shown]:
    """The frames that a task predicts, and what it shows besides. Empty if there is nothing else.

    The network reads the given frames and those that it generated: it predicts them as before.
    """
    name, task = predictor(net)
    whole = torch.cat([given, later[:, :-1]], 1)
    seen = combined(net, task, net(_with(whole, further, net, whole.shape[1]))[name])
    besides = shown_by(task, task.generated_pictures, name, seen, net.shape)
    if not besides:
        return {}
    ahead = over_time(task.present, seen).view(*seen.shape[:2], *net.shape)
    ahead = torch.cat([ahead[:, : given.shape[1] - 1], later], 1)
    return {name: Shown(Panel(ahead), task.horizon), **besides}


def continuation_sheet(found: Continuation, title: str, first: int = 0) -> ImageSheet:
    """A picture of given and generated frames: one row for each item, or several with groups."""
    given, later = found.given, found.later
    if given.ndim == 5 and given.shape[3] == 1:
        whole = np.concatenate([given, later], 1)[:, :, 0, 0] > 0.5
        pieces = [(f"item {i}", w) for i, w in enumerate(whole, first)]
        return sheet.rolls(title, pieces, given=given.shape[1])
    columns = [f"t = {t + 1}" for t in range(given.shape[1])]
    columns += [f"+{t + 1}" for t in range(later.shape[1])]
    if found.rows:
        groups = [
            (f"item {first + i}", strips_of(found.rows, i, len(columns), found.photographs))
            for i in range(len(given))
        ]
        return sheet.strips(title, columns, groups, caption_colours(found.rows))
    rows = [
        sheet.Strip(f"item {i}", [np.clip(sheet.as_image(f), 0, 1) for f in (*before, *after)])
        for i, (before, after) in enumerate(zip(given, later, strict=True), first)
    ]
    return sheet.strips(title, columns, [("", rows)])


# --- MIDI -----------------------------------------------------------------------------------------


def to_midi(roll: NDArray[Any], step: float = 0.5) -> bytes:
    """A piano roll (steps, 88) of 0 and 1 as a MIDI file. `step`: length of a step in quarters.

    >>> roll = np.zeros((2, 88)); roll[0, 39] = 1
    >>> to_midi(roll)[:4], to_midi(roll)[14:18]
    (b'MThd', b'MTrk')
    """
    ticks = round(QUARTER * step)
    sounds = np.asarray(roll) > 0.5
    silence = np.zeros((1, sounds.shape[1]), bool)
    before, after = np.concatenate([silence, sounds]), np.concatenate([sounds, silence])
    events = bytearray(b"\x00\xff\x51\x03" + TEMPO.to_bytes(3, "big"))
    last = 0
    for at in range(len(after)):
        ends, begins = before[at] & ~after[at], after[at] & ~before[at]
        for kind, notes in ((0x80, ends), (0x90, begins)):
            for note in np.flatnonzero(notes).tolist():
                events += _variable((at - last) * ticks) + bytes([kind, note + LOWEST, VELOCITY])
                last = at
    events += _variable((len(sounds) - last) * ticks) + b"\xff\x2f\x00"
    header = struct.pack(">4sIHHH", b"MThd", 6, 0, 1, QUARTER)
    return header + struct.pack(">4sI", b"MTrk", len(events)) + bytes(events)


def _variable(number: int) -> bytes:
    """A variable-length quantity: seven bits a byte, the highest bit set on all but the last.

    >>> _variable(0), _variable(127), _variable(480)
    (b'\\x00', b'\\x7f', b'\\x83`')
    """
    found = [number & 0x7F]
    while number := number >> 7:
        found.append(number & 0x7F | 0x80)
    return bytes(reversed(found))
