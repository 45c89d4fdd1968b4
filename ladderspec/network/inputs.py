"""Validation of what a network is called with: frames, lengths, carries, names of nodes."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ladderspec.names import Shape
from ladderspec.network.carry import Carry
from ladderspec.network.history import Slot
from ladderspec.wiring.graph import Graph
from ladderspec.wiring.selection import missing_node
from ladderspec.wording import did_you_mean

Lengths = Tensor | Sequence[int] | None


class Inputs:
    """What a network takes: frames of a shape, over time or alone, and its own carry."""

    def __init__(
        self,
        shape: Shape,
        iterations: int | None,
        slots: Iterable[Slot],
        groups: int | None = None,
    ) -> None:
        self.shape, self.iterations, self.groups = shape, iterations, groups
        self.slots = [slot for slot in slots if slot.depth]

    # --- frames ----------------------------------------------------------------------------------

    def frames(self, given: Any, like: Tensor | None, alone: bool = False) -> Tensor:
        """Frames (B, T, ...), or of one t alone (B, ...), in the type of the network's weights."""
        frames = _tensor(given, like)
        timed = not alone and self.iterations is None
        free = 2 if timed else 1
        if tuple(frames.shape[free:]) != self.shape or 0 in frames.shape[:free]:
            few = frames.dim() >= free and 0 in frames.shape[:free]
            raise ValueError(
                f"{'a frame is' if alone else 'frames are'} ({'B, T, ' if timed else 'B, '}"
                f"{', '.join(map(str, self.shape))})"
                f"{', B and T at least 1' if few else ''}, but these are {tuple(frames.shape)}"
            )
        if torch.compiler.is_compiling():
            return frames
        if like is not None:
            return frames.to(like.dtype)
        return frames if frames.is_floating_point() else frames.to(torch.get_default_dtype())

    def times(self, frames: Tensor, lengths: Lengths) -> tuple[int, tuple[int, ...] | None]:
        """How many t there are, and the end of every sequence if they differ."""
        if self.iterations is not None:
            if lengths is not None:
                raise ValueError("time runs over iterations on one input: there are no lengths")
            return self.iterations, None
        batch, length = frames.shape[:2]
        if lengths is None:
            return length, None
        plain = lengths.tolist() if hasattr(lengths, "tolist") else lengths
        try:
            ends = tuple(map(operator.index, plain))
        except TypeError:
            ends = ()
        if len(ends) != batch or min(ends) < 0 or max(ends) > length:
            raise ValueError(f"lengths are {batch} whole numbers from 0 to {length}, not {plain}")
        return length, ends

    # --- the carry -------------------------------------------------------------------------------

    def check_carry(self, carry: Carry | None, frames: Tensor, steps: int = 1) -> None:
        """The carry is one of this network, for as many sequences, in the type of the frames.

        Args:
            carry: The carry.
            frames: The input of the call.
            steps: The number of iterations of the call.
        """
        if carry is None or torch.compiler.is_compiling():
            return
        if not isinstance(carry, Carry):
            raise ValueError(
                f"a carry is what `net.initial_carry({len(frames)})` gives, not {carry!r:.60}"
            )
        wanted = {slot.name: slot for slot in self.slots}
        differences = [
            f"{verb} {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"
            for verb, names in (
                ("lacks", [name for name in wanted if name not in carry.values]),
                ("has", [name for name in carry.values if name not in wanted]),
            )
            if names
        ]
        if differences:
            raise ValueError(f"this carry is of another network: it {' and '.join(differences)}")
        for name, slot in wanted.items():
            grouped = self.groups is not None and name != "encoder.input"
            shape = (*((self.groups,) if grouped else ()), *slot.shape)
            _check_carried(replace(slot, shape=shape), carry.values[name], frames)
        if isinstance(carry.t, Tensor) and carry.t.dim() and carry.t.shape != (len(frames),):
            raise ValueError(
                f"carry.t counts for each of {len(frames)} sequences,"
                f" but it is {tuple(carry.t.shape)}"
            )
        self._warn_beyond_training(carry.t, steps)

    def _warn_beyond_training(self, t: int | Tensor, steps: int) -> None:
        """Groups get worse beyond the iterations of their training: an AMI of .36 after .58."""
        if self.groups is None or self.iterations is None or not isinstance(t, int):
            return
        if t + steps > self.iterations:
            warnings.warn(
                f"the network has groups and `time: {{iterations: {self.iterations}}}`: they get"
                f" worse after iteration {self.iterations}; begin again with `net.initial_carry`,"
                " or train with more iterations",
                stacklevel=4,
            )


def _tensor(given: Any, like: Tensor | None) -> Tensor:
    if isinstance(given, Tensor):
        return given
    try:
        return torch.as_tensor(given, device=None if like is None else like.device)
    except (TypeError, ValueError, RuntimeError):
        kind = type(given).__name__
        raise ValueError(f"frames are a tensor or an array of numbers, not {kind}") from None


def _check_carried(slot: Slot, values: tuple[Tensor, ...], frames: Tensor) -> None:
    if len(values) != slot.depth:
        raise ValueError(f"the carry keeps {slot.depth} values of {slot.name}, not {len(values)}")
    shape = (frames.shape[0], *slot.shape)
    for value in values:
        if value.shape != shape:
            raise ValueError(
                f"the carry of {slot.name} is {shape} for these frames, but this is"
                f" {tuple(value.shape)}"
            )
        if value.device != frames.device or not (
            # Autocast chooses the types by itself.
            value.dtype == frames.dtype or torch.is_autocast_enabled(frames.device.type)
        ):
            raise ValueError(
                f"the carry of {slot.name} is {value.dtype} on {value.device}, but the frames are"
                f" {frames.dtype} on {frames.device}: `carry.to(...)` moves it"
            )


# --- numbers and names ---------------------------------------------------------------------------


def check_count(given: Any, least: int, meaning: str) -> None:
    """Refuse what is no whole number, like 2.5 or True, or is too small."""
    try:
        number = least - 1 if isinstance(given, bool) else operator.index(given)
    except TypeError:
        number = least - 1
    if number < least:
        raise ValueError(f"{meaning}, at least {least}, not {given!r}")


def check_names(given: Collection[str], known: Collection[str], what: str) -> None:
    """Refuse an unknown name."""
    for name in given:
        if name not in known:
            meant = did_you_mean(name, known) or f"there is {', '.join(known) or 'none'}"
            raise ValueError(f"no {what} `{name}`: {meant}")


def names_of_nodes(given: Sequence[Any]) -> list[str]:
    """Names one by one, or in lists."""
    names: list[Any] = []
    for each in given:
        names += each if isinstance(each, Iterable) and not isinstance(each, str) else [each]
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"a node is given by its name, not as {name!r:.60}")
    return names


def check_nodes(given: Sequence[str], known: Collection[str], graph: Graph) -> None:
    """Refuse the name of a node, or of what a cell remembers, that is not there."""
    unknown = [name for name in given if name not in known]
    if not given or unknown:
        hint = missing_node(graph, unknown[0]) if unknown else ""
        what = f"no node {', '.join(unknown)}" if unknown else "say which nodes"
        there = ", ".join(graph)
        raise ValueError(f"{what}{f' ({hint})' if hint else ''}; there are {there}")


def without_padding(frames: Tensor, ends: tuple[int, ...] | None) -> Tensor:
    """Zeros beyond the end of every sequence, so that nothing there, not even NaN, is read."""
    if ends is None:
        return frames
    lasts = torch.tensor(ends, device=frames.device)
    alive = torch.arange(frames.shape[1], device=frames.device) < lasts[:, None]
    wide = alive.view(*alive.shape, *(1 for _ in frames.shape[2:]))
    return frames.masked_fill(~wide, 0)
