"""Leave one out: an experiment whose rows lack one role, or one arrow, each.

The study is a file like any other, written into the folder of its runs: it can be read, changed and
run again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from ladderspec.corridor import graph
from ladderspec.errors import LadderspecError, UsageError, did_you_mean, one_of
from ladderspec.experiments.frozen import prefixes
from ladderspec.experiments.open import open_experiment, read_experiment
from ladderspec.experiments.runs import Run
from ladderspec.files import make_folder, write_atomic
from ladderspec.names import Role
from ladderspec.text.tree import Node
from ladderspec.trained.lesion import lesion
from ladderspec.wiring.graph import Graph

Kind = Literal["role", "edge"]
HEAD = "# Written by `ladderspec ablate --each-{kind}`: every row but the first lacks one {what}.\n"
WHAT = {"role": "kind of arrow", "edge": "arrow"}


@dataclass(frozen=True)
class Study:
    """The file of a study; which row lacks what; and what no network can lack."""

    path: Path
    base: Run
    lacks: dict[str, str]  # row -> selector
    kept: tuple[str, ...]  # selectors
    what: str  # that is left out


def make_study(
    source: Path, kind: Kind, output: Path, row: str = "", like: Path | None = None
) -> Study:
    """Write the study of a row of an experiment, or of a spec as `like` would train it."""
    words = _words(source, like)
    chosen = _row(words, row or words.get("base") or "")
    place = make_folder(output) / f"each_{kind}.yaml"
    name = words.get("name") or source.stem
    words |= {
        "name": f"{name}_each_{kind}",
        "title": f"{words.get('title') or name}: one {WHAT[kind]} left out",
        "rows": [chosen],
    }
    words.pop("base", None)
    for column in words.get("columns", []):  # whose numbers are of the rows of the experiment
        column.pop("paper", None)
    _write(place, kind, words)
    columns = open_experiment(place).select(seeds=[0])
    lacks, kept = _selectors(columns, kind)
    words["rows"] += [_without(chosen["name"], name, selector) for name, selector in lacks.items()]
    _write(place, kind, words)
    return Study(place, columns[0], lacks, kept, WHAT[kind])


class _Plain(yaml.SafeDumper):
    """Writes what stands in several rows several times, as people do."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _write(place: Path, kind: Kind, words: dict[str, Any]) -> None:
    text = yaml.dump(words, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=100)
    write_atomic(place, HEAD.format(kind=kind, what=WHAT[kind]) + text)


# --- what it starts from --------------------------------------------------------------------------


def _words(source: Path, like: Path | None) -> dict[str, Any]:
    """An experiment as plain words, with paths that hold wherever it is written."""
    tree = read_experiment(source)
    if "rows" in tree.value:
        open_experiment(source)  # what is wrong with it is said of its own lines
        return _portable(tree)
    if like is None:
        hint = "`--like EXPERIMENT` takes them from one"
        raise UsageError(f"{source} is a spec: it says nothing of data and training; {hint}")
    found = _portable(read_experiment(like))
    for word in ("base", "title", "columns", "params", "set", "tasks", "edges", "without"):
        found.pop(word, None)  # what was said of another spec
    rows = [{"name": "whole", "title": "whole"}]
    return {**found, "name": source.stem, "spec": str(source.resolve()), "rows": rows}


def _portable(tree: Node) -> dict[str, Any]:
    words: dict[str, Any] = tree.plain()
    words.pop("extends", None)
    rows = {("start", row["name"]) for row in words.get("rows", [])}  # which are no paths
    nodes = [tree, *(tree.value["rows"].value if "rows" in tree.value else [])]
    for own, node in zip([words, *words.get("rows", [])], nodes, strict=True):
        for word in ("spec", "start"):
            said = node.get(word)
            if said is not None and said.value is not None and (word, said.value) not in rows:
                own[word] = os.path.abspath(Path(said.source.name).parent / str(said.value))
    return words


def _row(words: dict[str, Any], name: str) -> dict[str, Any]:
    names = [row["name"] for row in words["rows"]]
    if name and name not in names:
        hint = did_you_mean(name, names) or f"there are {one_of(names, 'and')}"
        raise UsageError(f"no row `{name}`; {hint}")
    found: dict[str, Any] = words["rows"][names.index(name) if name else 0]
    for word, what in (("start", "starts from"), ("of", "builds on")):
        if found.get(word) in names:
            raise UsageError(
                f"row `{found['name']}` {what} row `{found[word]}`, which the study lacks;"
                f" study a row that stands alone"
            )
    return found


# --- what it leaves out ---------------------------------------------------------------------------


def _selectors(columns: Sequence[Run], kind: Kind) -> tuple[dict[str, str], tuple[str, ...]]:
    """What can be left out in every column, by the name of its row; and what cannot."""
    found, kept = dict[str, str](), list[str]()
    all_of = _roles if kind == "role" else _arrows
    graphs = [graph(run.spec) for run in columns]
    for selector in dict.fromkeys(selector for wired in graphs for selector in all_of(wired)):
        try:
            left = [lesion(wired, [selector]) for wired in graphs]
        except LadderspecError:
            left = []
        frozen = columns[0].freeze  # which must still select something
        if not left or not all(prefixes(wired, text) for wired in left for text in frozen):
            kept.append(selector)
            continue
        name = "no_" + re.sub(r"[^a-z0-9]+", "_", selector.removesuffix("@*")).strip("_")
        name = name if len(name) <= 58 else f"no_{len(found) + 1}"
        while name in found:
            name += "_"
        found[name] = selector
    return found, tuple(kept)


def _roles(graph: Graph) -> Iterator[str]:
    there = {facts["role"] for *_, facts in graph.edges(data=True)}
    yield from (f"{role.value}@*" for role in Role if role in there)


def _arrows(graph: Graph) -> Iterator[str]:
    for source, target, facts in graph.edges(data=True):
        delay = f"(t-{facts['delay']})" if facts["delay"] else ""
        yield f"{source}{delay} -> {target}"


def _without(row: str, name: str, selector: str) -> dict[str, Any]:
    """The row without what the selector means."""
    role, at, _ = selector.partition("@")
    title = f"w/o {role.replace('_', ' ')}" if at else f"w/o {selector}"
    return {"name": name, "of": row, "title": title, "without": [selector]}
