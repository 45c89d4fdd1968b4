"""Formats: the registry, well-formed and reproducible files, the same picture in every program."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any
from unicodedata import combining
from xml.etree import ElementTree

import pytest

from drawing.pictures import GROUPED, SPECS, shipped
from ladderspec.api import load, loads
from ladderspec.cli import main
from ladderspec.drawing import dot, draw, formats, ladder, render, scene_of, svg
from ladderspec.drawing.formats.graphviz_scene import to_dot
from ladderspec.drawing.formats.svg import to_svg
from ladderspec.drawing.formats.tikz import to_tikz, typeset_runs, typeset_tex
from ladderspec.drawing.paths import end_of, head
from ladderspec.drawing.scene import Scene, Wire
from ladderspec.drawing.typesetting import TextRun, text_of
from ladderspec.errors import UsageError
from ladderspec.plugins import load_plugin

UNET = SPECS / "related/unet.yaml"
TEXTS = {"svg": to_svg, "gv": to_dot, "tex": to_tikz}
SMALLEST = """
name: smallest
title: The smallest ladder
input: {channels: 1, size: [8, 8]}
time: {frames: any}
levels:
  - name: lstm
    encoder: {cell: ConvLSTM, channels: 4}
    decoder: {cell: convG3, filter: 3, label: 'x\u0302'}
  - name: top
    encoder: {cell: Conv, channels: 4}
    decoder: {cell: convG3, filter: 3}
edges:
  add: [{arrow: decoder.input(t-1) -> encoder.top, label: 'w_x m_y & <more>'}]
tasks:
  next: {kind: prediction, at: decoder.input, weight: 100}
"""
need_dot = pytest.mark.skipif(not shutil.which("dot"), reason="not checked: no `dot` here")
need_latex = pytest.mark.skipif(not shutil.which("pdflatex"), reason="not checked: no `pdflatex`")


@pytest.mark.parametrize("form", TEXTS)
def test_golden(form: str, golden: object) -> None:
    text = render(loads(SMALLEST), form)
    golden(f"draw_smallest.{form}", text)  # type: ignore[operator]


@pytest.mark.parametrize("view", ["unrolled", "rolled", "mini"])
@pytest.mark.parametrize("form", TEXTS)
def test_same_input_same_bytes(view: str, form: str) -> None:
    spec = load(SPECS / "ommnist/appendix_c.yaml")
    once = render(spec, form, view=view, plan=True)
    assert once == render(load(SPECS / "ommnist/appendix_c.yaml"), form, view=view, plan=True)


@pytest.mark.parametrize("form", TEXTS)
def test_same_bytes_in_another_process(form: str) -> None:
    """Independent of hash seeds."""
    program = (
        "import sys; from ladderspec.api import load; from ladderspec.drawing import render;"
        f"sys.stdout.write(render(load({str(UNET)!r}), {form!r}))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1
    assert texts.pop().decode() == render(load(UNET), form)


def test_no_torch_and_no_graphviz_for_an_svg() -> None:
    program = (
        "import sys; from ladderspec.api import load; from ladderspec.drawing import svg;"
        f"svg(load({str(UNET)!r}), plan=True);"
        "print({'torch', 'graphviz', 'numpy', 'subprocess'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


# --- registry -------------------------------------------------------------------------------------

OUTLINE = """
from ladderspec.drawing.formats import Format, register

@register
class Outline(Format):
    suffixes = ("outline", "toc")

    def write(self, drawing):
        return "\\n".join(box.node for box in drawing.scene.boxes)
"""


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Formats registered by one test alone."""
    monkeypatch.setattr(formats, "_FORMATS", dict(formats.formats()))


def test_built_in_formats_are_registered() -> None:
    assert list(formats.formats()) == ["dot", "gv", "html", "pdf", "png", "svg", "tex"]
    needing = {name for name, form in formats.formats().items() if form.needs_graphviz}
    assert needing == {"pdf", "png"}


@pytest.mark.usefixtures("own_registry")
def test_a_new_format_is_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="no format `toc`"):
        render(load(UNET), "toc")
    plugin = tmp_path / "outline.py"
    plugin.write_text(OUTLINE)
    load_plugin(plugin)
    (written,) = draw(load(UNET), tmp_path / "a.outline", view="rolled")
    assert "decoder.input" in written.read_text().splitlines()
    assert render(load(UNET), "toc", view="rolled") == written.read_text()
    with pytest.raises(UsageError, match="no format `outlin`: did you mean `outline`"):
        render(load(UNET), "outlin")
    with pytest.raises(UsageError, match="cannot be written as outline"):
        render(load(UNET), "outline", layout="dot")
    assert main(["draw", str(UNET), "-o", "-", "--format", "toc", "--view", "rolled"]) == 0
    assert capsys.readouterr().out == written.read_text()


@pytest.mark.usefixtures("own_registry")
def test_a_new_format_from_the_command_line(tmp_path: Path) -> None:
    plugin = tmp_path / "outline.py"
    plugin.write_text(OUTLINE)
    path = tmp_path / "a.outline"
    assert main(["draw", str(UNET), "--plugin", str(plugin), "-o", str(path)]) == 0
    assert "encoder.input" in path.read_text()


@pytest.mark.usefixtures("own_registry")
def test_a_format_of_a_user_can_replace_another() -> None:
    class Nodes(formats.Format):
        suffixes = ("nodes",)

        def write(self, drawing: Any) -> str:
            return str(len(drawing.scene.boxes))

    class Again(Nodes):
        def write(self, drawing: Any) -> str:
            return "again"

    formats.register(Nodes)
    assert render(load(UNET), "nodes") == str(len(scene_of(load(UNET)).boxes))
    formats.register(Again)
    assert render(load(UNET), "nodes") == "again"


@pytest.mark.parametrize("suffixes", ['("svg",)', '("outline", "dot")'])
def test_a_format_cannot_replace_a_built_in_one(tmp_path: Path, suffixes: str) -> None:
    """Not even if its plug-in is loaded before the built-in formats."""
    plugin = tmp_path / "outline.py"
    plugin.write_text(OUTLINE.replace('("outline", "toc")', suffixes))
    program = (
        "import sys; from ladderspec.plugins import load_plugin\n"
        "try:\n"
        "    load_plugin(sys.argv[1])\n"
        "except Exception as error:\n"
        "    print(error)\n"
        "from ladderspec.drawing.formats import formats; print(*formats())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, plugin], capture_output=True, text=True, check=True
    )
    message, known = done.stdout.splitlines()
    name = suffixes.split('"')[-2]
    assert message.endswith(f"there is a format `{name}` in ladderspec: give yours another name")
    assert known == "dot gv html pdf png svg tex"


# --- svg ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", shipped())
def test_svg_is_well_formed(name: str) -> None:
    path, _, variant = name.partition(":")
    root = ElementTree.fromstring(svg(load(SPECS / path, variant or None)))
    space = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{space}svg"
    assert root.get("role") == "img"
    assert root.find(f"{space}title") is not None
    assert root.find(f"{space}desc") is not None
    assert not any(element.get("id") for element in root.iter()), "many may share a page"


def test_svg_has_data_attributes() -> None:
    root = ElementTree.fromstring(svg(loads(SMALLEST)))
    groups = [element for element in root.iter() if element.get("class")]
    nodes = {(g.get("data-node"), g.get("data-iteration")) for g in groups if g.get("data-node")}
    assert ("encoder.lstm", "0") in nodes
    states = [g for g in groups if g.get("data-role") == "state"]
    assert [g.get("data-delay") for g in states] == ["1"]


def test_svg_escapes_text() -> None:
    root = ElementTree.fromstring(svg(loads(SMALLEST), title='a "title" & <so on>'))
    assert root.get("aria-label") == 'a "title" & <so on>'
    assert "&" in "".join(root.itertext())


# --- Graphviz -------------------------------------------------------------------------------------


def _plain(text: str, engine: list[str]) -> dict[str, tuple[float, float]]:
    done = subprocess.run(
        ["dot", *engine, "-Tplain"], input=text, capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("node")]
    return {row[1].strip('"'): (72 * float(row[2]), 72 * float(row[3])) for row in rows}


@need_dot
@pytest.mark.parametrize("view", ["unrolled", "rolled"])
@pytest.mark.parametrize("engine", [[], ["-Kdot"], ["-Kneato", "-n2"]])
def test_graphviz_uses_our_positions(view: str, engine: list[str]) -> None:
    scene = scene_of(load(UNET), view=view)
    places = _plain(to_dot(scene), engine)
    last = max(box.iteration for box in scene.boxes)
    for box in scene.boxes:
        back = last - box.iteration
        x, y = places[f"{box.node}(t-{back})" if back else box.node]
        assert x == pytest.approx(box.rect.centre[0], abs=1)
        assert scene.height - y == pytest.approx(box.rect.centre[1], abs=1)


@need_dot
def test_graphviz_uses_our_splines_without_warnings() -> None:
    spec = load(UNET, "feedback")
    done = subprocess.run(
        ["dot", "-Tsvg"], input=to_dot(scene_of(spec)), capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    edges = [
        element
        for element in ElementTree.fromstring(done.stdout).iter()
        if (element.get("class") or "").startswith("edge state")
    ]
    scene = scene_of(spec)
    states = [wire for wire in scene.wires if wire.role == "state"]
    assert len(edges) == len(states)
    for element, wire in zip(edges, states, strict=True):
        path = next(child.get("d") or "" for child in element if child.tag.endswith("path"))
        x, y = (float(word) for word in path[1:].split("C")[0].split(","))
        assert x == pytest.approx(wire.start[0], abs=1)
        assert -y == pytest.approx(scene.height - wire.start[1], abs=1)


MATHS = SMALLEST.replace("x\u0302", r"\tilde{m}_z, \vec{X}")


def _drawn(scene: Scene) -> ElementTree.Element:
    """The SVG that Graphviz makes of a scene."""
    command, text = ["dot", "-Tsvg"], to_dot(scene)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return ElementTree.fromstring(done.stdout)


@need_dot
@pytest.mark.parametrize("view", ["unrolled", "rolled"])
def test_graphviz_draws_our_heads(view: str) -> None:
    """Tips end at the boxes and heads are as large as in the SVG."""
    scene = scene_of(loads(MATHS), view=view, theme="mono", plan=True)
    shapes = [e for e in _drawn(scene).iter() if e.tag.endswith("polygon")]
    found = {_corners(e.get("points") or "") for e in shapes}
    wires = [*scene.wires, *(each for each in scene.samples if isinstance(each, Wire))]
    for wire in wires:
        ours = head(end_of(wire.segments[-1]), wire.tip, wire.ink.width)
        assert frozenset((round(x), round(y - scene.height)) for x, y in ours) in found


def _corners(points: str) -> frozenset[tuple[int, int]]:
    pairs = [pair.split(",") for pair in points.split()]
    return frozenset((round(float(x)), round(float(y))) for x, y in pairs)


@need_dot
def test_graphviz_uses_our_text_positions() -> None:
    """Every text has our size and base line; accents are separate, above their letter."""
    scene = scene_of(loads(MATHS))
    written = [e for e in _drawn(scene).iter() if e.tag.endswith("text")]
    found = {
        ("".join(e.itertext()), float(e.get("font-size") or 0)): (e.get("x"), e.get("y"))
        for e in written
    }
    boxes = [text for box in scene.boxes for text in box.all_texts]
    single = [text for text in (*boxes, *scene.texts) if len(text.runs) == 1]
    assert len(single) > 10
    bases = [(e, float(e.get("y") or 0) + scene.height) for e in written]
    for text in single:
        near = [
            e.get("font-size")
            for e, base in bases
            if "".join(e.itertext()) == text.runs[0].text and abs(base - text.y) < 0.8
        ]
        assert f"{text.size:.2f}" in near, text
    for text in single:
        if text.anchor != "middle" and not any(map(combining, text.runs[0].text)):
            x = found[text.runs[0].text, round(text.size, 2)][0]
            assert float(x or 0) == pytest.approx(text.x, abs=1), text
    signs = "".join(sign for sign, _ in found)
    assert not any(map(combining, signs))
    (x, low), (over, _) = found["m", 10.5], found["\u02dc", 10.5]
    assert float(x or 0) == pytest.approx(float(over or 0), abs=2)
    below = next(
        float(y or 0) for (sign, size), (_, y) in found.items() if (sign, size < 9) == ("z", True)
    )
    assert below - float(low or 0) == pytest.approx(0.34 * 10.5, abs=0.8)


@need_dot
def test_graphviz_sets_runs_of_one_height_side_by_side() -> None:
    """In one label on one base line, so that they cannot overlap in wide fonts."""
    scene = scene_of(loads(GROUPED), plan=True)
    labels = [re.sub("<.*?>", "", label) for label in re.findall(r"label=<(.*)>\]", to_dot(scene))]
    assert {"π, μ: Readout 4\u00d74", "loop over t", "K = 3"} <= {*labels}
    bases = [
        (e.text, float(e.get("y") or 0) + scene.height)
        for e in _drawn(scene).iter()
        if e.tag.endswith("text")
    ]
    (text,) = [text for text in scene.texts if text_of(text.runs) == "loop over t"]
    assert any(part == "loop over " and abs(base - text.y) < 0.8 for part, base in bases)


@need_dot
@pytest.mark.parametrize("form", ["png", "pdf"])
def test_images(form: str) -> None:
    image = render(load(UNET), form)
    assert isinstance(image, bytes)
    assert image.startswith({"png": b"\x89PNG", "pdf": b"%PDF"}[form])


def test_an_object_of_the_package_graphviz() -> None:
    source = dot(load(UNET), view="rolled")
    assert "layout=nop2" in source.source
    assert source.filename == "convlstm-unet.gv"
    if shutil.which("dot"):
        assert source.pipe(format="svg").startswith(b"<?xml")


def test_automatic_layout() -> None:
    spec = load(SPECS / "related/feedback_convrnn.yaml", "no_feedback")
    base = load(SPECS / "related/feedback_convrnn.yaml")
    text = str(render(spec, "gv", layout="dot", base=base))
    assert "layout=dot" in text
    assert "pos=" not in text
    for role in ("gru4", "gru1"):
        assert role in text
    if shutil.which("dot"):
        assert str(render(spec, "svg", layout="dot"))[:5] == "<?xml"


def test_automatic_layout_supports_titles_formulas_and_legends() -> None:
    text = str(render(loads(MATHS), "gv", layout="dot", title="A <title>"))
    assert "<b>A &lt;title&gt;</b>" in text
    assert '<i><font face="Times,serif">w</font></i><sub>' in text  # of `w_x`
    assert 'penwidth="2.2"' in text  # of the cell with a state
    for word in ("encoder", "lateral", "decoder", "state", "skip"):
        assert f"</font> {word}" in text
    assert "</font> state" not in str(render(loads(MATHS), "gv", layout="dot", legend=False))


@need_dot
@pytest.mark.parametrize(
    "name", ["ommnist/rladder.yaml", "related/unet.yaml", "music/rladder.yaml"]
)
def test_automatic_layout_has_the_encoder_at_the_left(name: str) -> None:
    text = str(render(load(SPECS / name), "gv", layout="dot"))
    done = subprocess.run(
        ["dot", "-Tplain"], input=text, capture_output=True, text=True, check=True
    )
    words = [line.split() for line in done.stdout.splitlines() if line.startswith("node")]
    x = {node.strip('"'): float(at) for _, node, at, *_ in words}
    for node, at in x.items():
        side, _, level = node.partition(".")
        if side == "encoder" and f"decoder.{level}" in x:
            assert at < x[f"decoder.{level}"], node


@need_dot
def test_png_states_its_resolution() -> None:
    for dpi in (72, 300):
        image = render(loads(SMALLEST), "png", dpi=dpi)
        assert isinstance(image, bytes)
        at = image.index(b"pHYs") + 4
        assert int.from_bytes(image[at : at + 4], "big") == round(dpi / 0.0254)
        width = int.from_bytes(image[16:20], "big")
        assert width == pytest.approx(scene_of(loads(SMALLEST)).width * dpi / 72, abs=5)
    with pytest.raises(UsageError, match="no dpi `9`: 20 to 2400 dots per inch"):
        render(loads(SMALLEST), "png", dpi=9)


@pytest.mark.parametrize(
    "options",
    [
        {"iterations": 2}, {"plan": True}, {"view": "mini"}, {"start": True}, {"width": "9cm"},
        {"levels": "numbers"}, {"plates": {"K": ["lstm"]}},
    ],
)  # fmt: skip
def test_automatic_layout_refuses_the_rest(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="layout `dot` cannot show `"):
        render(loads(SMALLEST), "gv", layout="dot", **options)


# --- TikZ -----------------------------------------------------------------------------------------

CASES = [
    ("ommnist/rladder.yaml", {}),
    ("ommnist/appendix_c.yaml", {"view": "rolled", "fold": True, "theme": "mono"}),
    ("related/video_ladder.yaml", {"theme": "dark", "plates": {"K": ["conv*"]}}),
    ("music/rladder.yaml", {"view": "mini"}),
    ("related/feedback_convrnn.yaml", {"iterations": 1, "plan": True}),
    ("textured/rtagger.yaml", {"view": "rolled"}),
    ("ommnist/rladder.yaml", {"width": "8.5cm", "worth": {"lateral": 2.0, "state": -1.0}}),
]


@need_latex
@pytest.mark.parametrize(("name", "options"), CASES)
def test_tikz_compiles_by_itself(name: str, options: dict[str, object], tmp_path: Path) -> None:
    file = tmp_path / "ladder.tex"
    draw(load(SPECS / name), file, **options)
    pages = _latex(file)
    log = file.with_suffix(".log").read_text(encoding="latin-1")
    assert "Warning" not in log, "fonts in sizes that exist"
    assert "Overfull" not in log
    scene = scene_of(load(SPECS / name), **options)  # type: ignore[arg-type]
    assert pages == 1
    if shutil.which("pdfinfo"):
        printed = subprocess.run(
            ["pdfinfo", tmp_path / "ladder.pdf"], capture_output=True, text=True, check=True
        ).stdout
        size = next(line for line in printed.splitlines() if line.startswith("Page size"))
        width, height = float(size.split()[2]), float(size.split()[4])
        paper = (scene.width * scene.scale, scene.height * scene.scale)
        assert (width, height) == pytest.approx(paper, abs=1)


@need_latex
def test_tikz_compiles_inside_a_paper(tmp_path: Path) -> None:
    draw(loads(SMALLEST), tmp_path / "ladder.tex")
    paper = tmp_path / "paper.tex"
    paper.write_text(
        r"\documentclass{article}\usepackage{tikz}\begin{document}Before."
        r"\begin{figure}\input{ladder}\caption{A ladder.}\end{figure}After.\end{document}"
    )
    assert _latex(paper) == 1


def test_tikz_can_be_edited() -> None:
    """Boxes have names, arrows between them use these, looks have styles, sizes are in points."""
    scene = scene_of(load(SPECS / "ommnist/rladder.yaml"), view="rolled", width="8.5cm")
    text = to_tikz(scene)
    for box in scene.boxes:
        assert f"({box.node.replace('.', '-')}) at (" in text
    assert r"\draw[lateral arrow] (encoder-input) -- (decoder-input);" in text
    assert r"\draw[encoder arrow] (encoder-input) -- (encoder-lstm1);" in text
    for style in ("encoder", "decoder", "encoder state", "task", "state arrow", "decoder arrow"):
        assert f"  {style}/.style={{" in text
    assert "scalebox" not in text
    assert not re.search(r"\d ?bp", text)
    sizes = {float(size) for size in re.findall(r"fontsize{([0-9.]+)pt}", text)}
    assert min(sizes) >= 7
    unrolled = to_tikz(scene_of(loads(SMALLEST)))
    assert "(encoder-top-t1) at (" in unrolled


def _latex(file: Path) -> int:
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", file.name],
        cwd=file.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    return int(done.stdout.rpartition("(")[2].split()[0])  # Output written on x.pdf (1 page, ...)


@need_latex
def test_formulas_of_any_runs_compile(tmp_path: Path) -> None:
    """Scripts after scripts, primes and powers are no double scripts for TeX."""
    texts = ("x", "t-1", "'", "\u2032", "\u00b2", "ab c", "x\u0302")
    runs = [TextRun(text, face, shift) for text in texts for face, shift in
            (("italic", 0), ("serif", 1), ("serif", -1), ("sans", -1))]  # fmt: skip
    lines = [typeset_runs(three) for three in product(runs[::3], runs[1::3], runs[2::3])]
    file = tmp_path / "formulas.tex"
    body = "\n\n".join(lines)
    file.write_text(rf"\documentclass{{article}}\begin{{document}}{body}\end{{document}}")
    assert _latex(file) > 0


def test_tikz_escapes_what_tex_would_read() -> None:
    assert typeset_tex("50% & a_b #1 {x} \\ ~ ^ $") == (
        r"50\% \& a\_b \#1 \{x\} \textbackslash{} \textasciitilde{} \textasciicircum{} \$"
    )
    assert typeset_tex("3\u00d73 \u2013 \u03c3") == r"3$\times $3 -- $\sigma $"
    assert typeset_tex("x\u0302 \u8a9e") == r"$\hat{x}$ $?$"


@need_latex
def test_tikz_of_every_ascii_character_compiles(tmp_path: Path) -> None:
    signs = " ".join(map(chr, range(33, 127))) + " \u2014 \u00e9 \u03c0 \u8a9e"
    draw(loads(SMALLEST), tmp_path / "signs.tex", title=signs)
    assert _latex(tmp_path / "signs.tex") == 1


# --- terminal -------------------------------------------------------------------------------------


def test_terminal_ladder(golden: object) -> None:
    text = ladder(load(UNET, "feedback"))
    golden("draw_unet.ladder.txt", text)  # type: ignore[operator]
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("name", shipped())
def test_terminal_ladder_in_ascii_names_every_arrow(name: str) -> None:
    path, _, variant = name.partition(":")
    spec = load(SPECS / path, variant or None)
    text = ladder(spec, ascii_only=True)
    assert text.isascii()
    unicode = ladder(spec)
    assert len(text.splitlines()) == len(unicode.splitlines())
    for cell in ("encoder.input",):
        assert cell not in text.splitlines()[0]


def test_terminal_ladder_lists_arrows_without_a_symbol() -> None:
    text = ladder(loads(SMALLEST))
    assert "decoder.input(t-1) -> encoder.top" in text
    assert "task next: MSE \u00d7 100 at decoder.input" in text
    folded = ladder(load(SPECS / "ommnist/rladder.yaml"), fold=True)
    assert "2 \u00d7 Conv 3\u00d73" in folded
