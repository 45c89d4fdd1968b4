"""Drawings of specs, graphs and plans for notebooks."""

from __future__ import annotations

from importlib import import_module


def svg(value: object, **options: object) -> str:
    """The drawing of a network as SVG.

    The drawing package comes after those whose values call this, so it is found by its name when
    a notebook first shows something.
    """
    drawing = import_module("ladderspec.drawing")
    return str(drawing.svg(value, **options))
