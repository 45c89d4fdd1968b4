"""Trained networks: saved, opened, evaluated, lesioned; and what they generate."""

from ladderspec.errors import require_torch

require_torch()
