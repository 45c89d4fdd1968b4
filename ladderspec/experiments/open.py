"""Text -> Experiment: every mistake at its place, in the file of the experiment or of a spec."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ladderspec.corridor import compile_graph
from ladderspec.data import DataWords, registered
from ladderspec.errors import Finding, Findings, did_you_mean, one_of, tick
from ladderspec.experiments.checks import check_batch, check_names, check_starts
from ladderspec.experiments.layers import checked, merged, patch_of, with_params, with_variant
from ladderspec.experiments.paper import check_paper, paper_of
from ladderspec.experiments.runs import Experiment, Run
from ladderspec.experiments.words import Column, ExperimentWords, Row
from ladderspec.language.extends import extend, read_source
from ladderspec.language.read import Document, Request, Spec, open_document, read
from ladderspec.learn.words import Evaluation, Training
from ladderspec.text.notation import parse_selector
from ladderspec.text.parse import parse
from ladderspec.text.tree import Node
from ladderspec.wiring.selection import select


def open_experiment(path: str | Path) -> Experiment:
    """Read an experiment; raise SpecError with all that is wrong in it and in its specs."""
    findings = Findings()
    tree = _tree(Path(path), findings)
    words, tree = checked(tree, ExperimentWords, findings)
    cells = _Reader(Path(path), words, tree, findings).cells() if words is not None else []
    findings.raise_if_any()
    assert words is not None
    runs = [
        replace(run, seed=seed, start=_of_seed(run, seed, words))
        for run in cells
        for seed in words.seeds
    ]
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


def _of_seed(run: Run, seed: int, words: ExperimentWords) -> str | None:
    """Where a run starts: from the same seed of another row, or from a folder."""
    if run.start in [row.name for row in words.rows]:
        return replace(run, row=str(run.start), seed=seed).id
    return run.start


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
        check_starts(self.words, self.tree, self.path.parent, self.findings)
        documents: dict[str, Document | None] = {}
        found = []
        for i, row in enumerate(self.words.rows):
            at = self.tree.find(("rows", i))[0]
            document = self._document(row, at, documents)
            for j, column in enumerate(self.words.columns or (None,)):
                over = None if column is None else self.tree.find(("columns", j))[0]
                run = self._cell(row, at, column, over, document)
                found += [run] if run is not None else []
        if not self.findings:
            check_paper(self.words, self.tree, found, self.findings)
        return found

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

    # --- the spec --------------------------------------------------------------------------------

    def _document(self, row: Row, at: Node, known: dict[str, Document | None]) -> Document | None:
        said = at.get("spec") or self.tree.get("spec")
        if said is None:
            hint = "like `spec: ../ommnist/rladder_tiny.yaml`, here or for all rows"
            self.findings.add(
                Finding("S102", "`spec` is missing", at.mark, f"{at.path}.spec", hint)
            )
            return None
        name = str(said.value)
        if name not in known:
            known[name] = None
            target = Path(said.source.name).parent / name
            if not target.is_file():
                hint = did_you_mean(target.name, [p.name for p in target.parent.glob("*.yaml")])
                message = f"no file {tick(name)} beside this one"
                self.findings.add(Finding("F001", message, said.place, said.path, hint))
            else:
                known[name] = open_document(target)
        return known[name]

    def _spec(self, at: Node, over: Node | None, document: Document) -> Spec | None:
        """The spec with the experiment's changes, then the column's, then the row's."""
        tree = with_params(document.tree, [self.tree, *([over] if over else []), at])
        names = list[str]()
        for name, node in (("experiment", self.tree), ("column", over), ("row", at)):
            patch = patch_of(node)
            if patch is not None:
                tree, own_name = with_variant(tree, name, patch)
                names.append(own_name)
        own = Findings()
        spec = read(replace(document, tree=tree), Request(variant=tuple(names)), own)
        if spec is not None:
            self._frozen(spec, at, own)
        self.findings.update(own)
        return None if own else spec

    def _frozen(self, spec: Spec, at: Node, findings: Findings) -> None:
        """Compile the graph, and see that `freeze` selects something of it."""
        graph = compile_graph(spec, findings)
        said = at.get("freeze")
        items = [] if said is None else said.value if isinstance(said.value, list) else [said]
        for item in items:
            selector = parse_selector(item.value)
            known = selector.kind in ("level", "task") or any(select(graph, selector))
            if not known:
                message = f"{tick(item.value)} selects nothing to freeze"
                findings.add(Finding("G202", message, item.place, item.path))

    def _title(self, row: Row, document: Document | None) -> str:
        """What the spec calls the variant, or itself."""
        if document is None:
            return ""
        places = [("title",), *(("variants", name, "title") for name in row.variant)]
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
        at: Node,
        column: Column | None,
        over: Node | None,
        document: Document | None,
    ) -> Run | None:
        layers = [self.tree, *([over] if over is not None else []), at]
        data_said = merged(layers, "data")
        data = self._data(data_said)
        training, said = checked(merged(layers, "training"), Training, self.findings)
        evaluation, _ = checked(merged(layers, "evaluation"), Evaluation, self.findings)
        spec = self._spec(at, over, document) if document is not None else None
        if training is not None and (training.updates is None) == (training.epochs is None):
            self._how_long(training)
        if spec is None or data is None or training is None or evaluation is None:
            return None
        check_names(spec, training, said, self.findings)
        check_batch(data, training, data_said, self.findings)
        return Run(
            experiment=self.words.name or self.path.stem,
            row=row.name,
            column=column.name if column else "",
            seed=0,
            title=row.title or self._title(row, document) or row.name,
            spec=spec,
            data=data,
            training=training,
            evaluation=evaluation,
            machine=self.words.machine,
            start=self._start(row),
            freeze=row.freeze,
            paper=paper_of(row, column),
        )

    def _how_long(self, training: Training) -> None:
        node = self.tree.value["training"]
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

    def _start(self, row: Row) -> str | None:
        """The name of another row, or a folder."""
        if row.start is None or row.start in [other.name for other in self.words.rows]:
            return row.start
        return str((self.path.parent / row.start).resolve())
