"""A graph as the paper's table: one row per layer, from the input up, decoders beside encoders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any

from ladderspec.cells import Cell, DecoderCell
from ladderspec.cells.fields import Noise, NormChoice
from ladderspec.escaping import escape_markdown, escape_tex, fitted, tex_table
from ladderspec.names import BOTTOM, INPUT, Shape, Side, node_name, show_shape
from ladderspec.wiring.graph import (
    Graph,
    copies,
    groups_of,
    inputs_of,
    parameters,
    table_rows,
)


@dataclass(frozen=True)
class TableRow:
    """One row: the cell that makes a level, and the decoder cell that inverts it.

    Its fields are the columns of the table.
    """

    level: str
    layer: str
    stride: str
    channels: str
    filter: str
    shape: str
    encoder: int | None  # parameters
    lateral: str = ""  # the cell on its lateral arrow
    lateral_parameters: int | None = None
    decoder: str = ""
    decoder_filter: str = ""
    estimates: str = ""  # what the decoder cell makes, and its shape
    decoder_parameters: int | None = None


HEADINGS = (
    "level", "layer", "stride", "channels", "filter", "shape", "parameters",
    "lateral", "parameters",
    "decoder", "filter", "makes", "parameters",
)  # fmt: skip
_RIGHT = {2, 3, 6, 8, 12}
_BESIDE = 7  # the first column of what stands beside the encoder


def lines(graph: Graph, brief: bool = False) -> list[TableRow]:
    """The rows of the table, in the order of the spec; if `brief`, cells by their name alone."""
    levels = graph.graph["levels"]
    found = []
    for node in inputs_of(graph):
        level = INPUT if node == BOTTOM else node
        found.append(_line(graph, level, node, "", brief))
    for level, below in table_rows(graph):
        encoder = node_name(Side.ENCODER, level)
        decoder = node_name(Side.DECODER, below) if below else ""
        if encoder in graph or decoder in graph:
            found.append(_line(graph, level, encoder, decoder, brief))
    top = node_name(Side.DECODER, levels[-1])
    if top in graph:
        found.append(_line(graph, levels[-1], "", top, brief))
    return found


def _line(graph: Graph, level: str, encoder: str, decoder: str, brief: bool) -> TableRow:
    nodes = graph.nodes
    cell = nodes[encoder]["cell"] if encoder in graph else None
    layer = _cell(cell, brief) if cell else "" if encoder else "top"
    beside = node_name(Side.LATERAL, level)
    fields: dict[str, Any] = {
        "level": level,
        "layer": "Input" if level == INPUT else layer,
        "stride": _pair(_stride(cell)),
        "channels": _channels(cell),
        "filter": _pair(window_of(cell, nodes[encoder]["shape"])) if cell else "",
        "shape": show_shape(nodes[encoder]["shape"]) if cell else "",
        "encoder": node_parameters(graph, encoder) if cell else None,
    }
    if beside in graph and cell:
        fields["lateral"] = _cell(nodes[beside]["cell"], brief)
        fields["lateral_parameters"] = node_parameters(graph, beside)
    if decoder in graph:
        down = nodes[decoder]["cell"]
        fields |= {
            "decoder": _cell(down, brief),
            "decoder_filter": _pair(window_of(down, nodes[decoder]["shape"])),
            "estimates": f"{nodes[decoder]['level']} {show_shape(nodes[decoder]['shape'])}",
            "decoder_parameters": node_parameters(graph, decoder),
        }
    return TableRow(**fields)


def _cell(cell: Cell, brief: bool) -> str:
    """Its name, the row with which it shares weights, and what differs from the defaults."""
    name = f"{cell.cell} = {cell.share}" if cell.share else cell.cell
    return name if brief else ", ".join([name, *options_of(cell)])


def node_parameters(graph: Graph, node: str) -> int:
    """The parameters of a node, with those of its incoming edges."""
    arrows = sum(count or 0 for _, _, count in graph.in_edges(node, data="parameters"))
    return int((graph.nodes[node].get("parameters") or 0) + arrows)


def _stride(cell: Any) -> Any:
    if getattr(cell, "filter", None) == "global":
        return None
    return getattr(cell, "window_stride", None) or getattr(cell, "stride", None)


def _channels(cell: Any) -> str:
    if cell is not None and cell.cell == "Pool":
        return "MAX" if cell.mode == "max" else "AVG"
    channels = getattr(cell, "channels", None)
    return "" if channels is None else str(channels)


def _pair(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return str(value[0]) if value[0] == value[1] else f"{value[0]},{value[1]}"


# --- a cell in words ------------------------------------------------------------------------------


def window_of(cell: Any, shape: Shape | None) -> Any:
    """The filter of a cell that makes this shape; a decoder that makes a vector uses none."""
    dense = isinstance(cell, DecoderCell) and shape is not None and len(shape) == 1
    return None if dense else getattr(cell, "filter", None)


def options_of(cell: Cell) -> list[str]:
    """What tables and drawings show beside the sizes of a cell: "layer norm", "noise 0.3".

    A user's cell may define these fields differently; they are then left out.
    """
    fields = type(cell).model_fields.items()
    changed: dict[str, Any] = {k: v for k, f in fields if (v := getattr(cell, k)) != f.default}
    norm, activation, dilation = (changed.get(k) for k in ("norm", "activation", "dilation"))
    found = [_norm_text(norm, getattr(cell, "default_norm", ""))]
    if isinstance(activation, str):
        found.append("linear" if activation == "none" else activation)
    if isinstance(dilation, tuple):
        found.append(f"dilation {show_shape(dilation[: len({*dilation})])}")
    if isinstance(groups := changed.get("channel_groups"), int):
        found.append(f"{groups} channel groups")
    found += ["crelu" if changed.get("crelu") is True else "", noise_text(cell)]
    return [each for each in found if each]


def _norm_text(norm: object, default: str) -> str:
    """A norm in words; empty if it is the default."""
    choice = NormChoice.model_construct(kind=norm) if isinstance(norm, str) else norm
    if not isinstance(choice, NormChoice):
        return ""
    kind, joint = choice.kind or default, choice.terms == "joint"
    if kind == "none" or (kind == default and not joint):
        return "no norm" if kind != default else ""
    groups = f"({choice.groups})" if choice.groups else ""
    return " ".join(filter(None, ["joint" * joint, kind, "norm", groups]))


def noise_text(cell: Cell) -> str:
    """The noise of a cell in words; empty if it has none."""
    amount = (cell.noise.gaussian or cell.noise.flip) if isinstance(cell.noise, Noise) else None
    return f"noise {amount:g}" if amount else ""


# --- writers --------------------------------------------------------------------------------------


def _text(value: str | int | None) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else value


def _used(graph: Graph, brief: bool = False) -> tuple[list[int], list[list[str]]]:
    """The columns that hold anything, and the rows."""
    rows = [[*map(_text, astuple(line))] for line in lines(graph, brief)]
    used = [i for i in range(len(HEADINGS)) if any(row[i] for row in rows)]
    return used, rows


def to_text(graph: Graph, width: int | None = None) -> str:
    """The table as text. If it is wider than `width`, decoders stand below encoders."""
    return "\n".join(fitted([*heading(graph), *layers(graph, width), "", *footer(graph)], width))


def layers(graph: Graph, width: int | None = None, brief: bool = False) -> list[str]:
    """The lines of the table alone; `brief`: without options of cells and numbers of parameters."""
    used, rows = _used(graph, brief)
    used = [i for i in used if not brief or HEADINGS[i] != "parameters"]
    if width is None or len(_aligned(rows, used)[1]) <= width:
        return _aligned(rows, used)
    found = _aligned(rows, [i for i in used if i < _BESIDE])
    if beside := [i for i in used if i >= _BESIDE]:
        found += ["", *_aligned([row for row in rows if any(row[i] for i in beside)], [0, *beside])]
    return found


def _aligned(rows: Sequence[Sequence[str]], used: Sequence[int]) -> list[str]:
    """Head, rule and rows of some columns."""
    table = [[row[i] for i in used] for row in [HEADINGS, *rows]]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    head, *body = (
        "  ".join(
            text.rjust(width) if i in _RIGHT else text.ljust(width)
            for i, text, width in zip(used, row, widths, strict=True)
        ).rstrip()
        for row in table
    )
    return [head, "  ".join("-" * width for width in widths), *body]


def heading(graph: Graph) -> list[str]:
    title = f": {graph.graph['title']}" if graph.graph["title"] else ""
    return [f"{graph.graph['name']}{title}", ""]


def footer(graph: Graph) -> list[str]:
    """Totals, time, tasks and notes, one line each."""
    encoder = sum(line.encoder or 0 for line in lines(graph))
    total = parameters(graph)
    frames, iterations = graph.graph["frames"], graph.graph["iterations"]
    time = f"frames: {frames}" if frames is not None else f"iterations: {iterations}"
    if (groups := groups_of(graph)) is not None:
        time += f"; groups: {groups.text}"
    found = [f"{total:,} parameters (encoder {encoder:,}, rest {total - encoder:,}); {time}"]
    found += [line for node in inputs_of(graph) if (line := _about_input(graph, node))]
    for name, entry in graph.graph["tasks"].items():
        task = entry["task"]
        weight = f", weight {task.weight:g}" if isinstance(task.weight, int | float) else ""
        if isinstance(task.weight, dict):
            weights = task.node_weights(entry["at"]) or {}
            weight = f", weights {', '.join(f'{weights[node]:g}' for node in entry['at'])}"
        at, clean = ", ".join(entry["at"]), ", against a pass without noise" if task.clean else ""
        found.append(f"task {name}: {task.kind} at {at}{clean}{weight}")
    return found + [f"note: {note}" for note in graph.graph["notes"]]


def _about_input(graph: Graph, node: str) -> str:
    """How an input is shown and what it reads, if there is anything to say."""
    cell: Any = graph.nodes[node]["cell"]
    until = [f"until t = {cell.until}"] if cell.until else []
    if node == BOTTOM:
        words = [*filter(None, [noise_text(cell)]), *(f"shown {each}" for each in until)]
        return f"input: {', '.join(words)}" if words else ""
    per = "one value per frame" if cell.per == "frame" else "the same at every t"
    return f"{node}: {', '.join([per, *until, f'field `{cell.field}` of the data'])}"


def to_markdown(graph: Graph) -> str:
    used, rows = _used(graph)
    marks = ["---:" if i in _RIGHT else "---" for i in used]
    cells = ([row[i] for i in used] for row in rows)  # names and numbers
    body = ["| " + " | ".join(row) + " |" for row in ([HEADINGS[i] for i in used], marks, *cells)]
    title = escape_markdown(" ".join(heading(graph)).strip())
    return "\n".join([f"**{title}**", "", *body, "", *map(escape_markdown, footer(graph))])


def to_latex(graph: Graph) -> str:
    """A booktabs table laid out as the paper's."""
    used, rows = _used(graph)
    columns = "".join("r" if i in _RIGHT else "l" for i in used)
    left, right = sum(i < 9 for i in used), sum(i >= 9 for i in used)
    groups = rf"\multicolumn{{{left}}}{{c}}{{Encoder}}" + (
        rf" & \multicolumn{{{right}}}{{c}}{{Decoder}}" if right else ""
    )
    body = [" & ".join(escape_tex(row[i]) for i in used) + r" \\" for row in rows]
    head = " & ".join(HEADINGS[i] for i in used) + r" \\"
    lines = [r"\toprule", rf"{groups} \\", r"\midrule", head, r"\midrule", *body, r"\bottomrule"]
    count = f"{parameters(graph):,}".replace(",", "{,}")
    caption = f"{escape_tex(' '.join(heading(graph)).strip())}. {count} parameters."
    return tex_table(caption, columns, lines)


def as_dict(graph: Graph) -> dict[str, Any]:
    return {
        "name": graph.graph["name"],
        "title": graph.graph["title"],
        "parameters": parameters(graph),
        "time": {"frames": graph.graph["frames"], "iterations": graph.graph["iterations"]},
        **({} if copies(graph) is None else {"groups": copies(graph)}),
        "rows": [asdict(line) for line in lines(graph)],
        "tasks": {
            name: {"kind": entry["task"].kind, "at": entry["at"]}
            for name, entry in graph.graph["tasks"].items()
        },
        "notes": graph.graph["notes"],
    }
