"""How a plain scalar reads: YAML 1.2, so that `no` and `on` are text and `1e-3` is a number."""

from __future__ import annotations

import re

_INT = re.compile(r"[-+]?[0-9]{1,30}|0x[0-9a-fA-F]{1,16}|0o[0-7]{1,20}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,4})?")
_WORDS: dict[str, object] = {
    **dict.fromkeys(["", "~", "null", "Null", "NULL"], None),
    **dict.fromkeys(["true", "True", "TRUE"], True),
    **dict.fromkeys(["false", "False", "FALSE"], False),
    **dict.fromkeys([".inf", "+.inf", ".Inf", ".INF"], float("inf")),
    **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], float("-inf")),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], float("nan")),
}


def resolve_scalar(text: str) -> object:
    """YAML 1.2's reading of a plain scalar.

    >>> [resolve_scalar(text) for text in ("12", "1e-3", "no", "true", "~")]
    [12, 0.001, 'no', True, None]
    """
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text
