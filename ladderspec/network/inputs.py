"""The arguments of a network: inputs, their noise, lengths, carries, names of nodes."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ladderspec.cells.fields import Noise
from ladderspec.names import BOTTOM, INPUT, Shape, is_input
from ladderspec.network.history import Carry, Slot, fold, fold_carry
from ladderspec.wiring.graph import Graph, InputForm, forms_of
from ladderspec.wiring.selection import missing_node
from ladderspec.wording import did_you_mean, first_of

Frames = Tensor | Mapping[str, Any]  # of the one input, or of several by name
Lengths = Tensor | Sequence[int] | None


@dataclass(frozen=True)
class Given:
    """The checked arguments of a call; or those that the executor reads (`Inputs.shown`)."""

    values: dict[str, Tensor]  # inputs by node, (B, T, ...) or (B, ...)
    length: int
    ends: tuple[int, ...] | None  # of every sequence, if they differ
    carry: Carry | None

    @property
    def frames(self) -> Tensor:
        return self.values[BOTTOM]

    @property
    def batch(self) -> int:
        return self.frames.shape[0]

    @property
    def start(self) -> int | Tensor:
        """The iterations before this call."""
        return 0 if self.carry is None else self.carry.t


class Inputs:
    """The inputs that a network takes: their shapes, over time or alone, and its own carry."""

    def __init__(self, graph: Graph, slots: Mapping[str, Slot], groups: int | None) -> None:
        self.forms, self.groups = forms_of(graph), groups
        self.iterations: int | None = graph.graph["iterations"]
        self.carried = {  # how many values of each shape a carry holds
            name: (slot.depth, (*self._axes(name), *slot.shape))
            for name, slot in slots.items()
            if slot.depth
        }

    def _axes(self, name: str) -> Shape:
        """The axis of groups, which the values of inputs do not have."""
        return () if self.groups is None or is_input(name) else (self.groups,)

    def check(
        self,
        given: Any,
        like: Tensor | None,
        lengths: Lengths = None,
        carry: Carry | None = None,
        alone: bool = False,
    ) -> Given:
        """Check the arguments of a call against the network.

        Args:
            given: The frames, or all inputs by name.
            like: A parameter of the network: inputs get its type.
            lengths: The length of each sequence, if they differ.
            carry: What the network remembers of earlier frames.
            alone: Inputs are those of one t, (B, ...).
        """
        values = self._values(given, like, alone)
        length, ends = (1, None) if alone else self._times(values[BOTTOM], lengths)
        if alone and carry is None:
            batch = len(values[BOTTOM])
            raise ValueError(f"a carry is needed; the first is `net.initial_carry({batch})`")
        self._check_carry(carry, values[BOTTOM], length)
        for form in self.forms if ends is not None else ():
            if form.timed:
                lasts = torch.tensor(ends, device=values[BOTTOM].device)
                values[form.node] = _zero_from(lasts, values[form.node])
        return Given(values, length, ends, carry)

    def shown(self, given: Given, noise: Noise | None) -> Given:
        """Prepare inputs for the executor: with noise, hidden after `until`, for every group."""
        found = {**given.values, BOTTOM: noisy(given.frames, noise)}
        for form in self.forms:
            if form.until is not None:
                value = found[form.node]
                if value.dim() == 1 + len(form.shape):
                    value = value[:, None].expand(-1, given.length, *form.shape)
                found[form.node] = _zero_from(form.until - given.start, value)
        values = {node: fold(value, self.groups) for node, value in found.items()}
        ends = given.ends and tuple(end for end in given.ends for _ in range(self.groups or 1))
        return Given(values, given.length, ends, fold_carry(given.carry, self.groups))

    def _values(self, given: Any, like: Tensor | None, alone: bool) -> dict[str, Tensor]:
        """All inputs by node, (B, T, ...) or (B, ...), in the type of the network's weights."""
        names = [form.name for form in self.forms]
        if not isinstance(given, Mapping):
            given = {INPUT: given}
            if len(names) > 1:
                shown = ", ".join(f"{name!r}: ..." for name in names)
                raise ValueError(f"the network has {len(names)} inputs: give {{{shown}}}")
        check_names(given, names, "input")
        for name in names:
            if name not in given:
                what = "the frames are" if name == INPUT else f"input `{name}` is"
                raise ValueError(f"{what} missing: the network reads {', '.join(names)}")
        found = {f.node: _value(f, given[f.name], like, alone) for f in self.forms}
        frames = found[BOTTOM]
        for form in self.forms[1:]:
            timed = form.timed and not alone
            sizes, wanted = found[form.node].shape[: 1 + timed], frames.shape[: 1 + timed]
            if sizes != wanted:
                raise ValueError(
                    f"input `{form.name}` has {_sizes(sizes)}, but the frames have {_sizes(wanted)}"
                )
        return found

    def _times(self, frames: Tensor, lengths: Lengths) -> tuple[int, tuple[int, ...] | None]:
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

    def _check_carry(self, carry: Carry | None, frames: Tensor, steps: int) -> None:
        """The carry is one of this network, for as many sequences, in the type of the frames."""
        if carry is None or torch.compiler.is_compiling():
            return
        batch = len(frames)
        if not isinstance(carry, Carry):
            message = f"a carry is what `net.initial_carry({batch})` gives, not {carry!r:.60}"
            raise ValueError(message)
        if carry.values.keys() != self.carried.keys():
            lacks = [name for name in self.carried if name not in carry.values]
            extra = [name for name in carry.values if name not in self.carried]
            differences = (("lacks", lacks), ("has", extra))
            both = [f"{verb} {first_of(names)}" for verb, names in differences if names]
            raise ValueError(f"this carry is of another network: it {' and '.join(both)}")
        autocast = torch.is_autocast_enabled(frames.device.type)  # which chooses types by itself
        for name, (depth, shape) in self.carried.items():
            values = carry.values[name]
            if len(values) != depth:
                raise ValueError(f"the carry keeps {depth} values of {name}, not {len(values)}")
            for value in values:
                if value.shape != (batch, *shape):
                    raise ValueError(
                        f"the carry of {name} is {(batch, *shape)} for these frames, but this is"
                        f" {tuple(value.shape)}"
                    )
                like = value.dtype == frames.dtype or autocast
                if value.device != frames.device or not like:
                    raise ValueError(
                        f"the carry of {name} is {value.dtype} on {value.device}, but the frames"
                        f" are {frames.dtype} on {frames.device}: `carry.to(...)` moves it"
                    )
        if isinstance(carry.t, Tensor) and carry.t.dim() and carry.t.shape != (batch,):
            shape = tuple(carry.t.shape)
            raise ValueError(f"carry.t counts for each of {batch} sequences, but it is {shape}")
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
                stacklevel=6,
            )


def _zero_from(end: int | Tensor, value: Tensor) -> Tensor:
    """Zeros at t >= end, which may be (B,), so that nothing there, not even NaN, is read."""
    ends = end[:, None] if isinstance(end, Tensor) and end.dim() else end
    beyond = torch.arange(value.shape[1], device=value.device) >= ends
    return value.masked_fill(beyond.view(-1, value.shape[1], *(1 for _ in value.shape[2:])), 0)


def _value(form: InputForm, given: Any, like: Tensor | None, alone: bool) -> Tensor:
    """One input, checked."""
    what, this = f"input `{form.name}` is", "this is"
    if form.node == BOTTOM:
        what, this = "a frame is" if alone else "frames are", "these are"
    value = as_tensor(given, what, None if like is None else like.device)
    if value.is_complex() or value.layout != torch.strided:
        raise ValueError(f"{what} dense real numbers, but {this} {value.dtype}, {value.layout}")
    timed = form.timed and not alone
    free = value.shape[: 2 if timed else 1]
    if tuple(value.shape[len(free) :]) != form.shape or 0 in free:
        wanted = ", ".join(["B", *(["T"] if timed else []), *map(str, form.shape)])
        least = ", B and T at least 1" if 0 in free else ""
        raise ValueError(f"{what} ({wanted}){least}, but {this} {tuple(value.shape)}")
    if torch.compiler.is_compiling():
        return value
    if like is not None:
        return value.to(like.dtype)
    return value if value.is_floating_point() else value.to(torch.get_default_dtype())


def as_tensor(given: Any, what: str, device: torch.device | None) -> Tensor:
    """A tensor, or the tensor of an array or a list. `what` begins the message: "frames are"."""
    if isinstance(given, Tensor):
        return given
    try:
        return torch.as_tensor(given, device=device)
    except (TypeError, ValueError, RuntimeError):
        kind = type(given).__name__
        raise ValueError(f"{what} a tensor or an array of numbers, not {kind}") from None


def _sizes(sizes: Sequence[int]) -> str:
    """
    >>> _sizes((2,)), _sizes((2, 5))
    ('2 sequences', '2 sequences of 5 frames')
    """
    words = ("sequence", "frame")
    return " of ".join(f"{n} {word}{'s' * (n != 1)}" for n, word in zip(sizes, words, strict=False))


# --- noise ----------------------------------------------------------------------------------------


def noisy(frames: Tensor, noise: Noise | None) -> Tensor:
    """Frames with the noise of the spec, as a network in training reads them."""
    if noise is None:
        return frames
    if noise.gaussian:
        frames = frames + noise.gaussian * torch.randn_like(frames)
    if noise.flip:
        flipped = torch.rand_like(frames) < noise.flip
        frames = torch.where(flipped, 1 - frames, frames)
    return frames


# --- numbers and names ---------------------------------------------------------------------------


def check_count(given: Any, least: int, meaning: str, most: int | None = None) -> None:
    """Refuse what is no whole number, like 2.5 or True, or is too small or too large."""
    try:
        number = least - 1 if isinstance(given, bool) else operator.index(given)
    except TypeError:
        number = least - 1
    if number < least:
        raise ValueError(f"{meaning}, at least {least}, not {given!r}")
    if most is not None and number > most:
        raise ValueError(f"{meaning}, at most {most:,}, not {given!r}")


def check_names(given: Collection[str], known: Collection[str], what: str) -> None:
    """Refuse an unknown name."""
    for name in given:
        if name not in known:
            meant = did_you_mean(name, known) or f"there is {', '.join(known) or 'none'}"
            raise ValueError(f"no {what} `{name}`: {meant}")


def nodes_of(given: Sequence[Any], known: Collection[str], graph: Graph) -> list[str]:
    """Names of nodes, or of further states of cells, given one by one or in lists."""
    names: list[Any] = []
    for each in given:
        names += each if isinstance(each, Iterable) and not isinstance(each, str) else [each]
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"a node is given by its name, not as {name!r:.60}")
    unknown = [name for name in names if name not in known]
    if not names or unknown:
        hint = missing_node(graph, unknown[0]) if unknown else ""
        what = f"no node {', '.join(unknown)}" if unknown else "name at least one node"
        there = ", ".join(graph)
        raise ValueError(f"{what}{f' ({hint})' if hint else ''}; there are {there}")
    return names
