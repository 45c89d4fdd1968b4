"""A spec as one file of plain PyTorch: readable, without ladderspec, for the same weights."""

from ladderspec.export.file import to_python

__all__ = ["to_python"]
