"""Unknown keys: what was meant by each, as a finding and as a repair."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from ladderspec.cells import Cell, registered
from ladderspec.errors import Finding, Findings, did_you_mean, one_of, tick
from ladderspec.language.fields import (
    ELSEWHERE,
    LIKE,
    NOT_NEEDED,
    Loc,
    fields_of,
    inner_fields,
    model_at,
    present,
    side_of,
)
from ladderspec.language.repair import Action, UnknownKey, UnknownKeys, mark_of
from ladderspec.text.tree import Node, items_of, resolve_scalar

MAX_ITEMS = 5000  # errors of pydantic that are looked at
ROW_KEYS = ("encoder", "decoder", "repeat", "label")
KNOWN_BY = {"kind", "at", "cell", "without", "of", "set"}  # fields that mark an entry of a table
LISTS = ("without", "of", "add", "size", "filter", "stride", "at")
OWNERS = ("optimiser",)  # keys whose fields are often written beside them
TABLES = (
    "inputs",
    "tasks",
    "variants",
    "laterals",
    "defaults",
)  # names chosen by the user, then mappings


def find_unknown_keys(
    items: Sequence[Any], tree: Node, model: type[BaseModel]
) -> UnknownKeys | None:
    """The unknown keys that pydantic found, mapping by mapping; None if there are none."""
    owners: dict[int, tuple[Node, Loc, list[str]]] = {}
    findings, found = Findings(), list[UnknownKey]()
    for item in items[:MAX_ITEMS]:
        loc = item["loc"]
        if item["type"] == "extra_forbidden":
            owner = tree.find(present(tree, loc[:-1]))[0]
            owners.setdefault(id(owner), (owner, loc[:-1], []))[2].append(str(loc[-1]))
        elif item["type"] == "union_tag_not_found" and not findings.enough:
            node = tree.find(present(tree, loc))[0]
            found += _misspelt_tag(item, node, findings) if isinstance(node.value, dict) else []
    for owner, loc, keys in owners.values():
        if findings.enough:
            break
        here = model_at(model, loc)
        table = _Table(owner, keys, fields_of(here), _subject(owner, loc, here), findings)
        found += table.unknown({name: inner_fields(model, (*loc, name)) for name in table.known})
    return UnknownKeys({key.mark: key for key in found}, findings) if found else None


def _subject(owner: Node, loc: Loc, model: type[BaseModel] | None) -> str:
    """The name of a mapping in messages."""
    cell, kind = owner.get("cell"), owner.get("kind")
    if cell is not None and model is not None and issubclass(model, Cell):
        return str(cell.value)
    if kind is not None and loc[:1] == ("tasks",):
        return f"{'an' if kind.value[:1] in 'aeiou' else 'a'} {kind.value} task"
    subjects = {
        "SpecConfig": "a spec",
        "Row": "a row",
        "Variant": "a variant",
        "OptimiserConfig": "`optimiser`",
    }
    keys = [f"`{word}`" for word in loc if word in LIKE]
    return subjects.get(model.__name__ if model else "", "") or (keys[-1] if keys else "this")


# --- what was meant -------------------------------------------------------------------------------


class _Table:
    """A mapping with unknown keys."""

    def __init__(
        self, owner: Node, keys: Sequence[str], known: list[str], subject: str, findings: Findings
    ) -> None:
        self.owner, self.keys, self.known, self.subject = owner, keys, known, subject
        self.findings = findings

    def unknown(self, inner: dict[str, list[str]]) -> list[UnknownKey]:
        """Report each of them; `inner` has the fields of the value of every known key."""
        found: list[UnknownKey] = []
        inside = ""  # the known key above that the last unknown one belongs to
        for key in self.keys:
            if self.findings.enough:
                break
            above = self._above(key)
            if above and self._fits(key, above, inner):
                if above != inside:
                    self._lost(key, above)
                inside = above
                found.append(self._key(key, "move", above))
            elif self._bare_cell():
                if key == "cell":
                    hint = f"like `encoder: {{cell: {str(self.owner.value[key].value)[:20]}}}`"
                    self._report(
                        key, "a row is not a cell: its cell belongs under `encoder:`", hint
                    )
                found.append(self._key(key, "move", "encoder"))
            elif owner := next((name for name in OWNERS if _meant(key) in inner.get(name, ())), ""):
                value = str(self.owner.value[key].value)[:20]
                hint = f"like `{owner}: {{{_meant(key)}: {value}}}`"
                self._report(key, f"{tick(key)} is a field of `{owner}`", hint)
                found.append(self._key(key, "drop", ""))
            elif not self._rest_of_brackets(key):
                found.append(self.one(key))
        return found

    def one(self, key: str) -> UnknownKey:
        """A single key: misspelt, joined with its value, or the name in another program."""
        if found := self._swallowed(key) or self._value_alone(key):
            return found
        if "encoder" in self.known and self._names_row(key):
            self._report(key, f"unknown key {tick(key)}", f"did you mean `name: {key}`?")
            return self._key(key, "unfold", key, "name")
        meant = _meant(key)
        hint = f"did you mean `{meant}`?" if meant in self.known else did_you_mean(key, self.known)
        word = hint.split("`")[1] if hint else ""
        if key == "params" and self.subject == "a variant":
            hint, word = f"`set: {{params.{self._first_of(key)}}}` changes a parameter", ""
        if key in NOT_NEEDED:
            hint, word = NOT_NEEDED[key], ""
        if not hint and "arguments" in self.known:
            value = str(self.owner.value[key].value)[:20]
            hint = f"further arguments of torch.optim: `arguments: {{{key}: {value}}}`"
        if not hint and self.known:
            hint = f"{self.subject} has {one_of(self.known, 'and')}"
        chosen = "cell" in self.owner.value or "kind" in self.owner.value
        has_no = f"{self.subject} has no field {tick(key)}"
        self._report(key, has_no if chosen else f"unknown key {tick(key)}", hint)
        renamed = bool(word) and word not in self.owner.value
        return self._key(key, "rename" if renamed else "drop", word)

    def _swallowed(self, key: str) -> UnknownKey | None:
        """`channels:4`, `time {frames: 3}` and `at encoder.class`, which YAML reads as keys."""
        head, colon, rest = key.partition(":")
        if colon and head.strip() in self.known:
            space = "an ordinary space" if rest[:1].isspace() else "a space"
            self._report(key, f"{space} is missing after `{head.strip()}:`")
            return self._key(key, "rename", head.strip(), resolve_scalar(rest.strip()))
        bracket = re.match(r"([a-z_]+)\s*[\[{]", key)
        if bracket and bracket[1] in self.known:
            self._report(key, f"a `:` is missing after `{bracket[1]}`")
            self.findings.blame(self.owner.value[key].place)
            return self._key(key, "rename", bracket[1])
        first, space, value = key.partition(" ")
        if space and first in self.known and self._empty(key):
            self._report(key, f"a `:` is missing after `{first}`")
            return self._key(key, "rename", first, resolve_scalar(value.strip()))
        return None

    def _value_alone(self, key: str) -> UnknownKey | None:
        """`size: 8, 8` and `{cell: Conv, 32}`: a value in the place of a key."""
        if listed := self._item_of(key):
            first = str(self.owner.value[listed].value)[:30]
            hint = f"like `{listed}: [{first}, {key[:30]}]`"
            self._report(key, f"several values of `{listed}` need brackets", hint)
            return self._key(key, "drop", "")
        if key.isdigit() and "channels" in self.known and "channels" not in self.owner.value:
            self._report(
                key, f"`{key}` is a value without a key", f"did you mean `channels: {key}`?"
            )
            return self._key(key, "rename", "channels", int(key))
        return None

    def _key(
        self,
        key: str,
        action: Action,
        word: str,
        value: object = None,
    ) -> UnknownKey:
        return UnknownKey(mark_of(self.owner, key), key, action, word, value)

    def _report(self, key: str, message: str, hint: str = "") -> None:
        node = self.owner.value[key]
        path = node.path if node.parent is not None else f"{self.owner.path}.{key}".lstrip(".")
        self.findings.add(Finding("S101", message, self.owner.key_place(key), path, hint))

    def _lost(self, key: str, above: str) -> None:
        where = "the row above" if above == "levels" else f"`{above}:`"
        message = f"{tick(key)} is beside {where}, not inside it"
        hint = f"indent this line, and those that belong to it, under {where}"
        self._report(key, message, hint)
        self.findings.blame(self.owner.value[above].place)

    def _above(self, key: str) -> str:
        """The known key before this one, if its value is empty or a block of lines."""
        above = ""
        for other in self.owner.value:
            if other == key:
                break
            above = above if other in self.keys else other
        node = self.owner.value.get(above)
        block = node is not None and (node.value is None or node.mark != node.place)
        return above if block else ""

    def _fits(self, key: str, above: str, inner: dict[str, list[str]]) -> bool:
        """Whether a key belongs under the one above it."""
        node, over = self.owner.value[key], self.owner.value[above]
        if above == "levels":
            rows = over.value if isinstance(over.value, list) else []
            return key in ROW_KEYS and bool(rows) and isinstance(rows[-1].value, dict)
        if did_you_mean(key, self.known) or (isinstance(over.value, dict) and key in over.value):
            return False
        if above in TABLES:
            entry = node.value if isinstance(node.value, dict) else None
            return entry is not None and (over.value is None or not KNOWN_BY.isdisjoint(entry))
        return key in inner.get(above, []) or (above == "params" and over.value is None)

    def _bare_cell(self) -> bool:
        """A row that is the cell itself."""
        return "encoder" in self.known and "cell" in self.keys and "encoder" not in self.owner.value

    def _names_row(self, key: str) -> bool:
        """`- conv:` instead of `- name: conv`."""
        value = self.owner.value[key].value
        row = value is None or (isinstance(value, dict) and "encoder" in value)
        name = self.owner.get("name")
        named = name is not None and name.key == "name"  # not by cell and position
        return row and not named and not did_you_mean(key, self.known)

    def _item_of(self, key: str) -> str:
        """The key before this one, if it takes a list and this is the next item: `a: 3, 5`."""
        names = list(self.owner.value)
        before = names[max(0, names.index(key) - 1)]
        scalar = isinstance(self.owner.value[before].value, str | int)
        return before if before in LISTS and scalar and self._empty(key) else ""

    def _first_of(self, key: str) -> str:
        """The first entry of a mapping as text: `width: 3`."""
        entries = items_of(self.owner.value[key])
        return next((f"{name}: {node.value}" for name, node in entries), "width: 8")

    def _empty(self, key: str) -> bool:
        return self.owner.value[key].value is None

    def _rest_of_brackets(self, key: str) -> bool:
        """`filter: (3, 3)`, which YAML reads as `filter: (3` and `3)`; the first is reported."""
        names = list(self.owner.value)
        at = names.index(key)
        before = self.owner.value[names[at - 1]].value if at else None
        return key.endswith(")") and isinstance(before, str) and before.startswith("(")


def _meant(key: str) -> str:
    """Our name for a field that other programs call `key`."""
    return ELSEWHERE.get(key.lower(), key)


def _misspelt_tag(item: Any, node: Node, findings: Findings) -> list[UnknownKey]:
    """A mapping without its tag (`cell` or `kind`): the key that must have been it."""
    tag, side = item["ctx"]["discriminator"].strip("'"), side_of(item["loc"])
    cells = {word.lower(): word for word in (registered(side) if side else ())}
    table = _Table(node, list(node.value), [tag], "", findings)
    for key, child in node.value.items():
        if key.lower() in cells and (len(node.value) == 1 or child.value is None):
            fields = child.value if isinstance(child.value, dict) else {}
            others = [name for name in [*fields, *node.value] if name != key]
            shown = ", ".join([f"cell: {cells[key.lower()]}", *(f"{name}: ..." for name in others)])
            place = node.key_place(key)
            message = f"{tick(key)} is the word of a cell, not a key"
            findings.add(Finding("S101", message, place, child.path, f"like `{{{shown}}}`"))
            return [UnknownKey(mark_of(node, key), key, "unfold", cells[key.lower()], "cell")]
    for key in node.value:
        if key.startswith(f"{tag}:") or did_you_mean(key, [tag]) or ELSEWHERE.get(key) == tag:
            return [table.one(key)]
    return []
