"""The arrays that data sets hand out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Batch = dict[str, NDArray[Any]]  # fields by name: the batch first, then time, then the form
