"""occluded_mnist: classify a digit that moves behind bars [sec:ommnist].

The defaults are the setting of the paper: digits of 14x14 on 32x32, bars of 4 pixels with 8 visible
pixels between them, five frames. Other canvases keep the proportions: 24 has bars of 3 and 6
visible pixels, 16 has bars of 2 and 4. The eight velocities stay those of the paper, so that
positions stay integers.

Three fields go beyond the paper: `noise` on the frames, several `test_flights` per test digit, and
`velocities: grid`, which has velocity components of 0. With noise, a task without a `target`
compares with the noisy frames; `target: noiseless` compares with the frames before noise, which are
in [0, 1] as `cost: bce` needs them. All other fields of the data are free of noise.
`input: {noise: ...}` of a spec is another noise, which the network adds in training only.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from ladderspec.cells.fields import PairField
from ladderspec.data.baselines import prediction_baselines
from ladderspec.data.batching import Indices
from ladderspec.data.counter_rng import draws, normal
from ladderspec.data.dataset import Baseline, Form, Split, register
from ladderspec.data.flights import Canvas, Flight, Images
from ladderspec.data.sets.digits import CLASSES, LABELS, DigitData, Fields, LabelledDigitConfig

if TYPE_CHECKING:
    from ladderspec.data.sheet import ImageSheet

Size = Annotated[int, Field(ge=1, le=512)]


@register
class OccludedMnist(LabelledDigitConfig):
    """Occluded Moving MNIST [f:ommnist]."""

    set: Literal["occluded_mnist"] = "occluded_mnist"
    canvas: Annotated[int, Field(ge=8, le=512)] = Field(
        32, description="Side of a frame in pixels."
    )
    digit: Size | None = Field(
        None, description="Side of a digit in pixels; default: canvas * 14 / 32."
    )
    visible: Size | None = Field(
        None, description="Number of pixels between bars; default: a quarter of the canvas."
    )
    bar: Annotated[int, Field(ge=0, le=512)] | None = Field(
        None, description="Width of a bar in pixels; default: an eighth of the canvas; 0: no bars."
    )
    velocity: PairField = Field(
        (1, 2),
        description="Velocity components [a, b] in pixels per frame: the velocities are (a, ±b),"
        " (-a, ±b), (b, ±a) and (-b, ±a).",
    )
    velocities: Literal["pairs", "grid"] = Field(
        "pairs",
        description="Set of velocities, all equally likely. `pairs`: the eight of `velocity`."
        " `grid`: each component is drawn independently from -b, -a, 0, a and b, so that a digit"
        " may also move along one axis or stand still.",
    )
    frames: Annotated[int, Field(ge=1, le=1000)] = Field(
        5, description="Number of frames that the network sees."
    )
    extra: Annotated[int, Field(ge=0, le=1000)] = Field(
        0, description="Number of frames after the last input, used as prediction targets only."
    )
    bounce: Literal["reflect", "resample"] = Field(
        "reflect",
        description="Motion at a wall: `reflect` mirrors the position, `resample` draws a new"
        " velocity among those that stay inside.",
    )
    flights: Literal["redrawn", "fixed"] = Field(
        "redrawn", description="Flights of the training digits: new in every epoch, or fixed."
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
        " redrawn whenever the flight is. Prediction targets are noisy too, unless the task has"
        " `target: noiseless`.",
    )

    about: ClassVar[str] = "a digit flies behind bars, five frames"

    @model_validator(mode="after")
    def _check(self) -> Self:
        room, needed = self.canvas - self.digit_size, 2 * max(self.velocity)
        if room < needed:
            raise PydanticCustomError(
                "room",
                "a digit of {digit} has {room} pixels to fly in a canvas of {canvas}",
                {
                    "digit": self.digit_size,
                    "room": room,
                    "canvas": self.canvas,
                    "hint": f"at least {needed} are needed at this velocity",
                },
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

    def baselines(self) -> dict[str, Baseline]:
        return {"prediction": Baseline("error", prediction_baselines, unit="x 1e-5")}

    def open(self, seed: int = 0, folder: Path | None = None) -> OccludedMnistData:
        return OccludedMnistData(self, seed, folder)


class OccludedMnistData(DigitData):
    config: OccludedMnist
    classes = CLASSES

    def __init__(self, config: OccludedMnist, seed: int, folder: Path | None) -> None:
        super().__init__(config, seed, folder, config.digit_size)
        grid = config.velocities == "grid"
        self.canvas = Canvas(config.canvas, config.digit_size, *config.bars, config.velocity, grid)
        self.steps = config.frames
        frame = (1, config.canvas, config.canvas)
        self.forms = {
            "frames": Form(frame, True, "the digit behind the bars, with noise"),
            "noiseless": Form(frame, True, "the frames before noise", noisy="frames"),
            "clean": Form(frame, True, "the digit without bars"),
            "reconstruction": Form(frame, True, "every pixel seen up to t, at its place at t"),
            "optimal": Form(frame, False, "the reconstruction at the last frame"),
            "position": Form((2,), True, "row and column of the digit's box"),
            **LABELS,
        }

    def size(self, split: str) -> int:
        flights = self.config.test_flights if Split(split) is Split.TEST else 1
        return super().size(split) * flights

    def flight(self, split: str, epoch: int, indices: Indices) -> Flight:
        """The flights with these indices. Index i + digits * r is digit i on another flight."""
        frames = self.config.frames + self.config.extra
        bits = draws(*self.stream("flight", split, epoch, indices), 3 + frames)
        positions = self.canvas.fly(bits, frames, self.config.bounce)
        rows = self.chosen(split, indices)[0]
        return Flight(self.canvas, self.digits.images[rows], positions)

    def _add_noise(self, split: str, epoch: int, indices: Indices, frames: Images) -> Images:
        """The draws do not depend on the standard deviation: a sweep over `noise` scales them."""
        if not self.config.noise:
            return frames
        stream = self.stream("noise", split, epoch, indices)
        unit = normal(*stream, int(np.prod(frames.shape[1:]))).reshape(frames.shape)
        return frames + np.float32(self.config.noise) * unit

    def stream(self, purpose: str, split: str, epoch: int, indices: Indices) -> tuple[int, Indices]:
        redrawn = self.config.flights == "redrawn"
        return super().stream(purpose, split, epoch if redrawn else 0, indices)

    def compute(self, split: str, epoch: int, indices: Indices) -> Fields:
        flight = self.flight(split, epoch, indices)
        return {
            "frames": lambda: self._add_noise(split, epoch, indices, flight.frames()),
            "noiseless": flight.frames,
            "clean": flight.clean,
            "reconstruction": flight.reconstruction,
            "optimal": lambda: flight.optimal(self.config.frames - 1),
            "position": lambda: flight.positions,
        }

    def contact_sheet(self, title: str, split: str, indices: Indices) -> ImageSheet:
        """The rows of [f:ommnist]."""
        from ladderspec.data import sheet

        batch = self.batch(split, 0, indices)
        rows = {
            "observed frames": batch["frames"][:, :, 0],
            "with occlusion": sheet.behind_bars(batch["clean"][:, :, 0], self.canvas.mask),
            "optimal reconstruction": batch["reconstruction"][:, :, 0],
        }
        return sheet.over_time(title, [f"digit {label}" for label in batch["label"]], rows)
