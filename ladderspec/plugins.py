"""Plug-ins: cells, tasks and so on from installed packages, or from a file on the command line.

A spec alone never imports code: it can only name what is registered.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from ladderspec.arguments import checked
from ladderspec.errors import UsageError

if TYPE_CHECKING:
    from pydantic import BaseModel

GROUPS = ("ladderspec.cells", "ladderspec.tasks", "ladderspec.data")
PREFIX = "ladderspec_plugin_"  # of the module of a plug-in file
_DIGESTS: dict[str, str] = {}  # of plug-in files, by module


def digest_of(value: object) -> tuple[str, str] | None:
    """The name and SHA-256 of the plug-in file that defines a class or function.

    None if it is part of ladderspec or of an installed package.
    """
    module = str(getattr(value, "__module__", ""))
    digest = _DIGESTS.get(module)
    return None if digest is None else (module.removeprefix(PREFIX), digest)


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


def refuse_replacement(what: str, name: str, known: object, new: object) -> None:
    """Refuse a plug-in that would replace something of ladderspec.

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


@cache
def load_installed() -> tuple[str, ...]:
    """Import the entry points of `GROUPS`."""
    names = []
    for entry in [entry for group in GROUPS for entry in entry_points(group=group)]:
        try:
            entry.load()
        except Exception as error:
            raise UsageError(f"plugin `{entry.name}` ({entry.value}) fails: {error!r}") from error
        names.append(entry.name)
    return tuple(names)


@checked
def load_plugin(path: str | Path) -> None:
    """Run a Python file that registers cells, tasks, norms, activations, data sets, formats.

    Args:
        path: The file. It runs with all rights of this process.

    Raises:
        UsageError: if there is no such file, or if it fails.
    """
    path = Path(path)
    if not path.is_file():
        raise UsageError(f"no plugin file {path}")
    name = f"{PREFIX}{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        _DIGESTS[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        spec.loader.exec_module(module)
    except UsageError as error:
        raise UsageError(f"plugin {path} fails: {error}") from error
    except (Exception, SystemExit) as error:
        raise UsageError(f"plugin {path} fails: {error!r}") from error
