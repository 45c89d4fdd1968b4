"""The documentation site: pages from outside `docs/`, and links that lead out of it.

README.md is the home page. Other pages of the repository keep their paths. Links to source files
become plain text, because the site does not contain them.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "index.md": "README.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "benchmarks/RESULTS.md": "benchmarks/RESULTS.md",
    "examples/message_passing/README.md": "examples/message_passing/README.md",
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
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Rewrite links from places in the repository to places in the site."""
    here = page.file.src_uri
    source = PAGES.get(here, f"docs/{here}")
    parts = re.split(r"(```.*?```)", markdown, flags=re.DOTALL)
    return "".join(
        part if part.startswith("```") else _rewritten(part, source, here, files) for part in parts
    )


def _rewritten(text: str, source: str, here: str, files: Files) -> str:
    def target(path: str) -> str | None:
        """Where a file of the repository is in the site, seen from this page."""
        found = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        inside = next((place for place, origin in PAGES.items() if origin == found), None)
        inside = inside or found.removeprefix("docs/")
        if files.get_file_from_path(inside) is None:
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

    return IMAGE.sub(image, WHOLE.sub(link, text))
