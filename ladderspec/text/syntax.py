"""Explains syntax errors of YAML: libyaml's messages in a user's terms, at the actual mistake.

Imported only if a text cannot be read. Each rule returns a range of the text, a message and a hint,
or None if it does not apply.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

Explanation = tuple[int, int, str, str]  # start, end, message, hint

_CLOSING = {"{": "}", "[": "]"}


def character(text: str, at: int) -> Explanation:
    """A character that is not allowed in a spec."""
    name = unicodedata.name(text[at], "").lower()
    shown = f"U+{ord(text[at]):04X}" + (f", {name}" if name else "")
    return at, at + 1, f"a character that a spec cannot contain: {shown}", "delete it"


def explain(error: Any, text: str) -> Explanation:
    """The result of the first rule that applies, else libyaml's own message."""
    problem, marks = str(error.problem or ""), (error.problem_mark, error.context_mark)
    at, opened = (min(mark.index, len(text)) if mark else 0 for mark in marks)
    if not error.problem_mark:
        at = opened
    for words, rule in _RULES:
        if problem.startswith(words) and (found := rule(text, at, opened)):
            return found
    return at, at + 1, f"this is not YAML: {problem or 'cannot be read'}", ""


def _line(text: str, at: int) -> tuple[int, str]:
    """The start of the line of `at`, and the line."""
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    return start, text[start : end if end >= 0 else None]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _number(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _above(text: str, at: int) -> tuple[int, str] | None:
    """The next line above that is neither empty nor a comment."""
    start = text.rfind("\n", 0, at) + 1
    while start > 0:
        start, line = _line(text, start - 1)
        if line.strip() and not line.lstrip().startswith("#"):
            return start, line
    return None


def _tab(text: str, at: int, opened: int) -> Explanation | None:
    start, line = _line(text, at)
    blank = line[: len(line) - len(line.lstrip())]
    if "\t" not in blank:
        return None
    first = start + blank.index("\t")
    end = first + len(blank) - blank.index("\t")
    return first, end, "a tab: YAML is indented with spaces", "use spaces"


def _second_colon(text: str, at: int, opened: int) -> Explanation | None:
    start, line = _line(text, at)
    before = line[: at - start]
    if found := re.match(r"\s*(?:- )*([\w.]+) +[{\[]", before):
        end = start + found.end(1)
        word = found[1]
        return start + found.start(1), end, f"a `:` is missing after `{word}`", f"`{word}: ...`"
    if re.search(r":\s", before):
        hint = "a text with `: ` in it needs quotes, a mapping on one line needs {braces}"
        return at, at + 1, "a second `: ` on this line", hint
    return None


def _line_above(text: str, at: int, opened: int) -> Explanation | None:
    """The mistake is on the line above: no `: ` there, or a value that continues here."""
    start, line = _line(text, at)
    above = _above(text, at)
    if above is None:
        return None
    first, other = above[0] + _indent(above[1]), above[1].strip()
    if not re.search(r":(\s|$)", other):
        hint = "put a space after the `:`" if ":" in other else "like `key: value`"
        return first, first + len(other), "there is no `: ` on this line", hint
    here = start + _indent(line)
    hint = f"`{other}` above has its value: begin in the same column"
    return here, at, "this line is indented deeper than the one above", hint


def _no_colon(text: str, at: int, opened: int) -> Explanation | None:
    start, line = _line(text, opened)
    end = start + len(line.rstrip())
    return opened, max(end, opened + 1), "there is no `: ` on this line", "like `key: value`"


def _indented(text: str, at: int, opened: int) -> Explanation | None:
    start, line = _line(text, at)
    if line.lstrip(" -").startswith(":"):
        return at, at + 1, "there is no key before this `:`", "like `key: value`"
    if line[: at - start].strip(" -"):
        end = start + len(line)
        hint = "quotes, a `,` or a new line is missing"
        return at, end, "more text after a complete value", hint
    column = opened - _line(text, opened)[0]
    hint = f"the lines it belongs to, from line {_number(text, opened)} on, begin in column"
    rows = re.findall(r"^ *(?=- )", text[:start], re.MULTILINE)
    if line.lstrip().startswith("- ") and rows:
        column, hint = len(rows[-1]), "the row above begins in column"
    end = start + len(line.rstrip())
    return at, end, "this line begins in the wrong column", f"{hint} {column + 1}"


def _row(text: str, at: int, opened: int) -> Explanation | None:
    start, line = _line(text, at)
    if line[: at - start].strip(" -"):
        return _indented(text, at, opened)
    column = opened - _line(text, opened)[0]
    hint = f"begin in column {column + 3} to go on with the row above; a new row begins with `- `"
    return at, start + len(line.rstrip()), "this line begins in the wrong column", hint


def _unclosed(text: str, at: int, opened: int) -> Explanation | None:
    if opened >= len(text) or text[opened] not in _CLOSING:
        return None
    bracket, closing = text[opened], _CLOSING[text[opened]]
    found = text[at] if at < len(text) else ""
    if "\n" in text[opened:at] or not found:
        return opened, opened + 1, f"this `{bracket}` is not closed", f"a `{closing}` is missing"
    if found in "}]":
        return at, at + 1, f"a `{closing}` is missing before this `{found}`", ""
    if param := re.match(r"\{\s*(\w+)\s*\}", text[at:]) if text[at - 1] == "$" else None:
        written = f"`${param[0]}`"
        return at - 1, at + param.end(), f"{written} is not a parameter", f"write `${param[1]}`"
    if text[at - 1] == "=":
        return at - 1, at, "`=` between key and value", "write `: `"
    word = re.search(r"[\w.]+$", text[opened:at])
    if found == ":" and word:
        start = opened + word.start()
        return start, at, f"a `,` is missing before `{word[0]}`", ""
    return at, at + 1, f"a `,` or `{closing}` is missing before this", ""


def _ends_early(text: str, at: int, opened: int) -> Explanation | None:
    if text[at:].strip():
        return at, at + 1, "a value is missing here", "or is there a `,` or bracket too many?"
    last = max(0, len(text.rstrip()) - 1)
    return last, last + 1, "the text ends in the middle of a value", "a bracket is not closed"


def _first_character(text: str, at: int, opened: int) -> Explanation | None:
    found = text[at : at + 1]
    hint = "a parameter is `$name`, any other text in quotes" if found == "%" else "use quotes"
    shown = "a backtick" if found == "`" else f"`{found}`"
    return at, at + 1, f"a text cannot begin with {shown}", hint


def _name(text: str, at: int, opened: int) -> Explanation | None:
    mark = text[opened : opened + 1]
    what = {"*": "an alias", "&": "an anchor"}.get(mark)
    if what is None:
        return None
    hint = "put a pattern that begins with `*` in quotes" if mark == "*" else "use quotes"
    return opened, max(at, opened + 1), f"`{mark}` begins {what}, and no name follows", hint


def _quote(text: str, at: int, opened: int) -> Explanation | None:
    return opened, opened + 1, "this quote is not closed", ""


def _list_beside_key(text: str, at: int, opened: int) -> Explanation | None:
    hint = "begin it on the next line, or write [a, b]"
    return at, at + 1, "a list cannot begin on the line of its key", hint


def _behind_the_end(text: str, at: int, opened: int) -> Explanation | None:
    message = "more text after the end of the document"
    return at, at + 1, message, "remove the `...` or what follows it"


def _escape(text: str, at: int, opened: int) -> Explanation | None:
    hint = "in double quotes a backslash is written twice; in single quotes, once"
    return at, at + 1, "an escape that YAML does not know", hint


_RULES = [
    ("found character that cannot start", _tab),
    ("found character that cannot start", _first_character),
    ("found a tab", _tab),
    ("mapping values are not allowed", _tab),
    ("mapping values are not allowed", _second_colon),
    ("mapping values are not allowed", _line_above),
    ("could not find expected ':'", _no_colon),
    ("did not find expected key", _tab),
    ("did not find expected key", _indented),
    ("did not find expected '-' indicator", _tab),
    ("did not find expected '-' indicator", _row),
    ("did not find expected ',' or", _unclosed),
    ("did not find expected node content", _ends_early),
    ("did not find expected alphabetic", _name),
    ("found unexpected end of stream", _quote),
    ("found unexpected document indicator", _quote),
    ("block sequence entries are not allowed", _list_beside_key),
    ("did not find expected <document start>", _behind_the_end),
    ("found unknown escape", _escape),
    ("did not find expected hexdecimal", _escape),
]
