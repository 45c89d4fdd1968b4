"""What comes with the extra `[data]`, and what to do without it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ladderspec.data._contract import DataError

_PACKAGES = {"sklearn.datasets": "scikit-learn", "scipy.io": "scipy"}


def need(module: str, what: str) -> Any:
    """A module of the extra."""
    try:
        return import_module(module)
    except ImportError:
        package = _PACKAGES.get(module, module)
        hint = "`pip install 'ladderspec[data]'` brings it"
        raise DataError(f"{what} need {package}; {hint}") from None
