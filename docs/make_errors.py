"""Write docs/errors.md: every error code with its meaning and an example from tests/bad_specs."""

from __future__ import annotations

import shlex
from pathlib import Path

from ladderspec.errors import CODES

PAGE = Path(__file__).parent / "errors.md"
CASES = Path(__file__).parent.parent / "tests" / "bad_specs"

INTRO = """\
# Errors

All mistakes are reported at once, each of them once: with a code, the file, line and column, the
place in the spec, what is wrong, and, if possible, what would be right:

```
error[S103]: unknown cell `convlstm`
  --> mine.yaml:7:22  (levels[0].encoder.cell)
7 |     encoder: {cell: convlstm, channels: 32}
  |                     ^^^^^^^^ did you mean `ConvLSTM`?
```

`ladderspec validate --output-format concise` prints one line per mistake, `github` annotations
for a GitHub workflow, and `--json` is for programs. The exit code is 1, or 2 if the command itself
cannot be carried out. After a mistake the rest of the file is still checked: a misspelt key is read
as the one that was meant, and a wrong cell as one of unknown shape.

`docs/make_errors.py` writes this page from `tests/bad_specs`, which has many more examples.
"""

FAMILIES = {
    "F": "Files",
    "Y": "YAML",
    "S": "Fields and values",
    "G": "Graph",
    "H": "Shapes",
    "E": "Expectations",
}

# The case that shows a code best.
EXAMPLES = {
    "F001": "file_missing",
    "Y001": "yaml_not_utf8",
    "Y002": "yaml_indentation_too_deep",
    "Y003": "yaml_duplicate_key_forgotten_dash",
    "Y004": "yaml_tag_include",
    "Y005": "yaml_two_documents",
    "Y006": "yaml_comments_only",
    "Y007": "yaml_alias_undefined",
    "Y008": "yaml_alias_bomb",
    "Y009": "yaml_template",
    "S100": "too_many_mistakes",
    "S101": "key_misspelt_field",
    "S102": "cell_missing",
    "S103": "cell_misspelt",
    "S104": "value_filter_3x3",
    "S105": "value_mode_unknown",
    "S106": "value_channels_negative",
    "S107": "name_hyphen",
    "S108": "name_twice",
    "S109": "params_unknown",
    "S110": "extends_outside",
    "S111": "select_role_ambiguous",
    "S112": "cell_of_the_other_side_short",
    "S113": "variant_unknown_of",
    "S114": "command_set_no_value",
    "G201": "arrow_unknown_node",
    "G202": "select_node_nothing",
    "G203": "arrow_cycle",
    "G204": "arrow_into_pool",
    "G205": "cannot_lose_state",
    "G206": "arrow_exists",
    "G207": "without_task_node",
    "G208": "arrow_waits_too_long",
    "G209": "statistics_of_any_frames",
    "G210": "share_shapes",
    "H301": "shape_no_stride",
    "H302": "task_shape_prediction",
    "E401": "expect_parameters",
}


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    parts = [INTRO]
    for letter, title in FAMILIES.items():
        parts.append(f"## {title}\n")
        parts += [entry(code) for code in CODES if code.startswith(letter)]
    return "\n".join(parts)


def entry(code: str) -> str:
    return f"### {code}: {CODES[code]}\n\n{example(code)}\n"


def example(code: str) -> str:
    """The spec of a case and the first message about it under this code."""
    case = CASES / f"{EXAMPLES[code]}.yaml"
    spec = case.read_bytes().decode("utf-8", "replace").rstrip()
    text = case.with_suffix(".err.txt").read_text(encoding="utf-8").rstrip()
    command = f"ladderspec validate {case.name}"
    if spec.startswith("# ladderspec "):
        line, _, spec = spec.partition("\n")
        command = shlex.join(shlex.split(line.removeprefix("# ")))
    parts = text.split("\n\n") if "\n\n" in text else text.split("\n") if code == "S100" else [text]
    at = next(i for i, part in enumerate(parts) if code in part)
    before, after = "...\n" * bool(at), "\n..." * (at + 1 < len(parts))
    spec = "\n".join(line if len(line) < 120 else f"{line[:60]} ..." for line in spec.split("\n"))
    return f"```yaml\n{spec}\n```\n\n```\n$ {command}\n{before}{parts[at]}{after}\n```"


if __name__ == "__main__":
    main()
