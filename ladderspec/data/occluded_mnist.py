"""occluded_mnist: a digit flies behind bars; which digit is it? [sec:ommnist]

The paper's setting is the default: digits of 14x14 on 32x32, bars of 4 pixels with 8 visible ones
between them, five frames. Other canvases keep the proportions: 24 has bars of 3 and 6 visible
pixels, 16 bars of 2 and 4. The eight velocities stay those of the paper, so that positions stay
whole pixels.

Three fields go beyond the paper: `noise` on the frames, several `test_flights` per test digit, and
`velocities: grid`, which has velocity components of 0. With noise, a task without a `target`
compares with the noisy frames; `target: noiseless` compares with the frames before noise, which lie
in [0, 1] as `cost: bce` needs them. All other fields of the data are free of noise. A spec's own
`input: {noise: ...}` is another noise, which the network adds in training alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from ladderspec.cells._fields import PairField
from ladderspec.data._contract import DataSet, DataWords
from ladderspec.data._registry import register
from ladderspec.names import Shape

Size = Annotated[int, Field(ge=1, le=512)]


@register
class OccludedMnist(DataWords):
    """Occluded Moving MNIST [f:ommnist]."""

    set: Literal["occluded_mnist"] = "occluded_mnist"
    digits: Literal["mnist", "embedded"] = Field(
        "mnist", description="MNIST's files, or scikit-learn's digits, which need no download."
    )
    canvas: Annotated[int, Field(ge=8, le=512)] = Field(32, description="Side of a frame.")
    digit: Size | None = Field(None, description="Side of a digit; default: canvas * 14 / 32.")
    visible: Size | None = Field(
        None, description="Pixels between bars; default: a quarter of the canvas."
    )
    bar: Annotated[int, Field(ge=0, le=512)] | None = Field(
        None, description="Width of a bar; default: an eighth of the canvas; 0: none."
    )
    velocity: PairField = Field((1, 2), description="[a, b]: (a, ±b), (-a, ±b), (b, ±a), (-b, ±a).")
    velocities: Literal["pairs", "grid"] = Field(
        "pairs",
        description="Set of velocities, all equally likely. `pairs`: the eight of `velocity`."
        " `grid`: each component is drawn independently from -b, -a, 0, a and b, so that a digit"
        " may also move along one axis or stand still.",
    )
    frames: Annotated[int, Field(ge=1, le=1000)] = Field(5, description="Frames that are seen.")
    extra: Annotated[int, Field(ge=0, le=1000)] = Field(
        0, description="Frames after the last, as targets of prediction alone."
    )
    bounce: Literal["reflect", "resample"] = Field(
        "reflect", description="At a wall: mirrored, or a new velocity that stays inside."
    )
    flights: Literal["redrawn", "fixed"] = Field(
        "redrawn", description="Training flights: new in every epoch, or always the same."
    )
    test_flights: Annotated[int, Field(ge=1, le=1000)] = Field(
        1,
        description="Number of flights of each test digit: the test split is this many times as"
        " large, with the same digits on other flights, so that the test error varies less.",
    )
    noise: Annotated[float, Field(ge=0, le=10)] = Field(
        0.0,
        description="Standard deviation of the Gaussian noise added to every pixel of `frames`, in"
        " all splits; pixels are from 0 to 1 before noise and are not clipped after it. It is"
        " redrawn whenever the flight is. Targets of prediction are noisy too, unless the task says"
        " `target: noiseless`.",
    )
    valid: Annotated[int, Field(ge=0)] | None = Field(
        None, description="Last training digits, kept for validation; default: 10000 (of MNIST)."
    )
    labelled: Annotated[int, Field(ge=10, multiple_of=10)] | None = Field(
        None, description="Training digits with a label, as many of each class; default: all."
    )
    keep: Literal["all", "labelled"] = Field(
        "all", description="Training digits: all of them, or those with a label alone."
    )

    about: ClassVar[str] = "a digit flies behind bars, five frames"
    added_fields: ClassVar[frozenset[str]] = frozenset({"velocities", "test_flights", "noise"})

    @model_validator(mode="after")
    def _fits(self) -> Self:
        room = self.canvas - self.digit_size
        if room < 2 * max(self.velocity):
            raise PydanticCustomError(
                "room",
                "a digit of {digit} has {room} pixels to fly in a canvas of {canvas}",
                {
                    "digit": self.digit_size,
                    "room": room,
                    "canvas": self.canvas,
                    "hint": f"at least {2 * max(self.velocity)} are needed at this velocity",
                },
            )
        if self.keep == "labelled" and self.labelled is None:
            raise PydanticCustomError(
                "keep", "`keep: labelled` needs to know how many", {"hint": "like `labelled: 1000`"}
            )
        return self

    @property
    def digit_size(self) -> int:
        """CHOICE: rounded down; scikit-learn's digits are never shrunk below their 8 pixels."""
        size = self.digit or self.canvas * 14 // 32
        return max(8, size) if self.digit is None and self.digits == "embedded" else size

    @property
    def bars(self) -> tuple[int, int]:
        """(visible, hidden) pixels."""
        visible = self.canvas // 4 if self.visible is None else self.visible
        return visible, self.canvas // 8 if self.bar is None else self.bar

    def files(self) -> tuple[str, ...]:
        from ladderspec.data.sources import select

        return tuple(f.path for f in select(["mnist"])) if self.digits == "mnist" else ()

    def advice(self, shape: Shape) -> str:
        square = len(shape) == 3 and shape[0] == 1 and shape[1] == shape[2]
        return f"say `canvas: {shape[1]}`" if square else "its frames have one channel and a square"

    def open(self, seed: int = 0, folder: Path | None = None) -> DataSet:
        from ladderspec.data._moving import Moving

        return Moving(self, seed if self.seed is None else self.seed, folder)
