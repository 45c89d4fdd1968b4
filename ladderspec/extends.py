"""Files -> tree: reading, decoding, and `extends`."""

from __future__ import annotations

from pathlib import Path

from ladderspec.errors import Finding, Findings, Source, SpecError
from ladderspec.tree import Node, parse


def read_source(path: Path, name: str | None = None) -> Source:
    """A file's text; CRLF and a byte order mark are read past."""
    name = name or str(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SpecError([Finding("F001", f"cannot read {name}: {reason}")]) from None
    return decode(name, data)


def decode(name: str, data: bytes) -> Source:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"{name} is not UTF-8: byte {data[error.start]:#04x} on line {line}"
        raise SpecError([Finding("Y001", message, hint="save it as UTF-8")]) from None
    return Source(name, text.replace("\r\n", "\n").replace("\r", "\n"))


def extend(tree: Node, path: Path | None, root: Path | None, findings: Findings) -> Node:
    """Put the words of the file that `extends` names under those of this one."""
    seen = [path.resolve()] if path else []
    layers = [tree]
    while (link := layers[-1].get("extends")) is not None and link.value is not None:
        problem = _linked(link, seen[-1] if seen else None, root, seen)
        if isinstance(problem, Finding):
            findings.add(problem)
            break
        try:
            base = parse(read_source(problem, _shown(problem, link)), findings)
        except SpecError as error:
            unread = error.findings[0]
            if unread.code == "F001":
                unread = Finding("S110", unread.message, link.place, link.path)
            findings.add(unread)
            break
        seen.append(problem)
        layers.append(base)
    merged = layers.pop()
    while layers:
        merged = merge(_without_expect(merged), layers.pop())
    return merged


def _linked(link: Node, here: Path | None, root: Path | None, seen: list[Path]) -> Path | Finding:
    def refuse(message: str, hint: str = "") -> Finding:
        return Finding("S110", message, link.place, link.path, hint)

    if not isinstance(link.value, str):
        return refuse("`extends` names a file")
    if here is None:
        return refuse("`extends` needs a file to be relative to", "save the spec to a file")
    target = (here.parent / link.value).resolve()
    if target in seen:
        chain = " -> ".join(p.name for p in [*seen[seen.index(target) :], target])
        return refuse(f"`extends` goes in a circle: {chain}")
    allowed = (root or seen[0].parent).resolve()
    if not target.is_relative_to(allowed):
        return refuse(
            f"`{link.value}` lies outside {allowed.name or allowed}/",
            "a spec extends files of its own folder tree; `--root` widens it",
        )
    return target


def _shown(target: Path, link: Node) -> str:
    """A base file's name as the user would write it."""
    return str(Path(link.source.name).parent / str(link.value)) if link.value else str(target)


def _without_expect(tree: Node) -> Node:
    """`expect` holds for the file that says it, and is not inherited."""
    tree = _dropped(tree, "expect")
    variants = tree.get("variants")
    if variants is None or not isinstance(variants.value, dict):
        return tree
    kept = {name: _dropped(variant, "expect") for name, variant in variants.value.items()}
    return tree.replaced({**tree.value, "variants": variants.replaced(kept)})


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
    result.keys = {**base.keys, **over.keys} if base.source is over.source else over.keys
    return result
