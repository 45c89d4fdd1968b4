"""What figures share: ink, type, and how they become files."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

from ladderspec.ablation.collect import Measure
from ladderspec.ablation.table import label
from ladderspec.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colours that colour-blind readers tell apart (Okabe and Ito), the first row's black.
COLOURS = ("#000000", "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("-", "--", ":", "-.")
GREY = "#777777"
STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.titlesize": 8,
    "legend.frameon": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "pdf.fonttype": 42,  # text stays text
}


def needs_matplotlib() -> None:
    """Say what is missing, in a line."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        hint = "`pip install 'ladderspec[plot]'` brings it"
        raise UsageError(f"no figures: matplotlib is not installed; {hint}") from None


def rendered(figure: Figure, suffix: str) -> bytes:
    """The bytes of a figure, the same at every call."""
    from matplotlib import rc_context

    out = io.BytesIO()
    dates: dict[str, Any] = {"pdf": {"CreationDate": None}}
    with rc_context(STYLE):
        figure.savefig(out, format=suffix, dpi=200, metadata=dates.get(suffix))
    return out.getvalue()


def ink(number: int) -> dict[str, Any]:
    """Colour and dash of a row."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": DASHES[number // len(COLOURS) % len(DASHES)],
    }


def literal(text: str) -> str:
    """A user's own words, in which `$` begins no formula."""
    return text.replace("$", r"\$")


def typeset(measure: Measure) -> str:
    """
    >>> from ladderspec.ablation.collect import Measure
    >>> print(typeset(Measure("next_frame.error", "x 1e-5")))
    next frame error ($\\times 10^{-5}$)
    """
    return re.sub(r"\bx 1e(-?\d+)", r"$\\times 10^{\1}$", label(measure))
