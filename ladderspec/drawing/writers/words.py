"""Numbers and words as the formats write them."""

from __future__ import annotations


def number(value: float, digits: int = 2) -> str:
    """
    >>> number(3.0), number(2.456), number(-0.001)
    ('3', '2.46', '0')
    """
    shown = f"{value:.{digits}f}".rstrip("0").rstrip(".")
    return "0" if shown == "-0" else shown


def escaped(text: str) -> str:
    """
    >>> escaped('a < "b" & c')
    'a &lt; &quot;b&quot; &amp; c'
    """
    for sign, word in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(sign, word)
    return text
