"""Tree -> tree: `set` changes fields of nodes, tasks and tables by name."""

from __future__ import annotations

from ladderspec.errors import Finding, Findings, did_you_mean, one_of, tick
from ladderspec.language.rows import row_names
from ladderspec.names import INPUT
from ladderspec.text.notation import matches
from ladderspec.text.tree import Node, Span

Path = tuple[str | int, ...]

_TABLES = {"task": "tasks", "lateral": "laterals"}
_EXAMPLES = "`encoder.NAME.FIELD`, `decoder.NAME.FIELD`, `task.NAME.FIELD` or `params.NAME`"


class Refused(Exception):
    """A path that leads nowhere."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


def assign(tree: Node, path: str, value: Node, at: Node, findings: Findings) -> Node:
    """Put `value` where `path` leads: `encoder.lstm1.channels`; `at` is the table that says so."""
    try:
        targets = _targets(tree, path)
    except Refused as refused:
        place, where = at.key_place(path), f"{at.path}.{path}".lstrip(".")
        findings.add(Finding("G202", refused.message, place, where, refused.hint))
        return tree
    key = at.key_place(path)
    for target in targets:
        tree = _put(tree, target, value, (key.source, key.start, key.end))
    return tree


def _targets(tree: Node, path: str) -> list[Path]:
    """The places in the tree that a path means; patterns mean several."""
    head, _, rest = path.partition(".")
    name, _, field = rest.partition(".")
    if head in ("input", "time", "defaults") and rest:
        return [tuple(path.split("."))]
    if head in _TABLES:
        table = tree.get(_TABLES[head])
        known = list(table.value) if table is not None and isinstance(table.value, dict) else []
        places: dict[str, Path] = {each: (_TABLES[head], each) for each in known}
    elif head == "encoder":
        places = {n: ("levels", i, head) for i, n in enumerate(row_names(tree)) if n}
    elif head == "decoder":
        places = _decoders(tree)
    else:
        raise Refused(f"{tick(path)} cannot be set", f"like {_EXAMPLES}")
    found = [place for each, place in places.items() if matches(each, name)]
    if not found and (head in _TABLES or not _doubtful(tree)):
        raise Refused(f"no {tick(f'{head}.{name}')} to set", _instead(tree, head, name, places))
    if not field:
        example = "weight" if head == "task" else "channels"
        raise Refused(f"{tick(path)} names no field", f"like `{head}.{name}.{example}`")
    return [(*place, *field.split(".")) for place in found]


def _decoders(tree: Node) -> dict[str, Path]:
    """Where the decoder of each level stands: on the row above it, or in `top`."""
    names = row_names(tree)
    places: dict[str, Path] = {}
    for index, level in enumerate([INPUT, *names]):
        where: Path = ("top",) if index == len(names) else ("levels", index, "decoder")
        if level and tree.find(where)[1] == len(where):
            places[level] = where
    return places


def _doubtful(tree: Node) -> bool:
    """Rows are wrong, so that a name may be missing for that reason."""
    names = row_names(tree)
    return not names or None in names


def _instead(tree: Node, head: str, name: str, places: dict[str, Path]) -> str:
    names = [INPUT, *(n for n in row_names(tree) if n)]
    if head == "decoder" and name in names:
        return "a decoder stands on the row above its level; that of the last level is `top`"
    if head == "encoder" and name == INPUT:
        return "like `input.channels`"
    if close := did_you_mean(name, places):
        return close.replace("`", f"`{head}.", 1)
    known = [f"{head}.{place}" for place in list(places)[:6]]
    table = _TABLES.get(head, head)
    return f"known: {one_of(known, 'and')}" if known else f"the spec has no `{table}`"


def _put(node: Node, path: Path, value: Node, span: Span) -> Node:
    if not path:
        return value
    head, rest = path[0], path[1:]
    if isinstance(node.value, list) and isinstance(head, int):
        items = list(node.value)
        items[head] = _put(items[head], rest, value, span)
        return node.replaced(items)
    fields = node.value if isinstance(node.value, dict) else {}
    inside = fields.get(str(head))
    if inside is None or (rest and not isinstance(inside.value, dict | list)):
        inside = value.replaced({})  # written by the patch: what is wrong with it stands there
        inside.keys = {}
    changed = node.replaced({**fields, str(head): _put(inside, rest, value, span)})
    changed.keys = {**node.keys, str(head): span} if str(head) not in fields else node.keys
    return changed
