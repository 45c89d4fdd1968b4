"""Graphviz text -> png or pdf: by the program `dot`, else by the wheel pygraphviz."""

from __future__ import annotations

import shutil
import subprocess
from importlib import import_module

from ladderspec.errors import UsageError

DPI = 144
HOW_TO_INSTALL = (
    "install Graphviz (apt install graphviz, brew install graphviz, or graphviz.org),"
    " or pip install 'ladderspec[draw]'"
)


class NoGraphviz(UsageError):
    """Nothing here can make a raster image or a pdf."""


def render(text: str, form: str) -> bytes:
    """An image of a Graphviz text."""
    program = shutil.which("dot")
    if program:
        return _by_program(program, text, form)
    return _by_wheel(text, form)


def _by_program(program: str, text: str, form: str) -> bytes:
    command = [program, f"-T{form}", *([f"-Gdpi={DPI}"] if form == "png" else [])]
    try:
        done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    except OSError as error:
        raise NoGraphviz(f"cannot run {program}: {error.strerror}") from None
    if done.returncode or not done.stdout:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise NoGraphviz(f"{program} made no {form}: {said[-1] if said else 'it said nothing'}")
    return done.stdout


def _by_wheel(text: str, form: str) -> bytes:
    try:
        pygraphviz = import_module("pygraphviz")
    except ImportError:
        raise NoGraphviz(f"{form} needs Graphviz: {HOW_TO_INSTALL}") from None
    graph = pygraphviz.AGraph(string=text)
    if form == "png":
        graph.graph_attr["dpi"] = str(DPI)
    try:
        image: bytes = graph.draw(format=form, prog=graph.graph_attr["layout"] or "dot")
    except (OSError, ValueError) as error:
        raise NoGraphviz(f"pygraphviz made no {form}: {error}; {HOW_TO_INSTALL}") from None
    return image
