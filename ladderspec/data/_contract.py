"""What a data set promises: words in an experiment file, named fields, and batches by index.

A batch is a pure function of (words, seed, split, epoch, indices). Whoever asks for it, in whatever
order and process, gets the same numbers; so workers need no state and a run resumes anywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from ladderspec.cells import Words
from ladderspec.errors import LadderspecError, did_you_mean, one_of
from ladderspec.names import Shape, show_shape

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ladderspec.data._types import Batch, Indices


class DataError(LadderspecError):
    """Data that are missing, damaged, or not what the network needs."""


class Split(StrEnum):
    TRAIN = "train"
    VALID = "valid"
    TEST = "test"
    BOTH = "train+valid"  # for the last training, on all that is not for testing

    @property
    def trains(self) -> bool:
        return self in (Split.TRAIN, Split.BOTH)


@dataclass(frozen=True)
class Form:
    """What one item of a field looks like."""

    shape: Shape  # of one frame, or of the whole item where time does not run
    time: bool = False
    text: str = ""
    noisy: str | None = None  # the field that holds this one with noise added

    def __str__(self) -> str:
        shape = show_shape(self.shape) if self.shape else "a number"
        return f"{shape} per frame" if self.time else shape


class DataSet(ABC):
    """An opened data set. Fields are numpy arrays, the batch first, then time, then the form."""

    words: DataWords
    seed: int
    folder: Path | None
    forms: Mapping[str, Form]
    classes: int | None = None  # of the field `label`
    steps: int | None = None  # frames that a network runs over; None: `lengths` says

    @abstractmethod
    def size(self, split: str) -> int:
        """How many items a split has."""

    @abstractmethod
    def batch(
        self, split: str, epoch: int, indices: Indices, fields: Sequence[str] | None = None
    ) -> Batch:
        """The items of these indices; only the fields that are asked for, or all."""

    def lengths(self, split: str) -> Indices | None:
        """The number of frames of every item, where it varies."""
        return None

    def labelled(self, split: str) -> Indices | None:
        """The items whose label may be used, where that is not all of them."""
        return None

    def batches(
        self,
        split: str,
        epoch: int,
        size: int,
        *,
        labelled: int | None = None,
        drop_last: bool = False,
    ) -> list[Indices]:
        """The batches of an epoch: a pure function of (seed, split, epoch, size).

        Training splits are shuffled; the others keep their order. Where lengths vary, a batch holds
        items of similar length, longest first. `labelled` of every batch are labelled items, which
        are repeated as often as needed (default: what the words say).
        """
        from ladderspec.data import _order

        chosen = labelled if labelled is not None else self.words.labelled_per_batch
        return _order.batches(self, Split(split), epoch, size, chosen or 0, drop_last)

    def mean(self, field: str | None = None, items: int = 1000) -> NDArray[np.float64]:
        """The mean frame of a field over the first training items: where a predictor may start."""
        import numpy as np

        field = field or self.words.input
        count = min(items, self.size(Split.TRAIN))
        wanted = [field, "mask"] if "mask" in self.forms else [field]
        batch = self.batch(Split.TRAIN, 0, np.arange(count), wanted)
        values: NDArray[Any] = batch[field]
        if not self.forms[field].time:
            return np.asarray(values.mean(0, dtype=np.float64))
        alive = batch["mask"] if "mask" in batch else np.ones(values.shape[:2], bool)
        return np.asarray(values[alive].mean(0, dtype=np.float64))

    def check_input(self, shape: Shape, frames: int | str | None, field: str | None = None) -> None:
        """Refuse a network whose input is not this data.

        `frames` as in a spec's `time`: how many, `any`, or None where it looks at one input.
        """
        field = field or self.words.input
        form, name = self.form(field), self.words.set
        if form.shape != shape:
            raise DataError(
                f"`{field}` of {name} is {show_shape(form.shape)}, but the network's input is"
                f" {show_shape(shape)}; {self.words.advice(shape)}"
            )
        if form.time and frames is None:
            raise DataError(
                f"`{field}` of {name} runs over time, but the network looks at one input;"
                " say `time: {frames: any}` in the spec, or another `input` in the data"
            )
        if frames is not None and not form.time:
            raise DataError(
                f"`{field}` of {name} has no time, but the network runs over frames;"
                " say `time: {iterations: 1}` in the spec, or another `input` in the data"
            )
        if form.time and isinstance(frames, int) and frames != self.steps:
            have = f"{self.steps} frames" if self.steps else "sequences of any length"
            raise DataError(
                f"{name} has {have}, but the network runs over {frames} frames;"
                " make them equal, or say `time: {frames: any}` in the spec"
            )

    def asked(self, fields: Sequence[str] | None) -> list[str]:
        """The fields that are asked for, checked; all where nothing is said."""
        return list(self.forms) if fields is None else [name for name in fields if self.form(name)]

    def form(self, field: str) -> Form:
        """The form of a field, or an error that says which fields there are."""
        if field not in self.forms:
            hint = did_you_mean(field, self.forms) or f"there are {one_of(self.forms)}"
            raise DataError(f"{self.words.set} has no field `{field}`; {hint}")
        return self.forms[field]

    def __reduce__(self) -> tuple[Any, ...]:
        """Workers open the data themselves: arrays are never sent between processes."""
        return _reopen, (self.words, self.seed, self.folder)


class DataWords(Words):
    """What an experiment says of its data: `data: {set: occluded_mnist, canvas: 24}`."""

    set: str
    input: str = Field("frames", description="The field that the network sees.")
    seed: Annotated[int, Field(ge=0)] | None = Field(
        None, description="Draws of its own; default: those of the run's seed."
    )
    labelled_per_batch: Annotated[int, Field(ge=0)] | None = Field(
        None, description="So many of every batch are labelled items; default: as they come."
    )

    about: ClassVar[str] = ""  # one line for `ladderspec data list`
    # Fields added after runs were recorded: at their defaults they are no part of a run's digest.
    added_fields: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def open(self, seed: int = 0, folder: Path | None = None) -> DataSet:
        """Read what has to be read; `folder` None: where `sources.folder` says."""

    def files(self) -> tuple[str, ...]:
        """The files of the table in `sources` that these words need."""
        return ()

    def advice(self, shape: Shape) -> str:
        """What would make the data fit a network with this input."""
        return f"change `input` in the spec to {show_shape(shape)} or the data"


def _reopen(words: DataWords, seed: int, folder: Path | None) -> DataSet:
    return words.open(seed, folder)
