"""The documentation site: pages from outside `docs/`, and links that lead out of it.

README.md is the home page. Other pages of the repository keep their paths, and notebooks become
pages with their saved outputs. Links to source files become plain text, because the site does not
contain them.
"""

from __future__ import annotations

import base64
import json
import posixpath
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "index.md": "README.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "benchmarks/RESULTS.md": "benchmarks/RESULTS.md",
    "benchmarks/NOTES.md": "benchmarks/NOTES.md",
    "examples/README.md": "examples/README.md",
    "examples/message_passing/README.md": "examples/message_passing/README.md",
}
NOTEBOOKS = {
    path.relative_to(ROOT).with_suffix(".md").as_posix(): path.relative_to(ROOT).as_posix()
    for path in sorted((ROOT / "examples").glob("*.ipynb"))
}
BESIDE = ("examples/message_passing/*.svg",)
WHOLE = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|#)([^)#\s]*)(#[^)\s]*)?\)")
IMAGE = re.compile(r'(?<=src=")(?!https?:)([^"]+)(?=")')


def on_files(files: Files, config: Any) -> Files:
    """Add the pages and pictures from outside `docs/`."""
    for place, source in PAGES.items():
        files.append(File.generated(config, place, content=(ROOT / source).read_text("utf-8")))
    for pattern in BESIDE:
        for path in ROOT.glob(pattern):
            place = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, place, abs_src_path=str(path)))
    for place, source in NOTEBOOKS.items():
        for name, content in notebook(ROOT / source).items():
            at = posixpath.join(posixpath.dirname(place), name)
            files.append(File.generated(config, at, content=content))
    return files


def notebook(path: Path) -> dict[str, str | bytes]:
    """A notebook as a page and the pictures of its outputs, by name of the file."""
    found: dict[str, str | bytes] = {}
    lines = list[str]()
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        text = "".join(cell["source"])
        lines += [text, ""] if cell["cell_type"] == "markdown" else _fenced(text, "python")
        for data in _outputs(cell):
            name = f"{path.stem}_{len(found)}"
            if "image/svg+xml" in data:
                found[f"{name}.svg"] = "".join(data["image/svg+xml"])
                lines += [f"![the output of this cell]({name}.svg)", ""]
            elif "image/png" in data:
                found[f"{name}.png"] = base64.b64decode("".join(data["image/png"]))
                lines += [f"![the output of this cell]({name}.png)", ""]
            elif "text/html" in data:
                lines += ["".join(data["text/html"]), ""]
            else:
                lines += _fenced("".join(data["text/plain"]).rstrip(), "text")
    note = f"*The notebook `{path.relative_to(ROOT).as_posix()}`, with its outputs.*"
    title, _, rest = "\n".join(lines).partition("\n")
    return {**found, f"{path.stem}.md": f"{title}\n\n{note}\n{rest}"}


def _outputs(cell: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The outputs of a cell by their types; printed texts in a row are one."""
    for printed, found in groupby(cell.get("outputs", ()), lambda output: "text" in output):
        if printed:
            yield {"text/plain": [line for output in found for line in output["text"]]}
        else:
            yield from (output["data"] for output in found)


def _fenced(text: str, kind: str) -> Iterator[str]:
    yield from (f"```{kind}", text, "```", "")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Rewrite links from places in the repository to places in the site."""
    here = page.file.src_uri
    source = (PAGES | NOTEBOOKS).get(here, f"docs/{here}")
    parts = re.split(r"(```.*?```)", markdown, flags=re.DOTALL)
    return "".join(
        part if part.startswith("```") else _rewritten(part, source, here, files) for part in parts
    )


def _rewritten(text: str, source: str, here: str, files: Files) -> str:
    def target(path: str) -> str | None:
        """Where a file of the repository is in the site, seen from this page."""
        found = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        pages = PAGES | NOTEBOOKS
        inside = next((place for place, origin in pages.items() if origin == found), None)
        inside = inside or found.removeprefix("docs/")
        file = files.get_file_from_path(inside)
        if file is None or file.inclusion.is_excluded():
            return None
        return posixpath.relpath(inside, posixpath.dirname(here) or ".")

    def link(found: re.Match[str]) -> str:
        mark, words, path, anchor = found[1], found[2], found[3], found[4] or ""
        place = target(path)
        return words if place is None else f"{mark}[{words}]({place}{anchor})"

    def image(found: re.Match[str]) -> str:
        place = target(found[1])
        up = "" if here.endswith("index.md") else "../"
        return found[1] if place is None else up + place

    if here in NOTEBOOKS:  # the pictures of a notebook are beside it in the site alone
        return text
    return IMAGE.sub(image, WHOLE.sub(link, text))
