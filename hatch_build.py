"""The README as a package index shows it: such a page has none of the repository's other files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

IMAGE = re.compile(r"!\[[^]]*\]\((?P<md>[^)]+)\)|<img src=\"(?P<html>[^\"]+)\"[^>]*>")
LINK = re.compile(r"(?<!!)\[(?P<text>[^]]+)\]\((?P<target>(?!https?:)[^)]+)\)")


class Readme(MetadataHookInterface):
    """Makes links and images absolute if `project.urls.Source` says where.

    Without that address there is nothing that an index could show or link to: links become words,
    the first image becomes the YAML that it shows, and the others are left out.
    """

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source", "")
        if not source:
            yaml = (Path(self.root) / "docs/hero.yaml").read_text(encoding="utf-8")
            text = IMAGE.sub(lambda _: f"```yaml\n{yaml}```", text, count=1)
        metadata["readme"] = {"content-type": "text/markdown", "text": for_index(text, source)}


def for_index(text: str, source: str = "") -> str:
    """The README for a package index.

    Args:
        text: The README.
        source: The address of the repository.
    """
    if not source:
        return re.sub(r"\n{3,}", "\n\n", LINK.sub(r"\g<text>", IMAGE.sub("", text)))
    text = LINK.sub(rf"[\g<text>]({source}/blob/HEAD/\g<target>)", text)
    return IMAGE.sub(lambda found: _absolute(found, f"{source}/raw/HEAD/"), text)


def _absolute(found: re.Match[str], base: str) -> str:
    path = found["md"] or found["html"]
    return found[0].replace(path, base + path, 1)
