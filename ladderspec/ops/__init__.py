"""Faster algorithms for the maps of edges, each with its plain reference; chosen once per call."""

from ladderspec.errors import require_torch

require_torch()

from ladderspec.ops import transforms  # noqa: E402
from ladderspec.ops.choose import FastProject, Project, choose, plain_project  # noqa: E402

__all__ = ["FastProject", "Project", "choose", "plain_project", "transforms"]
