"""Reads an experiment file: YAML -> Experiment, with every mistake at its place.

Settings are merged in layers: those of the file, then of the column, then of the row and the rows
that it builds on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ladderspec.api import compile_once, compiled
from ladderspec.data import DataConfig, DataError, DataSet, registered
from ladderspec.errors import (
    Finding,
    Findings,
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
    check_length,
    check_names,
    check_noise,
    check_paper,
    check_starts,
    check_tables,
)
from ladderspec.experiments.config import (
    ExperimentColumn,
    ExperimentConfig,
    ExperimentRow,
    base_row,
    paper_of,
)
from ladderspec.experiments.fit import misfits
from ladderspec.experiments.layers import (
    last_value,
    listed,
    merge_file,
    merged,
    overrides,
    patch_of,
    salvaged,
    title_of,
    validate,
    with_path,
    with_variant,
    written_path,
)
from ladderspec.experiments.runs import Experiment, Run, with_origins, with_unique_titles
from ladderspec.experiments.training import EvaluationConfig, TrainingConfig
from ladderspec.language.extends import extend, read_source
from ladderspec.language.read import Document, Request, Spec, open_document, read
from ladderspec.shipped import PREFIX, located
from ladderspec.text.tree import Node, parse
from ladderspec.wiring.graph import Graph

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
    over = overrides(changes, findings)
    tree = merge_file(tree, over)
    config, tree = validate(tree, ExperimentConfig, findings)
    missing = {key for key in ("data", "training") if tree.get(key) is None}
    if config is None:  # go on without the wrong parts, to report all mistakes at once
        config, tree = salvaged(tree)
    cells: list[Run] = []
    if config is not None:
        reader = _ExperimentReader(
            path,
            config,
            tree,
            over,
            findings,
            networks={} if networks is None else networks,
            opened={} if check_data else None,
            rows=set(rows),
            columns=set(columns),
            missing=missing,
        )
        cells = reader.cells()
    findings.raise_if_any()
    assert config is not None
    runs = [run.of_seed(seed) for run in cells for seed in config.seeds]
    return Experiment(path, config, tuple(runs), tuple(changes))


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
    opened: dict[str, DataSet] | None  # data that are made to check them
    rows: set[str]  # those that must take the changes; empty: all
    columns: set[str]
    missing: set[str]  # sections whose absence has been reported
    documents: dict[Path, Document | None] = field(default_factory=dict)  # that were read
    unfit: dict[Finding, list[str]] = field(default_factory=dict)  # rows that do not fit the data

    def cells(self) -> list[Run]:
        """A run for each row and column, with seed 0."""
        check_tables(self.config, self.tree, self.findings)
        lines = [self._line(i) for i in range(len(self.config.rows))]
        rows = list(zip(self.config.rows, lines, strict=True))
        starts = {row.name: last_value(line, "start") for row, line in rows}
        check_starts(starts, self.findings)
        self.rows = self.rows or set(starts)
        for _ in starts:  # and the rows that these start from
            self.rows |= {str(node.value) for name in self.rows if (node := starts.get(name))}
        found = []
        for row, line in [(row, line) for row, line in rows if line]:
            document = self._document(line)
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
        check_baselines(listed(self.tree.get("baselines")), data, self.findings)
        return with_origins(with_unique_titles(self.config, found))

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

    def _document(self, line: Sequence[Node]) -> Document | None:
        """The spec of a row, as text."""
        known, row, node = self.documents, line[-1], last_value([self.tree, *line], "spec")
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
        patches = [(name, patch) for name, node in layers if (patch := patch_of(node)) is not None]
        changes = json.dumps([(name, patch.plain()) for name, patch in patches])
        key, found = (Path(document.tree.source.name).resolve(), changes), Findings()
        spec, graph = self.networks.get(key) or _compile(document, patches, found)
        if spec is not None and graph is not None:
            if not found:
                self.networks[key] = spec, graph
            check_frozen(graph, listed(last_value(cell.line, "freeze")), found)
        self.findings.update(found)
        return None if found else spec

    # --- data and training -----------------------------------------------------------------------

    def _changed_run(self, cell: _Cell) -> Run | None:
        """The run of a cell; None if it cannot take the changes of the command line."""
        reported, self.findings = self.findings, Findings()
        run = self._run(cell)
        found, self.findings = self.findings.sorted(), reported
        row, column = cell.row.name, cell.column and cell.column.name
        must = row in self.rows and (not self.columns or column in {None, *self.columns})
        for finding in found:
            if finding.place is None or finding.place.source.name != "--set":
                self.findings.add(finding)
            elif must:
                self._add_unfit(finding, row)
        return None if found else run

    def _run(self, cell: _Cell) -> Run | None:
        """The run of a cell, with seed 0."""
        row, line, column, document = cell.row, cell.line, cell.column, cell.document
        nodes = (self.tree, cell.column_node, *line, self.over)
        layers = [node for node in nodes if node is not None]
        data_node = merged(layers, "data")
        data = None if "data" in self.missing else self._data(data_node)
        training, training_node = validate(
            merged(layers, "training"), TrainingConfig, self.findings
        )
        evaluation, evaluation_node = validate(
            merged(layers, "evaluation"), EvaluationConfig, self.findings
        )
        spec = self._spec(cell, document) if document is not None else None
        if training is not None and "training" not in self.missing:
            check_length(training, training_node, self.findings)
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
            title=row.title or title_of(line, document) or row.name,
            spec=spec,
            data=data,
            training=training,
            evaluation=evaluation,
            machine=self.config.machine,
            start=self._start(line),
            freeze=tuple(node.value for node in listed(last_value(line, "freeze"))),
            paper=paper_of(row, column),
            data_path=written_path(data_node, data),
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

    def _data(self, node: Node) -> DataConfig | None:
        """The config of the data set; its fields depend on `set`."""
        if isinstance(node.value, str):
            node = node.replaced({"set": node})
        name, path, known = node.get("set"), f"{node.path}.set", registered(installed=True)
        if name is None:
            hint = one_of(sorted(known))
            self.findings.add(Finding("S102", "`set` is missing", node.mark, path, hint))
            return None
        if not isinstance(name.value, str) or name.value not in known:
            hint = registered_name_meant(name.value, known, "data set")
            message = f"no data set {tick(name.value)}"
            self.findings.add(Finding("S105", message, name.place, path, hint))
            return None
        config, _ = validate(with_path(node), known[name.value], self.findings)
        return config

    def _start(self, line: Sequence[Node]) -> str | None:
        """The name of another row, or a folder, relative to the file that names it."""
        node = last_value(line, "start")
        if node is None or node.value is None:
            return None
        if node.value in [row.name for row in self.config.rows]:
            return str(node.value)
        return str((Path(node.source.name).parent / node.value).resolve())


# --- networks -------------------------------------------------------------------------------------


def _compile(
    document: Document, patches: Sequence[tuple[str, Node]], findings: Findings
) -> tuple[Spec | None, Graph | None]:
    """The spec with these patches, and its graph."""
    tree, names = document.tree, list[str]()
    holders = [tree, *filter(None, [tree.get("variants")])]
    usable = all(isinstance(each.value, dict) for each in holders)  # if not, `read` reports it
    for name, patch in patches if usable else ():
        tree, added = with_variant(tree, name, patch)
        names.append(added)
    spec = read(replace(document, tree=tree), Request(variant=tuple(names)), findings)
    return spec, None if spec is None else compile_once(spec, findings)
