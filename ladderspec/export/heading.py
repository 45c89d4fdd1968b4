"""The docstrings of the file: what the network is, its table, what goes in and comes out."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Collection, Sequence
from textwrap import wrap

from ladderspec.errors import UsageError
from ladderspec.escaping import one_line
from ladderspec.export.network import Output, axes, outputs_of
from ladderspec.export.source import WIDTH
from ladderspec.export.table import quoted
from ladderspec.language.spec import SpecConfig
from ladderspec.names import BOTTOM, Shape, Side
from ladderspec.wiring import table
from ladderspec.wiring.graph import Graph, copies, forms_of, is_tapped_by_arrows, parameters


def docstring(graph: Graph, config: SpecConfig | None, name: str) -> list[str]:
    """What the file says of itself."""
    shape, count = graph.nodes[BOTTOM]["shape"], copies(graph)
    frames = graph.graph["frames"]
    groups = f" and each of K = {count} groups" if count else ""
    given = f"frames {_shape('B, T', shape)}" if frames else f"an input {_shape('B', shape)}"
    if len(forms := forms_of(graph)) > 1:
        shapes = [(form.name, _shape("B, T" if form.timed else "B", form.shape)) for form in forms]
        given = f"{{{', '.join(f'{quoted(name)}: {shape}' for name, shape in shapes)}}}"
    title = ": ".join(filter(None, (graph.graph["name"], graph.graph["title"])))
    description = wrap(_plain(config.description or "") if config else "", WIDTH)
    return [
        f'"""{_plain(title)}.',
        "",
        *([*description, ""] if description else []),
        *(f"    {line}".rstrip() for line in table.layers(graph, WIDTH - 4, brief=True)),
        "",
        *wrap(f"Takes {given} and returns for each task, at every t{groups}:", WIDTH),
        "",
        *_outputs(outputs_of(graph), axes(graph)),
        "",
        f"{parameters(graph):,} parameters, named as in the network that ladderspec builds:",
        "",
        f"    model = {name}()",
        "    model.load_state_dict(net.state_dict())",
        '"""',
    ]


def about(graph: Graph) -> list[str]:
    """The docstring of the class: what the letters in its loop mean."""
    nodes = [graph.nodes[node] for node in graph]
    sides = {node["side"] for node in nodes}
    letters = "At level x, e_x is the output of the encoder"
    letters += ", h_x of the lateral cell" if Side.LATERAL in sides else ""
    letters += ", d_x of the decoder" if Side.DECODER in sides else ""
    letters += "; x_NAME is a further input" if Side.INPUT in sides else ""
    if any(node["cell"].state_shapes(node["shape"]) for node in nodes):
        letters += "; c_x is the cell state of an LSTM"
    if any(is_tapped_by_arrows(graph, node) for node in graph):
        letters += "; z_x is the normalised pre-activation"
    letters += "; d_input is mu and pi of each group" if copies(graph) else ""
    title = _plain(graph.graph["title"] or graph.graph["name"])
    doc = f'"""{title[:1].upper()}{title[1:]}. {letters}."""'
    if len(doc) <= WIDTH - 4:
        return [doc]
    return [f'"""{title[:1].upper()}{title[1:]}.', "", *wrap(f"{letters}.", WIDTH - 4), '"""']


def _plain(text: str) -> str:
    """A user's text on one line, as a docstring can hold it."""
    return " ".join(one_line(text).split()).replace("\\", "\\\\").replace('"', "'")


def _shape(first: str, shape: Shape) -> str:
    return f"({first}, {', '.join(map(str, shape))})"


def _outputs(outputs: Sequence[Output], first: str) -> list[str]:
    shapes = [_shape(first, each.shape) for each in outputs]
    names, sizes = max(len(each.name) for each in outputs), max(map(len, shapes))
    return [
        f"    {each.name:<{names}}  {shape:<{sizes}}  {each.text}".rstrip()
        for each, shape in zip(outputs, shapes, strict=True)
    ]


# --- the name of the class ------------------------------------------------------------------------


def class_name(graph: Graph, config: SpecConfig | None, taken: Collection[str]) -> str:
    """The name of the spec as that of a class, with the capitals of its title."""
    titles = f"{graph.graph['title']} {config.title if config else ''}"
    known = {word.lower(): word for word in re.findall(r"\w+", titles)}
    name = graph.graph["name"].lower()
    parts = [known.get(part, part) for part in re.findall(r"[a-z0-9]+", name)]
    made = "".join(part[0].upper() + part[1:] for part in parts)
    return f"Net{made}" if not made[:1].isalpha() or made in taken else made


def check_name(name: str, taken: Collection[str]) -> str:
    """A name that the user chose."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"`{name}` cannot be the name of a class")
    if hasattr(builtins, name):
        raise UsageError(f"`{name}` is a name of Python itself: choose another one")
    if name in taken:
        raise UsageError(f"`{name}` is the name of something else in the file")
    return name
