"""The values of all nodes over time, while a network runs."""

from __future__ import annotations

import torch
from torch import Tensor

from ladderspec.network.carry import Carry
from ladderspec.network.steps import Layout

Row = list[Tensor | None]


class Tracks:
    """One row over time per slot: first the past (`lead` values), then t = 1, 2, ...

    None is a value that is not there: zeros from before the first t, or something that was not
    needed or no longer is. Values of several t can also be had folded time-major into one tensor.
    """

    def __init__(self, layout: Layout, length: int, like: Tensor, past: list[Row]) -> None:
        self.layout, self.lead, self.batch, self.like = layout, layout.lead, like.shape[0], like
        self.rows: list[Row] = [row + [None] * length for row in past]
        self.folds: list[dict[tuple[int, int], Tensor]] = [{} for _ in past]
        self.whole: list[list[tuple[int, int, Tensor]]] = [[] for _ in past]  # not yet cut

    def zeros(self, slot: int, count: int = 1) -> Tensor:
        return self.like.new_zeros(self.batch * count, *self.layout.slots[slot].shape)

    def read(self, slot: int, start: int, count: int) -> Tensor | None:
        """The values of `count` iterations, folded; None where all of them are not there."""
        if count == 1:
            return self._at(slot, self.lead + start)
        folded = self.folds[slot].get((start, count))
        if folded is None:
            at = self.lead + start
            values = [self._at(slot, i) for i in range(at, at + count)]
            if all(value is None for value in values):
                return None
            folded = torch.cat([self.zeros(slot) if v is None else v for v in values])
            self.folds[slot][start, count] = folded
        return folded

    def put(self, slot: int, start: int, count: int, value: Tensor) -> None:
        """Keep the values of `count` iterations, folded."""
        at = self.lead + start
        if count == 1:
            self.rows[slot][at] = value
            return
        self.folds[slot][start, count] = value
        self.rows[slot][at : at + count] = [None] * count
        self.whole[slot].append((at, count, value))

    def _at(self, slot: int, i: int) -> Tensor | None:
        """The value in a place of a row; what was put in folded is cut only now."""
        row = self.rows[slot]
        if row[i] is None and self.whole[slot]:
            for kept in self.whole[slot]:
                at, count, value = kept
                if at <= i < at + count:
                    self.whole[slot].remove(kept)
                    # Not one slice per t: the gradient of each would be as large as all together.
                    row[at : at + count] = value.split_with_sizes([self.batch] * count)
                    break
        return row[i]

    def row(self, slot: int) -> Row:
        """The past and all t."""
        return [self._at(slot, i) for i in range(len(self.rows[slot]))]

    def repeat(self, slot: int) -> None:
        """The value of the first t is that of every t."""
        row = self.rows[slot]
        row[self.lead :] = row[self.lead : self.lead + 1] * (len(row) - self.lead)

    def forget(self, slot: int, end: int) -> None:
        """Let go of the values before iteration `end`."""
        self.folds[slot].clear()
        self.whole[slot] = [
            kept for kept in self.whole[slot] if kept[0] + kept[1] > self.lead + end
        ]
        row, at = self.rows[slot], self.lead + end - 1
        while at >= 0 and row[at] is not None:
            row[at] = None
            at -= 1

    # --- what remains ----------------------------------------------------------------------------

    def last(self, slot: int, age: int = 1, ends: tuple[int, ...] | None = None) -> Tensor:
        """The last value (age 1) or one before it; by sequence where these have their own ends."""
        if ends is None:
            value = self._at(slot, len(self.rows[slot]) - age)
            return self.zeros(slot) if value is None else value
        at = [self.lead + end - age for end in ends]
        known = {i: self._at(slot, i) for i in set(at)}
        whole = {i: self.zeros(slot) if value is None else value for i, value in known.items()}
        return torch.stack([whole[i][b] for b, i in enumerate(at)])

    def series(self, slot: int, times: list[int]) -> Tensor:
        """The values of some iterations, (n, B, ...)."""
        whole = self.folds[slot].get((times[0], len(times)))
        if whole is not None and times[-1] - times[0] == len(times) - 1:
            return whole.view(len(times), self.batch, *whole.shape[1:])
        values = [value for t in times if (value := self._at(slot, self.lead + t)) is not None]
        if len(values) < len(times):
            raise RuntimeError(f"not all values of {self.layout.slots[slot].name} were kept")
        return torch.stack(values)


def past_of(layout: Layout, batch: int, carry: Carry | None) -> list[Row]:
    """The rows before the first t: what was carried, else what was learned, else nothing."""
    rows: list[Row] = []
    for slot in layout.slots:
        row: Row = [None] * layout.lead
        if slot.depth and carry is not None:
            row[layout.lead - slot.depth :] = reversed(carry.values[slot.name])
        elif slot.depth and (initial := slot.initial()) is not None:
            row = [initial.expand(batch, *slot.shape)] * layout.lead
        rows.append(row)
    return rows


def channels_last(value: Tensor) -> Tensor:
    """Maps as all cells pass them on."""
    if value.dim() == 4:
        return value.contiguous(memory_format=torch.channels_last)
    return value.contiguous()
