"""moving_mnist: digits that move, each in a separate group [f:moving_mnist_generation].

The generator is that of Srivastava et al. (2015), which the paper follows: a digit starts anywhere,
moves in a random direction by `speed` of its free range per frame, stops at a wall and turns
around. Frames combine the digits by the maximum. The defaults are two digits of 28x28 on 64x64.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ladderspec.cells.fields import refusal
from ladderspec.data.baselines import kmeans_baselines
from ladderspec.data.batching import Indices
from ladderspec.data.counter_rng import Bits, below, draws, uniform
from ladderspec.data.dataset import Baseline, Form, Split, register
from ladderspec.data.flights import Images, Positions, draw
from ladderspec.data.sets.digits import LARGEST, DigitConfig, DigitData, Fields

if TYPE_CHECKING:
    from ladderspec.data.sheet import ImageSheet


@register
class MovingMnist(DigitConfig):
    """Moving MNIST: digits that bounce off the walls and pass over each other."""

    set: Literal["moving_mnist"] = "moving_mnist"
    canvas: Annotated[int, Field(ge=8, le=512)] = Field(
        64, description="Side of a frame in pixels."
    )
    digit: Annotated[int, Field(ge=4, le=512)] | None = Field(
        None, description="Side of a digit in pixels; default: canvas * 28 / 64."
    )
    count: Annotated[int, Field(ge=1, le=10)] = Field(2, description="Number of digits.")
    frames: Annotated[int, Field(ge=1, le=1000)] = Field(20, description="Number of frames.")
    speed: Annotated[float, Field(ge=0, le=1)] = Field(
        0.1,
        description="Speed per frame, as a share of the free range, which is the side of the canvas"
        " minus that of a digit.",
    )
    binary: bool = Field(
        False, description="Binary pixels: 1 if a pixel is at least 0.5, else 0; default: grey."
    )

    about: ClassVar[str] = "digits that move and overlap, twenty frames, with their groups"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.digit_size >= self.canvas:
            raise refusal(
                "S106",
                f"a digit of {self.digit_size} cannot move in a canvas of {self.canvas}",
                f"write `digit:` below {self.canvas}, or a larger `canvas`",
            )
        return self

    @property
    def digit_size(self) -> int:
        return self.digit or max(4, self.canvas * 28 // 64)

    def baselines(self) -> dict[str, Baseline]:
        return {"kmeans": Baseline("ami", kmeans_baselines)}

    def open(self, seed: int = 0, folder: Path | None = None) -> MovingMnistData:
        return MovingMnistData(self, seed, folder)


class MovingMnistData(DigitData):
    config: MovingMnist

    def __init__(self, config: MovingMnist, seed: int, folder: Path | None) -> None:
        super().__init__(config, seed, folder, min(config.digit_size, LARGEST))
        self.steps = config.frames
        frame = (1, config.canvas, config.canvas)
        self.forms = {
            "frames": Form(frame, True, "the digits, combined by the maximum"),
            "groups": Form(frame, True, "0, 1, ...: the only digit at a pixel; -1: none, or more"),
            "positions": Form((config.count, 2), True, "row and column of each digit's box"),
            "labels": Form((config.count,), False, "the digits, in the order of their groups"),
        }

    def motion(self, split: str, epoch: int, indices: Indices) -> Motion:
        """The digits of these items and where they move.

        CHOICE: item i has the i-th digit of the split, so that all are used; the others are drawn.
        """
        config, rows = self.config, self.rows(Split(split))[0]
        bits = draws(*self.stream("motion", split, epoch, indices), 4 * config.count)
        bits = bits.reshape(-1, config.count, 4)
        chosen = rows[below(bits[..., 0], len(rows))]
        chosen[:, 0] = self.chosen(split, indices)[0]
        reach = config.canvas - config.digit_size
        positions = (reach * bounce(bits[..., 1:], config.frames, config.speed)).astype(np.int64)
        images = self.digits.enlarged(chosen.ravel(), config.digit_size)
        images = images.reshape(*chosen.shape, *images.shape[1:])
        if config.binary:
            images = (images >= 0.5).astype(np.float32)
        return Motion(images, self.digits.labels[chosen], positions, config.canvas)

    def compute(self, split: str, epoch: int, indices: Indices) -> Fields:
        motion = self.motion(split, epoch, indices)
        return {
            "frames": motion.frames,
            "groups": motion.groups,
            "positions": lambda: motion.positions.swapaxes(1, 2),
            "labels": lambda: motion.labels,
        }

    def contact_sheet(self, title: str, split: str, indices: Indices) -> ImageSheet:
        """Frames and groups of each item over time."""
        from ladderspec.data import sheet

        batch = self.batch(split, 0, indices)
        frames, groups = (batch[field][:, : sheet.COLUMNS, 0] for field in ("frames", "groups"))
        names = [f"digits {', '.join(map(str, labels))}" for labels in batch["labels"]]
        rows = {"frames": frames, "groups": sheet.group_colours(groups)}
        return sheet.over_time(title, names, rows)


@dataclass(frozen=True)
class Motion:
    """n items of k moving digits."""

    images: Images  # (n, k, d, d)
    labels: Indices  # (n, k)
    positions: Positions  # (n, k, T, 2): the top left pixel of each digit's box
    canvas: int

    @cached_property
    def layers(self) -> Images:
        """Every digit in separate frames, (n, k, T, 1, H, W)."""
        n, k, frames, _ = self.positions.shape
        digits = np.broadcast_to(
            self.images.reshape(n * k, 1, *self.images.shape[2:]),
            (n * k, frames, *self.images.shape[2:]),
        )
        drawn = draw(digits, self.positions.reshape(n * k, frames, 2), self.canvas)
        return drawn.reshape(n, k, *drawn.shape[1:])

    def frames(self) -> Images:
        """(n, T, 1, H, W)."""
        return np.asarray(self.layers.max(1))

    def groups(self) -> Indices:
        """(n, T, 1, H, W): the number of the digit that is alone at a pixel, else -1."""
        inked = self.layers > 0
        return np.where(inked.sum(1) == 1, inked.argmax(1), -1)


def bounce(bits: Bits, frames: int, speed: float) -> NDArray[np.float64]:
    """Positions in the unit square, (..., frames, 2), from three draws (..., 3) for each digit.

    The start is uniform, and so is the direction. As in the original generator, the first step
    comes before the first frame, and a digit that reaches a wall stays there for that frame.
    """
    draw = uniform(bits)
    place, angle = draw[..., :2].copy(), 2 * np.pi * draw[..., 2]
    velocity = speed * np.stack([np.sin(angle), np.cos(angle)], -1)
    places = []
    for _ in range(frames):
        place = place + velocity
        velocity = np.where((place <= 0) | (place >= 1), -velocity, velocity)
        place = np.clip(place, 0, 1)
        places.append(place)
    return np.stack(places, -2)
