"""Data -> batches: which items come when, and their tensors aligned with the iterations.

`Sampler` decides which items form a batch, `Collator` turns them into `TensorBatch`es.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ladderspec.cells.fields import Noise
from ladderspec.data import DataError, DataSet, Form, Split
from ladderspec.data.batching import Batch, Indices, chunks
from ladderspec.data.counter_rng import draws, key_of
from ladderspec.experiments.fit import check_fit, target_field
from ladderspec.names import INPUT
from ladderspec.network.inputs import Frames, noisy
from ladderspec.network.net import Net
from ladderspec.tasks import Task
from ladderspec.wiring.graph import InputForm

CPU = torch.device("cpu")
NOISY = "input with noise"  # a field beside the clean input, which targets are taken from


@dataclass(frozen=True)
class TensorBatch:
    """The tensors of one call of a network."""

    frames: Tensor  # (B, T, ...), or (B, ...) if time runs over iterations on one input
    targets: dict[str, Tensor]  # by field, or by task with one target for each iteration
    lengths: tuple[int, ...] | None = None
    first: bool = True  # first piece of its sequences: the state is reset
    start: int = 0  # index of its first frame in the sequence
    # What tasks measure with besides their targets, by task; the first frame is that of the target.
    further: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    inputs: dict[str, Tensor] = field(default_factory=dict)  # further inputs of the network by name

    @property
    def given(self) -> Frames:
        """The argument that the network is called with: frames, or all inputs by name."""
        return {INPUT: self.frames, **self.inputs} if self.inputs else self.frames

    def __len__(self) -> int:
        return len(self.frames)

    def target(self, name: str, field: str | None) -> Tensor:
        """The target of a task, under the name of the task or of the field."""
        return self.targets[name if name in self.targets else str(field)]


@dataclass(frozen=True)
class Collator:
    """Turns items of a data set into the tensors of a network and its tasks."""

    data: DataSet
    tasks: Mapping[str, Task]
    steps: int | None = None  # frames of a piece, for truncated back-propagation through time
    device: torch.device = CPU
    dtype: torch.dtype = torch.float32
    noise: Noise | None = None  # added to the input for evaluation; targets stay clean
    inputs: Sequence[InputForm] = ()  # further inputs of the network

    def with_noise(self, noise: Noise | None) -> Collator:
        """The same with input noise, which is a function of (seed, split, item)."""
        return replace(self, noise=noise)

    @property
    def input(self) -> str:
        return self.data.config.input

    @property
    def fields(self) -> list[str]:
        """The fields of the data to read."""
        tasks = self.tasks.values()
        wanted = [self.input, *(name for name in map(self.field, tasks) if name)]
        further = [name for task in tasks for name in task.further_fields.values()]
        further += [str(form.field) for form in self.inputs]
        extra = [name for name in ("mask", "labelled") if name in self.data.forms]
        return list(dict.fromkeys([*wanted, *further, *extra]))

    def field(self, task: Task) -> str | None:
        """The field that is the target of a task. None: the target is not in the data."""
        return target_field(task, self.input)

    def check(self, net: Net, frames: int | str | None) -> None:
        """Refuse data that do not fit the network and its tasks."""
        check_fit(net.graph, self.data, frames)
        for name, task in self.tasks.items():
            if self.truncates and task.taught:
                raise DataError(
                    f"task `{name}`: a teacher carries no state from piece to piece; leave out"
                    " `steps`"
                )
            if self.truncates and task.when != "all":
                raise DataError(
                    f"task `{name}` reads only some t: it cannot be trained in pieces; leave out"
                    " `steps`, or say `when: all`"
                )
            if self.truncates and task.horizon < self._most_ahead:
                raise DataError(
                    f"task `{name}` would not see the last frames of sequences that are cut, since"
                    " another one looks ahead; leave out `steps`"
                )

    # --- items -----------------------------------------------------------------------------------

    def take(self, split: str, epoch: int, indices: Indices) -> Batch:
        """The fields of some items as arrays. Labels that may not be used are -1."""
        batch = self.data.batch(split, epoch, indices, self.fields)
        if "labelled" in batch and "label" in batch:
            label, known = batch["label"], batch["labelled"]
            wide = known.reshape(known.shape + (1,) * (label.ndim - known.ndim))  # for all t
            batch["label"] = np.where(wide, label, -1)
        batch.pop("labelled", None)
        if self.noise is not None:
            batch[NOISY] = self._noisy(batch, self.noise, split, indices)
        return batch

    def _noisy(self, batch: Batch, noise: Noise, split: str, indices: Indices) -> np.ndarray:
        """The input with noise. The noise of an item does not depend on the rest of its batch."""
        bits = draws(key_of(self.data.seed, "evaluation noise", split), np.asarray(indices), 1)
        seeds = (bits[:, 0] >> np.uint64(1)).tolist()
        lengths = batch["mask"].sum(1).tolist() if "mask" in batch and self._timed else None
        clean = _writable(batch[self.input]).to(self.dtype)
        return noisy_items(clean, noise, seeds, lengths).numpy()

    @property
    def _timed(self) -> bool:
        return self.data.forms[self.input].time

    @property
    def _forms(self) -> dict[str, Form]:
        """The forms of all fields of a batch."""
        return {
            **self.data.forms,
            "mask": Form((), time=True),
            NOISY: self.data.forms[self.input],
        }

    def first(self, split: str, count: int, start: int = 0) -> tuple[TensorBatch, Indices]:
        """The first piece of some items of a split, longest first, and their indices."""
        items = np.arange(start, min(start + count, self.data.size(split)))
        lengths = self.data.lengths(split)
        if lengths is not None:
            items = items[np.argsort(-lengths[items], kind="stable")]
        return next(self.pieces(self.take(split, 0, items))), items

    # --- tensors ---------------------------------------------------------------------------------

    def pieces(self, batch: Batch) -> Iterator[TensorBatch]:
        """The whole batch, or its pieces along time."""
        if not self._timed:
            yield self._whole(batch, None)
        elif self.steps is not None and self.truncates:
            yield from self._cut(batch if "mask" in batch else self._masked(batch), self.steps)
        elif "mask" in batch:
            lengths = batch["mask"].sum(1).tolist()
            yield self._whole(batch, batch["mask"].shape[1], lengths)
        else:
            yield self._whole(batch, self.data.steps)

    def piece_count(self, lengths: Indices | None) -> int:
        """The number of pieces of a batch with these lengths. None: all have the same length."""
        if self.steps is None or not self.truncates:
            return 1
        longest = self._equal if lengths is None else int(lengths.max())
        return -(-max(1, longest - self._most_ahead) // self.steps)

    @property
    def truncates(self) -> bool:
        """Whether sequences are cut into pieces: they may be longer than `steps`."""
        longer = self.steps is not None and (self.data.steps or math.inf) > self.steps
        return longer and self._timed

    @cached_property
    def _equal(self) -> int:
        """Frames of every sequence that are inputs or targets, if all have the same length."""
        assert self.data.steps is not None
        first = self.data.batch(Split.TRAIN, 0, np.zeros(1, dtype=np.int64), [self.input])
        return min(int(first[self.input].shape[1]), self.data.steps + self._most_ahead)

    def _masked(self, batch: Batch) -> Batch:
        """Sequences of equal length with a mask, like those of unequal length."""
        forms, length = self._forms, self._equal
        cut = {name: v[:, :length] if forms[name].time else v for name, v in batch.items()}
        return {**cut, "mask": np.ones((len(batch[self.input]), length), dtype=bool)}

    @property
    def _most_ahead(self) -> int:
        return max((task.horizon for task in self.tasks.values()), default=0)

    def _whole(
        self, batch: Batch, steps: int | None, lengths: Sequence[int] | None = None
    ) -> TensorBatch:
        targets: Batch = {}
        for name, task in self.tasks.items():
            field, ahead = self.field(task), task.horizon
            if field is None:
                continue
            if self.data.forms[field].time and steps is not None:
                of_input = self.input in (field, self.data.forms[field].noisy)
                if of_input and batch[self.input].shape[1] >= steps + ahead > steps:
                    targets[name] = batch[field][:, ahead : ahead + steps]  # beyond the last input
                else:
                    targets[field] = batch[field][:, :steps]
            else:
                targets[field] = batch[field]
        return self._tensors(batch, steps, targets, lengths)

    def _cut(self, batch: Batch, steps: int) -> Iterator[TensorBatch]:
        """The pieces of a batch. Every iteration has its target."""
        most, whole = self._most_ahead, batch["mask"].sum(1)
        for chunk in chunks(batch, self._forms, steps, most):
            targets: Batch = {}
            for name, task in self.tasks.items():
                field, ahead = self.field(task), task.horizon
                if field is not None and self.data.forms[field].time:
                    targets[name] = chunk.batch[field][:, ahead : ahead + chunk.steps]
                elif field is not None:
                    targets[field] = chunk.batch[field]
            left = np.clip(whole[: chunk.rows] - most - chunk.start, 0, chunk.steps).tolist()
            others_ended = chunk.rows == 1 < len(whole)
            yield self._tensors(chunk.batch, chunk.steps, targets, left, chunk.start, others_ended)

    def _tensors(
        self,
        batch: Batch,
        steps: int | None,
        targets: Batch,
        lengths: Sequence[int] | None,
        start: int = 0,
        others_ended: bool = False,
    ) -> TensorBatch:
        """The tensors of the first `steps` frames of a batch, which begin at frame `start`."""
        frames = batch.get(NOISY, batch[self.input])
        frames = frames if steps is None else frames[:, :steps]
        even = lengths is None or all(length == frames.shape[1] for length in lengths)
        even = even and not others_ended  # batch norm needs the length then
        return TensorBatch(
            self._tensor(frames),
            {name: self._tensor(target) for name, target in targets.items()},
            None if even or lengths is None else tuple(lengths),
            start == 0,
            start,
            self._further(batch, steps),
            self._inputs(batch, steps),
        )

    def _inputs(self, batch: Batch, steps: int | None) -> dict[str, Tensor]:
        """The further inputs by name."""
        found = {}
        for form in self.inputs:
            values = batch[str(form.field)]
            values = values[:, :steps] if form.timed and steps is not None else values
            shape = *values.shape[: 1 + form.timed], *form.shape
            found[form.name] = self._tensor(values.reshape(shape))
        return found

    def _further(self, batch: Batch, steps: int | None) -> dict[str, dict[str, Tensor]]:
        """The further fields of each task, from the first frame that its target has."""
        found: dict[str, dict[str, Tensor]] = {}
        for name, task in self.tasks.items():
            for argument, read in task.further_fields.items():
                values = batch[read]
                if self.data.forms[read].time and steps is not None:
                    values = values[:, task.horizon : task.horizon + steps]
                found.setdefault(name, {})[argument] = self._tensor(values)
        return found

    def _tensor(self, array: np.ndarray) -> Tensor:
        tensor = _writable(array)
        kind = self.dtype if tensor.is_floating_point() else tensor.dtype
        return tensor.to(self.device, kind, non_blocking=True)


def _writable(array: np.ndarray) -> Tensor:
    """The tensor of an array, which is copied if it is read-only or not contiguous."""
    return torch.from_numpy(np.require(array, requirements=("C", "W")))


def noisy_items(
    frames: Tensor, noise: Noise, seeds: Sequence[int], lengths: Sequence[int] | None = None
) -> Tensor:
    """Frames (B, ...) with noise for evaluation, which follows from the seed of each item alone.

    The other items of a batch, their order and their padding change nothing; nor does the global
    random state change.
    """
    found = frames.clone()
    with torch.random.fork_rng(devices=[]):
        for i, seed in enumerate(seeds):
            item = frames[i] if lengths is None else frames[i, : lengths[i]]
            torch.default_generator.manual_seed(seed)
            found[i, : len(item)] = noisy(item, noise)
    return found


# --- order ----------------------------------------------------------------------------------------

Position = tuple[int, int, Indices]  # epoch, batch of the epoch, items
Sampled = tuple[int, int, int, Batch]  # epoch, batch, items in all processes, arrays of this one


@dataclass(frozen=True)
class Sampler:
    """The batches of training, epoch after epoch; items `rank`, `rank + world`, ... of each.

    Batches are a function of (seed, epoch), so a run can be resumed at any of them.
    """

    collator: Collator
    split: str
    size: int
    rank: int = 0
    world: int = 1

    def epoch(self, epoch: int) -> list[Indices]:
        """The batches of an epoch. A smaller last one is left out if all lengths are equal.

        CHOICE: batch norm would see few sequences in it; its items are in other batches next time.
        """
        data = self.collator.data
        even = data.lengths(self.split) is None and data.size(self.split) >= self.size
        found = data.batches(self.split, epoch, self.size, drop_last=even)
        if not found:
            raise DataError(
                f"there are too few items in {self.split} for a batch of {self.size}; make `batch`"
                " or `labelled_per_batch` smaller"
            )
        return found

    def updates(self, epoch: int) -> int:
        """The number of updates of an epoch."""
        lengths = self.collator.data.lengths(self.split)
        batches = self.epoch(epoch)
        if lengths is None:
            return len(batches) * self.collator.piece_count(None)
        return sum(self.collator.piece_count(lengths[batch]) for batch in batches)

    def total_updates(self, epochs: float) -> int:
        """The number of updates in this many epochs."""
        whole = int(epochs)
        varies = (
            self.collator.data.lengths(self.split) is not None and self.collator.steps is not None
        )
        if not varies:
            return max(1, round(epochs * self.updates(0)))
        part = round((epochs - whole) * self.updates(whole)) if epochs > whole else 0
        return max(1, sum(map(self.updates, range(whole))) + part)

    def positions(self, epoch: int, number: int) -> Iterator[Position]:
        """All batches from batch `number` of an epoch on, without end."""
        while True:
            for i, indices in enumerate(self.epoch(epoch)):
                if i >= number:
                    yield epoch, i, indices
            epoch, number = epoch + 1, 0

    def check(self) -> None:
        """Refuse a batch that cannot be divided among the processes."""
        if self.world > self.size:
            raise DataError(f"a batch of {self.size} cannot be shared by {self.world} processes")
        if self.world > 1 and self.collator.data.lengths(self.split) is not None:
            raise DataError("sequences of unequal length are trained in one process")

    def batches(self, epoch: int, number: int, workers: int) -> Iterator[Sampled]:
        """The arrays of all batches from a position on, in order, prepared ahead by `workers`.

        Workers are threads, not processes: numpy releases the lock of Python, no array is copied
        between processes, and none outlives a process that is killed.
        """
        if workers == 0:
            yield from map(self._sample, self.positions(epoch, number))
            return
        with ThreadPoolExecutor(workers) as pool:
            ahead: deque[Future[Sampled]] = deque()
            try:
                for position in self.positions(epoch, number):
                    ahead.append(pool.submit(self._sample, position))
                    if len(ahead) > 2 * workers:
                        yield ahead.popleft().result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _sample(self, position: Position) -> Sampled:
        epoch, number, indices = position
        items = np.asarray(indices)[self.rank :: self.world]
        return epoch, number, len(indices), self.collator.take(self.split, epoch, items)
