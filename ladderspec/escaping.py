"""Text of users inside files of other languages: XML, TeX, Markdown, Graphviz, CSV, a terminal.

Specs refuse control characters, but titles also come from options, from Python and from the
folders of others. Every writer therefore escapes every text with the function of its language.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from textwrap import wrap

from ladderspec.wording import printable

UNKNOWN = "\N{REPLACEMENT CHARACTER}"

# Characters that XML 1.0 forbids, even as entities.
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Controls, halves of surrogate pairs, and marks that reorder the text after them.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_XML = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}
TEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    **{character: "\\" + character for character in "&%$#_{}"},
}  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def one_line(text: str) -> str:
    r"""The text with line breaks and tabs as spaces, and other control characters replaced.

    >>> one_line("a\n  b\x1b[31m")
    'a b\ufffd[31m'
    """
    if text.isprintable():
        return text
    text = re.sub(r"[\t\n\r\v\f\x85\u2028\u2029]\s*", " ", text)
    return _CONTROL.sub(UNKNOWN, text)


def fitted(lines: Iterable[str], width: int | None = None, indent: int = 4) -> list[str]:
    """Texts as single lines, broken between words if they are wider than `width`.

    Lines after the first of a text are indented.

    >>> fitted(["note: one two three"], 14)
    ['note: one two', '    three']
    """
    plain = map(one_line, lines)
    if width is None:
        return list(plain)
    return [
        part
        for line in plain
        for part in (
            [line] if len(line) <= width else wrap(line, width, subsequent_indent=" " * indent)
        )
    ]


def escape_terminal(text: str) -> str:
    r"""The text as it may be printed: control characters other than line breaks are visible.

    >>> escape_terminal("a\x1b[31m\nb")
    'a\\x1b[31m\nb'
    """
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def escape_xml(text: str) -> str:
    """
    >>> escape_xml('a < "b" & c')
    'a &lt; &quot;b&quot; &amp; c'
    """
    return "".join(_XML.get(character, character) for character in _NOT_XML.sub(UNKNOWN, text))


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> str:
    """A table for notebooks.

    >>> html_table(["run"], [["a<b"]])
    '<table><thead><tr><th>run</th></tr></thead><tbody><tr><td>a&lt;b</td></tr></tbody></table>'
    """

    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape_xml(c)}</{tag}>" for c in cells) + "</tr>"

    caption = f"<caption>{escape_xml(title)}</caption>" if title else ""
    body = "".join(line(row, "td") for row in rows)
    return f"<table>{caption}<thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table>"


def escape_tex(text: str) -> str:
    r"""
    >>> escape_tex("50% of a_b")
    '50\\% of a\\_b'
    """
    return "".join(TEX.get(character, character) for character in one_line(text))


def tex_table(caption: str, columns: str, lines: Iterable[str]) -> str:
    """A table environment, whose lines are TeX; one that is too wide shrinks to the line width.

    Args:
        caption: the caption, as TeX.
        columns: the alignment of the columns, like `lrr`.
        lines: the lines of the tabular.
    """
    return "\n".join(
        [
            r"% needs \usepackage{booktabs,graphicx}",
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{caption}}}",
            r"  \medskip",
            rf"  \sbox0{{\begin{{tabular}}{{{columns}}}",
            *(f"    {line}" for line in lines),
            r"  \end{tabular}}%",
            r"  \ifdim\wd0>\linewidth\resizebox{\linewidth}{!}{\usebox0}\else\usebox0\fi",
            r"\end{table}",
            "",
        ]
    )


def tex_comment(text: str) -> str:
    r"""A text for one line after `%`, in ASCII and without `^^5c`, TeX's code of a backslash.

    >>> tex_comment("a\n\\input{b}")
    'a \\input{b}'
    """
    return one_line(text).replace("^", "?").encode("ascii", "replace").decode()


def escape_markdown(text: str) -> str:
    r"""
    >>> escape_markdown("a|b *c* <d>")
    'a\\|b \\*c\\* \\<d\\>'
    """
    return re.sub(r"([\\`*_|<>\[\]&$~])", r"\\\1", one_line(text))


def quote_dot(text: str) -> str:
    """A string of Graphviz's language.

    >>> quote_dot('a "b"')
    '"a \\\\"b\\\\""'
    """
    return '"' + one_line(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def escape_dot_html(text: str) -> str:
    """A text inside an HTML label of Graphviz, which cannot read a `]` before a tag.

    >>> escape_dot_html("[a] & b")
    '[a&#93; &amp; b'
    """
    return escape_xml(one_line(text)).replace("]", "&#93;")


def escape_csv(value: object) -> object:
    """A value of a CSV file; a spreadsheet takes no text for a formula.

    >>> escape_csv("=1+1"), escape_csv(-1.5), escape_csv("a-b")
    ("'=1+1", -1.5, 'a-b')
    """
    if not isinstance(value, str):
        return value
    text = one_line(value)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) or value[:1] in _FORMULA else text
