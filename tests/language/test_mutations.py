"""Whatever is done to a spec, the answer is a network or findings that point into the text.

Every shipped spec is changed at random: keys and values deleted, doubled, misspelt, swapped and
replaced, bytes thrown in, the text cut off. Nothing else than SpecError may come out, in time.
"""

from __future__ import annotations

import copy
import random
import resource
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ladderspec as ls
from ladderspec.api import Checked, compile_graph, validate
from ladderspec.errors import CODES, Finding, Findings, LadderspecError, Source, SpecError
from ladderspec.experiments.reader import open_experiment
from ladderspec.language.extends import decode
from ladderspec.language.read import Request, document, read
from ladderspec.wiring.graph import Graph, parameters

ROOT = Path(__file__).parents[2]
SPECS = sorted(p for p in (ROOT / "specs").rglob("*.yaml") if "experiments" not in p.parts)
TEXTS = {path: path.read_text(encoding="utf-8") for path in SPECS}
LIMIT = 1.0  # seconds of this process, for one text
MEMORY = 300  # megabytes, for all of them

RUNS = settings(
    max_examples=max(10, 600 // len(SPECS)),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.fixture(scope="module", autouse=True)
def bounded_memory() -> Iterator[None]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown / 1024 < MEMORY


def answer(source: Source, path: Path) -> tuple[Graph | None, Sequence[Finding]]:
    """What reading this text in place of the file gives; all else that is raised is a failure."""
    findings = Findings()
    try:
        spec = read(document(source, path, ROOT / "specs"), Request(), findings)
        graph = None if spec is None else compile_graph(spec, findings)
    except SpecError as error:
        return None, error.findings
    return graph, findings.sorted()


def check(data: str | bytes, path: Path) -> Graph | None:
    """The graph of a text, if there is nothing to find in it."""
    start = time.process_time()
    graph: Graph | None = None
    try:
        source = decode(str(path), data.encode() if isinstance(data, str) else data)
    except SpecError as error:
        found: Sequence[Finding] = error.findings
    else:
        graph, found = answer(source, path)
    took = time.process_time() - start
    assert took < LIMIT, f"{took:.2f} s"
    for finding in found:
        assert finding.code in CODES
        assert finding.message
        if finding.code == "Y001":  # no text, no place in it
            continue
        assert finding.place is not None
        text = finding.place.source.text
        assert 0 <= finding.place.start <= len(text)
        assert finding.place.line <= text.count("\n") + 1
        assert finding.full().isascii() or finding.full().encode()
        assert finding.concise()
        assert finding.github()
        assert finding.as_dict()
    return None if found else graph


# --- changes of the text --------------------------------------------------------------------------


def delete_line(lines: list[str], chance: random.Random) -> None:
    lines.pop(chance.randrange(len(lines)))


def double_line(lines: list[str], chance: random.Random) -> None:
    at = chance.randrange(len(lines))
    lines.insert(at, lines[at])


def swap_lines(lines: list[str], chance: random.Random) -> None:
    a, b = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]


def misspell(lines: list[str], chance: random.Random) -> None:
    at = chance.randrange(len(lines))
    line = lines[at]
    if line:
        i = chance.randrange(len(line))
        letter = chance.choice("abcxyz_-:,{}[]()$*&!?@%#\"' \t\n0123456789.~|>é\u2028")
        new = {0: line[:i] + line[i + 1 :], 1: line[:i] + letter + line[i + 1 :]}
        lines[at] = new.get(chance.randrange(3), line[:i] + letter + line[i:])


def indent(lines: list[str], chance: random.Random) -> None:
    at = chance.randrange(len(lines))
    lines[at] = chance.choice([" ", "  ", "\t", "- "]) + lines[at]


def dedent(lines: list[str], chance: random.Random) -> None:
    at = chance.randrange(len(lines))
    lines[at] = lines[at].removeprefix(chance.choice([" ", "  ", "    "]))


def cut(lines: list[str], chance: random.Random) -> None:
    text = "\n".join(lines)
    lines[:] = text[: chance.randrange(len(text) + 1)].split("\n")


TEXT_CHANGES = [delete_line, double_line, swap_lines, misspell, misspell, indent, dedent, cut]


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
@RUNS
@given(chance=st.randoms(use_true_random=False), times=st.integers(1, 4))
def test_changed_text(path: Path, chance: random.Random, times: int) -> None:
    lines = TEXTS[path].split("\n")
    for _ in range(times):
        chance.choice(TEXT_CHANGES)(lines, chance)
        lines = lines or [""]
    check("\n".join(lines), path)


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
@RUNS
@given(junk=st.binary(min_size=1, max_size=8), place=st.floats(0, 1), drop=st.integers(0, 8))
def test_thrown_in_bytes(path: Path, junk: bytes, place: float, drop: int) -> None:
    data = TEXTS[path].encode()
    at = int(place * len(data))
    check(data[:at] + junk + data[at + drop :], path)


@RUNS
@given(st.text(max_size=200))
def test_any_text_at_all(text: str) -> None:
    source = Source("any.yaml", text)
    answer(source, SPECS[0])


# --- changes of keys and values -------------------------------------------------------------------

SCALARS = [
    None, True, False, 0, 1, -1, 3, 2.5, 1e-3, 10**12, float("inf"), float("nan"), "", " ", "none",
    "no", "all", "x", "conv", "encoder", "decoder.*", "encoder.input", "$", "$x", "$(1/0)", "1x1",
    "a -> b", "encoder.input -> decoder.input", "decoder.input(t-1) -> encoder.input", "lateral@*",
    "level.*", "task.*", "Conv", "G1", "Identity", "ConvLSTM", "SoftMax", "classification", "é",
    [], {}, [[]], [None], [1, 2, 3], {"cell": "Conv"}, {"cell": None}, {"": ""}, ["lateral", 3],
    {"kind": "probe"}, {"levels": []}, {"delay": 0}, {"from": "encoder.input"}, "\x00", "\x1b[31m",
]  # fmt: skip
KEYS = [
    "name", "input", "time", "levels", "top", "laterals", "defaults", "tasks", "edges", "without",
    "variants", "expect", "params", "extends", "encoder", "decoder", "cell", "channels", "filter",
    "stride", "repeat", "kind", "at", "when", "weight", "set", "of", "add", "lateral", "state", "x",
]  # fmt: skip

Holder = dict[Any, Any] | list[Any]


def holders(value: Any) -> list[Holder]:
    """All mappings and lists in a value."""
    if not isinstance(value, dict | list):
        return []
    inside = value.values() if isinstance(value, dict) else value
    return [value, *(found for item in inside for found in holders(item))]


def change(words: Any, chance: random.Random) -> None:
    full = [holder for holder in holders(words) if holder]
    holder, other = chance.choice(full), chance.choice(full)
    key, key2 = (
        chance.choice(list(h) if isinstance(h, dict) else range(len(h))) for h in (holder, other)
    )
    actions: list[Callable[[], None]] = [
        lambda: holder.__delitem__(key),
        lambda: holder.__setitem__(key, copy.deepcopy(chance.choice(SCALARS))),
        lambda: holder.__setitem__(key, copy.deepcopy(other[key2])),
    ]
    if isinstance(holder, dict):
        actions.append(
            lambda: holder.__setitem__(chance.choice(KEYS), copy.deepcopy(chance.choice(SCALARS)))
        )
        actions.append(lambda: holder.__setitem__(str(key)[1:] + "q", holder.pop(key)))
        actions.append(lambda: holder.__setitem__(chance.choice(KEYS), holder.pop(key)))
    else:
        actions.append(lambda: holder.append(copy.deepcopy(chance.choice(SCALARS))))
        actions.append(lambda: holder.insert(0, copy.deepcopy(holder[key])))
    chance.choice(actions)()


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
@RUNS
@given(chance=st.randoms(use_true_random=False), times=st.integers(1, 4))
def test_changed_words(path: Path, chance: random.Random, times: int) -> None:
    words = yaml.safe_load(TEXTS[path])
    for _ in range(times):
        if not isinstance(words, dict | list) or not words:
            break
        change(words, chance)
    check(yaml.safe_dump(words, sort_keys=False), path)


# --- changes of what is asked ---------------------------------------------------------------------

WORDS = st.sampled_from([str(scalar) for scalar in SCALARS] + KEYS)
PATHS = st.builds(
    "{}.{}.{}={}".format,
    st.sampled_from(["encoder", "decoder", "task", "params", "lateral", "input", "time", "x"]),
    st.sampled_from(["*", "conv_1", "input", "top", "digit", "width", "", "x"]),
    st.sampled_from([*KEYS, "", "channels.x"]),
    WORDS,
)


@pytest.mark.parametrize("path", SPECS[:3] + SPECS[-3:], ids=lambda path: path.stem)
@RUNS
@given(
    variant=st.lists(WORDS, max_size=1),
    without=st.lists(WORDS, max_size=2),
    add=st.lists(WORDS, max_size=2),
    changes=st.lists(PATHS | WORDS, max_size=3),
)
def test_changed_requests(
    path: Path, variant: list[str], without: list[str], add: list[str], changes: list[str]
) -> None:
    request = Request.of(variant, without, add, changes)
    checked: Checked = validate(path, request, ROOT / "specs")
    assert all(finding.code in CODES for finding in checked.findings)


# --- many of them ---------------------------------------------------------------------------------

MANY_SPECS, MANY_EXPERIMENTS = 10_000, 3_000
MOST_PARAMETERS = 100_000  # of a network that is built


def mutated(text: str, chance: random.Random) -> str:
    """A text with one to four changes, of its lines or of its keys and values."""
    times = chance.randint(1, 4)
    if chance.random() < 0.5:
        lines = text.split("\n")
        for _ in range(times):
            chance.choice(TEXT_CHANGES)(lines, chance)
            lines = lines or [""]
        return "\n".join(lines)
    words = yaml.safe_load(text)
    for _ in range(times):
        if not isinstance(words, dict | list) or not words:
            break
        change(words, chance)
    return yaml.safe_dump(words, sort_keys=False)


def try_some(graph: Graph, counts: Counter[str]) -> None:
    """Count a good network. A tenth of them are built and compute one call: the small ones."""
    counts["good"] += 1
    enough = 10 * counts["built"] >= counts["good"] + 50  # some ahead: not all are small
    if enough or parameters(graph) > MOST_PARAMETERS:
        return
    counts["built"] += 1
    net = ls.build(graph)
    forms = net.inputs.forms
    given = [torch.rand(2, *((2,) if form.timed else ()), *form.shape) for form in forms]
    net(given[0] if len(given) == 1 else {f.name: x for f, x in zip(forms, given, strict=True)})


@pytest.mark.long
def test_many_specs() -> None:
    """A tenth of the good ones is built and computes."""
    chance, counts = random.Random(24), Counter[str]()
    for _ in range(MANY_SPECS):
        path = chance.choice(SPECS)
        graph = check(mutated(TEXTS[path], chance), path)
        if graph is not None:
            try_some(graph, counts)
    print(f"\n{MANY_SPECS} specs: {dict(counts)}, the others refused")
    assert 10 * counts["built"] >= counts["good"] > 500


@pytest.mark.long
def test_many_experiments(tmp_path: Path) -> None:
    """A tenth of the good ones has its first network built."""
    shutil.copytree(ROOT / "specs", tmp_path / "specs")
    home = tmp_path / "specs" / "experiments"
    texts = [path.read_text(encoding="utf-8") for path in sorted(home.glob("*.yaml"))]
    chance, counts, networks = random.Random(25), Counter[str](), {}
    for _ in range(MANY_EXPERIMENTS):
        (home / "mutant.yaml").write_text(mutated(chance.choice(texts), chance), encoding="utf-8")
        try:
            experiment = open_experiment(home / "mutant.yaml", networks)
        except LadderspecError:
            continue
        try_some(ls.graph(experiment.runs[0].spec), counts)
    print(f"\n{MANY_EXPERIMENTS} experiments: {dict(counts)}, the others refused")
    assert 10 * counts["built"] >= counts["good"] > 150
