"""The source of the functions that run, as an exported file contains it.

Functions of ladderspec are shortened, and its cells are written in place: they are a closed set,
and every one of them is tested against the network. Functions of users are written as they stand
and called. Their file is compiled and compared with what runs, so that nothing can be lost.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import marshal
import re
import symtable
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple, NoReturn, TypeGuard

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

    @property
    def function(self) -> str:
        """It as a function."""
        name = self.text.removesuffix(f"({self.argument})")
        return name if name.isidentifier() else f"lambda {self.argument}: {self.text}"

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
    meant: dict[str, Any] = field(default_factory=dict)  # functions, or texts of constants
    classes: set[str] = field(default_factory=set)  # names that are no longer free
    later: set[str] = field(default_factory=set)  # functions whose annotations are not evaluated

    def function(self, function: Callable[..., Any], name: str = "") -> str:
        """Define a function, and all that it uses; under another `name`, if given."""
        if not isinstance(function, FunctionType):
            self.refuse(f"`{getattr(function, '__qualname__', function)}` is no plain function")
        name = re.sub(r"\W", "_", name or function.__name__)
        if name not in self.texts:
            self._check_free(name)
            self.texts[name] = ""  # a function may use itself
            if is_own(function):
                text = self._source(function)
                text = text.replace(f"def {function.__name__}(", f"def {name}(", 1)
            else:
                text = self._verbatim(function, name)
            bare = text if is_own(function) else _without_annotations(text)
            self.later |= {name} if bare != text else set()
            self._define(function, names_in(bare))
            del self.texts[name]
            self.texts[name] = text
        if self.meant.setdefault(name, function) is not function:
            self.refuse_second(name)
        return name

    def call(self, function: Callable[..., Any], given: Iterable[str], name: str = "") -> str:
        """A call of a function that the file then defines; arguments by default are left out."""
        called, texts, by_name = self.function(function, name), list[str](), False
        parameters = inspect.signature(function).parameters.values()
        for parameter, value in zip(parameters, given, strict=True):
            by_name |= parameter.kind is parameter.KEYWORD_ONLY
            if value == repr(parameter.default) and parameter.kind != parameter.POSITIONAL_ONLY:
                by_name = True
            else:
                texts.append(f"{parameter.name}={value}" if by_name else value)
        return f"{called}({', '.join(texts)})"

    def reference(self, texts: Iterable[str]) -> None:
        """Define what texts use of `REFERENCE`, and all that this uses."""
        for name in sorted(set[str]().union(*map(names_in, texts)) - self.texts.keys()):
            if name in REFERENCE:
                self.texts[name] = REFERENCE[name]
                self.reference([REFERENCE[name]])

    def expression(self, function: Callable[..., Any], name: str) -> Expression:
        """A function of one argument: what it returns, if that is a simple call, or its name."""
        if not is_own(function):
            return Expression("x", f"{self.function(function, name)}(x)")
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
        """The lines of the body of a function of ladderspec, with its arguments filled in.

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
        used = names_in(block("def forward(self, t, **values):", lines))
        self._define(function, used - read - {further})
        return [part for line in lines for part in fit(line, WIDTH - 8)]

    def _source(self, function: Callable[..., Any]) -> str:
        """A function of ladderspec without its decorators, inner imports and examples."""
        source = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(source).body[0]
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

    def _verbatim(self, function: FunctionType, name: str) -> str:
        """A function of a user under some name, as it stands, without its decorators.

        Raises:
            UsageError: unless the text compiles to what runs, and that depends on its file alone.
        """
        code, what = function.__code__, f"`{function.__qualname__}`"
        if code.co_freevars:
            self.refuse(
                f"{what} uses `{code.co_freevars[0]}` of the function that made it, perhaps a"
                " decorator; write it as a plain function, with all that it uses in its file"
            )
        try:
            lines = inspect.findsource(code)[0]
            file = compile("".join(lines), code.co_filename, "exec", dont_inherit=True)
            if marshal.dumps(code, 2) not in [marshal.dumps(each, 2) for each in _all_in(file)]:
                raise OSError
            node = next(each for each in ast.walk(ast.parse("".join(lines))) if _makes(each, code))
        except (OSError, SyntaxError, StopIteration):
            why = f"{what} is no plain function, or its file is not the one that was loaded"
            self.refuse(why)
        lines, indent = lines[node.lineno - 1 : node.end_lineno], " " * node.col_offset
        text = "".join(line.removeprefix(indent) for line in lines).rstrip()
        text = re.sub(r"def\s+\w+", f"def {name}", text, count=1)
        try:
            is_same = _tree(ast.parse(text).body[0]) == _tree(node)
        except SyntaxError:
            is_same = False
        if not is_same:
            self.refuse(f"a text in {what} has several lines")
        defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        values = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        if list(map(ast.unparse, defaults)) != list(map(repr, values)) or not literal(values):
            self.refuse(f"a default of {what} is no plain number, text, tuple or list")
        for each in ast.walk(node):
            if isinstance(each, ast.Import | ast.ImportFrom):
                self._check_imports(each)
            elif isinstance(each, ast.Global):
                self.refuse(f"{what} has a line `global {each.names[0]}`")
        return text

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
        self._check_import(module or part)
        if root == name == "torch":
            part = root  # which has all of its modules
        text = part if part.partition(".")[0] == name else f"{part} as {name}"
        if self.imports.setdefault(name, (module, text)) != (module, text) or name in self.texts:
            self.refuse_second(name)

    def _check_imports(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.ImportFrom):
            self._check_import("." * node.level + (node.module or ""))
            return
        for alias in node.names:
            self._check_import(alias.name)

    def _check_import(self, module: str) -> None:
        root = module.partition(".")[0]
        if root != "torch" and root not in sys.stdlib_module_names:
            self.refuse(f"its source imports `{module}`, but an exported file needs torch only")

    def _define(self, function: Callable[..., Any], names: set[str]) -> None:
        """Define what a function uses from outside itself."""
        variables = function.__globals__
        for name in sorted(names):
            known, value = name in variables, variables.get(name)
            if name.startswith("__"):
                self.refuse(f"`{function.__qualname__}` uses `{name}`")
            if not known and name in {*dir(builtins), *self.imports, *REFERENCE, *self.texts}:
                continue
            if inspect.ismodule(value):
                self._add_import(name, *value.__name__.rpartition(".")[::2])
            elif isinstance(value, FunctionType) and (
                value.__globals__ is variables or value.__globals__ is vars(functions)
            ):
                self.function(value, name)
            elif known and literal(value):
                self._check_free(name)
                text = f"{name} = {value!r}"
                if self.texts.setdefault(name, text) != text:
                    self.refuse_second(name)
            elif not (known and _imported(name, value)):
                self.refuse(
                    f"`{function.__qualname__}` uses `{name}`, which is neither a module nor a"
                    " function, finite number, text or tuple of its file"
                )

    def _check_free(self, name: str) -> None:
        """Refuse a name of something else in the file."""
        if hasattr(builtins, name):
            self.refuse(f"`{name}` is a name of Python itself; rename it")
        if name in {*REFERENCE, *self.imports, *self.classes}:
            self.refuse_second(name)

    @property
    def names(self) -> set[str]:
        """The names that the file has so far, besides those of its classes."""
        return {*dir(builtins), *REFERENCE, *self.imports, *self.texts}

    def refuse(self, why: str) -> NoReturn:
        raise UsageError(f"cannot export {self.owner}: {why}")

    def refuse_second(self, name: str) -> NoReturn:
        self.refuse(f"another `{name}` is in the file; rename it")


def is_own(function: Callable[..., Any]) -> bool:
    """Whether a function is part of ladderspec, not of a plug-in; decorators cannot pretend it."""
    return isinstance(function, FunctionType) and function.__globals__["__name__"].startswith(
        "ladderspec."
    )


def literal(value: Any) -> bool:
    """Whether Python reads back what `repr` writes.

    >>> literal((1, -0.5, "a")), literal(float("inf")), literal({})
    (True, False, False)
    """
    if type(value) in (tuple, list):
        return all(map(literal, value))
    if type(value) is float:
        return isfinite(value)
    return type(value) in (int, bool, str, type(None))


def _imported(name: str, value: Any) -> bool:
    """Whether a name means in a user's file what it means in an exported one."""
    module, part = IMPORTS.get(name, (functions.__name__, name))
    return getattr(sys.modules.get(module), part, _imported) is value


def _makes(node: ast.AST, code: CodeType) -> TypeGuard[ast.FunctionDef]:
    """Whether a definition stands where that of a function was compiled from."""
    if not isinstance(node, ast.FunctionDef) or node.name != code.co_name:
        return False
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return first == code.co_firstlineno


def _all_in(code: CodeType) -> Iterator[CodeType]:
    """The code of a file and of all functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_in(constant)


def _tree(function: ast.AST) -> str:
    """What a function consists of, besides its name, decorators and docstring, which go."""
    assert isinstance(function, ast.FunctionDef)
    function.name, function.decorator_list = "", []
    if ast.get_docstring(function) is not None:
        del function.body[0]
    return ast.dump(function)


def _without_annotations(text: str) -> str:
    """A function without its annotations, which files with functions of users do not evaluate."""
    tree, found = ast.parse(text), False
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation:
            node.annotation, found = None, True
        elif isinstance(node, ast.FunctionDef) and node.returns:
            node.returns, found = None, True
        elif isinstance(node, ast.AnnAssign):
            node.annotation, found = ast.Constant(None), True
    return ast.unparse(tree) if found else text


def names_in(text: str) -> set[str]:
    """The names that a piece of Python reads from outside itself.

    >>> sorted(names_in("def g(x):\\n    i = f(x)\\n    return i"))
    ['f']
    """

    def scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
        for child in table.get_children():
            yield child
            yield from scopes(child)

    top = symtable.symtable(text, "", "exec")
    outer = [each for each in top.get_symbols() if each.is_referenced() and not each.is_assigned()]
    inner = [each for scope in scopes(top) for each in scope.get_symbols() if each.is_global()]
    return {each.get_name() for each in (*outer, *inner)}


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
