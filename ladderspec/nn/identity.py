"""Identity: what comes down goes on unchanged."""

from __future__ import annotations

from ladderspec.nn._cell import Cell, Result, Values
from ladderspec.nn._norms import NOW, When


class Identity(Cell):
    """Decoder cell Identity.

    y = v_top
    """

    def join(self, drives: Values, previous: Values | None = None, when: When = NOW) -> Result:
        (y,) = drives.values()
        return y, {}
