"""Etudes: broken chords under a melody, in all keys. Small music that needs no file."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ladderspec.data._counter import below, draws, key_of
from ladderspec.data._rolls import Rolls, join
from ladderspec.data.music import LOWEST, NOTES

COUNTS = {"train": 120, "valid": 30, "test": 30}
BAR = 8  # steps
SCALE = np.array([0, 2, 4, 5, 7, 9, 11])
NEXT = {0: (3, 4, 5), 3: (4, 0, 1), 4: (0, 5, 0), 5: (3, 1, 3), 1: (4, 4, 3)}  # degrees of chords
PATTERN = (0, 2, 1, 2, 0, 2, 1, 2)  # which note of the chord sounds at which step


def etudes() -> dict[str, Rolls]:
    """Always the same ones."""
    return {
        split: join(
            [_etude(draws(key_of("etude", split), np.array([i]), 256)[0]) for i in range(n)]
        )
        for split, n in COUNTS.items()
    }


def _etude(bits: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """4 to 12 bars: I first and last, any step from `NEXT` between; the melody walks."""
    tonic, bars = 36 + int(below(bits[:1], 12)[0]), 4 + int(below(bits[1:2], 9)[0])
    roll = np.zeros((bars * BAR, NOTES), np.uint8)
    choice, walk = below(bits[2:32], 3), below(bits[32:], 3) - 1
    chord, melody = 0, 14
    for bar in range(bars):
        for beat, which in enumerate(PATTERN):
            step = bar * BAR + beat
            roll[step, _note(tonic, chord + 2 * which)] = 1
            roll[step, _note(tonic, chord)] = 1
            if beat % 2 == 0:  # stays within an octave and a half, lands on chords
                melody = int(np.clip(melody + walk[step] + (beat == 0), 11, 20))
            roll[step, _note(tonic, melody)] = 1
        chord = 0 if bar == bars - 2 else NEXT[chord][choice[bar]]
    return roll


def _note(tonic: int, degree: int) -> int:
    """The column of a degree of the major scale."""
    octave, place = divmod(degree, len(SCALE))
    return tonic + 12 * octave + int(SCALE[place]) - LOWEST
