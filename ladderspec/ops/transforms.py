"""The state of torch around the code that runs: compiling, tracing, transforming, differentiating.

All private functions of torch that ladderspec uses are in this package.
"""

from __future__ import annotations

import torch
from torch.autograd import forward_ad
from torch.nn.modules.module import _has_any_global_hook


def has_tangents() -> bool:
    """Whether forward-mode differentiation is on (`torch.func.jvp`)."""
    return forward_ad._current_level >= 0


def is_transformed() -> bool:
    """Whether a compiler, torch.export or torch.func rewrites the computation."""
    return (
        torch.compiler.is_compiling()
        or torch._C._functorch.peek_interpreter_stack() is not None
        or has_tangents()
    )


def has_global_hooks() -> bool:
    """Whether hooks for all modules are registered."""
    return bool(_has_any_global_hook())  # type: ignore[no-untyped-call]
