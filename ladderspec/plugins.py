"""Plug-ins: cells, tasks and so on from installed packages, or from a file on the command line.

A spec alone never imports code: it can only name what is registered.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from ladderspec.arguments import checked
from ladderspec.errors import UsageError
from ladderspec.files import read_regular

if TYPE_CHECKING:
    from pydantic import BaseModel

ENTRY_POINT_GROUPS = ("ladderspec.cells", "ladderspec.tasks", "ladderspec.data")
_FILES: dict[str, tuple[str, str]] = {}  # name and SHA-256 of plug-in files, by module
_ADMITTED: dict[tuple[str, str], object] = {}  # what plug-ins registered, by kind and name


def files_of(values: Iterable[object]) -> dict[str, str]:
    """The SHA-256 of the plug-in files that define classes or functions, by the file's name.

    Two files of one name have their digests joined. Parts of ladderspec and of installed packages
    have none.
    """
    modules = {
        str(getattr(each, "__module__", ""))
        for value in values
        for each in (value.__mro__ if isinstance(value, type) else (value,))
    }
    found: dict[str, str] = {}
    for name, digest in sorted(_FILES[module] for module in modules if module in _FILES):
        found[name] = f"{found[name]}+{digest}" if name in found else digest
    return found


def of_no_file(values: Iterable[object]) -> list[str]:
    """The names of classes and functions of users that no plug-in file defines.

    A notebook, a script or an installed package has registered them. They have no digest.
    """
    names = {
        str(getattr(value, "__name__", value))
        for value in values
        if not is_built_in(value) and getattr(value, "__module__", "") not in _FILES
    }
    return sorted(names)


def admitted(name: str) -> list[object]:
    """What plug-ins have registered under a name, of any kind."""
    return [value for (_, known), value in _ADMITTED.items() if known == name]


def literal_name(model: type[BaseModel], field: str) -> str:
    """The name by which a file asks for a class: `mine` of its field `kind: Literal["mine"]`.

    Raises:
        UsageError: if the field has another type.
    """
    names = getattr(model.model_fields[field].annotation, "__args__", ())
    if not names:
        name = model.__name__
        raise UsageError(f'the class {name} needs a name: `{field}: Literal["{name.lower()}"]`')
    return str(names[0])


def is_built_in(value: object) -> bool:
    """Whether a class or function is part of ladderspec."""
    return str(getattr(value, "__module__", "")).startswith("ladderspec.")


def check_name(what: str, name: str, known: object, new: object) -> None:
    """Refuse a plug-in that would replace a part of ladderspec; every registry asks here first.

    Args:
        what: What it is, for the message: a cell, a norm, ...
        name: Its name in specs.
        known: The class or function that has the name so far, or None.
        new: The class or function of the plug-in.

    Raises:
        UsageError: if `known` is part of ladderspec and `new` is not.
    """
    if is_built_in(known) and not is_built_in(new):
        article = "an" if what[0] in "aeiou" else "a"
        message = f"there is {article} {what} `{name}` in ladderspec: give yours another name"
        raise UsageError(message)


def admit(what: str, name: str, known: object, new: object) -> None:
    """Check a name like `check_name`, and make a plug-in part of the identity of runs that use it.

    Registries of everything that a run may use call it: cells, tasks, norms, data sets, ...
    """
    check_name(what, name, known, new)
    if not is_built_in(new):
        _ADMITTED[what, name] = new


@cache
def load_installed() -> tuple[str, ...]:
    """Import all plug-ins of installed packages, and return the names of their entry points."""
    names = []
    for entry in [entry for group in ENTRY_POINT_GROUPS for entry in entry_points(group=group)]:
        try:
            entry.load()
        except Exception as error:
            raise UsageError(f"plugin `{entry.name}` ({entry.value}) fails: {error!r}") from error
        names.append(entry.name)
    return tuple(names)


@checked
def load_plugin(path: str | Path) -> None:
    """Run a Python file that registers cells, tasks, norms, activations, data sets, formats.

    A digest of the file is part of the identity of runs that use it, but not of what it imports.

    Args:
        path: The file. It runs with all rights of this process.

    Raises:
        UsageError: if there is no such file, or if it fails.
    """
    path = Path(path)
    if not os.path.isfile(path):
        raise UsageError(f"no plugin file {path}")
    source = read_regular(path)
    digest = hashlib.sha256(source).hexdigest()
    name = f"ladderspec_plugin_{path.stem}_{digest}"  # each content is a module of its own
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise UsageError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name], _FILES[name] = module, (path.stem, digest)
    try:
        # Not by the loader of the file: its cache of bytecode misses changes within a second.
        exec(compile(source, path, "exec", dont_inherit=True), vars(module))
    except UsageError as error:
        raise UsageError(f"plugin {path} fails: {error}") from error
    except (Exception, SystemExit) as error:
        raise UsageError(f"plugin {path} fails: {error!r}") from error
