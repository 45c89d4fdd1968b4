"""Texts of users in every writer: each file still parses, and no text of a user becomes code."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import shutil
import subprocess
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import ladderspec as ls
from ladderspec.ablation.results import Measure, Results, TableCell, TimeAxis
from ladderspec.ablation.table import tables
from ladderspec.ablation.writers import runs_csv, summary_csv
from ladderspec.ablation.writers import to_latex as results_latex
from ladderspec.ablation.writers import to_markdown as results_markdown
from ladderspec.ablation.writers import to_text as results_text
from ladderspec.cli import main
from ladderspec.drawing import ladder, render
from ladderspec.errors import SpecError
from ladderspec.export import to_python
from ladderspec.schedule.plan import schedule
from ladderspec.wiring import table
from ladderspec.wiring.graph import Graph

SPEC = """
name: tiny
title: Tiny
input: {channels: 1, size: [8, 8]}
time: {frames: 3}
levels:
  - name: lstm
    label: L
    encoder: {cell: ConvLSTM, channels: 2, label: E}
    decoder: {cell: convG3, filter: 3, label: D}
  - name: class
    encoder: {cell: SoftMax, channels: 3}
edges: {add: [{arrow: decoder.input(t-1) -> encoder.lstm, label: A}]}
tasks:
  next: {kind: prediction, at: decoder.input}
  digit: {kind: classification, at: encoder.class}
"""

ATTACKS = [
    "\\input{/etc/passwd}", "\\write18{id}", "}\\def\\x{\\x}\\x", "$\\immediate\\write18{id}$",
    "^^5cinput", "^^M\\input{a}", "%", "% \\relax",
    "\\", "\\\\", "\\end{document}", "{", "}", "}}}",
    "{{{", "$", "$$", "$a", "a_b^c", "\\begin{tikzpicture}", "#1", "##", "&", "a & b \\\\ c", "~",
    "\\csname input\\endcsname", "\\hat{\\input{a}}", "\\frac{a}{\\input b}", "$\\hat\\input$",
    "$x_{\\input}$", "\\\u0302", "\u0302", "\\\u0302input", "$\\\u0302$", "$^^5c$", '$"$', "$~$",
    "<script>alert(1)</script>", "</script><script>alert(1)</script>", "</title><script>", "<!--",
    "]]>", "<![CDATA[", "&lt;script&gt;", "&#60;", "&unknown;", '" onload="alert(1)', "' x='",
    "</svg>", "<?php", "javascript:alert(1)", "{{title}}", "{{script}}", "{title}", "%s", "{0}",
    '"', '\\"', '"]; evil [label="', "\\N \\G \\E", "\\l\\n\\r", "a\\", '\\\\"', "->", "//", "/*",
    "[label=<b>]", "<<b>x</b>>", "=1+1", "=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1",
    " =1",
    ",", ";", '","', "'", "a|b", "| --- |", "`code`", "**bold**", "[x](javascript:1)", "![x](y)",
    "\x1b[31mred", "\x1b]0;title\x07", "\x9b31m", "a\rb", "a\nb", "a\r\nb", "a\x0bb", "a\x0cb",
    "a\x85b", "a\u2028b", "a\u2029b", "\u202eabc", "\u2066abc", "\ufeff",
    "\ufffe", "\ud800", "\x00",
    '"""', "'''", '"""\nimport os\n"""', "\\N{DIGIT ONE}", "\\x41", "\\u0041", "#!", "\nimport os",
    "\n\\input{a}", "\n% x\n\\relax", "\n}\n", "\n---\n", "\n| a | b |", "\n# Heading", "\n<b>",
]  # fmt: skip
STRINGS = list(
    dict.fromkeys(
        [
            *ATTACKS,
            *(f"before {attack} after" for attack in ATTACKS),
            *(f"a{chr(code)}b" for code in (*range(32), *range(127, 160))),
            *(chr(code) for code in range(33, 127) if not chr(code).isalnum()),
            *("e\u0301", "\u00e9", "\u8a9e", "\uff3cinput", "\ufb01", "\u03c3", "\u00b1", "\u200d"),
        ]
    )
)

# A page has many drawings, and pdflatex takes its time: `make test` tries every eighth string.
some_or_all = pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.long)])


@cache
def _graph() -> Graph:
    return ls.graph(ls.loads(SPEC))


def injected(text: str) -> Graph:
    """The graph with a text in every place that holds a text of the user."""
    graph = _graph().copy()
    graph.graph.update(title=text, notes=[text], labels={"lstm": text})
    for node in graph.nodes.values():
        node["cell"] = node["cell"].model_copy(update={"label": text})
    for *_, edge in graph.edges(data=True):
        edge["label"] = text
    return graph


def results(text: str) -> Results:
    """Results of an experiment with a text in every title."""
    error = Measure("digit.error", "%")
    cells = [
        TableCell(
            row,
            column,
            text,
            text,
            {error.name: {0: 1.0, 1: 2.0}},
            {},
            {},
            12,
            "test",
            TimeAxis(False, None, frozenset()),
        )
        for row in ("a", "b")
        for column in ("one", "two")
    ]
    return Results(text, "a", (error,), tuple(cells), {})


def test_there_are_300_strings() -> None:
    assert len(STRINGS) >= 300


@pytest.mark.parametrize("view", [{}, {"view": "rolled"}])
def test_svg_is_xml_with_the_same_elements(view: dict[str, Any]) -> None:
    for text in STRINGS:
        root = ElementTree.fromstring(str(render(injected(text), "svg", **view)))
        kinds = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert kinds <= {"svg", "title", "desc", "rect", "g", "path", "text", "tspan"}, text


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found = Counter[str]()
        self.handlers = list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found[tag] += 1
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


@some_or_all
def test_html_has_the_same_scripts_and_its_data_are_json(every: int) -> None:
    def elements(page: str) -> _Elements:
        parser = _Elements()
        parser.feed(page)
        return parser

    whole = elements(str(render(injected("plain"), "html"))).found
    for text in STRINGS[::every]:
        page = str(render(injected(text), "html"))
        page.encode()
        found = elements(page)
        for tag in ("script", "style", "template", "title", "body"):
            assert found.found[tag] == whole[tag], text
        assert set(found.found) == set(whole), text
        assert not found.handlers, text
        data = re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page, re.S)
        assert data, "the page has its graph as JSON"
        assert json.loads(data[1])["name"] == "tiny", text


# --- TeX ------------------------------------------------------------------------------------------

# Commands that a text may become: characters, accents and Greek letters. None of them acts.
_HARMLESS = re.compile(
    r"\\(text(backslash|asciitilde|asciicircum|less|greater|bar)|sim|wedge|backslash|times|cdot|to"
    r"|ldots|infty|leq|geq|approx|sum|sigma|hat|tilde|bar|dot|vec|pm|mathit|mathsf|sffamily|bfseries"
    r"|[ &%$#_{}])"
)


def commands(tex: str) -> Counter[str]:
    """The commands that TeX would see, by a tokeniser of its rules; groups must be balanced."""
    found, depth, at = Counter[str](), 0, 0
    assert not re.search(r"\^\^", tex), "TeX reads ^^5c as a backslash"
    while at < len(tex):
        token = tex[at]
        if token == "\\":
            name = re.compile(r"\\([A-Za-z@]+|.)", re.S).match(tex, at)
            assert name, "a backslash at the end"
            token = name[0]
            found[token] += 1
        elif token == "%":
            token = tex[at : tex.index("\n", at)]
        elif token in "{}":
            depth += 1 if token == "{" else -1
            assert depth >= 0, "a group is closed that was not open"
        at += len(token)
    assert depth == 0, "a group is not closed"
    return found


def acting(tex: str) -> set[str]:
    return {command for command in commands(tex) if not _HARMLESS.fullmatch(command)}


TEX = {
    "tikz": lambda text: str(render(injected(text), "tex")),
    "table": lambda text: table.to_latex(injected(text)),
    "results": lambda text: "\n".join(map(results_latex, tables(results(text)))),
}


@pytest.mark.parametrize("writer", TEX)
def test_tex_has_the_same_commands(writer: str) -> None:
    usual = acting(TEX[writer]("plain")) | acting(TEX[writer]("$x_k$"))
    for text in STRINGS:
        tex = TEX[writer](text)
        assert acting(tex) <= usual, text
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", tex), text
        comments = [line for line in tex.splitlines() if line.startswith("%")]
        assert len(comments) == sum(line.startswith("%") for line in TEX[writer]("a").splitlines())


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="not checked: no `pdflatex`")
@some_or_all
def test_tex_is_compiled(every: int, tmp_path: Path) -> None:
    """Drawings, included in one paper."""
    names = [f"drawing{number}.tex" for number in range(len(STRINGS[::every]))]
    for name, text in zip(names, STRINGS[::every], strict=True):
        (tmp_path / name).write_text(str(render(injected(text), "tex")), encoding="utf-8")
    inputs = "".join(f"\\input{{{name}}}\\newpage\n" for name in names)
    (tmp_path / "paper.tex").write_text(
        "\\documentclass{article}\\usepackage{tikz}\\begin{document}\n"
        f"{inputs}\\end{{document}}\n"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-1500:]


# --- Graphviz -------------------------------------------------------------------------------------


def _outside_strings(gv: str) -> set[str]:
    """The words of a Graphviz text outside its strings, quoted or of HTML."""
    bare, at, depth = [], 0, 0
    while at < len(gv):
        if not depth and gv[at] == '"':
            string = re.compile(r'"(?:[^"\\]|\\.)*"', re.S).match(gv, at)
            assert string, "a string does not end"
            bare.append(" S ")
            at = string.end()
            continue
        follows = gv[at : at + 2] == "->"
        if gv[at] == "<" or (gv[at] == ">" and depth):
            depth += 1 if gv[at] == "<" else -1
        elif not depth:
            bare.append("->" if follows else gv[at])
            at += follows
        at += 1
    assert depth == 0, "HTML does not end"
    return set("".join(bare).split())


@pytest.mark.parametrize("layout", ["ladder", "dot"])
def test_graphviz_has_the_same_words_outside_strings(layout: str) -> None:
    files = [str(render(injected(text), "gv", layout=layout)) for text in STRINGS]
    usual = _outside_strings(str(render(injected("plain"), "gv", layout=layout)))
    for text, gv in zip(STRINGS, files, strict=True):
        assert _outside_strings(gv) <= usual, text
    program = shutil.which("dot")
    if program:
        form = ["-Tcanon"]
        done = subprocess.run([program, *form], input="".join(files).encode(), capture_output=True)
        assert done.returncode == 0, done.stderr.decode()[:500]
        assert done.stdout.decode().count("\ndigraph ") + 1 == len(STRINGS)


# --- text -----------------------------------------------------------------------------------------

TEXTS = {
    "show": lambda text: table.to_text(injected(text)),
    "show --format markdown": lambda text: table.to_markdown(injected(text)),
    "show --ladder": lambda text: ladder(injected(text)),
    "graph": lambda text: ls.to_text(injected(text)),
    "plan": lambda text: str(schedule(injected(text))),
    "ablate": lambda text: "\n".join(results_text(t, 100) for t in tables(results(text))),
    "table.md": lambda text: "\n".join(map(results_markdown, tables(results(text)))),
}


@pytest.mark.parametrize("writer", TEXTS)
def test_text_has_no_control_characters_and_the_same_lines(writer: str) -> None:
    lines = TEXTS[writer]("plain").count("\n")
    for text in STRINGS:
        written = TEXTS[writer](text)
        written.encode()
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", written), (
            text
        )
        if writer != "ablate" and len(text) < 8:  # notes are wrapped
            assert written.count("\n") == lines, text


@pytest.mark.parametrize("writer", ["show --format markdown", "table.md"])
def test_markdown_tables_keep_their_columns(writer: str) -> None:
    def bars(written: str) -> list[int]:
        lines = [line for line in written.splitlines() if line.startswith("|")]
        return [len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in lines]

    usual = bars(TEXTS[writer]("plain"))
    for text in STRINGS:
        written = TEXTS[writer](text)
        assert bars(written) == usual, text
        assert not re.search(r"(?<!\\)(?:\\\\)*<\w", written), text


def test_csv_has_the_same_cells_and_no_formulas() -> None:
    for text in STRINGS:
        for written in (summary_csv(results(text)), runs_csv(results(text))):
            rows = list(csv.DictReader(io.StringIO(written)))
            assert len(rows) == (4 if "mean" in rows[0] else 8), text
            for row in rows:
                title = row.get("title", "")
                assert not title.lstrip().startswith(("=", "+", "-", "@")), text


@some_or_all
def test_exported_python_has_the_same_statements(every: int) -> None:
    def shape(source: str) -> list[str]:
        return [type(part).__name__ for part in ast.parse(source).body]

    usual = shape(to_python(injected("plain")))
    for text in STRINGS[::every]:
        assert shape(to_python(injected(text))) == usual, text


# --- specs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [*range(9), 9, 11, 12, 13, 27, 31, 127, 133, 155, 0x2028, 0x202E])
@pytest.mark.parametrize("key", ["title: {}", "name: {}", "description: {}", "{}: 1"])
def test_specs_refuse_control_characters(code: int, key: str) -> None:
    escaped = f'"a\\u{code:04x}b"'
    text = re.sub("name: tiny\ntitle: Tiny", "\n" + key.format(escaped.replace("\\", "\\\\")), SPEC)
    with pytest.raises(SpecError, match=f"U\\+{code:04X}") as caught:
        ls.loads(text)
    (finding,) = caught.value.findings
    assert finding.place is not None
    assert finding.place.line == 3
    assert "remove" in finding.hint


def test_titles_and_labels_are_one_line() -> None:
    for text in (
        SPEC.replace("title: Tiny", 'title: "a\\nb"'),
        SPEC.replace("label: L", 'label: "a\\nb"'),
        SPEC.replace("label: A", 'label: "a\\nb"'),
        SPEC.replace("label: D", "label: 'a\n\n\n      b'"),
    ):
        with pytest.raises(SpecError, match="a text on one line is needed") as caught:
            ls.loads(text)
        assert caught.value.findings[0].place is not None
    block = SPEC.replace("title: Tiny", "title: >\n  two\n  lines")
    assert ls.loads(block).title == "two lines"


def test_commands_escape_what_they_print(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "no\x1b[31m.yaml"]) == 2
    assert main(["evaluate", "no\x1b[31m"]) == 2
    assert "\x1b" not in capsys.readouterr().err
