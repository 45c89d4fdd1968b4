"""The README as a package index shows it: such a page has none of the repository's other files."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hatchling.metadata.plugin.interface import MetadataHookInterface

IMAGE = re.compile(r"!\[[^]]*\]\((?P<md>[^)]+)\)|<img src=\"(?P<html>[^\"]+)\"[^>]*>")
LINK = re.compile(r"(?<!!)\[(?P<text>[^]]+)\]\((?P<target>(?!https?:)[^)]+)\)")
CLONE = re.compile(r"[^\n]*<!-- clone -->\n\n```sh\n.*?```", re.DOTALL)
INSTALL = """```sh
pip install 'ladderspec[torch,data,plot]'  # for all of this page; alone, it checks and draws
```"""
SCP = re.compile(r"(?:[^@/:]+@)?([^@/:]+):(?!//)(.+)")  # git@host:owner/name.git
HOST = re.compile(r"[\w-]+(\.[\w-]+)+", re.ASCII)
LOCAL = ("local", "localdomain", "localhost", "lan", "home", "internal", "intranet", "corp")
PATH = re.compile(r"[\w./~+-]+", re.ASCII)
PAGES = re.compile(r"(?<=## Documentation\n\n)(\|.*\n)+")
NO_PAGES = (
    "All pages are in the folder `docs` of the source distribution."
    " `ladderspec --help` lists the commands.\n"
)


class Readme(MetadataHookInterface):
    """Sets the project's URLs and its page, whose links are absolute if `Source` is known."""

    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        text = (root / "README.md").read_text(encoding="utf-8")
        hero = (root / "docs/hero.yaml").read_text(encoding="utf-8")
        urls = dict(self.config["urls"])
        if source := urls.get("Source") or source_of(root):
            urls["Source"] = source
        metadata["urls"] = urls
        text = for_index(text, hero, source)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def source_of(root: Path) -> str:
    """The web address of a clone's remote `origin`, or an empty text if others could not open it.

    A source distribution needs none: hatchling takes what we wrote into it.
    """
    if not (root / ".git").exists():  # or git would find a repository further up
        return ""
    command = ["git", "-C", str(root), "config", "--get", "remote.origin.url"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return web_address(done.stdout.strip())
    except (OSError, ValueError):  # no git; no address
        return ""


def web_address(remote: str) -> str:
    """The web page of a remote on a public host, without its user, password and SSH port.

    Empty for paths, for hosts of a local network, and for what is no address.
    """
    if found := SCP.fullmatch(remote):
        remote = f"ssh://{found[1]}/{found[2]}"
    parts = urlsplit(remote)
    host, path = parts.hostname or "", parts.path.strip("/").removesuffix(".git")
    if parts.scheme not in ("https", "ssh") or not PATH.fullmatch(path) or not _is_public(host):
        return ""
    port = f":{parts.port}" if parts.port and parts.scheme == "https" else ""
    return f"https://{host}{port}/{path}"


def _is_public(host: str) -> bool:
    domain = host.rpartition(".")[2]
    return bool(HOST.fullmatch(host)) and domain not in LOCAL and not domain.isdigit()


def for_index(text: str, hero: str, source: str = "") -> str:
    """The README for readers who have no clone: with the YAML of the first image as a text.

    Without `source`, there is nothing that an index could show or link to: images and the table of
    pages are left out, links become words.

    Args:
        text: The README.
        hero: The YAML of the first image.
        source: The address of the repository.
    """
    text = CLONE.sub(INSTALL, text).replace("docs/hero.yaml", "hero.yaml")
    yaml = f"`hero.yaml`:\n\n```yaml\n{hero}```"
    text = IMAGE.sub(lambda image: f"{image[0]}\n\n{yaml}", text, count=1)
    if source:
        view = f"{source}/-" if urlsplit(source).hostname.startswith("gitlab.") else source
        text = LINK.sub(rf"[\g<text>]({view}/blob/HEAD/\g<target>)", text)
        return IMAGE.sub(lambda found: _absolute(found, f"{view}/raw/HEAD/"), text)
    text = LINK.sub(r"\g<text>", IMAGE.sub("", PAGES.sub(NO_PAGES, text)))
    return re.sub(r"\n{3,}", "\n\n", text)


def _absolute(found: re.Match[str], base: str) -> str:
    path = found["md"] or found["html"]
    return found[0].replace(path, base + path, 1)
