"""Leave-one-out studies: an experiment whose rows each lack one role, or one arrow.

The study is an experiment file in the folder of its runs, which can be edited and run again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from ladderspec.errors import LadderspecError, UsageError, did_you_mean, one_of
from ladderspec.experiments.checks import frozen_prefixes
from ladderspec.experiments.reader import Networks, file_beside, open_experiment, read_experiment
from ladderspec.experiments.runs import Run
from ladderspec.files import make_folder, write_atomic
from ladderspec.names import Role
from ladderspec.shipped import located
from ladderspec.text.tree import Node
from ladderspec.trained.lesion import lesion
from ladderspec.wiring.graph import Graph

Kind = Literal["role", "edge"]
HEAD = "# Written by `ladderspec ablate --each-{kind}`: every row but the first lacks one {what}.\n"
WHAT = {"role": "kind of arrow", "edge": "arrow"}


@dataclass(frozen=True)
class Study:
    """A leave-one-out study: its file, what each row lacks, and what cannot be left out."""

    path: Path
    base: Run
    lacks: dict[str, str]  # row -> selector
    required: tuple[str, ...]  # selectors of what cannot be left out
    what: str  # `kind of arrow` or `arrow`
    networks: Networks  # those compiled so far


def make_study(
    source: Path, kind: Kind, output: Path, row: str = "", like: Path | None = None
) -> Study:
    """Write a leave-one-out study.

    Args:
        source: an experiment, or a spec.
        kind: leave out one `role` or one `edge` at a time.
        output: the folder of the study.
        row: the row to study. Default: the base row.
        like: for a spec, the experiment whose data and training are used.
    """
    networks: Networks = {}
    config = _config(source, like, networks)
    chosen = _row(config, row or config.get("base") or "")
    place = make_folder(output) / f"each_{kind}.yaml"
    name = config.get("name") or source.stem
    config |= {
        "name": f"{name}_each_{kind}",
        "title": f"{config.get('title') or name}: one {WHAT[kind]} left out",
        "rows": [chosen],
    }
    for key in ("base", "baselines"):
        config.pop(key, None)
    for column in config.get("columns", []):  # their numbers are about rows of the experiment
        column.pop("paper", None)
    _write(place, kind, config)
    columns = open_experiment(place, networks).select(seeds=[0])
    lacks, required = _selectors(columns, kind)
    config["rows"] += [_without(chosen["name"], name, selector) for name, selector in lacks.items()]
    _write(place, kind, config)
    return Study(place, columns[0], lacks, required, WHAT[kind], networks)


class _Plain(yaml.SafeDumper):
    """A YAML writer without anchors and aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _write(place: Path, kind: Kind, config: dict[str, Any]) -> None:
    text = yaml.dump(config, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=100)
    write_atomic(place, HEAD.format(kind=kind, what=WHAT[kind]) + text)


# --- source ---------------------------------------------------------------------------------------


def _config(source: Path, like: Path | None, networks: Networks) -> dict[str, Any]:
    """An experiment as plain data, with absolute paths."""
    tree = read_experiment(source)
    if "rows" in tree.value:
        if like is not None:
            raise UsageError(f"--like would be ignored: {source} is an experiment itself")
        open_experiment(source, networks)  # reports mistakes at their places in the source
        return _portable(tree)
    if like is None:
        hint = "`--like EXPERIMENT` takes them from one"
        raise UsageError(f"{source} is a spec: it says nothing of data and training; {hint}")
    found = _portable(read_experiment(like))
    if "data" not in found:
        raise UsageError(f"--like needs an experiment: {like} says nothing of data and training")
    for key in ("base", "title", "columns", "params", "set", "tasks", "edges", "without"):
        found.pop(key, None)  # about another spec
    rows = [{"name": "whole", "title": "whole"}]
    return {**found, "name": source.stem, "spec": str(located(source).resolve()), "rows": rows}


def _portable(tree: Node) -> dict[str, Any]:
    config: dict[str, Any] = tree.plain()
    config.pop("extends", None)
    rows = {("start", row["name"]) for row in config.get("rows", [])}  # not paths
    nodes = [tree, *(tree.value["rows"].value if "rows" in tree.value else [])]
    for table, node in zip([config, *config.get("rows", [])], nodes, strict=True):
        for key in ("spec", "start"):
            value = node.get(key)
            if value is not None and value.value is not None and (key, value.value) not in rows:
                table[key] = os.path.abspath(located(file_beside(value)))
    return config


def _row(config: dict[str, Any], name: str) -> dict[str, Any]:
    names = [row["name"] for row in config["rows"]]
    if name and name not in names:
        hint = did_you_mean(name, names) or f"there are {one_of(names, 'and')}"
        raise UsageError(f"no row `{name}`; {hint}")
    found: dict[str, Any] = config["rows"][names.index(name) if name else 0]
    for key, what in (("start", "starts from"), ("of", "builds on")):
        if found.get(key) in names:
            raise UsageError(
                f"row `{found['name']}` {what} row `{found[key]}`, which the study lacks;"
                f" study a row that stands alone"
            )
    return found


# --- selectors ------------------------------------------------------------------------------------


def _selectors(columns: Sequence[Run], kind: Kind) -> tuple[dict[str, str], tuple[str, ...]]:
    """Selectors of what can be left out in every column, by row; and of what cannot."""
    found, required = dict[str, str](), list[str]()
    all_of = _roles if kind == "role" else _arrows
    graphs = [run.graph for run in columns]
    for selector in dict.fromkeys(selector for wired in graphs for selector in all_of(wired)):
        try:
            left = [lesion(wired, [selector]) for wired in graphs]
        except LadderspecError:
            left = []
        frozen = columns[0].freeze  # must still select something
        if not left or not all(frozen_prefixes(wired, text) for wired in left for text in frozen):
            required.append(selector)
            continue
        name = "no_" + re.sub(r"[^a-z0-9]+", "_", selector.removesuffix("@*")).strip("_")
        name = name if len(name) <= 58 else f"no_{len(found) + 1}"
        while name in found:
            name += "_"
        found[name] = selector
    return found, tuple(required)


def _roles(graph: Graph) -> Iterator[str]:
    roles = {role for *_, role in graph.edges(data="role")}
    yield from (f"{role.value}@*" for role in Role if role in roles)


def _arrows(graph: Graph) -> Iterator[str]:
    for source, target, delay in graph.edges(data="delay"):
        delayed = f"(t-{delay})" if delay else ""
        yield f"{source}{delayed} -> {target}"


def _without(row: str, name: str, selector: str) -> dict[str, Any]:
    """A row that lacks what the selector selects."""
    role, at, _ = selector.partition("@")
    title = f"w/o {role.replace('_', ' ')}" if at else f"w/o {selector}"
    return {"name": name, "of": row, "title": title, "without": [selector]}
