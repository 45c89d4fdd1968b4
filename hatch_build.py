"""The README as a package index shows it: such a page has none of the repository's other files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

IMAGE = re.compile(r"!\[[^]]*\]\((?P<md>[^)]+)\)|<img src=\"(?P<html>[^\"]+)\"[^>]*>")
LINK = re.compile(r"(?<!!)\[(?P<text>[^]]+)\]\((?P<target>(?!https?:)[^)]+)\)")
CLONE = re.compile(r"[^\n]*<!-- clone -->\n\n```sh\n.*?```", re.DOTALL)
INSTALL = """```sh
pip install 'ladderspec[torch,data,plot]'  # for all of this page; alone, it checks and draws
```"""
PAGES = re.compile(r"(?<=## Documentation\n\n)(\|.*\n)+")
NO_PAGES = (
    "All pages are in the folder `docs` of the source distribution."
    " `ladderspec --help` lists the commands.\n"
)


class Readme(MetadataHookInterface):
    """Makes links and images absolute if `project.urls.Source` says where."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        hero = (Path(self.root) / "docs/hero.yaml").read_text(encoding="utf-8")
        text = for_index(text, hero, metadata.get("urls", {}).get("Source", ""))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def for_index(text: str, hero: str, source: str = "") -> str:
    """The README for readers who have no clone.

    Without `source`, there is nothing that an index could show or link to: the first image becomes
    the YAML that it shows, the others and the table of pages are left out, links become words.

    Args:
        text: The README.
        hero: The YAML of the first image.
        source: The address of the repository.
    """
    text = CLONE.sub(INSTALL, text).replace("docs/hero.yaml", "hero.yaml")
    if source:
        text = LINK.sub(rf"[\g<text>]({source}/blob/HEAD/\g<target>)", text)
        return IMAGE.sub(lambda found: _absolute(found, f"{source}/raw/HEAD/"), text)
    text = IMAGE.sub(lambda _: f"`hero.yaml`:\n\n```yaml\n{hero}```", text, count=1)
    text = LINK.sub(r"\g<text>", IMAGE.sub("", PAGES.sub(NO_PAGES, text)))
    return re.sub(r"\n{3,}", "\n\n", text)


def _absolute(found: re.Match[str], base: str) -> str:
    path = found["md"] or found["html"]
    return found[0].replace(path, base + path, 1)
