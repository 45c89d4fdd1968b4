"""The source of the functions that run, as an exported file contains it."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from ladderspec.cells import functions
from ladderspec.errors import UsageError

WIDTH = 100
IMPORTS = {  # what a file may import, by name: the module, and what of it
    "torch": ("", "torch"),
    "Tensor": ("torch", "Tensor"),
    "nn": ("torch", "nn"),
    "functional": ("torch.nn", "functional"),
    "deque": ("collections", "deque"),
    "pairwise": ("itertools", "pairwise"),
}


def _definitions(path: Path) -> dict[str, str]:
    """The functions and classes of a file, by name."""
    text = path.read_text(encoding="utf-8")
    parts = [p for p in ast.parse(text).body if isinstance(p, ast.FunctionDef | ast.ClassDef)]
    return {part.name: ast.get_source_segment(text, part) or "" for part in parts}


REFERENCE = {  # what exported files use besides the source of cells, by name
    "Pair": "Pair = tuple[int, int]  # height and width",
    "Shape": "Shape = tuple[int, ...]  # without the batch",
    **_definitions(Path(__file__).with_name("reference.py")),  # read, not imported: no torch
}


class Tensor:
    """Stands for an argument that is a tensor: all that is known is that it is not None."""

    def __eq__(self, other: object) -> bool:
        raise TypeError("not known before the network runs")

    __bool__ = __hash__ = None  # type: ignore[assignment]


class Expression(NamedTuple):
    """An argument that is called: its own argument, and the expression that replaces the call."""

    argument: str
    text: str

    def on(self, given: str) -> str:
        """The expression of what is given.

        >>> Expression("x", "x.relu()").on("a + b"), Expression("x", "elu(x)").on("a + b")
        ('(a + b).relu()', 'elu(a + b)')
        """
        whole = ast.parse(self.text, mode="eval").body
        alone = isinstance(whole, ast.Call) and self.argument in map(ast.unparse, whole.args)
        simple = isinstance(
            ast.parse(given, mode="eval").body, ast.Name | ast.Call | ast.Attribute | ast.Subscript
        )
        given = given if alone or simple else f"({given})"
        return re.sub(rf"\b{self.argument}\b", lambda _: given, self.text, count=1)


@dataclass
class Definitions:
    """What the file defines besides its modules: constants and functions by name, in order."""

    owner: str = ""  # whose source is read, for messages
    texts: dict[str, str] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=lambda: dict(IMPORTS))
    meant: dict[str, Any] = field(default_factory=dict)  # functions and constants by name

    def function(self, function: Callable[..., Any], name: str = "") -> str:
        """Define a function, and all that it uses; under another `name`, if given."""
        name = name or function.__name__
        if name not in self.texts:
            self.texts[name] = ""  # a function may use itself
            text = self._source(function)
            self._define(function, names_in(text))
            del self.texts[name]
            self.texts[name] = text.replace(f"def {function.__name__}(", f"def {name}(", 1)
        if self.meant.setdefault(name, function) is not function or name in REFERENCE:
            self._refuse_second(name)
        return name

    def call(self, function: Callable[..., Any], given: Iterable[str], name: str = "") -> str:
        """A call of a function that the file then defines; arguments by default are left out."""
        texts, by_name = list[str](), False
        parameters = inspect.signature(function).parameters.values()
        for parameter, value in zip(parameters, given, strict=True):
            by_name |= parameter.kind is parameter.KEYWORD_ONLY
            if value == repr(parameter.default):
                by_name = True
            else:
                texts.append(f"{parameter.name}={value}" if by_name else value)
        return f"{self.function(function, name)}({', '.join(texts)})"

    def reference(self, texts: Iterable[str]) -> None:
        """Define what texts use of `REFERENCE`, and all that this uses."""
        for name in sorted(set[str]().union(*map(names_in, texts)) - self.texts.keys()):
            if name in REFERENCE:
                self.texts[name] = REFERENCE[name]
                self.reference([REFERENCE[name]])

    def expression(self, function: Callable[..., Any]) -> Expression:
        """A function of one argument: what it returns, if that is a simple call, or its name."""
        (argument,) = inspect.signature(function).parameters
        source = self._source(function)
        *others, last = _statements(source)
        value = last.value if isinstance(last, ast.Return) else None
        names = [node.id for node in ast.walk(last) if isinstance(node, ast.Name)]
        once = not others and names.count(argument) == 1
        if once and isinstance(value, ast.Call | ast.Name):
            text = ast.get_source_segment(source, value) or ""
            self._define(function, names_in(text) - {argument})
            return Expression(argument, text)
        return Expression(argument, f"{self.function(function)}({argument})")

    def body(
        self,
        function: Callable[..., Any],
        known: Mapping[str, Any],
        text_of: Callable[[str], str],
        further: str = "",
    ) -> list[str]:
        """The lines of a function's body with its arguments filled in.

        Branches that the arguments decide are resolved, so that a class only contains what it
        computes.

        Args:
            function: A plain function.
            known: What is known of its arguments: a Tensor, an Expression, or a constant.
            text_of: Gives the text of an argument that is read.
            further: A variable that is returned, too.
        """
        source = _with_calls(_resolved(self._source(function), known), known)
        names = [node for node in _nodes(source) if isinstance(node, ast.Name)]
        read = {each.id for each in names} & inspect.signature(function).parameters.keys()
        changed = read & {each.id for each in names if isinstance(each.ctx, ast.Store)}
        texts = {name: text_of(name) for name in sorted(read)}
        begin = [f"{name} = {texts[name]}" for name in sorted(changed) if texts[name] != name]
        edits = [(each, texts[each.id]) for each in names if each.id in read - changed]
        source = _edited(source, edits)
        returns = [node for node in _nodes(source) if isinstance(node, ast.Return) and further]
        segments = [(node, ast.get_source_segment(source, node)) for node in returns]
        source = _edited(source, [(node, f"{text}, {further}") for node, text in segments])
        statements, lines = _statements(source), source.splitlines()
        start, end = statements[0].lineno - 1, statements[-1].end_lineno
        while lines[start - 1].lstrip().startswith("#"):
            start -= 1
        lines = [*begin, *textwrap.dedent("\n".join(lines[start:end])).splitlines()]
        self._define(function, names_in("\n".join(lines)) - read - {"self", "t", "values", further})
        return [part for line in lines for part in fit(line, WIDTH - 8)]

    def _source(self, function: Callable[..., Any]) -> str:
        """The source of a function without its decorators, inner imports and examples."""
        try:
            source = textwrap.dedent(inspect.getsource(function))
        except (OSError, TypeError):
            raise self._refusal(f"`{function.__qualname__}` has no source to read") from None
        tree = ast.parse(source).body[0]
        if not isinstance(tree, ast.FunctionDef):
            raise self._refusal(f"`{function.__qualname__}` is no plain function")
        dropped = set(range(1, tree.lineno))  # decorators
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                dropped |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
                self._import(node)
        lines = [
            line
            for number, line in enumerate(source.splitlines(), 1)
            if number not in dropped and (line.strip() or number - 1 not in dropped)
        ]
        return _without_examples("\n".join(lines))

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            module, part = "", alias.name
            if isinstance(node, ast.ImportFrom):
                module = node.module or "."
            elif alias.asname:
                module, _, part = part.rpartition(".")
            self._add_import(alias.asname or part.partition(".")[0], module, part)

    def _add_import(self, name: str, module: str, part: str) -> None:
        """Import `part` of a module, or a module itself, under a name."""
        root = (module or part).partition(".")[0]
        if root != "torch" and root not in sys.stdlib_module_names:
            raise self._refusal(
                f"its source imports `{module or part}`, but an exported file needs torch only"
            )
        if root == name == "torch":
            part = root  # which has all of its modules
        text = part if part.partition(".")[0] == name else f"{part} as {name}"
        if self.imports.setdefault(name, (module, text)) != (module, text):
            self._refuse_second(name)

    def _define(self, function: Callable[..., Any], names: set[str]) -> None:
        """Define what a function uses from outside itself."""
        files = (function.__module__, functions.__name__)
        for name in sorted(names - {*dir(builtins), *self.imports}):
            value = function.__globals__.get(name)
            if inspect.ismodule(value):
                self._add_import(name, *value.__name__.rpartition(".")[::2])
            elif inspect.isfunction(value) and value.__module__ in files:
                self.function(value, name)
            elif isinstance(value, int | float | str | tuple | bool):
                self.texts[name] = f"{name} = {value!r}"
                if self.meant.setdefault(name, value) != value:
                    self._refuse_second(name)
            elif name not in {*self.texts, *REFERENCE}:
                raise self._refusal(
                    f"`{function.__qualname__}` uses `{name}`, which is neither a module nor a"
                    " function, number, text or tuple of its file"
                )

    def _refuse_second(self, name: str) -> None:
        raise self._refusal(f"another `{name}` is in the file; rename it")

    def _refusal(self, why: str) -> UsageError:
        return UsageError(f"cannot export {self.owner}: {why}")


def names_in(text: str) -> set[str]:
    """The names that a piece of Python reads from outside itself.

    >>> sorted(names_in("def g(x):\\n    i = f(x)\\n    return i"))
    ['f']
    """
    nodes = list(ast.walk(ast.parse(text)))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    stored = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    stored |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    stored |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    return {name.id for name in names} - stored


# --- edits of source ------------------------------------------------------------------------------


def _nodes(source: str) -> list[ast.AST]:
    """What the body of a function consists of."""
    return [node for statement in _statements(source) for node in ast.walk(statement)]


def _statements(source: str) -> list[ast.stmt]:
    """The body of a function, without its docstring and what follows its return."""
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    first = int(ast.get_docstring(function) is not None)
    returns = [n for n, each in enumerate(function.body, 1) if isinstance(each, ast.Return)]
    return function.body[first : min(returns, default=None)]


def _without_examples(source: str) -> str:
    """A function whose docstring ends before its arguments and examples."""
    head, quotes, rest = source.partition('"""')
    doc, closing, body = rest.partition('"""')
    shorter = re.split(r"\s*\n\s*(?:>>>|Args:)", doc)[0]
    if not closing or shorter == doc:
        return source
    end = "\n    " if "\n" in shorter else ""
    return f"{head}{quotes}{shorter}{end}{closing}{body}"


def _resolved(source: str, known: Mapping[str, Any]) -> str:
    """A function without the branches that its arguments decide."""
    nodes = _nodes(source)
    stores = [n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    for node in nodes:
        if not isinstance(node, ast.If | ast.IfExp):
            continue
        if source.splitlines()[node.lineno - 1][node.col_offset :].startswith("elif"):
            continue
        inside = set(ast.walk(node))
        stored = {name.id for name in stores if name not in inside}
        test = compile(ast.Expression(node.test), "", "eval")
        try:
            holds = eval(test, {}, {name: known[name] for name in known.keys() - stored})
        except Exception:  # whatever it reads, the arguments do not decide it
            continue
        text = _branch(source, node, node.body if holds else node.orelse)
        return _resolved(_edited(source, [(node, text)]), known)
    return source


def _branch(source: str, node: ast.If | ast.IfExp, chosen: ast.expr | list[ast.stmt]) -> str:
    """The text of a branch, in place of the whole condition."""
    if isinstance(chosen, ast.expr):
        return ast.get_source_segment(source, chosen) or ""
    if not chosen:
        return ""
    begin = chosen[0].col_offset
    first, *others = source.splitlines()[chosen[0].lineno - 1 : chosen[-1].end_lineno]
    text = textwrap.dedent("\n".join([" " * begin + first[begin:], *others]))
    return textwrap.indent(text, " " * node.col_offset).lstrip().removeprefix("el")  # elif


def _with_calls(source: str, known: Mapping[str, Any]) -> str:
    """A function in which the calls of its arguments are written out."""
    for node in reversed(_nodes(source)):  # the innermost first
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = known.get(node.func.id)
            if isinstance(called, Expression):
                given = ast.get_source_segment(source, node.args[0]) or ""
                return _with_calls(_edited(source, [(node, called.on(given))]), known)
    return source


def _edited(source: str, edits: Iterable[tuple[Any, str]]) -> str:
    """The source with some expressions replaced by other text."""
    lines = source.splitlines()
    for node, text in sorted(edits, key=lambda e: (e[0].lineno, e[0].col_offset), reverse=True):
        before = lines[node.lineno - 1].encode()[: node.col_offset].decode()
        after = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode()
        lines[node.lineno - 1 : node.end_lineno] = (
            f"{before}{text}{after}".splitlines() if text else []
        )
    return "\n".join(lines)


# --- lines that fit -------------------------------------------------------------------------------


def block(head: str, body: Iterable[str]) -> str:
    """A line and what is indented below it."""
    return head + "\n" + textwrap.indent("\n".join(body), "    ")


def fitted(text: str) -> str:
    """A text whose lines fit."""
    return "\n".join(part for line in text.splitlines() for part in fit(line))


def fit(line: str, width: int = WIDTH) -> list[str]:
    """A line as it is, or with one argument per line if it is too long.

    The comma after the last argument keeps formatters of any width from joining them again.

    >>> arguments = ", ".join(f"edge_{k}=Map(1)" for k in range(2))
    >>> print("\\n".join(fit(f"    wide = Conv({arguments})", 40)))
        wide = Conv(
            edge_0=Map(1),
            edge_1=Map(1),
        )
    """
    if len(line) <= width:
        return [line]
    pairs, cuts, depth = [[0, 0]], list[int](), 0  # brackets, with the commas between them
    for found in re.finditer(r'"[^"]*(?:"|$)|[(\[{]|[)\]}]|,', line):
        at, mark = found.start(), found[0]
        depth += (mark in "([{") - (mark in ")]}")
        if mark in "([{" and depth == 1:
            cuts = [at]
        elif mark in ")]}" and depth == 0:
            subscript = re.search(r"[\w)\]]\[$", line[: cuts[0] + 1])
            pairs += [] if subscript else [[*cuts, at]]
        elif mark == "," and depth == 1:
            cuts.append(at)
    cuts = max(pairs, key=lambda pair: pair[-1] - pair[0])  # the widest pair
    if cuts[-1] - cuts[0] < 2:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()))
    arguments = [line[a + 1 : b].strip() for a, b in pairwise(cuts)]
    inside = [part for a in arguments if a for part in fit(f"{indent}    {a},", width)]
    return [line[: cuts[0] + 1], *inside, f"{indent}{line[cuts[-1] :]}"]
