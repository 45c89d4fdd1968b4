"""Write docs/language.md: the words of the language, from the pydantic fields that define them."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

from ladderspec.cells import registered
from ladderspec.cells.grouping import Groups
from ladderspec.language.spec import fields_schema
from ladderspec.names import TABLE, Role, Side
from ladderspec.tasks import registered as registered_tasks

PAGE = Path(__file__).parent / "language.md"
PROSE = Path(__file__).parent / "language_intro.md"


CELL_FIELDS = {
    "encoder": "an [encoder cell](#encoder-cells)",
    "decoder": "a [decoder cell](#decoder-cells)",
    "top": "a [decoder cell](#decoder-cells)",
}

ANCHORS = {
    "ExperimentRow": "a-row", "ExperimentColumn": "a-column", "Row": "a-row",
    "Constant": "schedules", "NormChoice": "norm", "Role": "all-arrows-of-a-role",
    "Some": "some-arrows-of-a-role", "Arrow": "a-single-arrow", "Ends": "an-arrow-by-its-ends",
}  # fmt: skip
LABELS = {"NormChoice": "mapping", "Role": "mapping", "Some": "mappings", "Arrow": "mapping",
          "Ends": "mapping"}  # fmt: skip
PLAIN = {"Epochs": "`{epochs: N}`"}
ELSEWHERE = {"Edges": "language.md"}  # for the page of experiments


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    schema = fields_schema()
    parts = [
        PROSE.read_text(encoding="utf-8").rstrip(),
        "## The file\n\n" + fields(schema, schema),
        "## A row\n\n" + fields(schema["$defs"]["Row"], schema),
        "## Time\n\n" + fields(schema["$defs"]["Time"], schema),
        "## Noise\n\n" + fields(schema["$defs"]["Noise"], schema),
        "## Input\n\n"
        + fields(schema["$defs"]["Input"], schema, skip={"initial", "cell", "share"}),
        "## Further inputs\n\n"
        + fields(schema["$defs"]["FurtherInput"], schema, skip={"cell", "share", "noise"}),
        f"## Groups\n\n{inspect.getdoc(Groups)}\n\n"
        + fields(
            schema["$defs"]["Groups"], schema, skip={"initial", "cell", "label", "share", "noise"}
        ),
        "### Start\n\n" + fields(schema["$defs"]["Start"], schema),
        "### Learned\n\n" + fields(schema["$defs"]["Learned"], schema),
        *(cells(side, schema) for side in (Side.ENCODER, Side.DECODER)),
        "Lateral cells are encoder cells: " + names(registered(Side.LATERAL)) + ".",
        "## Norm\n\n" + fields(schema["$defs"]["NormChoice"], schema),
        "## Tasks\n\n" + tasks(schema),
        "## Roles\n\n" + roles(),
        "## Edges\n\n" + fields(schema["$defs"]["Edges"], schema),
        "### All arrows of a role\n\n" + fields(schema["$defs"]["RoleConfig"], schema),
        "### Some arrows of a role\n\n" + fields(schema["$defs"]["SomeConfig"], schema),
        "### A single arrow\n\n" + fields(schema["$defs"]["ArrowConfig"], schema),
        "### An arrow by its ends\n\nAs a single arrow, with these fields instead of `arrow`:\n\n"
        + fields(
            schema["$defs"]["EndsConfig"],
            schema,
            skip={*schema["$defs"]["ArrowConfig"]["properties"]},
        ),
        "## Variants\n\n" + fields(schema["$defs"]["Variant"], schema),
        "## Ramp\n\n" + fields(schema["$defs"]["Ramp"], schema),
        "## Expect\n\n" + fields(schema["$defs"]["Expect"], schema),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def names(words: dict[str, Any]) -> str:
    return ", ".join(sorted(words))


def cells(side: Side, schema: dict[str, Any]) -> str:
    text = [f"## {side.value.capitalize()} cells"]
    for word, cell in sorted(registered(side).items()):
        needs = ", ".join(sorted(cell.model_construct().needs(side))) or "none"
        takes = ", ".join(sorted(cell.takes))
        text.append(
            f"### {word}\n\n{inspect.getdoc(cell)}\n\n"
            + fields(schema["$defs"][cell.__name__], schema, skip={"cell"})
            + f"\n\nNeeds: {needs}. Takes: {takes}."
        )
    return "\n\n".join(text)


def tasks(schema: dict[str, Any]) -> str:
    parts = []
    for kind, task in registered_tasks().items():
        definition = schema["$defs"][task.__name__]
        text = definition["description"].strip()
        parts.append(f"### {kind}\n\n{text}\n\n" + fields(definition, schema, skip={"kind"}))
    return "\n\n".join(parts)


def roles() -> str:
    rows = ["| role | from -> to | delay | by default |", "|---|---|---|---|"]
    places = {"always": "at every cell that takes it", "stateful": "at stateful cells"}
    for role, row in TABLE.items():
        level, place = f"l{row.offset:+}" if row.offset else "l", places.get(row.default, "nowhere")
        rows.append(
            f"| `{role}` | {row.source} {level} -> {row.target} l | {row.delay} | {place} |"
        )
    rows.append(f"| `{Role.SKIP}` | any -> any | 0 or more | only declared ones |")
    return "\n".join(rows)


def fields(definition: dict[str, Any], schema: dict[str, Any], skip: set[str] | None = None) -> str:
    rows = ["| word | what it takes | default | meaning |", "|---|---|---|---|"]
    required = definition.get("required", [])
    ordered = sorted(definition["properties"].items(), key=lambda field: field[0] not in required)
    for name, words in ordered:
        if name in (skip or set()):
            continue
        default = "**needed**" if name in required else show(words.get("default"))
        meaning = words.get("description", "").replace("|", "\\|")
        kind = (
            CELL_FIELDS.get(name) if "repeat" in definition["properties"] or name == "top" else ""
        )
        rows.append(f"| `{name}` | {kind or takes(words, schema)} | {default} | {meaning} |")
    return "\n".join(rows)


def show(value: Any) -> str:
    if value in (None, {}, [], ""):
        return ""
    if isinstance(value, dict):
        inner = ", ".join(
            f"{k}: {show(v)}" for k, v in value.items() if v not in (None, {}, [], ())
        )
        return inner.replace("`", "") if len(inner) < 40 else ""  # its own fields are listed
    return f"`{value}`".replace("'", "")


def takes(words: dict[str, Any], schema: dict[str, Any]) -> str:
    """A field's type in a few words."""
    if "$ref" in words:
        name = words["$ref"].rsplit("/", 1)[1].removesuffix("Config")
        if name in PLAIN:
            return PLAIN[name]
        place = f"{ELSEWHERE.get(name, '')}#{ANCHORS.get(name, name.lower())}"
        return f"[{LABELS.get(name, name)}]({place})"
    if "enum" in words:
        return ", ".join(f"`{word}`" for word in words["enum"])
    if "const" in words:
        return f"`{words['const']}`"
    for union in ("anyOf", "oneOf"):
        if union in words:
            options = [takes(option, schema) for option in words[union]]
            return " or ".join(dict.fromkeys(o for o in options if o and o != "nothing"))
    if words.get("pattern", "").startswith("^\\$"):
        return ""  # `$param` goes everywhere and is explained once
    kind = words.get("type")
    if kind == "array":
        inner = takes(words.get("items", {}), schema)
        return f"list of {inner}" if inner else "list"
    if kind == "object":
        return "mapping"
    if kind == "boolean":
        return "`true`, `false`"
    plain = {"integer": "whole number", "number": "number", "string": "text", "null": "nothing"}
    return plain.get(str(kind), "")


if __name__ == "__main__":
    sys.exit(main())
