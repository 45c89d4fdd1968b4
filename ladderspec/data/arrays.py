"""arrays: the user's own data, as named arrays in an .npz file or a folder of .npy files.

    data: {set: arrays, path: swallows.npz, scale: 255}

Every array has one row per item: `frames` (n, T, C, H, W) or (n, T, C), or images (n, C, H, W) or
vectors (n, C) under the name that `input` says; `label` (n,), -1 where it is not known; any target
that a task names. Where `lengths` (n,) is there, sequences are padded to the longest, or lie one
after another: (all frames, C, H, W) or (all frames, C). Splits are `train`, `valid` and `test`
files or folders inside `path`, or shares of the items. `.npy` files, and `.npz` files that are not
compressed, are mapped into memory and read where they are used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from ladderspec.data._contract import DataSet, DataWords
from ladderspec.data._registry import register
from ladderspec.names import Shape, show_shape

Share = Annotated[float, Field(ge=0, lt=1)]


@register
class Arrays(DataWords):
    """Named arrays of the user's own."""

    set: Literal["arrays"] = "arrays"
    path: str = Field(description="An .npz file, or a folder; also one in the data folder.")
    scale: Annotated[float, Field(gt=0)] | None = Field(
        None, description="What the input, and all like it, is divided by: 255 for bytes."
    )
    still: Annotated[
        tuple[str, ...], BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v)
    ] = Field((), description="Fields without time although they are as long as the frames.")
    valid: Share = Field(0.1, description="Share for validation, where files do not say it.")
    test: Share = Field(0.1, description="Share for testing, where files do not say it.")

    about: ClassVar[str] = "your own: named arrays in an .npz file or a folder of .npy files"

    def advice(self, shape: Shape) -> str:
        want = (
            "(n, T, C, H, W) or (n, C, H, W), also where C is 1" if len(shape) == 3 else "(n, T, C)"
        )
        return f"arrays of {show_shape(shape)} are {want}"

    def open(self, seed: int = 0, folder: Path | None = None) -> DataSet:
        from ladderspec.data._named import Named

        return Named(self, seed if self.seed is None else self.seed, folder)
