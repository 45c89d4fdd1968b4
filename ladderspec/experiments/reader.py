"""Reads an experiment file: YAML -> Experiment, with every mistake at its place.

Settings are merged in layers: those of the file, then of the column, then of the row and the rows
that it builds on.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from ladderspec.api import compile_once, compiled
from ladderspec.data import DataConfig, DataError, DataSet, registered
from ladderspec.errors import (
    Finding,
    Findings,
    Place,
    Source,
    SpecError,
    did_you_mean,
    one_of,
    registered_name_meant,
    tick,
)
from ladderspec.experiments.checks import (
    check_baselines,
    check_batch,
    check_frozen,
    check_names,
    check_noise,
    check_paper,
    check_starts,
)
from ladderspec.experiments.config import (
    ExperimentColumn,
    ExperimentConfig,
    ExperimentRow,
    Quoted,
    RunChanges,
    base_row,
)
from ladderspec.experiments.fit import misfits
from ladderspec.experiments.runs import Experiment, Run
from ladderspec.experiments.training import (
    EvaluationConfig,
    MachineConfig,
    OptimiserConfig,
    TrainingConfig,
    refresh,
)
from ladderspec.language.explain import example, explain, show
from ladderspec.language.extends import extend, merge, read_source
from ladderspec.language.fields import Loc, present
from ladderspec.language.read import (
    COMMAND_LINE,
    MAX_ROUNDS,
    Document,
    Request,
    Spec,
    open_document,
    parse_set,
    read,
)
from ladderspec.language.unknown_keys import find_unknown_keys
from ladderspec.shipped import PREFIX, located
from ladderspec.text.parse import parse
from ladderspec.text.tree import Node, items_of
from ladderspec.wiring.graph import Graph

M = TypeVar("M", bound=BaseModel)


# Networks that are compiled already, by the file of the spec and the changes to it.
Networks = dict[tuple[Path, str], tuple[Spec, Graph]]


def open_experiment(
    path: str | Path,
    networks: Networks | None = None,
    changes: Sequence[str] = (),
    check_data: bool = False,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> Experiment:
    """Read an experiment file.

    Args:
        path: the file; `ladderspec:experiments/quickstart` is a shipped one.
        networks: lets several experiments share their networks: those in it are not compiled
            again, and those that are compiled are added to it.
        changes: fields to change in all runs, like `training.updates=300`.
        check_data: whether data that need no downloaded files are made, to see if they fit.
        rows: the rows that must take the changes; others that cannot are left out. Default: all.
        columns: likewise for columns.

    Raises:
        SpecError: all mistakes in the file and in its specs.
    """
    findings, path = Findings(), located(path)
    tree = _tree(path, findings)
    _refuse_spec(tree)
    over = _overrides(changes, findings)
    tree = _merge_file(tree, over)
    config, tree = _validate(tree, ExperimentConfig, findings)
    missing = {key for key in ("data", "training") if tree.get(key) is None}
    if config is None:  # go on without the wrong parts, to report all mistakes at once
        config, tree = _salvaged(tree)
    cells: list[Run] = []
    if config is not None:
        known = {} if networks is None else networks
        reader = _ExperimentReader(path, config, tree, over, findings, known)
        reader.opened = {} if check_data else None
        reader.chosen, reader.missing = (tuple(rows), tuple(columns)), frozenset(missing)
        cells = reader.cells()
    findings.raise_if_any()
    assert config is not None
    runs = [run.of_seed(seed) for run in cells for seed in config.seeds]
    return Experiment(path, config, tuple(runs), tuple(changes))


_FIELDS = {
    "training": TrainingConfig.model_fields,
    "evaluation": EvaluationConfig.model_fields,
    "training.optimiser": OptimiserConfig.model_fields,
    "machine": MachineConfig.model_fields,
}


def _overrides(changes: Sequence[str], findings: Findings) -> Node:
    """The changes of a command line as a tree; those of nodes and tasks stand under `set`."""
    over = Node({}, Source(COMMAND_LINE, ""), 0, 0)
    for item in changes:
        if (node := parse_set(item, findings, "training.updates=300")) is None:
            continue
        path = str(node.key).split(".")
        if path[0] not in ExperimentConfig.model_fields:  # of the spec
            section = next((name for name, model in _FIELDS.items() if path[0] in model), None)
            if section is not None:
                hint = f"did you mean `{section}.{node.key}`?"
                message = f"{tick(node.key)} cannot be set"
                place = Place(node.source, 0, len(str(node.key)))
                findings.add(Finding("G202", message, place, str(node.key), hint))
                continue
            path = ["set", str(node.key)]
        for key in reversed(path):
            node.key = key
            table = Node({key: node}, node.source, 0, node.end)
            table.keys[key] = (node.source, 0, len(item.partition("=")[0]))
            node = table
        over = merge(over, node)
    return over


def _merge_file(tree: Node, over: Node) -> Node:
    """The file with those changes that rows and columns cannot make."""
    own = {key: node for key, node in items_of(over) if key not in (*_PATCH, *_SECTIONS)}
    return merge(tree, over.replaced(own)) if own and isinstance(tree.value, dict) else tree


def _refuse_spec(tree: Node) -> None:
    keys = set(tree.value) if isinstance(tree.value, dict) else set()
    if "rows" not in keys and {"levels", "input"} & keys:
        name = next(iter({"levels", "input"} & keys))
        hint = (
            f"an experiment names it: `spec: {Path(tree.source.name).name}`, beside `data`,"
            " `rows` and `training`; `ladderspec new --from experiments/quickstart` writes one"
        )
        message = "this is a spec, not an experiment"
        raise SpecError([Finding("S104", message, tree.key_place(name), hint=hint)])


def _salvaged(tree: Node) -> tuple[ExperimentConfig | None, Node]:
    """The part of an experiment that is right, if that can be read."""
    for _ in range(MAX_ROUNDS):
        if not isinstance(tree.value, dict):
            break
        if "rows" not in tree.value:  # what else is wrong shows in one without changes
            name = Node("whole", tree.source, tree.start, tree.start)
            row = tree.replaced({"name": name})
            rest = {key: node for key, node in tree.value.items() if key != "base"}
            tree = tree.replaced({**rest, "rows": tree.replaced([row])})
        empty = tree.replaced({})
        tree = tree.replaced({"data": empty, "training": empty, **tree.value})
        try:
            return ExperimentConfig.model_validate(tree.plain()), tree
        except ValidationError as error:
            for item in error.errors(include_url=False, include_input=False):
                tree = _without(tree, present(tree, item["loc"]))
    return None, tree


def _without(tree: Node, loc: Loc) -> Node:
    """The tree without the row, column or field at `loc`, or the entry of a row or column."""
    if not loc or str(loc[0]) not in tree.value:
        return tree
    key, rest = str(loc[0]), loc[1:]
    value = tree.value[key]
    if key in ("rows", "columns") and rest and isinstance(value.value, list):
        items = list(value.value)
        if len(rest) > 1 and rest[1] != "name":
            items[int(rest[0])] = _without(items[int(rest[0])], rest[1:])
        elif int(rest[0]) < len(items):
            del items[int(rest[0])]
        return tree.replaced({**tree.value, key: value.replaced(items)})
    return tree.replaced({name: node for name, node in tree.value.items() if name != key})


def read_experiment(path: str | Path) -> Node:
    """The YAML tree of an experiment file, merged with the files that it extends."""
    findings = Findings()
    tree = _tree(located(path), findings)
    findings.raise_if_any()
    return tree


def _tree(path: Path, findings: Findings) -> Node:
    tree, whole = extend(parse(read_source(path), findings), path, None, findings)
    if not whole:  # missing keys may be in the file that cannot be read
        findings.raise_if_any()
    return tree


def _last(line: Sequence[Node], key: str) -> Node | None:
    """The value of a key in the last row that has it."""
    found = [node for row in line if (node := row.get(key)) is not None]
    return found[-1] if found else None


def _items(node: Node | None) -> list[Node]:
    """The items of a list, or a single value."""
    if node is None or node.value is None:
        return []
    return node.value if isinstance(node.value, list) else [node]


def file_beside(node: Node) -> Path:
    """The file that a node names: a shipped one, or relative to the file of the node."""
    name = str(node.value)
    return Path(name if name.startswith(PREFIX) else Path(node.source.name).parent / name)


@dataclass(frozen=True)
class _Cell:
    """A cell of the table: a row and a column, with their nodes in the file."""

    row: ExperimentRow
    line: Sequence[Node]  # the row after all rows that it builds on
    column: ExperimentColumn | None
    column_node: Node | None
    document: Document | None  # the spec of the row


@dataclass
class _ExperimentReader:
    """Resolves the runs of an experiment, row by row and column by column."""

    path: Path
    config: ExperimentConfig
    tree: Node
    over: Node  # the changes of the command line, which are applied last
    findings: Findings
    networks: Networks
    opened: dict[str, DataSet] | None = None  # data that are made to check them
    chosen: tuple[Collection[str], Collection[str]] = ((), ())  # rows and columns; empty: all
    missing: frozenset[str] = frozenset()  # sections whose absence has been reported
    unfit: dict[Finding, list[str]] = field(default_factory=dict)  # rows that do not fit the data

    def cells(self) -> list[Run]:
        """A run for each row and column, with seed 0."""
        for table in ("rows", "columns"):
            self._check_unique(table)
        self._check_base()
        lines = [self._line(i) for i in range(len(self.config.rows))]
        rows = list(zip(self.config.rows, lines, strict=True))
        starts = {row.name: _last(line, "start") for row, line in rows}
        check_starts(starts, self.findings)
        chosen = set(self.chosen[0]) or set(starts)
        for _ in starts:  # and the rows that these start from
            chosen |= {str(node.value) for name in chosen if (node := starts.get(name))}
        self.chosen = chosen, self.chosen[1]
        documents: dict[Path, Document | None] = {}
        found = []
        for row, line in [(row, line) for row, line in rows if line]:
            document = self._document(line, documents)
            for j, column in enumerate(self.config.columns or (None,)):
                node = None if column is None else self.tree.find(("columns", j))[0]
                run = self._changed_run(_Cell(row, line, column, node, document))
                found += [run] if run is not None else []
        self._report_unfit()
        if self.findings:
            return []
        if len(found) == len(self.config.rows) * max(1, len(self.config.columns)):  # none left out
            check_paper(self.config, self.tree, found, self.findings)
        data = [run.data for run in found if run.row == base_row(self.config)]
        check_baselines(_items(self.tree.get("baselines")), data, self.findings)
        return self._with_origins(self._with_unique_titles(found))

    def _with_unique_titles(self, runs: Sequence[Run]) -> list[Run]:
        """Rows with the same title are called by their names, unless the file sets the title."""
        titles = Counter({run.row: run.title for run in runs}.values())
        own = {row.name for row in self.config.rows if row.title}
        return [
            replace(run, title=run.row) if titles[run.title] > 1 and run.row not in own else run
            for run in runs
        ]

    def _with_origins(self, runs: Sequence[Run]) -> list[Run]:
        """The runs, each with the run that it starts from, if `start` names a row."""
        cells = {(run.row, run.column): run for run in runs}

        def with_origin(run: Run) -> Run:
            origin = cells.get((run.start or "", run.column))
            if origin is None:
                return run
            return replace(run, start=None, origin=with_origin(origin))

        return [with_origin(run) for run in runs]

    def _check_unique(self, table: str) -> None:
        seen: set[str] = set()
        for item in self.tree.value[table].value if table in self.tree.value else ():
            name = item.value["name"]
            if name.value in seen:
                message = f"two {table} are called {tick(name.value)}"
                self.findings.add(Finding("S107", message, name.place, name.path))
            seen.add(name.value)

    def _check_base(self) -> None:
        names, base = [row.name for row in self.config.rows], self.tree.get("base")
        if base is not None and base.value is not None and base.value not in names:
            hint = did_you_mean(base.value, names) or f"there are {one_of(names, 'and')}"
            message = f"no row {tick(base.value)}"
            self.findings.add(Finding("S105", message, base.place, base.path, hint))

    def _line(self, place: int) -> list[Node]:
        """A row after all rows that it builds on (`of`). Empty if that is a mistake."""
        rows = self.config.rows
        places = {row.name: i for i, row in enumerate(rows)}
        chain = [place]
        while (name := rows[chain[0]].of) is not None:
            node = self.tree.find(("rows", chain[0], "of"))[0]
            message = "" if name in places else f"no row {tick(name)}"
            if places.get(name) in chain:
                names = [rows[i].name for i in reversed(chain)]
                message = f"a row builds on itself: {' <- '.join([*names, name])}"
            if message:
                hint = did_you_mean(name, places) if name not in places else ""
                self.findings.add(Finding("S105", message, node.place, node.path, hint))
                return []
            chain.insert(0, places[name])
        return [self.tree.find(("rows", i))[0] for i in chain]

    # --- the spec --------------------------------------------------------------------------------

    def _document(
        self, line: Sequence[Node], known: dict[Path, Document | None]
    ) -> Document | None:
        row, node = line[-1], _last([self.tree, *line], "spec")
        if node is None or node.value is None:
            if any(finding.path == "spec" for finding in self.findings.sorted()):
                return None
            hint = "like `spec: ../ommnist/rladder_tiny.yaml`, here or for all rows"
            self.findings.add(
                Finding("S102", "`spec` is missing", row.mark, f"{row.path}.spec", hint)
            )
            return None
        name, target = str(node.value), file_beside(node)
        if target not in known:
            known[target] = None
            if not str(target).startswith(PREFIX) and not os.path.isfile(target):
                hint = did_you_mean(target.name, [p.name for p in target.parent.glob("*.yaml")])
                message = f"no file {tick(name)} beside this one"
                self.findings.add(Finding("F001", message, node.place, node.path, hint))
            else:
                try:
                    known[target] = open_document(target)
                except SpecError as error:
                    for finding in error.findings:
                        place = finding.place or node.place
                        self.findings.add(replace(finding, place=place))
        return known[target]

    def _spec(self, cell: _Cell, document: Document) -> Spec | None:
        """The spec with the changes of the experiment, then of the column, then of the rows."""
        layers = [("experiment", self.tree), ("column", cell.column_node)]
        layers += [*(("row", row) for row in cell.line), ("command_line", self.over)]
        patches = [(name, patch) for name, node in layers if (patch := _patch(node)) is not None]
        changes = json.dumps([(name, patch.plain()) for name, patch in patches])
        key, found = (Path(document.tree.source.name).resolve(), changes), Findings()
        spec, graph = self.networks.get(key) or _compile(document, patches, found)
        if spec is not None and graph is not None:
            if not found:
                self.networks[key] = spec, graph
            check_frozen(graph, _items(_last(cell.line, "freeze")), found)
        self.findings.update(found)
        return None if found else spec

    def _title(self, line: Sequence[Node], document: Document) -> str:
        """The title of the variant in the spec, or of the spec."""
        names = [str(node.value) for row in line for node in _items(row.get("variant"))]
        places = [("title",), *(("variants", name, "title") for name in names)]
        found = [document.tree.find(place) for place in places]
        titles = [
            str(node.value)
            for (node, depth), place in zip(found, places, strict=True)
            if depth == len(place)
        ]
        return titles[-1] if titles else ""

    # --- data and training -----------------------------------------------------------------------

    def _changed_run(self, cell: _Cell) -> Run | None:
        """The run of a cell; None if it cannot take the changes of the command line."""
        reported, self.findings = self.findings, Findings()
        run = self._run(cell)
        found, self.findings = self.findings.sorted(), reported
        row, column, (rows, columns) = cell.row, cell.column, self.chosen
        for finding in found:
            if finding.place is None or finding.place.source.name != "--set":
                self.findings.add(finding)
            elif row.name in rows and (column is None or not columns or column.name in columns):
                self._add_unfit(finding, row.name)
        return None if found else run

    def _run(self, cell: _Cell) -> Run | None:
        """The run of a cell, with seed 0."""
        row, line, column, document = cell.row, cell.line, cell.column, cell.document
        nodes = (self.tree, cell.column_node, *line, self.over)
        layers = [node for node in nodes if node is not None]
        data_node = _merged(layers, "data")
        data = None if "data" in self.missing else self._data(data_node)
        training, training_node = _validate(
            _merged(layers, "training"), TrainingConfig, self.findings
        )
        evaluation, evaluation_node = _validate(
            _merged(layers, "evaluation"), EvaluationConfig, self.findings
        )
        spec = self._spec(cell, document) if document is not None else None
        if training is not None and "training" not in self.missing:
            self._check_length(training, training_node)
        if spec is None or data is None or training is None or evaluation is None:
            return None
        assert document is not None
        check_names(spec, training, evaluation, training_node, self.findings)
        check_noise(spec, row.name, evaluation, evaluation_node, self.findings)
        check_batch(data, training, data_node, self.findings)
        if self.opened is not None and not data.files():
            self._check_fit(row.name, spec, data, data_node)
        return Run(
            experiment=self.config.name or self.path.stem,
            row=row.name,
            column=column.name if column else "",
            seed=0,
            title=row.title or self._title(line, document) or row.name,
            spec=spec,
            data=data,
            training=training,
            evaluation=evaluation,
            machine=self.config.machine,
            start=self._start(line),
            freeze=tuple(node.value for node in _items(_last(line, "freeze"))),
            paper=_paper(row, column),
            data_path=_written_path(data_node, data),
        )

    def _check_fit(self, row: str, spec: Spec, data: DataConfig, node: Node) -> None:
        """Report data that do not fit the network of a row."""
        assert self.opened is not None
        key = data.model_dump_json()
        try:
            if key not in self.opened:
                self.opened[key] = data.open()
            found = list(misfits(compiled(spec), self.opened[key], spec.config.time.frames))
        except DataError as error:
            found = [str(error)]
        for message in found:
            self._add_unfit(Finding("H301", message, node.mark, node.path), row)

    def _add_unfit(self, finding: Finding, row: str) -> None:
        rows = self.unfit.setdefault(finding, [])
        rows += [row] if row not in rows else []

    def _report_unfit(self) -> None:
        """Report what does not fit once, with the rows if it fits others."""
        for finding, rows in self.unfit.items():
            some = f"row{'s' * (len(rows) > 1)} {one_of(rows, 'and')}: "
            about = some if len(rows) < len(self.config.rows) else ""
            self.findings.add(replace(finding, message=f"{about}{finding.message}"))

    def _check_length(self, training: TrainingConfig, node: Node) -> None:
        if (training.updates is None) != (training.epochs is None):
            return
        both = training.updates is not None
        message = "both `updates` and `epochs`" if both else "neither `updates` nor `epochs`"
        hint = "like `updates: 1000` or `epochs: 10`"
        self.findings.add(Finding("S105" if both else "S102", message, node.mark, node.path, hint))

    def _data(self, node: Node) -> DataConfig | None:
        """The config of the data set; its fields depend on `set`."""
        if isinstance(node.value, str):
            node = node.replaced({"set": node})
        name = node.get("set")
        known = registered(installed=True)
        if name is None or not isinstance(name.value, str) or name.value not in known:
            place = node.mark if name is None else name.place
            message = "`set` is missing" if name is None else f"no data set {tick(name.value)}"
            hint = one_of(sorted(known))
            if name is not None:
                hint = registered_name_meant(name.value, known, "data set")
            code = "S102" if name is None else "S105"
            self.findings.add(Finding(code, message, place, f"{node.path}.set", hint))
            return None
        config, _ = _validate(_with_path(node), known[name.value], self.findings)
        return config

    def _start(self, line: Sequence[Node]) -> str | None:
        """The name of another row, or a folder, relative to the file that names it."""
        node = _last(line, "start")
        if node is None or node.value is None:
            return None
        if node.value in [row.name for row in self.config.rows]:
            return str(node.value)
        return str((Path(node.source.name).parent / node.value).resolve())


def _with_path(node: Node) -> Node:
    """The section `data` with an absolute `path`, if that is beside the file that names it."""
    path = node.get("path")
    if path is None or not isinstance(path.value, str):
        return node
    beside = Path(path.source.name).parent / path.value
    if not os.path.exists(beside):  # it may be in the current folder or in the data folder
        return node
    return node.replaced({**node.value, "path": path.replaced(os.path.abspath(beside))})


def _written_path(node: Node, data: DataConfig) -> str | None:
    """`path` of the section `data` as it is written, if it was made absolute."""
    path = node.get("path")
    changed = path is not None and getattr(data, "path", None) != path.value
    return str(path.value) if path is not None and changed else None


# --- networks -------------------------------------------------------------------------------------


def _compile(
    document: Document, patches: Sequence[tuple[str, Node]], findings: Findings
) -> tuple[Spec | None, Graph | None]:
    """The spec with these patches, and its graph."""
    tree, names = document.tree, list[str]()
    holders = [tree, *filter(None, [tree.get("variants")])]
    usable = all(isinstance(each.value, dict) for each in holders)  # if not, `read` reports it
    for name, patch in patches if usable else ():
        tree, added = _with_variant(tree, name, patch)
        names.append(added)
    spec = read(replace(document, tree=tree), Request(variant=tuple(names)), findings)
    return spec, None if spec is None else compile_once(spec, findings)


# --- layers ---------------------------------------------------------------------------------------

# Keys of a row or column that change the spec, and the keys of a variant that they become.
_SECTIONS = ("params", "data", "training", "evaluation")
_PATCH = {"variant": "of", "set": "set", "tasks": "tasks", "edges": "edges", "without": "without"}


def _validate(tree: Node, model: type[M], findings: Findings) -> tuple[M | None, Node]:
    """Validate a tree and report mistakes; misspelt keys are corrected and reported."""
    refresh()
    for _ in range(MAX_ROUNDS):
        if not isinstance(tree.value, dict):
            message = f"expected a mapping, got {show(tree)}"
            findings.add(Finding("S104", message, tree.mark, tree.path, example(tree)))
            return None, tree
        try:
            return model.model_validate(tree.plain()), tree
        except ValidationError as error:
            items = error.errors(include_url=False, include_input=False)
            unknown = find_unknown_keys(items, tree, model)
            if unknown is None:
                explain(items, tree, model, findings)
                return None, tree
            findings.update(unknown.findings)
            tree = unknown.repair(tree)
    return None, tree


def _merged(layers: Sequence[Node], key: str) -> Node:
    """A section of the file, merged with that of the column and of the rows."""
    found = layers[0].get(key)
    for layer in layers[1:]:
        over = layer.get(key)
        if over is not None:
            found = over if found is None else merge(_replaceable(over, _long(found)), over)
    return layers[0].replaced({}) if found is None else found


def _replaceable(over: Node, found: Node) -> Node:
    """Without `updates` if `over` sets `epochs`, and the other way round."""
    given = [key for key in ("updates", "epochs") if over.get(key) is not None]
    if len(given) != 1:
        return found
    (other,) = {"updates", "epochs"} - set(given)
    return found.replaced({key: node for key, node in items_of(found) if key != other})


def _long(node: Node) -> Node:
    """`data: {set: music}` for `data: music`."""
    return node.replaced({"set": node}) if isinstance(node.value, str) else node


def _patch(node: Node | None) -> Node | None:
    """The changes of a row or column as a variant; its `params` win over those of variants."""
    if node is None:
        return None
    changes = {key: node.value[name] for name, key in _PATCH.items() if name in node.value}
    params = node.get("params")
    if params is not None and params.value:
        own = params.replaced({f"params.{name}": value for name, value in items_of(params)})
        changes["set"] = merge(changes["set"], own) if "set" in changes else own
    return node.replaced(changes) if changes else None


def _with_variant(tree: Node, name: str, patch: Node) -> tuple[Node, str]:
    """The spec with one more variant, and the name of that variant."""
    variants = tree.get("variants")
    known: Mapping[str, Node] = variants.value if variants is not None else {}
    while name in known:
        name += "_"
    table = (variants or patch).replaced({**known, name: patch})
    return tree.replaced({**tree.value, "variants": table}), name


def _paper(row: ExperimentRow, column: ExperimentColumn | None) -> dict[str, Quoted]:
    """The paper's numbers for a row and column: `{digit: ...}`, or `{column: {digit: ...}}`."""
    found: dict[str, Quoted] = {}
    changes: list[tuple[RunChanges, str]] = [(row, column.name if column else "")]
    if column is not None:
        changes.append((column, row.name))
    for change, other in changes:
        plain = {k: v for k, v in change.paper.items() if isinstance(v, Quoted)}
        beside = change.paper.get(other, {})
        found |= plain | (beside if isinstance(beside, dict) else {})
    return found
