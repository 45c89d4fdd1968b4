"""The look of a drawing: its themes, and all sizes in points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from ladderspec.drawing.options import View, check_choice
from ladderspec.drawing.picture import Arrow, Change, Picture
from ladderspec.names import SKIP_STYLE, TABLE, Ink, Role, RoleStyle, Side

# --- roles and sides ------------------------------------------------------------------------------


# In the order of the legend.
ROLES: dict[Role, RoleStyle] = dict(
    sorted(
        [*((role, row.style) for role, row in TABLE.items()), (Role.SKIP, SKIP_STYLE)],
        key=lambda entry: entry[1].legend,
    )
)


class BoxColours(NamedTuple):
    line: str
    fill: str


class SideStyle(NamedTuple):
    """How the boxes of one side look in each theme."""

    paper: BoxColours
    safe: BoxColours
    mono: BoxColours
    dark: BoxColours


SIDES: dict[Side, SideStyle] = {
    Side.INPUT: SideStyle(
        paper=BoxColours("#8e24aa", "#f6ebf9"), safe=BoxColours("#b37700", "#fdf3dd"),
        mono=BoxColours("#000000", "#ffffff"), dark=BoxColours("#d7aefb", "#33263d"),
    ),
    Side.ENCODER: SideStyle(
        paper=BoxColours("#c62828", "#fdeceb"), safe=BoxColours("#d55e00", "#fcefe5"),
        mono=BoxColours("#000000", "#ffffff"), dark=BoxColours("#ff8a80", "#3a2224"),
    ),
    Side.LATERAL: SideStyle(
        paper=BoxColours("#3c4043", "#f3f4f5"), safe=BoxColours("#3c4043", "#f3f4f5"),
        mono=BoxColours("#000000", "#f7f7f7"), dark=BoxColours("#cfd4da", "#2a2d33"),
    ),
    Side.DECODER: SideStyle(
        paper=BoxColours("#1450b0", "#e8f0fb"), safe=BoxColours("#0072b2", "#e5f1f8"),
        mono=BoxColours("#000000", "#e9e9e9"), dark=BoxColours("#8ab4f8", "#1f2b40"),
    ),
}  # fmt: skip


# --- themes ---------------------------------------------------------------------------------------


class Theme(NamedTuple):
    """Every colour of a drawing."""

    background: str
    text: str
    faint: str  # details, levels, legend
    rule: str  # lines between iterations
    removed: Ink
    sides: Mapping[Side, BoxColours]
    inks: Mapping[Role, Ink]
    task: BoxColours
    changed: str  # around what a variant changed
    phases: Mapping[str, str]
    phase_edge: str | None = None  # outline of phases whose tints are hard to distinguish

    @property
    def phase_ink(self) -> Ink | None:
        return Ink(self.phase_edge, 0.6) if self.phase_edge else None

    @property
    def unmeasured(self) -> Ink:
        """An arrow without a worth, if others have one."""
        return Ink(self.rule, 0.9)


_GONE = (3.5, 2.5)

PAPER = Theme(
    background="#ffffff",
    text="#1a1a1a",
    faint="#5f6368",
    rule="#9aa0a6",
    removed=Ink("#a9aeb4", 1.1, _GONE),
    sides={side: style.paper for side, style in SIDES.items()},
    inks={role: style.paper for role, style in ROLES.items()},
    task=BoxColours("#b26a00", "#fff4dc"),
    changed="#ffd75e",
    phases={"once": "#eceef0", "loop": "#c5e8e2"},
)

SAFE = Theme(
    background="#ffffff",
    text="#1a1a1a",
    faint="#55585c",
    rule="#8f959b",
    removed=Ink("#a9aeb4", 1.1, _GONE),
    sides={side: style.safe for side, style in SIDES.items()},
    inks={role: style.safe for role, style in ROLES.items()},
    task=BoxColours("#8a6d00", "#fdf8cf"),
    changed="#f0e442",
    phases={"once": "#f1f3f4", "loop": "#c5e8e2"},
    phase_edge="#8f959b",
)

MONO = Theme(
    background="#ffffff",
    text="#000000",
    faint="#3d3d3d",
    rule="#7a7a7a",
    removed=Ink("#9e9e9e", 0.9, _GONE),
    sides={side: style.mono for side, style in SIDES.items()},
    inks={role: style.mono for role, style in ROLES.items()},
    task=BoxColours("#000000", "#ffffff"),
    changed="#8a8a8a",
    phases={"once": "#f4f4f4", "loop": "#cfcfcf"},
    phase_edge="#7a7a7a",
)

DARK = Theme(
    background="#16181d",
    text="#f1f3f4",
    faint="#b4bac2",
    rule="#6f7681",
    removed=Ink("#6f7681", 1.1, _GONE),
    sides={side: style.dark for side, style in SIDES.items()},
    inks={role: style.dark for role, style in ROLES.items()},
    task=BoxColours("#fdd663", "#3d3520"),
    changed="#7a6200",
    phases={"once": "#272b32", "loop": "#12504a"},
)

THEMES = {"paper": PAPER, "mono": MONO, "safe": SAFE, "dark": DARK}


def theme_of(name: str) -> Theme:
    check_choice("theme", name, THEMES)
    return THEMES[name]


WIDEST, THINNEST = 5.0, 0.6  # line widths of the largest worth, and of zero worth
_ADDED = 1.9  # how much wider an added arrow is


def ink_of(arrow: Arrow, theme: Theme, largest_worth: float | None) -> Ink:
    """The line of an arrow, by its role and change; its width by its worth, if arrows have one."""
    ink = theme.inks[arrow.role]
    if arrow.change is Change.REMOVED:
        return theme.removed
    if largest_worth is None:
        return ink._replace(width=ink.width * (_ADDED if arrow.change is Change.ADDED else 1.0))
    if arrow.worth is None:
        return theme.unmeasured
    share = arrow.worth / largest_worth if largest_worth > 0 else 0.0
    return ink._replace(width=max(THINNEST, WIDEST * share))


# --- sizes ----------------------------------------------------------------------------------------


class Sizes(NamedTuple):
    """The sizes that differ between views."""

    heading: float = 10.5  # font sizes
    detail: float = 8.5
    label: float = 9.0
    level: float = 9.0
    time: float = 12.0
    legend: float = 9.0
    box_width: float = 72.0  # minimum
    box_height: float = 32.0
    radius: float = 9.0
    row_gap: float = 26.0
    inner_gap: float = 46.0  # between the sides of one iteration
    outer_gap: float = 60.0  # between two iterations
    corner: float = 12.0  # from the corner of a box to its first port, along the top and bottom
    edge: float = 8.0  # the same along the left and right edges
    pitch: float = 7.0  # between neighbouring lanes, and between neighbouring ports
    pad: float = 9.0  # left and right inside a box
    pad_y: float = 5.0  # above and below
    wrap: float = 118.0  # width of a line, if several cells are named in a box
    margin: float = 10.0  # around everything
    legend_row: float = 16.0  # height of a row of the legend
    between: float = 16.0  # entries of the legend
    sample: float = 28.0  # width of a sample in the legend
    beside_levels: float = 8.0  # between the names of levels and the ladder
    aside: float = 9.5  # between a box and the first lane beside it
    label_air: float = 16.0  # of a straight arrow beside its label
    filled: bool = True

    def clearance(self, axis: Literal["H", "V"]) -> float:
        """Between a box and the first lane in a channel: room for an arrowhead."""
        return self.aside if axis == "V" else _CLEARANCE

    def spread(self, factor: float) -> Sizes:
        """The same with all gaps `factor` times as wide."""
        return self._replace(
            row_gap=self.row_gap * factor,
            inner_gap=self.inner_gap * factor,
            outer_gap=self.outer_gap * factor,
            pitch=self.pitch * factor,
        )

    def compact(self) -> Sizes:
        """For a given size on paper: smaller gaps, so that text shrinks less."""
        return self._replace(
            heading=9.5,
            box_width=50.0,
            box_height=26.0,
            radius=7.0,
            row_gap=14.0,
            inner_gap=self.inner_gap * 0.52,
            outer_gap=self.outer_gap * 0.65,
            corner=9.0,
            edge=5.0,
            pad=5.0,
            pad_y=3.0,
            wrap=68.0,
            margin=3.0,
            legend_row=11.0,
            between=9.0,
            sample=21.0,
            beside_levels=4.0,
        )


_ROLLED = Sizes(inner_gap=66.0)
_MINI = Sizes(  # scaled by MINI_SCALE on paper
    detail=17.0, label=17.0, level=17.0, time=17.0, legend=15.0, box_width=13.0, box_height=14.0,
    radius=3.5, row_gap=50.0, inner_gap=26.0, outer_gap=28.0, corner=2.0, edge=2.0, pad=4.0,
    pitch=6.0, aside=5.0, margin=0.5, beside_levels=0.0, legend_row=22.0, sample=36.0,
    label_air=1.0, filled=False,
)  # fmt: skip
MINI_SCALE = 10 / 17  # letters have 10 points on paper, as in the paper's first figure
_WORTH_PITCH = 11.0  # if line widths show the worth of arrows


def sizes_of(picture: Picture, view: View) -> Sizes:
    sizes = _MINI if view.mini else _ROLLED if view.rolled else Sizes()
    if view.mini and view.levels == "index":
        # Letters like e with subscript l+1 are wide: they need room between rows, and leave less.
        sizes = sizes._replace(row_gap=64.0, box_width=12.0, box_height=13.0, pitch=5.0, aside=3.0)
    if picture.largest_worth is not None:
        sizes = sizes._replace(pitch=_WORTH_PITCH)
    return sizes.compact() if view.compact else sizes


_CLEARANCE = 9.5
TEXT_PITCH = 10.0  # minimum distance of ports whose arrows have a text at their start
PILL_GAP, PILL_SIZE = 2.5, 8.5
OTHER_FONTS = 1.2  # how much wider than Helvetica a font may be that replaces it
TITLE_SIZE = 13.0
LOOP = 8.0  # from the middle of a face to the ends of a loop
HEAD_LENGTH, HEAD_WIDTH, HEAD_NOTCH = 8.0, 6.4, 6.0
SQUARE = 6.4
TURN = 10.0  # radius of a turn
