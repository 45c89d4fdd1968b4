"""Parts of messages: quotes of the user's text, alternatives, suggestions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError

# What pydantic expects, by the type of its error, and its limits, by the key of their context.
EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "finite_number": "a finite number",
}
RANGE = {"ge": "at least", "le": "at most", "gt": "more than", "lt": "less than"}
LIMITS = {**RANGE, "multiple_of": "a multiple of"}


def plain_words(item: Any) -> str:
    """The message of one item of pydantic's errors, in the words of our own messages.

    >>> plain_words({"type": "int_type", "msg": "Input should be a valid integer"})
    'expected a whole number'
    """
    context = item.get("ctx", {})
    limits = [f"{LIMITS[key]} {value:g}" for key, value in context.items() if key in LIMITS]
    if limits:
        return "it must be " + " and ".join(limits)
    kind = {"int_parsing": "int_type", "int_from_float": "int_type", "float_parsing": "float_type"}
    expected = EXPECTED.get(kind.get(item["type"], item["type"]), "")
    if item["type"] == "literal_error":
        expected = one_of(
            str(context["expected"]).replace("'", "").replace(" or ", ", ").split(", ")
        )
    message = str(item["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return f"expected {expected}" if expected else message


def first_error(error: ValidationError) -> str:
    """The first mistake that pydantic found, with its place."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "missing":
        *inside, name = map(str, first["loc"])
        return f"it has no '{name}'" + (f" in {'.'.join(inside)}" if inside else "")
    return f"{'.'.join(map(str, first['loc']))}: {plain_words(first)}"


def printable(text: str) -> str:
    r"""The text with control and invisible characters escaped.

    >>> printable("a\tb\x1b")
    'a\\tb\\x1b'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def tick(text: object, length: int = 60) -> str:
    """The user's text inside a message: quoted, and shortened if it is long.

    >>> tick("convlstm"), tick("x" * 100, 8)
    ('`convlstm`', '`xxxxx...`')
    """
    shown = printable(str(text))
    return f"`{shown if len(shown) <= length else shown[: length - 3] + '...'}`"


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """
    >>> did_you_mean("convlstm", ["Conv", "ConvLSTM"])
    'did you mean `ConvLSTM`?'
    """
    from difflib import get_close_matches

    text = str(word)[:80].lower().replace("-", "_").replace(" ", "_")
    shortest, longest = 0.4 * len(text), 2.5 * len(text)  # else no ratio reaches the cutoff
    close_in_length = [name for name in islice(known, 5000) if shortest < len(name) < longest]
    lower = {name.lower(): name for name in reversed(close_in_length[:300])}
    close = get_close_matches(text, list(lower), n=1, cutoff=0.6)
    return f"did you mean `{lower[close[0]]}`?" if close else ""


def registered_name_meant(word: object, known: Iterable[str], what: str) -> str:
    """A hint for the unknown name of something that plug-ins can add, like a cell.

    >>> registered_name_meant("convlstm", ["Conv", "ConvLSTM"], "cell")
    'did you mean `ConvLSTM`?'
    >>> registered_name_meant("ConvLSTM2", ["Conv", "ConvLSTM"], "cell")
    'did you mean `ConvLSTM`? (a cell of your own needs `--plugin FILE`)'
    """
    known = list(known)
    own = f"{'an' if what[0] in 'aeiou' else 'a'} {what} of your own needs `--plugin FILE`"
    meant = did_you_mean(word, known)
    if not meant:
        return f"{one_of(known)}; {own}"
    return meant if str(word).lower() in map(str.lower, known) else f"{meant} ({own})"


def name_or_pattern_meant(word: str, known: Iterable[str]) -> str:
    """As `did_you_mean`, also for the copies of a repeated row.

    >>> name_or_pattern_meant("conv", ["conv_1", "conv_2"])
    'did you mean `conv_*`?'
    """
    known = list(known)
    repeated = f"{word}_1" in known and f"{word}_2" in known
    return f"did you mean `{word}_*`?" if repeated else did_you_mean(word, known)


def one_of(known: Iterable[str], last: str = "or") -> str:
    """
    >>> one_of(["a", "b", "c"])
    '`a`, `b` or `c`'
    """
    ticked = [f"`{name}`" for name in known]
    return ticked[0] if len(ticked) == 1 else ", ".join(ticked[:-1]) + f" {last} {ticked[-1]}"


def some_of(known: Iterable[str], most: int = 8) -> str:
    """
    >>> some_of(["a", "b"]), some_of(["a", "b"], 1)
    ('`a`, `b`', '`a`, ...')
    """
    ticked = [f"`{name}`" for name in known]
    return ", ".join(ticked[:most]) + (", ..." if len(ticked) > most else "")


def spell(text: str) -> str:
    """The valid name that is closest to a text, or an empty string.

    >>> spell("Conv-1"), spell("réseau"), spell("12")
    ('conv_1', 'reseau', '')
    """
    import unicodedata

    plain = unicodedata.normalize("NFKD", text[:60].lower()).encode("ascii", "ignore").decode()
    words = "".join(c if c.isalnum() else "_" for c in plain)
    words = words.strip("_")
    return "" if words[:1].isdigit() else words


def first_of(texts: Sequence[str], most: int = 3, between: str = ", ") -> str:
    """The first few of many texts, and how many more there are.

    >>> first_of(["a", "b"]), first_of(["a", "b", "c"], 1)
    ('a, b', 'a and 2 more')
    """
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return between.join(texts[:most]) + more
