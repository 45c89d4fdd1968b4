"""The public names of the library, and their documentation."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import ladderspec as ls
from ladderspec import nn
from ladderspec.network.net import Net

# All public names; one `of` stands for the cells of nn, which share it.
DOCUMENTED = [
    *(getattr(ls, name) for name in dir(ls) if not name.startswith("__")),
    *(getattr(nn, name) for name in nn.__all__ if name != "FIRST"),
    nn.ConvLSTM.of,
    *(getattr(Net, name) for name in ("forward", "cost", "values", "iterate", "generate", "adopt")),
]
# Users do not call these: specs make cells, `load` makes a Spec.
WITHOUT_ARGUMENTS = (ls.LadderspecError, ls.Spec, ls.Cell)


def test_every_public_name_is_there_and_documented() -> None:
    for name in dir(ls):
        assert name == "__version__" or inspect.getdoc(getattr(ls, name)), name


@pytest.mark.parametrize(
    "function",
    [each for each in DOCUMENTED if each not in WITHOUT_ARGUMENTS],
    ids=lambda each: each.__qualname__,
)
def test_every_argument_is_documented(function: Any) -> None:
    text = inspect.getdoc(function) or ""
    assert "Args:" in text
    for argument in set(inspect.signature(function).parameters) - {"self"}:
        assert re.search(rf"^ +\*{{0,2}}{argument}: ", text, re.MULTILINE), argument


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        ls.no_such_name  # noqa: B018
