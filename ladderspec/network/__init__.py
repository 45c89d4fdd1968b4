"""Plan -> torch: the module that unrolls time by itself."""

from ladderspec.errors import require_torch

require_torch()
