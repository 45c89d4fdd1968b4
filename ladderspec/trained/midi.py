"""Piano rolls as standard MIDI files."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladderspec.data.music import LOWEST

QUARTER = 480  # ticks
TEMPO = 500_000  # microseconds of a quarter: 120 beats a minute
LOUD = 80


def to_midi(roll: NDArray[Any], step: float = 0.5) -> bytes:
    """A roll (steps, 88) of 0 and 1, each step so many quarters long; held notes are held.

    >>> roll = np.zeros((2, 88)); roll[0, 39] = 1
    >>> to_midi(roll)[:4], to_midi(roll)[14:18]
    (b'MThd', b'MTrk')
    """
    ticks = round(QUARTER * step)
    sounds = np.asarray(roll) > 0.5
    silence = np.zeros((1, sounds.shape[1]), bool)
    before, after = np.concatenate([silence, sounds]), np.concatenate([sounds, silence])
    events = bytearray(b"\x00\xff\x51\x03" + TEMPO.to_bytes(3, "big"))
    last = 0
    for at in range(len(after)):
        ends, begins = before[at] & ~after[at], after[at] & ~before[at]
        for kind, notes in ((0x80, ends), (0x90, begins)):
            for note in np.flatnonzero(notes).tolist():
                events += _variable((at - last) * ticks) + bytes([kind, note + LOWEST, LOUD])
                last = at
    events += _variable((len(sounds) - last) * ticks) + b"\xff\x2f\x00"
    header = struct.pack(">4sIHHH", b"MThd", 6, 0, 1, QUARTER)
    return header + struct.pack(">4sI", b"MTrk", len(events)) + bytes(events)


def _variable(number: int) -> bytes:
    """Seven bits a byte, the highest bit set on all but the last.

    >>> _variable(0), _variable(127), _variable(480)
    (b'\\x00', b'\\x7f', b'\\x83`')
    """
    found = [number & 0x7F]
    while number := number >> 7:
        found.append(number & 0x7F | 0x80)
    return bytes(reversed(found))
