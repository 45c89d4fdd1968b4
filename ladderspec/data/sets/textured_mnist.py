"""textured_mnist: a digit of one texture on a ground of another [sec:texture].

The digit is thickened and serves as a mask that blends two different textures. Training turns and
scales the textures at random; validation and test do not. The defaults follow the paper: MNIST with
20 Brodatz textures as scanned, on 96x96. Other canvases keep the proportions: on 24x24, textures
are shrunk four times and digits are those of 28x28, cut to the centre.

`brightness` says how far brightness alone separates the digit from its ground. `raw` textures are
as scanned. `equal` textures all have mean 0.5 and standard deviation 0.2, so that only the pattern
differs. With `apart`, the patterns of `equal` are scaled by `contrast` and added to two means that
are drawn for each image and differ by at least 0.3. Images are not clipped to [0, 1].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ladderspec.cells.fields import AS_TUPLE, refusal
from ladderspec.data import textures
from ladderspec.data.baselines import kmeans_baselines
from ladderspec.data.batching import Indices
from ladderspec.data.counter_rng import Bits, below, draws, uniform
from ladderspec.data.dataset import Baseline, DataError, Form, Split, register
from ladderspec.data.flights import Images, draw
from ladderspec.data.sets.digits import (
    CLASSES,
    LABELS,
    LARGEST,
    DigitData,
    Fields,
    LabelledDigitConfig,
)
from ladderspec.names import Shape

if TYPE_CHECKING:
    from ladderspec.data.sheet import ImageSheet

GROUND, DIGIT, BLENDED = 0, 1, -1  # values of `groups`
CERTAIN = 0.9  # a pixel belongs to a group if the mask of the group is larger than this
# CHOICE: range of the means of `brightness: apart`. Of [0, 1], [0.1, 0.9] and [0.2, 0.8], the last
# comes nearest to the k-means scores of an earlier study, whose range is not known.
MEANS = (0.2, 0.8)
APART = 0.3  # least difference between them

Scale = Annotated[float, Field(ge=0.25, le=4)]
Scales = Annotated[tuple[Scale, Scale], AS_TUPLE]


@register
class TexturedMnist(LabelledDigitConfig):
    """Textured MNIST: a digit and its ground differ in texture."""

    set: Literal["textured_mnist"] = "textured_mnist"
    input: str = Field("image", description="Input field: the one that the network sees.")
    textures: str = Field(
        "brodatz",
        description="Textures: `builtin` (24 computed patterns, no download), `brodatz` (20), `cc0`"
        " (3 photographs), or a folder of pictures, which may be relative to the data folder.",
    )
    canvas: Annotated[int, Field(ge=8, le=512)] = Field(
        96, description="Side of an image in pixels."
    )
    digit: Annotated[int, Field(ge=8, le=1024)] | None = Field(
        None,
        description="Side of a digit in pixels, with its margins; a digit that is larger than the"
        " canvas is cut to its centre; default: canvas * 28 / 24.",
    )
    place: Literal["centre", "random"] = Field(
        "centre", description="Place of the digit: the centre, or anywhere inside the canvas."
    )
    thicken: Annotated[int, Field(ge=0, le=64)] | None = Field(
        None,
        description="Dilation of the digit in pixels (maximum over a square); default: canvas / 24,"
        " rounded.",
    )
    brightness: Literal["raw", "equal", "apart"] = Field(
        "raw",
        description="Brightness of the textures. `raw`: as scanned. `equal`: every texture has mean"
        " 0.5 and standard deviation 0.2. `apart`: as `equal`, scaled by `contrast`, with a mean"
        " for the digit and one for the ground that differ by at least 0.3 in every image.",
    )
    contrast: Annotated[float, Field(ge=0, le=10)] = Field(
        1.0, description="Factor of the textures with `brightness: apart`."
    )
    shrink: Annotated[float, Field(ge=1, le=64)] | None = Field(
        None,
        description="Factor by which the textures are shrunk; default: 96 / canvas, at least 1.",
    )
    views: Annotated[int, Field(ge=0, le=1000)] = Field(
        16,
        description="Number of random rotations and scales of each texture for training; 0: the"
        " textures as they are, as for validation and test.",
    )
    scales: Scales = Field((0.75, 1.33), description="Range of the scales of `views`: [from, to].")
    flat: bool = Field(False, description="Flatten images and groups to vectors of pixels.")

    about: ClassVar[str] = "a digit of one texture on a ground of another, with its groups"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.contrast != 1 and self.brightness != "apart":
            hint = "leave out `contrast`, or write `brightness: apart`"
            raise refusal("S106", f"`brightness: {self.brightness}` has no `contrast`", hint)
        if self.scales[0] > self.scales[1]:
            low, high = self.scales
            hint = f"write [{high:g}, {low:g}]"
            raise refusal("S106", f"`scales` go down from {low:g} to {high:g}", hint)
        if self.place == "random" and self.digit_size >= self.canvas:
            raise refusal(
                "S106",
                f"a digit of {self.digit_size} has no room to move in a canvas of {self.canvas}",
                f"write `digit:` below {self.canvas}, or `place: centre`",
            )
        return self

    @property
    def digit_size(self) -> int:
        return self.digit or self.canvas * 28 // 24

    @property
    def dilation(self) -> int:
        return round(self.canvas / 24) if self.thicken is None else self.thicken

    @property
    def shrink_factor(self) -> float:
        return max(1.0, 96 / self.canvas) if self.shrink is None else self.shrink

    def files(self) -> tuple[str, ...]:
        return super().files() + textures.PUBLISHED.get(self.textures, ())

    def content(self, folder: Path | None = None) -> str | None:
        return textures.content_of_textures(self.textures, folder)

    def baselines(self) -> dict[str, Baseline]:
        return {"kmeans": Baseline("ami", kmeans_baselines)}

    def advice(self, shape: Shape) -> str:
        if len(shape) == 1:
            return f"write `flat: true` and `canvas:` with canvas * canvas = {shape[0]}"
        return super().advice(shape)

    def open(self, seed: int = 0, folder: Path | None = None) -> TexturedMnistData:
        return TexturedMnistData(self, seed, folder)


class TexturedMnistData(DigitData):
    config: TexturedMnist
    classes = CLASSES
    photographs = True

    def __init__(self, config: TexturedMnist, seed: int, folder: Path | None) -> None:
        super().__init__(config, seed, folder, min(config.digit_size, LARGEST))
        self.textures = textures.load_textures(config.textures, config.shrink_factor, folder)
        self._check_room()
        self._views = cache(self._make_views)
        pixels = (config.canvas, config.canvas)
        image = (pixels[0] * pixels[1],) if config.flat else (1, *pixels)
        self.forms = {
            "image": Form(image, False, "the two textures, blended"),
            "groups": Form(image, False, "1: the digit; 0: the ground; -1: blended, of no group"),
            "alpha": Form(image, False, "the share of the digit in a pixel"),
            "textures": Form((2,), False, "the numbers of the textures of the digit and ground"),
            **LABELS,
        }

    def _check_room(self) -> None:
        config, side = self.config, self.textures.side
        room = textures.largest_view(side, config.scales[0]) if config.views else side
        if min(side, room) < config.canvas:
            turned = ", turned and scaled," if room < side else ""
            raise DataError(
                f"the textures are {side}x{side} after `shrink: {config.shrink_factor:g}`;{turned}"
                f" they do not fill a canvas of {config.canvas}: write a smaller `shrink` or"
                " `canvas`" + (", or larger `scales`" if turned else "")
            )

    def _make_views(self, turned: bool) -> Images:
        """The views of all textures that patches are cut from, (textures, views, side, side)."""
        config, found = self.config, self.textures.images[:, None]
        if turned:
            # More than twice the canvas would need memory, but hardly show anything new.
            room = textures.largest_view(self.textures.side, config.scales[0])
            side = min(room, max(128, 2 * config.canvas))
            found = textures.turned(self.textures, config.views, config.scales, side, self.seed)
        return found if config.brightness == "raw" else textures.equalise(found)

    def layers(self, split: str, epoch: int, indices: Indices) -> Layers:
        """Alpha and textures of these items."""
        config = self.config
        bits = draws(*self.stream("textures", split, epoch, indices), 13)
        count = len(self.textures.names)
        first = below(bits[:, 0], count)
        second = (first + 1 + below(bits[:, 1], count - 1)) % count
        views = self._views(Split(split).trains and config.views > 0)
        digit = textures.patches(views, first, bits[:, 4:7], config.canvas)
        ground = textures.patches(views, second, bits[:, 7:10], config.canvas)
        if config.brightness == "apart":
            means = _means(bits[:, 10:13])[..., None, None]
            contrast, centre = np.float32(config.contrast), np.float32(textures.MEAN)
            digit = contrast * (digit - centre) + means[:, 0]
            ground = contrast * (ground - centre) + means[:, 1]
        alpha = self._place_digits(self.chosen(split, indices)[0], bits[:, 2:4])
        return Layers(alpha, digit, ground, np.stack([first, second], 1))

    def _place_digits(self, rows: Indices, bits: Bits) -> Images:
        """Thick digits in their places, (n, H, W)."""
        config = self.config
        digits = dilate(self.digits.enlarged(rows, config.digit_size), config.dilation)
        side = min(config.digit_size, config.canvas)
        cut = (config.digit_size - side) // 2
        digits = digits[:, None, cut : cut + side, cut : cut + side]
        room = config.canvas - side
        centre = np.full(bits.shape, room // 2)
        places = below(bits, room + 1) if config.place == "random" else centre
        return draw(digits, places[:, None], config.canvas)[:, 0, 0]

    def compute(self, split: str, epoch: int, indices: Indices) -> Fields:
        layers = self.layers(split, epoch, indices)

        def shaped(values: NDArray[Any]) -> NDArray[Any]:
            return values.reshape(len(values), *self.forms["image"].shape)

        return {
            "image": lambda: shaped(layers.image),
            "groups": lambda: shaped(layers.groups),
            "alpha": lambda: shaped(layers.alpha),
            "textures": lambda: layers.textures,
        }

    def contact_sheet(self, title: str, split: str, indices: Indices) -> ImageSheet:
        """A column for each item: image, mask, groups, and the textures of digit and ground."""
        from ladderspec.data import sheet

        layers = self.layers(split, 0, indices)
        labels = self.batch(split, 0, indices, ["label"])["label"]
        rows = [
            sheet.Strip("image", [sheet.grey(each) for each in layers.image]),
            sheet.Strip("alpha of the digit", list(layers.alpha)),
            sheet.Strip("groups", [sheet.group_colours(each) for each in layers.groups]),
            sheet.Strip("texture of the digit", [sheet.grey(x) for x in layers.digit]),
            sheet.Strip("texture of the ground", [sheet.grey(x) for x in layers.ground]),
        ]
        return sheet.strips(title, [f"digit {label}" for label in labels], [("", rows)])


@dataclass(frozen=True)
class Layers:
    """The layers that n images are blended from."""

    alpha: Images  # (n, H, W): the share of the digit in a pixel
    digit: Images  # (n, H, W): texture of the digit
    ground: Images  # (n, H, W): texture of the ground
    textures: Indices  # (n, 2): numbers of these textures

    @property
    def image(self) -> Images:
        """(n, H, W)."""
        return self.alpha * self.digit + (1 - self.alpha) * self.ground

    @property
    def groups(self) -> Indices:
        """(n, H, W)."""
        digit, ground = self.alpha > CERTAIN, 1 - self.alpha > CERTAIN
        return np.where(digit, DIGIT, np.where(ground, GROUND, BLENDED)).astype(np.int64)


def _means(bits: Bits) -> NDArray[np.float32]:
    """Pairs (n, 2) that are uniform among those in MEANS that differ by at least APART.

    The density of a difference d is proportional to the room (range - d) that it leaves.
    """
    low, high = MEANS
    draw = uniform(bits)
    gap = (high - low) - (high - low - APART) * np.sqrt(1 - draw[:, 0])
    smaller = low + (high - low - gap) * draw[:, 1]
    pair = np.stack([smaller, smaller + gap], 1)
    return np.where(draw[:, 2:] < 0.5, pair, pair[:, ::-1]).astype(np.float32)


def dilate(images: Images, pixels: int) -> Images:
    """The maximum over a square that reaches this many pixels to each side.

    >>> dilate(np.eye(4, dtype=np.float32)[None, :1], 1).tolist()
    [[[1.0, 1.0, 0.0, 0.0]]]
    """
    wide = np.pad(images, [(0, 0), (pixels, pixels), (pixels, pixels)])
    for axis in (1, 2):
        wide = sliding_window_view(wide, 2 * pixels + 1, axis).max(-1)
    return wide
