"""Text -> Experiment: every mistake at its place, in the file of the experiment or of a spec."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ladderspec.corridor import compile_graph
from ladderspec.data import DataWords, registered
from ladderspec.errors import Finding, Findings, SpecError, did_you_mean, one_of, tick
from ladderspec.experiments.checks import check_batch, check_names, check_noise, check_starts
from ladderspec.experiments.frozen import prefixes
from ladderspec.experiments.layers import checked, merged, patch_of, with_variant
from ladderspec.experiments.paper import check_paper, paper_of
from ladderspec.experiments.runs import Experiment, Run
from ladderspec.experiments.words import Column, ExperimentWords, Row
from ladderspec.language.extends import extend, read_source
from ladderspec.language.read import Document, Request, Spec, open_document, read
from ladderspec.learn.words import Evaluation, Training
from ladderspec.text.parse import parse
from ladderspec.text.tree import Node
from ladderspec.wiring.graph import Graph


def open_experiment(path: str | Path) -> Experiment:
    """Read an experiment; raise SpecError with all that is wrong in it and in its specs."""
    findings = Findings()
    tree = _tree(Path(path), findings)
    words, tree = checked(tree, ExperimentWords, findings)
    cells = _Reader(Path(path), words, tree, findings).cells() if words is not None else []
    findings.raise_if_any()
    assert words is not None
    runs = [run.of_seed(seed) for run in cells for seed in words.seeds]
    return Experiment(Path(path), words, tuple(runs))


def read_experiment(path: str | Path) -> Node:
    """The words of an experiment as they stand there, with those of the files it extends."""
    findings = Findings()
    tree = _tree(Path(path), findings)
    findings.raise_if_any()
    return tree


def _tree(path: Path, findings: Findings) -> Node:
    tree, whole = extend(parse(read_source(path), findings), path, None, findings)
    if not whole:  # what it lacks may be in the file that cannot be read
        findings.raise_if_any()
    return tree


def _last(line: Sequence[Node], word: str) -> Node | None:
    """What the last row says that says something of it."""
    found = [node for at in line if (node := at.get(word)) is not None]
    return found[-1] if found else None


def _items(node: Node | None) -> list[Node]:
    """One or several, as nodes."""
    if node is None or node.value is None:
        return []
    return node.value if isinstance(node.value, list) else [node]


@dataclass
class _Reader:
    """Row by row, column by column."""

    path: Path
    words: ExperimentWords
    tree: Node
    findings: Findings

    def cells(self) -> list[Run]:
        """A run for each row and column, still without a seed."""
        for table in ("rows", "columns"):
            self._twice(table)
        self._base()
        lines = [self._line(i) for i in range(len(self.words.rows))]
        rows = list(zip(self.words.rows, lines, strict=True))
        check_starts({row.name: _last(line, "start") for row, line in rows}, self.findings)
        documents: dict[Path, Document | None] = {}
        found = []
        for row, line in [(row, line) for row, line in rows if line]:
            document = self._document(line, documents)
            for j, column in enumerate(self.words.columns or (None,)):
                over = None if column is None else self.tree.find(("columns", j))[0]
                run = self._cell(row, line, column, over, document)
                found += [run] if run is not None else []
        if self.findings:
            return []
        check_paper(self.words, self.tree, found, self.findings)
        return self._begun(self._told_apart(found))

    def _told_apart(self, runs: Sequence[Run]) -> list[Run]:
        """Rows whose titles would be the same are called by their names, but for those of users."""
        titles = Counter({run.row: run.title for run in runs}.values())
        own = {row.name for row in self.words.rows if row.title}
        return [
            replace(run, title=run.row) if titles[run.title] > 1 and run.row not in own else run
            for run in runs
        ]

    def _begun(self, runs: Sequence[Run]) -> list[Run]:
        """With the runs from which those start that name a row."""
        cells = {(run.row, run.column): run for run in runs}

        def begun(run: Run) -> Run:
            origin = cells.get((run.start or "", run.column))
            return run if origin is None else replace(run, start=None, origin=begun(origin))

        return [begun(run) for run in runs]

    def _twice(self, table: str) -> None:
        seen: set[str] = set()
        for item in self.tree.value[table].value if table in self.tree.value else ():
            name = item.value["name"]
            if name.value in seen:
                message = f"two {table} are called {tick(name.value)}"
                self.findings.add(Finding("S107", message, name.place, name.path))
            seen.add(name.value)

    def _base(self) -> None:
        names, said = [row.name for row in self.words.rows], self.tree.get("base")
        if said is not None and said.value is not None and said.value not in names:
            hint = did_you_mean(said.value, names) or f"there are {one_of(names, 'and')}"
            message = f"no row {tick(said.value)}"
            self.findings.add(Finding("S105", message, said.place, said.path, hint))

    def _line(self, place: int) -> list[Node]:
        """The rows that a row builds on, the first of them first, and itself; none: a mistake."""
        rows = self.words.rows
        places = {row.name: i for i, row in enumerate(rows)}
        way = [place]
        while (name := rows[way[0]].of) is not None:
            said = self.tree.find(("rows", way[0], "of"))[0]
            message = "" if name in places else f"no row {tick(name)}"
            if places.get(name) in way:
                names = [rows[i].name for i in reversed(way)]
                message = f"a row builds on itself: {' <- '.join([*names, name])}"
            if message:
                hint = did_you_mean(name, places) if name not in places else ""
                self.findings.add(Finding("S105", message, said.place, said.path, hint))
                return []
            way.insert(0, places[name])
        return [self.tree.find(("rows", i))[0] for i in way]

    # --- the spec --------------------------------------------------------------------------------

    def _document(
        self, line: Sequence[Node], known: dict[Path, Document | None]
    ) -> Document | None:
        at, said = line[-1], _last([self.tree, *line], "spec")
        if said is None or said.value is None:
            hint = "like `spec: ../ommnist/rladder_tiny.yaml`, here or for all rows"
            self.findings.add(
                Finding("S102", "`spec` is missing", at.mark, f"{at.path}.spec", hint)
            )
            return None
        name, target = str(said.value), Path(said.source.name).parent / str(said.value)
        if target not in known:
            known[target] = None
            if not target.is_file():
                hint = did_you_mean(target.name, [p.name for p in target.parent.glob("*.yaml")])
                message = f"no file {tick(name)} beside this one"
                self.findings.add(Finding("F001", message, said.place, said.path, hint))
            else:
                try:
                    known[target] = open_document(target)
                except SpecError as error:
                    for finding in error.findings:
                        self.findings.add(finding)
        return known[target]

    def _spec(self, line: Sequence[Node], over: Node | None, document: Document) -> Spec | None:
        """The spec with the experiment's changes, then the column's, then those of the rows."""
        tree, names, own = document.tree, list[str](), Findings()
        layers = [("experiment", self.tree), ("column", over), *(("row", at) for at in line)]
        for name, node in layers:
            patch = patch_of(node)
            if patch is not None:
                tree, own_name = with_variant(tree, name, patch)
                names.append(own_name)
        spec = read(replace(document, tree=tree), Request(variant=tuple(names)), own)
        if spec is not None:
            self._check_frozen(compile_graph(spec, own), line, own)
        self.findings.update(own)
        return None if own else spec

    def _check_frozen(self, graph: Graph, line: Sequence[Node], findings: Findings) -> None:
        for item in _items(_last(line, "freeze")):
            if not prefixes(graph, item.value):
                message = f"{tick(item.value)} selects nothing to freeze"
                findings.add(Finding("G202", message, item.place, item.path))

    def _title(self, line: Sequence[Node], document: Document) -> str:
        """What the spec calls the variant, or itself."""
        names = [str(node.value) for at in line for node in _items(at.get("variant"))]
        places = [("title",), *(("variants", name, "title") for name in names)]
        found = [document.tree.find(place) for place in places]
        titles = [
            str(node.value)
            for (node, depth), place in zip(found, places, strict=True)
            if depth == len(place)
        ]
        return titles[-1] if titles else ""

    # --- data and training -----------------------------------------------------------------------

    def _cell(
        self,
        row: Row,
        line: Sequence[Node],
        column: Column | None,
        over: Node | None,
        document: Document | None,
    ) -> Run | None:
        layers = [self.tree, *([over] if over is not None else []), *line]
        data_said = merged(layers, "data")
        data = self._data(data_said)
        training, said = checked(merged(layers, "training"), Training, self.findings)
        evaluation, evaluated = checked(merged(layers, "evaluation"), Evaluation, self.findings)
        spec = self._spec(line, over, document) if document is not None else None
        if training is not None and (training.updates is None) == (training.epochs is None):
            self._how_long(training, said)
        if spec is None or data is None or training is None or evaluation is None:
            return None
        assert document is not None
        check_names(spec, training, evaluation, said, self.findings)
        check_noise(spec, row.name, evaluation, evaluated, self.findings)
        check_batch(data, training, data_said, self.findings)
        return Run(
            experiment=self.words.name or self.path.stem,
            row=row.name,
            column=column.name if column else "",
            seed=0,
            title=row.title or self._title(line, document) or row.name,
            spec=spec,
            data=data,
            training=training,
            evaluation=evaluation,
            machine=self.words.machine,
            start=self._start(line),
            freeze=tuple(node.value for node in _items(_last(line, "freeze"))),
            paper=paper_of(row, column),
        )

    def _how_long(self, training: Training, node: Node) -> None:
        both = training.updates is not None
        message = "both `updates` and `epochs`" if both else "how long is not said"
        hint = "like `updates: 1000` or `epochs: 10`"
        self.findings.add(Finding("S105" if both else "S102", message, node.mark, node.path, hint))

    def _data(self, node: Node) -> DataWords | None:
        """The words of the data set; which words there are depends on `set`."""
        if isinstance(node.value, str):
            node = node.replaced({"set": node})
        said = node.get("set")
        known = registered(installed=True)
        if said is None or not isinstance(said.value, str) or said.value not in known:
            place = node.mark if said is None else said.place
            message = "`set` is missing" if said is None else f"no data set {tick(said.value)}"
            meant = did_you_mean(said.value, known) if said is not None else ""
            hint = meant or one_of(known)
            code = "S102" if said is None else "S105"
            self.findings.add(Finding(code, message, place, f"{node.path}.set", hint))
            return None
        words, _ = checked(node, known[said.value], self.findings)
        return words

    def _start(self, line: Sequence[Node]) -> str | None:
        """The name of another row, or a folder, from the file that says it."""
        said = _last(line, "start")
        if said is None or said.value is None:
            return None
        if said.value in [row.name for row in self.words.rows]:
            return str(said.value)
        return str((Path(said.source.name).parent / said.value).resolve())
