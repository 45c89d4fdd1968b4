'''Recurrent ladder networks from a YAML table of layers.

A spec is text. Every later stage is a new value that prints as text: Spec, graph, plan, network.

>>> import ladderspec as ls
>>> spec = ls.loads("""
... name: smallest
... input: {channels: 1, size: [8, 8]}
... time: {frames: any}
... levels:
...   - name: lstm
...     encoder: {cell: ConvLSTM, channels: 4}
...     decoder: {cell: convG3, filter: 3}
... """)
>>> print(ls.to_text(ls.graph(spec)))
graph smallest
<BLANKLINE>
encoder.input            Input      1x8x8                   0
encoder.lstm             ConvLSTM   4x8x8                  16
decoder.input            convG3     1x8x8                  16
<BLANKLINE>
encoder.input -> encoder.lstm                        encoder                       160
encoder.lstm(t-1) -> encoder.lstm                    state                         592
encoder.input -> decoder.input                       lateral                        40
encoder.lstm -> decoder.input                        decoder                       148
<BLANKLINE>
'''

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ladderspec.version import __version__ as __version__

# Public names and the modules that define them. They are imported on first use, so that torch is
# imported only by what needs it.
_PUBLIC = {
    "load": "api",
    "loads": "api",
    "graph": "api",
    "plan": "api",
    "build": "api",
    "train": "runner",
    "ablate": "runner",
    "evaluate": "runner",
    "draw": "drawing",
    "dot": "drawing",
    "to_text": "wiring.graph",
    "to_python": "export",
    "Unrolled": "network.portable",
    "Iteration": "network.portable",
    "save": "trained.store",
    "open_net": "trained.store",
    "load_plugin": "plugins",
    "register": "cells",
    "Cell": "cells",
    "Spec": "language.read",
    "SpecError": "errors",
    "LadderspecError": "errors",
}

if TYPE_CHECKING:
    from ladderspec.api import build as build
    from ladderspec.api import graph as graph
    from ladderspec.api import load as load
    from ladderspec.api import loads as loads
    from ladderspec.api import plan as plan
    from ladderspec.cells import Cell as Cell
    from ladderspec.cells import register as register
    from ladderspec.drawing import dot as dot
    from ladderspec.drawing import draw as draw
    from ladderspec.errors import LadderspecError as LadderspecError
    from ladderspec.errors import SpecError as SpecError
    from ladderspec.export import to_python as to_python
    from ladderspec.language.read import Spec as Spec
    from ladderspec.network.portable import Iteration as Iteration
    from ladderspec.network.portable import Unrolled as Unrolled
    from ladderspec.plugins import load_plugin as load_plugin
    from ladderspec.runner import ablate as ablate
    from ladderspec.runner import evaluate as evaluate
    from ladderspec.runner import train as train
    from ladderspec.trained.store import open_net as open_net
    from ladderspec.trained.store import save as save
    from ladderspec.wiring.graph import to_text as to_text


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'ladderspec' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"ladderspec.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_PUBLIC, "__version__"])
