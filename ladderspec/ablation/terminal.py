"""Tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from ladderspec.ablation.table import NOTHING, Table

GAP = "  "


def to_text(table: Table) -> str:
    """A table with a heading over each group."""
    left = _aligned(["", "", *table.rows], right=False)
    counts = [NOTHING if n is None else f"{n:,}" for n in table.parameters]
    blocks = [left, _aligned(["", "parameters", *counts])]
    for group in table.groups:
        columns = [_aligned(["", name, *texts]) for name, texts in group.columns()]
        block = [GAP.join(line) for line in zip(*columns, strict=True)]
        block[0] = group.heading
        blocks.append(_aligned(block, right=False))
    lines = [(GAP * 2).join(line).rstrip() for line in zip(*blocks, strict=True)]
    rule = "-" * max(len(line) for line in lines)
    head = [f"{table.title} ({table.note()})", "", *lines[:2], rule]
    return "\n".join([*head, *lines[2:]])


def _aligned(texts: Sequence[str], right: bool = True) -> list[str]:
    width = max(len(text) for text in texts)
    return [text.rjust(width) if right else text.ljust(width) for text in texts]
