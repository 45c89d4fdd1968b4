"""Tests of `ladderspec.drawing`, one file per subject of the package."""
