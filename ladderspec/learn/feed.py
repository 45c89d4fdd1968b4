"""Data -> what a network is fed: tensors, aligned with the t that it runs over."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ladderspec.cells.input import Noise
from ladderspec.data import DataError, DataSet, Split
from ladderspec.data._contract import Form
from ladderspec.data._counter import draws, key_of
from ladderspec.data._types import Batch, Indices
from ladderspec.data.chunks import chunks
from ladderspec.network.net import Net
from ladderspec.network.noise import noisy_items
from ladderspec.tasks import Classification, Consistency, Prediction, Task

CPU = torch.device("cpu")
NOISY = "input with noise"  # in a batch, beside the clean input that targets are taken from


@dataclass(frozen=True)
class Feed:
    """What one call of a network takes."""

    frames: Tensor  # (B, T, ...), or (B, ...) where time runs over iterations
    targets: dict[str, Tensor]  # by field, or by task with one target for each t
    lengths: tuple[int, ...] | None = None
    first: bool = True  # the state starts anew
    start: int = 0  # the frame of the sequence that comes first here

    def __len__(self) -> int:
        return len(self.frames)

    def target(self, name: str, field: str | None) -> Tensor:
        """What a task compares with: under its own name, or that of the field."""
        return self.targets[name if name in self.targets else str(field)]


@dataclass(frozen=True)
class Diet:
    """What a network takes of a data set."""

    data: DataSet
    tasks: Mapping[str, Task]
    steps: int | None = None  # frames of one piece, where long sequences are cut
    device: torch.device = CPU
    dtype: torch.dtype = torch.float32
    noise: Noise | None = None  # added to the input here, for evaluation; targets stay clean

    def with_noise(self, noise: Noise | None) -> Diet:
        """The same with noise on the input: a pure function of (seed, split, item)."""
        return replace(self, noise=noise)

    @property
    def input(self) -> str:
        return self.data.words.input

    @property
    def fields(self) -> list[str]:
        """The fields of the data that are read."""
        wanted = [self.input, *(field for field in map(self.field, self.tasks.values()) if field)]
        extra = [name for name in ("mask", "labelled") if name in self.data.forms]
        return list(dict.fromkeys([*wanted, *extra]))

    def field(self, task: Task) -> str | None:
        """The field that a task compares with; None where no field of the data is."""
        return None if isinstance(task, Consistency) else task.field or self.input

    def ahead(self, task: Task) -> int:
        return task.ahead if isinstance(task, Prediction) else 0

    def check(self, net: Net, frames: int | str | None) -> None:
        """Refuse data that the network cannot take."""
        self.data.check_input(net.shape, frames)
        for name, task in self.tasks.items():
            field = self.field(task)
            try:
                self.data.form(field or self.input)
            except DataError as error:
                raise DataError(f"task `{name}`: {error}") from None
            if isinstance(task, Classification) and field == "label":
                self._check_classes(net, name)
            if self.cuts and isinstance(task, Consistency):
                raise DataError(
                    f"task `{name}`: a teacher carries no state from piece to piece; leave out"
                    " `steps`"
                )
            if self.cuts and task.when != "all":
                raise DataError(
                    f"task `{name}` reads only some t: it cannot be trained in pieces; leave out"
                    " `steps`, or say `when: all`"
                )
            if self.cuts and self.ahead(task) < self._most_ahead:
                raise DataError(
                    f"task `{name}` would not see the last frames of sequences that are cut, since"
                    " another one looks ahead; leave out `steps`"
                )

    def _check_classes(self, net: Net, name: str) -> None:
        for node, readout in net.readouts[name].items():
            classes = readout.shape[0]
            if self.data.classes is not None and self.data.classes > classes:
                where = f"the head of task `{name}`" if readout.headed else node
                raise DataError(
                    f"`label` goes up to {self.data.classes - 1}, but {where} has {classes} classes"
                )

    # --- batches ---------------------------------------------------------------------------------

    def take(self, split: str, epoch: int, indices: Indices) -> Batch:
        """The fields of a batch; labels that may not be used are -1."""
        batch = self.data.batch(split, epoch, indices, self.fields)
        if "labelled" in batch and "label" in batch:
            label, known = batch["label"], batch["labelled"]
            wide = known.reshape(known.shape + (1,) * (label.ndim - known.ndim))  # of all t
            batch["label"] = np.where(wide, label, -1)
        batch.pop("labelled", None)
        if self.noise is not None:
            batch[NOISY] = self._noisy(batch, self.noise, split, indices)
        return batch

    def _noisy(self, batch: Batch, noise: Noise, split: str, indices: Indices) -> np.ndarray:
        """The input with its noise; that of an item does not depend on the rest of its batch."""
        bits = draws(key_of(self.data.seed, "evaluation noise", split), np.asarray(indices), 1)
        seeds = (bits[:, 0] >> np.uint64(1)).tolist()
        lengths = batch["mask"].sum(1).tolist() if "mask" in batch and self._timed else None
        clean = torch.from_numpy(np.ascontiguousarray(batch[self.input])).to(self.dtype)
        return noisy_items(clean, noise, seeds, lengths).numpy()

    @property
    def _timed(self) -> bool:
        return self.data.forms[self.input].time

    @property
    def _forms(self) -> dict[str, Form]:
        """The forms of all that a batch may hold."""
        return {
            **self.data.forms,
            "mask": Form((), time=True),
            NOISY: self.data.forms[self.input],
        }

    def first(self, split: str, count: int, start: int = 0) -> tuple[Feed, Indices]:
        """Some items of a split, or the beginning of them; longest first, and which they are."""
        items = np.arange(start, min(start + count, self.data.size(split)))
        lengths = self.data.lengths(split)
        if lengths is not None:
            items = items[np.argsort(-lengths[items], kind="stable")]
        return next(self.pieces(self.take(split, 0, items))), items

    def pieces(self, batch: Batch) -> Iterator[Feed]:
        """The whole batch, or pieces of it along time."""
        if not self._timed:
            yield self._whole(batch, None)
        elif self.steps is not None and self.cuts:
            yield from self._cut(batch if "mask" in batch else self._masked(batch), self.steps)
        elif "mask" in batch:
            lengths = batch["mask"].sum(1).tolist()
            yield self._whole(batch, batch["mask"].shape[1], lengths)
        else:
            yield self._whole(batch, self.data.steps)

    def count(self, lengths: Indices | None) -> int:
        """How many pieces a batch of these lengths gives; None: all alike."""
        if self.steps is None or not self.cuts:
            return 1
        longest = self._equal if lengths is None else int(lengths.max())
        return -(-max(1, longest - self._most_ahead) // self.steps)

    @property
    def cuts(self) -> bool:
        """Whether sequences may be longer than a piece."""
        longer = self.steps is not None and (self.data.steps or math.inf) > self.steps
        return longer and self._timed

    @cached_property
    def _equal(self) -> int:
        """How many frames every sequence has that are run over or predicted."""
        assert self.data.steps is not None
        first = self.data.batch(Split.TRAIN, 0, np.zeros(1, dtype=np.int64), [self.input])
        return min(int(first[self.input].shape[1]), self.data.steps + self._most_ahead)

    def _masked(self, batch: Batch) -> Batch:
        """Sequences of equal length as those of unequal length come."""
        forms, length = self._forms, self._equal
        cut = {name: v[:, :length] if forms[name].time else v for name, v in batch.items()}
        return {**cut, "mask": np.ones((len(batch[self.input]), length), dtype=bool)}

    @property
    def _most_ahead(self) -> int:
        return max((self.ahead(task) for task in self.tasks.values()), default=0)

    def _whole(self, batch: Batch, steps: int | None, lengths: Sequence[int] | None = None) -> Feed:
        frames = batch[self.input]
        targets = {}
        for name, task in self.tasks.items():
            field, ahead = self.field(task), self.ahead(task)
            if field is None:
                continue
            if self.data.forms[field].time and steps is not None:
                of_input = self.input in (field, self.data.forms[field].noisy)
                if of_input and frames.shape[1] >= steps + ahead > steps:
                    targets[name] = batch[field][:, ahead : ahead + steps]  # frames after the last
                else:
                    targets[field] = batch[field][:, :steps]
            else:
                targets[field] = batch[field]
        fed = batch.get(NOISY, frames)
        return self._feed(fed[:, :steps] if steps else fed, targets, lengths)

    def _cut(self, batch: Batch, steps: int) -> Iterator[Feed]:
        """Pieces of a batch; each t that is run over has its target."""
        most, whole = self._most_ahead, batch["mask"].sum(1)
        for chunk in chunks(batch, self._forms, steps, most):
            targets = {}
            for name, task in self.tasks.items():
                field, ahead = self.field(task), self.ahead(task)
                if field is not None and self.data.forms[field].time:
                    targets[name] = chunk.batch[field][:, ahead : ahead + chunk.steps]
                elif field is not None:
                    targets[field] = chunk.batch[field]
            left = np.clip(whole[: chunk.rows] - most - chunk.start, 0, chunk.steps).tolist()
            frames = chunk.batch.get(NOISY, chunk.batch[self.input])[:, : chunk.steps]
            others_ended = chunk.rows == 1 < len(whole)
            yield self._feed(frames, targets, left, chunk.start, others_ended)

    def _feed(
        self,
        frames: np.ndarray,
        targets: Mapping[str, np.ndarray],
        lengths: Sequence[int] | None,
        start: int = 0,
        others_ended: bool = False,
    ) -> Feed:
        even = lengths is None or all(length == frames.shape[1] for length in lengths)
        even = even and not others_ended  # which the length tells batch norms
        return Feed(
            self._tensor(frames),
            {name: self._tensor(target) for name, target in targets.items()},
            None if even or lengths is None else tuple(lengths),
            start == 0,
            start,
        )

    def _tensor(self, array: np.ndarray) -> Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        kind = self.dtype if tensor.is_floating_point() else tensor.dtype
        return tensor.to(self.device, kind, non_blocking=True)
