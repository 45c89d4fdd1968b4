"""music: polyphonic piano rolls of 88 notes [sec:midi].

Four sets with their published splits, or a file of the user's own with the same content. Column j
is MIDI note 21 + j. Sequences keep their length: batches hold similar lengths, `mask` says which
frames are real, and `chunks` cuts long ones for truncated back-propagation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from ladderspec.data._contract import DataSet, DataWords
from ladderspec.data._registry import register
from ladderspec.names import Shape

NOTES = 88
LOWEST = 21  # the MIDI number of column 0

Published = Literal["JSB_Chorales", "Nottingham", "MuseData", "Piano_midi", "etudes"]


@register
class Music(DataWords):
    """Polyphonic music [t:midires]; `etudes` are generated and need no download."""

    set: Literal["music"] = "music"
    name: Published | None = Field(None, description="One of the sets; `etudes` are generated.")
    file: str | None = Field(
        None, description="Another file instead, .mat or .npz: a path, or one in the data folder."
    )
    transpose: Annotated[int, Field(ge=0, le=NOTES)] = Field(
        0,
        description="In training, every piece is moved anew in every epoch by at most so many"
        " semitones, up or down, as far as the keyboard goes.",
    )

    about: ClassVar[str] = "piano rolls of 88 notes, of any length"

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.name is None) == (self.file is None):
            raise PydanticCustomError(
                "source", "`name` or `file` says which music", {"hint": "like `name: Nottingham`"}
            )
        return self

    def files(self) -> tuple[str, ...]:
        return (f"music/{self.name}.mat",) if self.name not in (None, "etudes") else ()

    def advice(self, shape: Shape) -> str:
        return f"`input: {{channels: 1, size: [1, {NOTES}]}}` in the spec"

    def open(self, seed: int = 0, folder: Path | None = None) -> DataSet:
        from ladderspec.data._pieces import Pieces

        return Pieces(self, seed if self.seed is None else self.seed, folder)
