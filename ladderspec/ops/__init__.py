"""Faster algorithms for the maps of edges, each with its plain reference; chosen once per call."""

from ladderspec.ops import transforms
from ladderspec.ops.choose import FAST, PLAIN, Plain, choose

__all__ = ["FAST", "PLAIN", "Plain", "choose", "transforms"]
