"""Running a program: the only loops over t."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ladderspec.network.clock import Clock
from ladderspec.network.program import Piece, Program, Stage
from ladderspec.network.steps import Step
from ladderspec.network.tape import Player
from ladderspec.network.tracks import Tracks
from ladderspec.nn import GRU, LSTM, When
from ladderspec.nn._own import watched
from ladderspec.nn._promises import refuse_missing
from ladderspec.schedule.phases import Kind


def run(
    program: Program,
    tracks: Tracks,
    clock: Clock,
    length: int,
    static_holds: bool = True,
    player: Player | None = None,
) -> None:
    """Fill the tracks; `static_holds`: what follows from one input is the same at every t.

    A `player` repeats single iterations from tapes.
    """
    for stage in program:
        if stage.static and static_holds:
            _run_static(stage, tracks, clock, length)
        elif stage.kind is Kind.SEQUENCE and _fuses(stage):
            _run_sequence(stage, tracks)
        else:
            _run_pieces(stage, tracks, clock, player)
        for slot, wait in stage.drops:
            tracks.forget(slot, length - wait)


def _run_pieces(stage: Stage, tracks: Tracks, clock: Clock, player: Player | None) -> None:
    keeps_all = torch.is_grad_enabled()  # the backward pass needs the values anyway
    for piece in _single(stage) if stage.kind is Kind.SEQUENCE else stage.pieces:
        when = clock.when(piece.start, piece.count)
        if player is not None and piece.count == 1:
            _repeat_piece(piece, tracks, when, player)
        else:
            _run_piece(piece, tracks, when)
        if not keeps_all:
            for slot, wait in stage.drops:
                tracks.forget(slot, piece.start + piece.count - wait)


def _run_piece(piece: Piece, tracks: Tracks, when: When) -> None:
    for step in piece.steps:
        if step.reads:  # all but the input, whose values are there already
            compute(step, tracks, piece, when)


def _repeat_piece(piece: Piece, tracks: Tracks, when: When, player: Player) -> None:
    """One t, as a function of all that it reads: so it can stand on a tape."""
    if not isinstance(when.start, int):  # after sequences of unequal length, t is data
        return _run_piece(piece, tracks, when)
    enters, leaves = tracks.layout.reach(piece.steps)
    there = [
        (slot, delay, value)
        for slot, delay in enters
        if (value := tracks.read(slot, piece.start - delay, 1)) is not None
    ]
    besides = {key: each for key in ("alive", "tally") if (each := getattr(when, key)) is not None}

    def plain(like: Tensor, *given: Any) -> tuple[Tensor, ...]:
        rest = iter(given)
        known = replace(when, **{key: next(rest) for key in besides})
        once = Tracks(tracks.layout, 1, like, [[None] * tracks.lead for _ in tracks.rows])
        for (slot, delay, _), value in zip(there, rest, strict=True):
            once.put(slot, -delay, 1, value)
        _run_piece(Piece(0, 1, piece.steps), once, known)
        return tuple(once.last(slot) for slot in leaves)

    # Which is which where one value comes in twice, and gradients belong to both.
    who = [id(value) for _, _, value in there]
    kind = (
        piece.steps,
        tuple(besides),
        tuple([(slot, delay, value.requires_grad) for slot, delay, value in there]),
        tuple(map(who.index, who)) if len(set(who)) < len(who) else (),
    )
    given = (tracks.like, *besides.values(), *(value for _, _, value in there))
    found = player.repeat(kind, when.start, plain, given)
    for slot, value in zip(leaves, found, strict=True):
        tracks.put(slot, piece.start, 1, value)


def compute(step: Step, tracks: Tracks, piece: Piece, when: When) -> None:
    """One node, for the iterations of a piece."""
    start, count = piece.start, piece.count
    values: dict[str, Tensor] = {}
    for key, slot, delay, may_lack in step.reads:
        value = tracks.read(slot, start - delay, count)
        if value is None:
            if may_lack:
                continue
            value = tracks.zeros(slot, count)
        values[key] = value
    previous = None
    if step.state and "state" in values:
        previous = {
            name: _past(tracks, slot, start - step.state_delay) for name, slot in step.state
        }
    try:
        output, extras = step.module(values, previous, when)
    except KeyError as error:
        refuse_missing(step.node, values, error)
        raise
    tracks.put(step.slot, start, count, output)
    for name, slot in step.state:
        tracks.put(slot, start, count, extras[name])
    if step.seen >= 0:
        tracks.put(step.seen, start, count, extras.get("logits", output))


def _past(tracks: Tracks, slot: int, t: int) -> Tensor:
    value = tracks.read(slot, t, 1)
    return tracks.zeros(slot) if value is None else value


def _run_static(stage: Stage, tracks: Tracks, clock: Clock, length: int) -> None:
    """What is the same at every t, once."""
    first = Piece(0, 1, ())
    times: dict[Step, list[int]] = {}
    for piece in stage.pieces:
        for step in piece.steps:
            times.setdefault(step, []).extend(range(piece.start, piece.start + piece.count))
    for step, needed in times.items():
        if step.reads:
            # Statistics count the t at which it is needed.
            when = replace(clock.when(needed[0], 1), repeats=len(needed))
            compute(step, tracks, first, when)
            for slot in (step.slot, step.seen):
                if slot >= 0:
                    tracks.repeat(slot)


def _fuses(stage: Stage) -> bool:
    """Whether the cell is as the plan knows it: none in its place, no norm, nobody watching."""
    cell = stage.pieces[0].steps[0].module if stage.pieces else None
    if not isinstance(cell, LSTM | GRU):
        return cell is None
    return cell.plain and not any(map(watched, cell.modules()))


def _single(stage: Stage) -> Iterator[Piece]:
    for piece in stage.pieces:
        for t in range(piece.start, piece.start + piece.count):
            yield Piece(t, 1, piece.steps)


def _run_sequence(stage: Stage, tracks: Tracks) -> None:
    """A lone LSTM or GRU: one fused call for all t."""
    for piece in stage.pieces:
        (step,) = piece.steps
        start, count = piece.start, piece.count
        values, previous = {}, {}
        for key, slot, delay, _ in step.reads:
            if slot == step.slot:
                previous["h"] = _past(tracks, slot, start - 1)
                continue
            value = tracks.read(slot, start - delay, count)
            values[key] = tracks.zeros(slot, count) if value is None else value
        for name, slot in step.state:
            previous[name] = _past(tracks, slot, start - 1)
        with _full_precision(tracks.like):
            output, last = step.module.sequence(values, previous, count)  # type: ignore[operator]
        tracks.put(step.slot, start, count, output)
        for name, slot in step.state:
            tracks.put(slot, start + count - 1, 1, last[name])
        if step.seen >= 0:
            tracks.put(step.seen, start, count, output)


def _full_precision(like: Tensor) -> AbstractContextManager[object]:
    """On the CPU, autocast would ask for fused calls that are not there in its precision."""
    if like.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        return torch.autocast("cpu", enabled=False)
    return nullcontext()
