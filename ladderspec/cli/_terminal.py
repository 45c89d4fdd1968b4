"""Texts on a terminal: as wide as it is, and in colour unless NO_COLOR is set."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable
from typing import TextIO

from ladderspec.escaping import escape_terminal

BOLD, DIM, RED, GREEN, YELLOW, CYAN = "1", "2", "31", "32", "33", "36"

# What is coloured in the output of each command: a pattern of whole lines or of parts of them.
COLOURS = {
    "show": [
        (r"\A.+", BOLD), (r"^level .*\n[- ]+$", DIM), (r"^note:", YELLOW), (r"^variants:", BOLD),
        (r"^[\d,]+ parameters", BOLD), (r"^task [^:]+", CYAN),
    ],
    "ladder": [(r"◀■|↖■|↺", CYAN), (r"^task [^ ]+", CYAN)],
    "graph": [(r"\A.+", BOLD), (r"\(t-\d+\)", CYAN), (r"^note:", YELLOW), (r"^task [^:]+", CYAN)],
    "plan": [
        (r"\A.+", BOLD), (r"^\d+\. .+", BOLD), (r"^   [\w, ]+(?= = )", CYAN), (r"'+", CYAN),
        (r"^e encoder[\s\S]+", DIM),
    ],
    "diff": [(r"^-.*", RED), (r"^\+.*", GREEN), (r"^~.*", YELLOW), (r"^parameters:.*", BOLD)],
    "error": [(r"^error\[\w+\].*", RED), (r"\^+.*", YELLOW), (r"^  (hint|note):", GREEN)],
}  # fmt: skip


def width(out: TextIO | None = None) -> int | None:
    """The columns of the terminal; None if the output goes elsewhere."""
    out = out or sys.stdout
    return shutil.get_terminal_size().columns if out.isatty() else None


def say(text: str, out: TextIO | None = None) -> None:
    """Print a text with names of files or of others, whose control characters become visible."""
    print(escape_terminal(text), file=out)


def notes_to_stderr(notes: Iterable[str]) -> None:
    """Print notes beside the output of a command."""
    for note in notes:
        say(f"note: {note}", sys.stderr)


def coloured(text: str, command: str, out: TextIO | None = None) -> str:
    """The text in colour, if it goes to a terminal that wants it."""
    out = out or sys.stdout
    if not out.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    for pattern, colour in COLOURS[command]:
        text = re.sub(pattern, rf"\033[{colour}m\g<0>\033[0m", text, flags=re.MULTILINE)
    return text
