"""Code of users: an exported file computes what the network computes, or it is refused by name."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from textwrap import dedent, indent
from types import ModuleType

import pytest
import torch

from ladderspec.api import build, loads
from ladderspec.errors import UsageError
from ladderspec.export import to_python
from ladderspec.language.read import Spec
from ladderspec.plugins import load_plugin

CELL = '''
{first}
from typing import ClassVar, Literal

from ladderspec.cells import EncoderCell, pre_activation, register, weight, zeros
from ladderspec.cells.fields import NormChoice

{top}


@register
class {name}(EncoderCell):
    """A cell of a user."""

    cell: Literal["{name}"] = "{name}"
    channels: int = 4
    power: float = 1.5
    {fields}
    takes: ClassVar = EncoderCell.takes | {{"state"}}
    stateful: ClassVar = True
    offset: ClassVar = "b"

    def out_shape(self, site):
        return (self.channels, *site.main().shape[1:])

    def project(self, site, inlet, out):
        return pre_activation(inlet, out, (3, 3), NormChoice(kind="{norm}"), "layer")

    def parameters(self, site, out):
        return {{"b": zeros(out[0]), "Q": {weight}}}

    def state_shapes(self, out):
        return {{name: out for name in self.returns}}

{compute}
'''
ROW = "{cell: NAME}"
NUMBERS = count()


pytestmark = pytest.mark.usefixtures("cells_of_the_module", "one_thread")


def spec_of(
    folder: Path,
    compute: str,
    top: str = "",
    first: str = "",
    fields: str = "",
    row: str = ROW,
    norm: str = "layer",
    weight: str = "weight(out[0])",
) -> Spec:
    """A network with a cell whose file has these parts."""
    name = f"Own{next(NUMBERS)}"
    compute = indent("@staticmethod\n" + dedent(compute).strip(), "    ")
    text = CELL.format(
        name=name,
        first=first,
        top=dedent(top),
        fields=fields,
        norm=norm,
        weight=weight,
        compute=compute,
    )
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    load_plugin(folder / f"{name}.py")
    rows = f"  - {{name: bl, encoder: {row}, decoder: convG3}}\n".replace("NAME", name)
    return loads(
        f"name: mine\ninput: {{channels: 1, size: [6, 6]}}\ntime: {{frames: 3}}\nlevels:\n{rows}"
        "tasks: {next: {kind: prediction, at: decoder.input}}\n"
    )


def check(spec: Spec) -> None:
    """The network and the exported file give the same numbers."""
    torch.manual_seed(0)
    net, frames = build(spec).double(), torch.rand(4, 3, 1, 6, 6).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    module = ModuleType("model")
    code = compile(to_python(spec, "Exported"), "model.py", "exec", dont_inherit=True)
    exec(code, module.__dict__)
    model = module.Exported().double()
    model.load_state_dict(net.state_dict())
    for training in (True, False):
        ours, theirs = model.train(training)(frames), net.train(training)(frames)
        assert (ours["next"] - theirs["next"]).abs().max() < 1e-9, f"training: {training}"


def refused(spec: Spec) -> str:
    with pytest.raises(UsageError, match=r"^cannot export ") as caught:
        to_python(spec)
    return str(caught.value)


def adding(y: str, arguments: str = "Q") -> str:
    """A `compute` that adds the past to an expression."""
    head = f"def compute(a, state=None, *, {arguments}):\n"
    return f"{head}    y = {y}\n    return y if state is None else y + state\n"


HELP = adding("helper(a)")

# --- what is exported right -----------------------------------------------------------------------

RIGHT = {
    "a variable t": {
        "norm": "batch",
        "compute": """
            def compute(a, state=None, *, Q):
                t = a.sigmoid()
                return t * a if state is None else t * a + (1 - t) * state
        """,
    },
    "a variable values": {
        "compute": """
            def compute(a, state=None, h=None, *, Q):
                values = a.tanh()
                return values if h is None else values + 0.5 * h
        """,
    },
    "a variable self": {
        "compute": """
            def compute(a, state=None, *, Q):
                self = a.tanh() * Q.mean()
                return self if state is None else self + state
        """,
    },
    "a constant t": {"top": "t = 0.5", "compute": adding("a * t")},
    "a constant values": {"top": "values = 0.5", "compute": adding("a * values")},
    "a constant None": {"top": "K = None", "compute": adding("a if K is None else 2 * a")},
    "a lambda with the name of an argument": {
        "compute": adding("(lambda power: power + 1)(a) * power", "Q, power"),
    },
    "a function with the name of an argument": {
        "compute": """
            def compute(a, state=None, *, Q, power):
                def g(a, power=2.0):
                    return a * power

                return g(a) + power if state is None else g(a) + power + state
        """,
    },
    "an argument of the past that changes": {
        "compute": """
            def compute(a, state=None, h=None, *, Q):
                if state is not None:
                    state = 2 * state
                return a if state is None else a + state + 0.5 * h
        """,
    },
    "an edge that is read twice": {
        "norm": "batch",
        "compute": """
            def compute(a, state=None, *, Q):
                return a if state is None else a + state.tanh() * state
        """,
    },
    "an import with a statement in its line": {
        "top": """
            def helper(x):
                import math; x = 2 * x
                return x * math.pi
        """,
        "compute": HELP,
    },
    "an import alone in a branch": {
        "top": """
            def helper(x):
                if x.dim() > 9:
                    import math
                return 2 * x
        """,
        "compute": HELP,
    },
    "a constant that an inner function has too": {
        "top": """
            K = 3.0

            def helper(x):
                return sum(x * K for K in (1.0, 2.0)) * K
        """,
        "compute": HELP,
    },
    "a size behind a product": {
        "fields": "half: int = 3",
        "weight": "weight(3 * (self.half // 2), self.channels)",
        "compute": adding("a * Q.mean()"),
    },
    "annotations that are never evaluated": {
        "first": "from __future__ import annotations",
        "top": 'def helper(x: "a" | None):\n    return 2 * x',
        "compute": HELP,
    },
    "a text that is no code": {
        "fields": 'note: str = "x"',
        "row": '{cell: NAME, note: "a\\nimport nowhere"}',
        "compute": adding("a.tanh()"),
    },
}


@pytest.mark.parametrize("name", RIGHT)
def test_it_computes_what_the_network_computes(tmp_path, name):
    check(spec_of(tmp_path, **RIGHT[name]))


# --- what is refused ------------------------------------------------------------------------------

TWICE = """
    import functools

    def twice(function):
        @functools.wraps(function)
        def doubled(*given, **named):
            return 2 * function(*given, **named)

        return doubled
"""
MADE = """
    K = 5.0

    def make(K):
        def helper(x):
            return x * K

        return helper

    helper = make(3.0)
"""
FIELD = "a * len(note)", "Q, note"

REFUSED = {
    "a decorator of compute": (
        {"top": TWICE, "compute": f"@twice\n{adding('a')}"},
        "compute` uses `function` of the function that made it, perhaps a decorator",
    ),
    "a decorator of a helper": (
        {"top": f"{TWICE}\n    @twice\n    def helper(x):\n        return x + 1", "compute": HELP},
        "`helper` uses `function` of the function that made it",
    ),
    "a closure": ({"top": MADE, "compute": HELP}, "helper` uses `K` of the function that made it"),
    "a name of Python": (
        {"top": "def abs(x):\n    return 2 * x", "compute": adding("abs(a)")},
        "`abs` is a name of Python itself; rename it",
    ),
    "a function with the name of an import": (
        {"top": "def pairwise(x):\n    return 2 * x", "compute": adding("pairwise(a)")},
        "another `pairwise` is in the file; rename it",
    ),
    "a module with the name of an import": (
        {"top": "from torch.nn import functional as nn", "compute": adding("nn.elu(a)")},
        "another `nn` is in the file; rename it",
    ),
    "a constant with the name of an import": (
        {"top": "Tensor = 2.0", "compute": adding("a * Tensor")},
        "another `Tensor` is in the file; rename it",
    ),
    "a constant with the name of a helper": (
        {"top": "Modules = 2.0", "compute": adding("a * Modules")},
        "another `Modules` is in the file; rename it",
    ),
    "a constant with the name of an edge": (
        {"top": "ConvLN = 2.0", "compute": adding("a * ConvLN")},
        "another `ConvLN` is in the file; rename it",
    ),
    "infinity": (
        {"top": 'K = float("inf")', "compute": adding("a.clamp(-1, K)")},
        "uses `K`, which is neither a module nor a function, finite number, text or tuple",
    ),
    "infinity in a tuple": (
        {"top": 'K = (float("-inf"), 1.0)', "compute": adding("a.clamp(*K)")},
        "uses `K`, which is neither",
    ),
    "a number of numpy": (
        {"top": "import numpy as np\nK = np.float64(0.5)", "compute": adding("a * K")},
        "uses `K`, which is neither",
    ),
    "an enumeration": (
        {
            "top": "import enum\nclass E(enum.IntEnum):\n    A = 2\nK = E.A",
            "compute": adding("a * K"),
        },
        "uses `K`, which is neither",
    ),
    "a text of several lines": (
        {"compute": adding("a * len('''x\n      y''')")},
        "compute` has several lines",
    ),
    "another code": (
        {
            "top": "def helper(x):\n    return 2 * x\nhelper.__code__ = (lambda x: x).__code__",
            "compute": HELP,
        },
        "`helper` is no plain function, or its file is not the one that was loaded",
    ),
    "other defaults": (
        {
            "top": "def helper(x, k=2.0):\n    return k * x\nhelper.__defaults__ = (3.0,)",
            "compute": HELP,
        },
        "a default of `helper` is no plain number",
    ),
    "a default that has changed": (
        {"top": "K = 2.0\ndef helper(x, k=K):\n    return k * x\nK = 3.0", "compute": HELP},
        "a default of `helper` is no plain number",
    ),
    "a line that changes the file": (
        {
            "top": "K = 2.0\ndef helper(x):\n    global K\n    K = 3.0\n    return K * x",
            "compute": HELP,
        },
        "`helper` has a line `global K`",
    ),
    "the name of the file": (
        {"compute": adding("a * len(__name__)")},
        "compute` uses `__name__`",
    ),
    "a text in a field": (
        {"fields": "note: str = 'a\"b'", "compute": adding(*FIELD)},
        "`note` is 'a\"b', not a plain number, text or tuple",
    ),
    "infinity in a field": (
        {"fields": 'k: float = float("inf")', "compute": adding("a.clamp(-1, k)", "Q, k")},
        "`k` is inf, not a plain number",
    ),
    "a field with the name of an edge": (
        {
            "fields": "encoder: int = 2",
            "weight": "weight(self.encoder)",
            "compute": adding("a * Q.mean()"),
        },
        "another `encoder` is in the file; rename it",
    ),
    "a field with the name of an attribute": (
        {
            "fields": "training: int = 3",
            "weight": "weight(self.training)",
            "compute": adding("a * Q.mean() * training", "Q, training"),
        },
        "another `training` is in the file; rename it",
    ),
    "a state with the name of an argument": (
        {
            "fields": 'returns: ClassVar = ("t",)',
            "compute": "def compute(a, t=None, *, Q):\n    return a, a if t is None else a + t",
        },
        "another `t` is in the file; rename it",
    ),
    "a state with the name of an output": (
        {
            "fields": 'returns: ClassVar = ("e",)',
            "compute": "def compute(a, e=None, *, Q):\n    return a, a if e is None else a + e",
        },
        "both would be `e_bl` in the file; rename one of them",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_exported_is_refused(tmp_path, name):
    parts, message = REFUSED[name]
    spec = spec_of(tmp_path, **parts)
    build(spec)  # which is right
    assert message in refused(spec)


def test_a_file_that_has_changed_is_refused(tmp_path):
    spec = spec_of(tmp_path, adding("2 * a"))
    (path,) = tmp_path.glob("*.py")
    path.write_text(path.read_text().replace("2 * a", "3 * a"))
    assert "is no plain function, or its file is not the one that was loaded" in refused(spec)
