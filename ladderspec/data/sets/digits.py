"""digits: images of handwritten digits, from MNIST or from scikit-learn (no download).

Also what all data sets that are made of digits share. Index i + n r of a split with n items stands
for item i with other random draws.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ladderspec.cells.fields import refusal
from ladderspec.data import sources
from ladderspec.data.batching import Batch, Indices
from ladderspec.data.counter_rng import draws, key_of
from ladderspec.data.dataset import DataConfig, DataError, DataSet, Form, Split, register
from ladderspec.data.formats import read_idx, require
from ladderspec.names import Shape

if TYPE_CHECKING:
    from ladderspec.data.sheet import ImageSheet

Images = NDArray[np.float32]
Fields = dict[str, Callable[[], NDArray[Any]]]
Origin = Literal["mnist", "embedded"]
Keep = Literal["all", "labelled"]

DEFAULT_VALID = {"mnist": 10_000, "embedded": 300}
# scikit-learn's digits are sorted by writer.
NOTES = {
    "mnist": "",
    "embedded": "Training, validation and test digits come from different writers, so"
    " validation and test errors differ.",
}
EMBEDDED_TEST = 300
CLASSES = 10
LABELS = {
    "label": Form((), False, "the digit"),
    "labelled": Form((), False, "whether the label may be used"),
}
LARGEST = 28  # side of MNIST; larger images are computed from these when they are needed
MNIST = sources.publish(
    "mnist",
    [
        "https://ossci-datasets.s3.amazonaws.com/mnist/{name}",
        "https://storage.googleapis.com/cvdf-datasets/mnist/{name}",
        "http://yann.lecun.com/exdb/mnist/{name}",
    ],
    """
train-images-idx3-ubyte.gz 9912422 440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609
train-labels-idx1-ubyte.gz 28881 3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c
t10k-images-idx3-ubyte.gz 1648877 8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6
t10k-labels-idx1-ubyte.gz 4542 f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6
""",
)


# --- configs --------------------------------------------------------------------------------------


class DigitConfig(DataConfig):
    """The fields of data that are made of digits."""

    digits: Origin = Field(
        "mnist", description="Source of the digits: MNIST, or scikit-learn (no download)."
    )
    valid: Annotated[int, Field(ge=0)] | None = Field(
        None,
        description="Number of validation digits, the last of the training digits;"
        " default: 10000 (MNIST) or 300 (scikit-learn).",
    )

    @property
    def note(self) -> str:
        return NOTES[self.digits]

    @property
    def subset(self) -> tuple[int | None, Keep]:
        """Number of training digits with a label, and those to use."""
        return None, "all"

    def files(self) -> tuple[str, ...]:
        return MNIST if self.digits == "mnist" else ()

    def advice(self, shape: Shape) -> str:
        square = len(shape) == 3 and shape[0] == 1 and shape[1] == shape[2]
        return f"write `canvas: {shape[1]}`" if square else "its images are square, of one channel"


class LabelledDigitConfig(DigitConfig):
    """The fields of data with one digit in each item, which may have a label."""

    labelled: Annotated[int, Field(ge=CLASSES, multiple_of=CLASSES)] | None = Field(
        None,
        description="Number of training digits with a label, balanced over classes; default: all.",
    )
    keep: Keep = Field(
        "all", description="Training digits to use: all, or only those with a label."
    )

    @property
    def subset(self) -> tuple[int | None, Keep]:
        return self.labelled, self.keep

    @model_validator(mode="after")
    def _check_keep(self) -> Self:
        if self.keep == "labelled" and self.labelled is None:
            raise refusal("S106", "`keep: labelled` needs `labelled`", "like `labelled: 1000`")
        return self


# --- data sets ------------------------------------------------------------------------------------


class DigitData(DataSet):
    """A data set that is made of digits, of `side` x `side` pixels."""

    config: DigitConfig

    def __init__(self, config: DigitConfig, seed: int, folder: Path | None, side: int) -> None:
        super().__init__(config, seed, folder)
        self.digits = load_digits(config.digits, side, config.valid, folder)
        self.rows = cache(self._choose_rows)

    def _choose_rows(self, split: Split) -> tuple[Indices, NDArray[np.bool_]]:
        """The digits of a split, as rows of `digits`, and which of them have a label."""
        rows = np.array(self.digits.rows(split))
        count, keep = self.config.subset
        if count is None or not split.trains:
            return rows, np.ones(len(rows), bool)
        labels = self.digits.labels[rows]
        bits = draws(key_of(self.seed, "labelled subset"), rows, 1)[:, 0]
        with_label = np.zeros(len(rows), bool)
        for digit in range(CLASSES):
            members = np.flatnonzero(labels == digit)
            if len(members) < count // CLASSES:
                raise DataError(
                    f"only {len(members)} training digits are a {digit};"
                    f" `labelled: {count}` needs {count // CLASSES} of each class"
                )
            with_label[members[np.argsort(bits[members])[: count // CLASSES]]] = True
        used = with_label if keep == "labelled" else np.ones(len(rows), bool)
        return rows[used], with_label[used]

    @abstractmethod
    def compute(self, split: str, epoch: int, indices: Indices) -> Fields:
        """The fields of these items but their labels, each as a function that computes it."""

    def batch(
        self, split: str, epoch: int, indices: Indices, fields: Sequence[str] | None = None
    ) -> Batch:
        rows, with_label = self.chosen(split, indices)
        compute = self.compute(split, epoch, indices)
        compute |= {"label": lambda: self.digits.labels[rows], "labelled": lambda: with_label}
        return {name: compute[name]() for name in self.requested(fields)}

    def size(self, split: str) -> int:
        return len(self.rows(Split(split))[0])

    def labelled(self, split: str) -> Indices | None:
        with_label = self.rows(Split(split))[1]
        return None if with_label.all() else np.flatnonzero(with_label)

    def chosen(self, split: str, indices: Indices) -> tuple[Indices, NDArray[np.bool_]]:
        """The row of each item, and whether it has a label."""
        rows, with_label = self.rows(Split(split))
        item = np.asarray(indices) % len(rows)
        return rows[item], with_label[item]

    def stream(self, purpose: str, split: str, epoch: int, indices: Indices) -> tuple[int, Indices]:
        """Key and counters of the random draws of each item for a purpose.

        An item is the same in `train` and in `train+valid`, whichever digits are used.
        """
        split = Split(split)
        rows = self.rows(split)[0]
        turn, item = np.divmod(np.asarray(indices), len(rows))
        counters = rows[item] + len(self.digits.labels) * turn
        if split.trains:
            return key_of(self.seed, purpose, Split.TRAIN, epoch), counters
        return key_of(self.seed, purpose, split, 0), counters


# --- the data set ---------------------------------------------------------------------------------


@register
class Digits(LabelledDigitConfig):
    """Handwritten digits, one image each, for networks with a single input."""

    set: Literal["digits"] = "digits"
    input: str = Field("image", description="Input field: the one that the network sees.")
    digits: Literal["embedded", "mnist"] = Field(
        "embedded",
        description="Source of the images: the 1,797 digits of 8x8 in scikit-learn, or MNIST.",
    )
    side: Annotated[int, Field(ge=4, le=512)] | None = Field(
        None, description="Side of an image in pixels; default: 8 (scikit-learn) or 28 (MNIST)."
    )
    flat: bool = Field(False, description="Flatten each image to a vector of pixels.")

    about: ClassVar[str] = "still digits; nothing to download"

    @property
    def image_side(self) -> int:
        return self.side or {"embedded": 8, "mnist": 28}[self.digits]

    def advice(self, shape: Shape) -> str:
        if len(shape) == 1:
            return f"write `flat: true` and `side:` with side * side = {shape[0]}"
        return f"write `side: {shape[-1]}`"

    def open(self, seed: int = 0, folder: Path | None = None) -> DigitsData:
        return DigitsData(self, seed, folder)


class DigitsData(DigitData):
    config: Digits
    classes = CLASSES

    def __init__(self, config: Digits, seed: int, folder: Path | None) -> None:
        side = config.image_side
        super().__init__(config, seed, folder, side)
        self.forms = {
            "image": Form((side * side,) if config.flat else (1, side, side), False, "0 is paper"),
            **LABELS,
        }

    def compute(self, split: str, epoch: int, indices: Indices) -> Fields:
        images = self.digits.images[self.chosen(split, indices)[0]]
        return {"image": lambda: images.reshape(len(images), *self.forms["image"].shape)}

    def contact_sheet(self, title: str, split: str, indices: Indices) -> ImageSheet:
        """A column for each class, with the first items of the class from the first index on."""
        from ladderspec.data import sheet

        batch = self.batch(split, 0, np.arange(indices[0], self.size(split)))
        classes = range(CLASSES)
        found = [np.flatnonzero(batch["label"] == label)[: len(indices)] for label in classes]
        if not all(map(len, found)):
            raise DataError(f"from item {indices[0]} on, {split} has no item of some classes")
        rows = [
            sheet.Strip("", [sheet.as_image(batch["image"][items[i]]) for items in found])
            for i in range(min(map(len, found)))
        ]
        return sheet.strips(title, [str(label) for label in classes], [("", rows)])


# --- images ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DigitImages:
    """Images in [0, 1], 1 = ink. The last `valid` training images are for validation."""

    images: Images  # (n, side, side): training and validation, then test
    labels: Indices
    valid: int
    test: int

    def rows(self, split: Split) -> range:
        """Row numbers of a split."""
        stop = len(self.labels) - self.test
        return {
            Split.TRAIN: range(0, stop - self.valid),
            Split.VALID: range(stop - self.valid, stop),
            Split.BOTH: range(0, stop),
            Split.TEST: range(stop, len(self.labels)),
        }[split]

    def enlarged(self, rows: Indices, side: int) -> Images:
        """The images of these rows, (n, side, side), smooth if they are larger than stored."""
        weights = _linear_weights(self.images.shape[-1], side)
        return np.asarray(weights @ self.images[rows] @ weights.T, np.float32)


def load_digits(origin: Origin, side: int, valid: int | None, folder: Path | None) -> DigitImages:
    """Digits resized to side x side; `valid`: number of validation images."""
    root = None if origin == "embedded" else sources.folder(folder)
    images, labels, test = _load(origin, side, root)
    valid = DEFAULT_VALID[origin] if valid is None else valid
    if valid > len(labels) - test - CLASSES:
        raise DataError(f"`valid: {valid}` leaves no training digits of {len(labels) - test}")
    return DigitImages(images, labels, valid, test)


@lru_cache(maxsize=4)
def _load(origin: Origin, side: int, root: Path | None) -> tuple[Images, Indices, int]:
    """Images, labels, and the number of test images, which are the last ones."""
    if origin == "embedded":  # 1,797 digits of 8x8 with values 0..16, sorted by writer
        found = require("sklearn.datasets", "scikit-learn's digits").load_digits()
        core = max(min(side, 8), round(side * 5 / 7))  # the margins of MNIST, if there is room
        before = (side - core) // 2
        margins = (before, side - core - before)
        images = resize(found.images, core) / np.float32(16)
        return (
            np.pad(images, ((0, 0), margins, margins)),
            found.target.astype(np.int64),
            EMBEDDED_TEST,
        )
    train, train_labels, test, test_labels = map(read_idx, sources.obtain(MNIST, root))
    images = resize(np.concatenate([train, test]), side) / np.float32(255)
    labels = np.concatenate([train_labels, test_labels]).astype(np.int64)
    return images, labels, len(test_labels)


def resize(images: NDArray[Any], side: int) -> Images:
    """Area interpolation: for 28 -> 14, the means of 2x2 pixels."""
    n, height, width = images.shape
    if (height, width) == (side, side):
        return images.astype(np.float32)
    rows, columns = _area_weights(height, side), _area_weights(width, side)
    found = np.empty((n, side, side), np.float32)
    for start in range(0, n, 4096):  # bounds the memory of intermediate results
        part = images[start : start + 4096].astype(np.float32)
        found[start : start + 4096] = rows @ part @ columns.T
    return np.clip(found, images.min(initial=0), images.max(initial=0))  # rounding errors


def _area_weights(n: int, m: int) -> NDArray[np.float32]:
    """(m, n): the weights of n pixels in each of m pixels on a line of the same length.

    >>> _area_weights(4, 2).tolist()
    [[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]]
    """
    fine, coarse = np.arange(n) * m, np.arange(m)[:, None] * n  # in units of 1 / (n m)
    overlap = np.minimum(fine + m, coarse + n) - np.maximum(fine, coarse)
    weights: NDArray[np.float32] = (np.maximum(overlap, 0) / n).astype(np.float32)
    return weights


def _linear_weights(n: int, m: int) -> NDArray[np.float32]:
    """(m, n), m >= n: the weights of n pixels in each of m pixels by linear interpolation.

    >>> _linear_weights(2, 4).tolist()
    [[1.0, 0.0], [0.75, 0.25], [0.25, 0.75], [0.0, 1.0]]
    """
    centres = np.clip((np.arange(m) + 0.5) * n / m - 0.5, 0, n - 1)
    distances = np.abs(centres[:, None] - np.arange(n))
    return np.asarray(np.maximum(0, 1 - distances), np.float32)
