"""Write docs/cells.md: an introduction by hand, then every cell with its formula and its code."""

from __future__ import annotations

import inspect
import textwrap
from pathlib import Path

from ladderspec.cells import ACTIVATIONS, Cell, Inlet, ShapeProblem, Site, registered
from ladderspec.cells.grouping import Groups, Readout
from ladderspec.cells.parameters import Parameter
from ladderspec.names import Role, Shape, Side, show_shape

FOLDER = Path(__file__).parent
PAGE, INTRO = FOLDER / "cells.md", FOLDER / "cells_intro.md"
BELOW, LEVEL = ((6, 12, 12), (6,)), ((8, 6, 6), (8,))  # maps, and vectors
TITLES = {Side.ENCODER: "Encoder cells", Side.DECODER: "Decoder cells"}
FIRST: dict[type, str] = {}  # where the code of each cell is shown


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    FIRST.clear()
    parts, seen = [INTRO.read_text(encoding="utf-8").rstrip(), activations()], list[str]()
    for side, title in TITLES.items():
        parts.append(f"## {title}")
        for name, kind in registered(side).items():
            anchor = f"{name.lower()}_1" if name in seen else name.lower()
            parts.append(
                f"{section(side, name, kind)}\n\nFields: [language](language.md#{anchor})."
            )
            seen.append(name)
    parts.append(section(Side.ENCODER, "Groups", Groups))
    parts.append("Your own cell is one class in one file: [own cells](own_cells.md).")
    return "\n\n".join(parts) + "\n"


def activations() -> str:
    rows = [
        f"| `{name}` | {inspect.getdoc(activation.compute) or ''} |"
        for name, activation in ACTIVATIONS.items()
    ]
    return "\n".join(["## Activations", "", "| name | value |", "|---|---|", *rows])


def section(side: Side, name: str, kind: type[Cell]) -> str:
    """A cell: what its docstring says, its parameters in an example, and its code."""
    source = next(each for each in kind.__mro__ if "compute" in vars(each))
    formulas = [inspect.getdoc(each) or "" for each in dict.fromkeys([kind, source])]
    places, parameters = table(side, kind)
    first = FIRST.setdefault(source, f"{name}, {side}")
    code = textwrap.dedent(inspect.getsource(source.compute)).strip()
    code = code.removeprefix("@staticmethod\n")
    parts = [f"### {name}, {side}", *map(formula, formulas)]
    if parameters:
        parts += [f"Parameters, {places}:", parameters]
    if first != f"{name}, {side}":
        return "\n\n".join([*parts, f"Computed like {first}."])
    return "\n\n".join([*parts, f"```python\n{code}\n```"])


def formula(text: str) -> str:
    """A docstring; paragraphs that are formulas as code."""
    paragraphs = []
    for paragraph in text.split("\n\n"):
        first = paragraph.split("=", 1)[0]
        is_formula = "=" in paragraph and len(first.split()) <= 3 and not paragraph[0].isupper()
        paragraphs.append(f"```\n{paragraph}\n```" if is_formula else paragraph)
    return "\n\n".join(paragraphs)


def table(side: Side, kind: type[Cell]) -> tuple[str, str]:
    """The places of an example, and a table of what the cell owns there; empty if nothing."""
    vectors = "filter" not in kind.model_fields and kind is not Groups
    below, level = BELOW[vectors], LEVEL[vectors]
    try:
        return example(side, kind, below, level)
    except ShapeProblem:  # a cell that keeps the number of channels
        return example(side, kind, below, below)


def example(side: Side, kind: type[Cell], below: Shape, level: Shape) -> tuple[str, str]:
    fields: dict[str, object] = {}
    if "channels" in kind.model_fields and side is Side.ENCODER:
        fields["channels"] = 8
    if "inner" in kind.model_fields:
        fields["inner"] = 8
    if kind is Groups:
        fields, level = {"count": 3, "variance": {"learned": 0.3}}, below
    elif "stride" in kind.model_fields:
        fields["stride"] = 2
    cell = kind.model_validate(fields)
    ways = {Role.ENCODER: below, Role.LATERAL: below, Role.DECODER: level}
    wanted = {Role.ENCODER} if side is Side.ENCODER else {Role.LATERAL, Role.DECODER}
    if kind is Groups:
        wanted, ways[Role.UPWARD_DIAGONAL] = set(cell.takes), (7, 12, 12)
    inlets = [Inlet(role, role, 0, ways[role]) for role in ways if role in wanted & cell.takes]
    groups = Groups(count=3) if kind is Readout else None
    out = cell.out_shape(Site(side, tuple(inlets), below, level, groups))
    if cell.stateful:
        inlets.append(Inlet("state", Role.STATE, 1, out))
    site = Site(side, tuple(inlets), below, level, groups)
    rows = [entry(own, each) for own, each in cell.parameters(site, out).items()]
    for inlet in inlets:
        owned = cell.project(site, inlet, out).parameters
        rows += [entry(f"{inlet.key}.{own}", each) for own, each in owned.items()]
    given = ", ".join(f"{key}: {value}" for key, value in fields.items())
    arrive = " and ".join(f"{show_shape(inlet.shape)} on `{inlet.key}`" for inlet in inlets)
    head = ["| name | shape | initial value |", "|---|---|---|"]
    text = f"for {arrive}" + (f", with `{given}`" if given else "")
    return (text, "\n".join([*head, *rows])) if rows else ("", "")


def entry(name: str, parameter: Parameter) -> str:
    note = "; not learned" if parameter.buffer else ""
    return f"| `{name}` | {show_shape(parameter.shape)} | {initial(parameter)}{note} |"


def initial(parameter: Parameter) -> str:
    if parameter.variance is not None:
        return f"normal, variance {parameter.variance:.4g}"
    if len(parameter.values) == 1:
        return f"{parameter.values[0]:g}"
    return ", ".join(f"{value:g}" for value in parameter.values) + " in equal blocks"


if __name__ == "__main__":
    main()
