"""Files -> tree: reading, decoding, and `extends`."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from ladderspec.errors import (
    Finding,
    Findings,
    Place,
    Source,
    SpecError,
    did_you_mean,
    reason,
    tick,
)
from ladderspec.shipped import PREFIX, folder, located, suggestion
from ladderspec.text.tree import MAX_CHARACTERS, Node, parse

MAX_BYTES = 4 * MAX_CHARACTERS  # the most that UTF-8 needs


def read_source(path: Path, name: str | None = None) -> Source:
    """The text of a file, without CRLF and byte order mark."""
    name = name or str(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        finding = Finding("F001", f"cannot read {name}: {reason(error)}", hint=_similar(path))
        raise SpecError([finding]) from None
    return decode(name, data)


def read_stdin() -> Source:
    return decode("<stdin>", sys.stdin.buffer.read(MAX_BYTES + 1))


def _similar(path: Path) -> str:
    """A file in the same folder that may have been meant."""
    try:
        names = {each.stem: each.name for each in sorted(path.parent.glob("*.y*ml"))}
    except (OSError, ValueError):
        return ""
    names = {stem: name for stem, name in names.items() if name != path.name}
    close = did_you_mean(path.stem, names)
    if close:
        return f"did you mean `{names[close.split('`')[1]]}`?"
    return suggestion(path.as_posix().removesuffix(path.suffix), close=False)


def decode(name: str, data: bytes) -> Source:
    if len(data) > MAX_BYTES:
        raise SpecError([Finding("Y008", f"{name} has more than {MAX_BYTES:,} bytes")])
    try:
        return plain_source(name, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        wrong = f"byte {data[error.start]:#04x}"
        kind = "UTF-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
        message = f"{name} is {kind}, not UTF-8" if kind else f"{name} is not UTF-8: {wrong}"
        shown = Source(name, data.decode("utf-8", "replace").replace("\r\n", "\n"))
        at = len(data[: error.start].decode("utf-8", "replace").replace("\r\n", "\n"))
        place = None if kind else Place(shown, at, at + 1)
        finding = Finding("Y001", message, place, hint="save it as UTF-8")
        raise SpecError([finding]) from None


def plain_source(name: str, text: str) -> Source:
    """A text with one kind of line break and no byte order mark."""
    text = text.removeprefix("\ufeff")
    return Source(name, text.replace("\r\n", "\n").replace("\r", "\n"))


# --- extends --------------------------------------------------------------------------------------


def extend(
    tree: Node, path: Path | None, root: Path | None, findings: Findings, advice: str = ""
) -> tuple[Node, bool]:
    """Merge this file over the file that `extends` names, and that over its base.

    `advice` is a hint for files outside of the folder tree. The second value is False if a base
    could not be read: fields may then be missing.
    """
    seen = [path.resolve()] if path else []
    layers, whole = [tree], True
    while (link := layers[-1].get("extends")) is not None and link.value is not None:
        base = _base(link, seen, root, findings, advice)
        if base is None:
            whole = False
            break
        layers.append(base)
    merged = layers.pop()
    while layers:
        merged = merge(without_expect(merged), layers.pop())
    return merged, whole


def _base(
    link: Node, seen: list[Path], root: Path | None, findings: Findings, advice: str
) -> Node | None:
    """The tree of the file that `link` names, which is added to `seen`."""
    try:
        target = _target(link, seen, root, advice)
        if isinstance(target, Finding):
            findings.add(target)
            return None
        base = parse(read_source(target, _shown(link, target)), findings)
    except SpecError as error:
        for found in error.findings:
            where = (link.place, link.path) if found.place is None else (found.place, found.path)
            code = "S110" if found.code == "F001" else found.code
            findings.add(Finding(code, found.message, *where, found.hint))
        return None
    if not isinstance(base.value, dict):
        findings.add(Finding("S110", "a spec to build on must be a mapping", base.place))
        return None
    seen.append(target)
    return base


def _target(link: Node, seen: list[Path], root: Path | None, advice: str) -> Path | Finding:
    def refuse(message: str, hint: str = "") -> Finding:
        return Finding("S110", message, link.place, link.path, hint)

    name = link.value
    if not isinstance(name, str) or not name.strip():
        return refuse("`extends` names one file", "like `extends: base.yaml`")
    if name.startswith(PREFIX):
        target = located(name).resolve()
        return refuse(f"`extends` goes in a circle: {name}") if target in seen else target
    if "://" in name or Path(name).is_absolute():
        return refuse(f"{tick(name)} is not relative to this file", "like `extends: base.yaml`")
    if not seen:
        return refuse("`extends` needs a file to be relative to", "save the spec to a file")
    try:
        target = (seen[-1].parent / name).resolve()
        regular = not os.path.exists(target) or stat.S_ISREG(target.stat().st_mode)
    except (OSError, RuntimeError, ValueError):
        return refuse(f"{tick(name)} cannot be read")
    if target in seen:
        chain = " -> ".join(p.name for p in [*seen[seen.index(target) :], target])
        return refuse(f"`extends` goes in a circle: {chain}")
    allowed = (root or seen[0].parent).resolve()
    if seen[-1].is_relative_to(folder()):  # a shipped file may build on any other
        allowed = folder()
    if not target.is_relative_to(allowed):
        hint = "; ".join(filter(None, ["a file builds on those of its own folder tree", advice]))
        return refuse(f"{tick(name)} lies outside `{allowed.name or allowed}/`", hint)
    return target if regular else refuse(f"{tick(name)} is not a file", "like `extends: base.yaml`")


def _shown(link: Node, target: Path) -> str:
    """The name of a base file as the user would write it."""
    if str(link.value).startswith(PREFIX):
        return str(target)
    return str(Path(link.source.name).parent / str(link.value))


def without_expect(tree: Node) -> Node:
    """Drop `expect`, which is not inherited."""
    tree = _dropped(tree, "expect")
    variants = tree.get("variants")
    if variants is None or not isinstance(variants.value, dict):
        return tree
    without = {name: _dropped(variant, "expect") for name, variant in variants.value.items()}
    return tree.replaced({**tree.value, "variants": variants.replaced(without)})


def _dropped(node: Node, key: str) -> Node:
    if node.get(key) is None:
        return node
    return node.replaced({k: v for k, v in node.value.items() if k != key})


def merge(base: Node, over: Node) -> Node:
    """Mappings merge, lists and scalars replace, null deletes."""
    if not isinstance(base.value, dict) or not isinstance(over.value, dict):
        return over
    merged = dict(base.value)
    for key, node in over.value.items():
        if node.value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged[key], node) if key in merged else node
    result = over.replaced(merged)
    result.keys = {**base.keys, **over.keys}
    return result
