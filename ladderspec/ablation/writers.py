"""Tables as text: for a terminal, Markdown, LaTeX, and CSV with all digits."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from textwrap import wrap
from typing import Any

from ladderspec.ablation.results import Results
from ladderspec.ablation.table import NOTHING, Table, TableEntry, entry_of
from ladderspec.escaping import (
    escape_csv,
    escape_markdown,
    escape_tex,
    escape_xml,
    html_table,
    one_line,
    tex_table,
)  # fmt: skip
from ladderspec.experiments.config import Quoted

GAP = "  "


def counts(table: Table) -> list[str]:
    """The column of parameter counts."""
    return [" / ".join(f"{n:,}" for n in row) or NOTHING for row in table.parameters]


# --- terminal -------------------------------------------------------------------------------------


def to_text(table: Table, width: int | None = None) -> str:
    """A table with a heading over each group. Groups are stacked if `width` is too small."""
    lines = _lines(table)
    if width is not None and len(table.groups) > 1 and max(map(len, lines)) > width:
        parts = [_lines(replace(table, groups=(group,))) for group in table.groups]
        lines = "\n\n".join("\n".join(part) for part in parts).split("\n")
    note = [line for text in _notes(table) for line in wrap(text, width or 10**6)]
    return "\n".join(map(one_line, [table.title, "", *lines, "", *note]))


def _notes(table: Table) -> list[str]:
    return list(filter(None, [table.note, table.verdicts]))


def _lines(table: Table) -> list[str]:
    blocks = [_aligned(["", "", *table.rows], right=False)]
    blocks.append(_aligned(["", "parameters", *counts(table)]))
    for group in table.groups:
        columns = [_aligned(["", name, *texts]) for name, texts in group.columns()]
        block = [GAP.join(line) for line in zip(*columns, strict=True)]
        block[0] = group.heading
        blocks.append(_aligned(block, right=False))
    lines = [(GAP * 2).join(line).rstrip() for line in zip(*blocks, strict=True)]
    return [*lines[:2], "-" * max(len(line) for line in lines), *lines[2:]]


def _aligned(texts: Sequence[str], right: bool = True) -> list[str]:
    width = max(len(text) for text in texts)
    return [text.rjust(width) if right else text.ljust(width) for text in texts]


# --- Markdown -------------------------------------------------------------------------------------


def to_markdown(table: Table) -> str:
    """A table in GitHub's Markdown: one row of headings."""
    head, *rows = _one_head(table)
    lines = [[escape_markdown(name) for name in head], ["---", *["---:"] * (len(head) - 1)]]
    lines += [[escape_markdown(row[0]), *row[1:]] for row in rows]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    title, note = escape_markdown(table.title), "\n\n".join(map(escape_markdown, _notes(table)))
    return f"**{title}**\n\n{body}\n\n{note}\n"


def to_html(table: Table) -> str:
    """A table for notebooks."""
    head, *rows = _one_head(table)
    notes = "".join(f"<p>{escape_xml(note)}</p>" for note in _notes(table))
    return html_table(head, rows, table.title) + notes


def _one_head(table: Table) -> list[list[str]]:
    """The table with one row of headings, and its rows."""
    columns = [["", *table.rows], ["parameters", *counts(table)]]
    for group in table.groups:
        (_, ours), *rest = group.columns()
        columns.append([group.heading, *ours])
        columns += [[name, *texts] for name, texts in rest]
    return [list(line) for line in zip(*columns, strict=True)]


# --- LaTeX ----------------------------------------------------------------------------------------


def to_latex(table: Table) -> str:
    """A table environment with booktabs rules."""
    groups = [(group.heading, group.columns()) for group in table.groups]
    spans, rules, at = ["", ""], list[str](), 3
    for heading, columns in groups:
        spans.append(rf"\multicolumn{{{len(columns)}}}{{c}}{{{_escaped(heading)}}}")
        rules.append(rf"\cmidrule(lr){{{at}-{at + len(columns) - 1}}}")
        at += len(columns)
    columns = [column for _, found in groups for column in found]
    head = ["", "parameters", *(name for name, _ in columns)]
    texts = [[_number(text) for text in found] for _, found in columns]
    body = zip([_escaped(row) for row in table.rows], map(_number, counts(table)), *texts,
               strict=True)  # fmt: skip
    lines = [r"\toprule", _line(spans), " ".join(rules), _line(head), r"\midrule"]
    lines += [*map(_line, body), r"\bottomrule"]
    caption = f"{_escaped(table.title)}. {_escaped(table.note)}"
    return tex_table(caption, "l" + "r" * (at - 2), lines)


def _line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _escaped(text: str) -> str:
    r"""
    >>> print(_escaped("next_frame error (x 1e-5), 95 %"))
    next\_frame error ($\times 10^{-5}$), 95 \%
    """
    found = re.sub(r"\bx 1e(-?\d+)", r"$\\times 10^{\1}$", escape_tex(text))
    return found.replace("±", r"$\pm$")


def _number(text: str) -> str:
    r"""
    >>> print(_number("+1.20 [-0.31, 2.09]"), _number("0.74 ± 0.09"), _number("12,345"))
    $+1.20$ $[-0.31, 2.09]$ $0.74 \pm 0.09$ $12{,}345$
    """
    if text in ("", NOTHING):
        return text and "--"
    grouped = re.sub(r"(?<=\d),(?=\d)", "{,}", text).replace("±", r"\pm")
    mean, _, interval = grouped.partition(" [")
    return f"${mean}$ $[{interval}$" if interval else f"${mean}$"


# --- CSV ------------------------------------------------------------------------------------------


def summary_csv(results: Results) -> str:
    """Over seeds: a line for each row, column and metric."""
    return _csv(records(results))


def records(results: Results) -> list[dict[str, Any]]:
    """Over seeds: the numbers of each row, column and metric."""
    found = []
    for entry in _entries(results):
        quoted, change, cell = _quoted(results, entry), entry.change, entry.cell
        if entry.measure.name in cell.values or quoted:
            found.append(
                {
                    **_names(entry),
                    "parameters": cell.parameters,
                    "measure": entry.measure.name,
                    "unit": entry.measure.unit,
                    **_ours(entry),
                    "difference": change.mean if change else None,
                    "difference_low": change.low if change else None,
                    "difference_high": change.high if change else None,
                    **_paper(quoted),
                }
            )
    return found


def runs_csv(results: Results) -> str:
    """Run by run: a line for each run and metric."""
    return _csv(
        [
            {
                "row": cell.row,
                "column": cell.column,
                "seed": seed,
                "measure": measure.name,
                "unit": measure.unit,
                "value": value,
            }
            for cell in results.cells
            for measure in results.all_measures
            for seed, value in cell.by_seed(measure).items()
        ]
    )


def by_time_csv(results: Results) -> str:
    """A line for each cell, metric and t."""
    found = []
    for entry in _entries(results, results.times):
        quoted = _quoted(results, entry)
        if entry.ours or quoted:
            measure = {"measure": entry.measure.name, "unit": entry.measure.unit, "t": entry.t}
            found.append({**_names(entry), **measure, **_ours(entry), **_paper(quoted)})
    return _csv(found)


def _entries(results: Results, times: Iterable[int | None] = (None,)) -> Iterator[TableEntry]:
    for cell in results.cells:
        for measure in results.all_measures:
            for t in times:
                yield entry_of(results, cell, measure, t)


def _quoted(results: Results, entry: TableEntry) -> Quoted | None:
    """The paper has numbers of the main metrics alone."""
    return entry.quoted if entry.measure in results.measures else None


def _names(entry: TableEntry) -> dict[str, Any]:
    return {"row": entry.cell.row, "column": entry.cell.column, "title": entry.cell.title}


def _ours(entry: TableEntry) -> dict[str, Any]:
    ours = entry.ours
    return {
        "seeds": ours.count if ours else 0,
        "mean": ours.mean if ours else None,
        "deviation": ours.deviation if ours else None,
    }


def _paper(quoted: Quoted | None) -> dict[str, Any]:
    return {
        "paper": quoted.value if quoted else None,
        "paper_deviation": quoted.spread if quoted else None,
    }


def _csv(lines: Sequence[dict[str, Any]]) -> str:
    out = io.StringIO()
    if lines:
        writer = csv.DictWriter(out, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        for line in lines:
            writer.writerow({name: escape_csv(value) for name, value in line.items()})
    return out.getvalue()
