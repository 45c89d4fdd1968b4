"""Killed at random I/O events, and damaged in single files: the numbers are those of a whole run.

Processes are forks of this one: what is killed has imported torch already.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ladderspec.cli import main
from tests.training import EXPERIMENT, experiment

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("default")]  # of forks

KILLS = 20
DAMAGES = 120
RETRAIN = EXPERIMENT.replace("updates: 12,", "updates: 12, retrain: train+valid,")
START = EXPERIMENT.replace("variant: open}", "variant: open, start: ladder}")
EVENTS = ("open", "os.rename", "os.remove", "os.truncate", "os.mkdir", "os.link", "shutil.copyfile")

# Counts I/O events of runs, and kills the process at one of them, once.
KILLER = """
import os, pathlib, signal, sys
number, mark = {number}, pathlib.Path({mark!r})
seen = 0
def hook(event, args):
    global seen
    if event not in {events!r} or not args or {folder!r} not in str(args[0]):
        return
    seen += 1
    if seen == number and not mark.exists():
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
"""


@dataclass(frozen=True)
class Scenario:
    """A command that trains all runs of an experiment, in so many processes."""

    name: str
    text: str
    words: tuple[str, ...]
    processes: int = 1


SCENARIOS = [
    Scenario("retrain", RETRAIN, ("train", "--row", "ladder")),
    Scenario("start", START, ("train",)),
    Scenario("loader workers", EXPERIMENT, ("train", "--row", "ladder", "--workers", "2")),
    Scenario("2 processes", EXPERIMENT, ("train", "--row", "ladder"), 2),
    Scenario("ablate --processes 2", EXPERIMENT, ("ablate", "--processes", "2")),
]


def fork(words: list[str], before: Callable[[], None], rank: int, port: int, world: int) -> int:
    """The command in a fork of this process; its id."""
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        if world > 1:
            os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world),
                           "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}  # fmt: skip
        before()
        code = main(words)
    finally:
        os._exit(code)
    return 0


def run(scenario: Scenario, folder: Path, number: int = 0, resume: bool = False) -> list[int]:
    """Run a scenario; its processes are killed at I/O event `number`. Their exit codes."""
    place = experiment(folder, scenario.text)
    plugin = folder / "killer.py"
    plugin.write_text(
        KILLER.format(
            number=number, mark=str(folder / "killed"), folder=str(folder / "out"), events=EVENTS
        )
    )
    words = [scenario.words[0], str(place), *scenario.words[1:], "-o", str(folder / "out")]
    words += ["--plugin", str(plugin)] if number else []
    words += ["--resume"] if resume else []
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = [
        fork(words, lambda: None, rank, port, scenario.processes)
        for rank in range(scenario.processes)
    ]
    codes = []
    while children:
        child, status = os.wait()
        children.remove(child)
        codes.append(os.waitstatus_to_exitcode(status))
        if codes[-1] < 0:  # as torchrun does: the others cannot go on
            for other in children:
                os.kill(other, signal.SIGKILL)
    return codes


def events(scenario: Scenario, folder: Path) -> int:
    """How many I/O events one process of a scenario has, about."""
    count = 0
    for path in folder.rglob("*"):
        count += 1 + path.is_file()
    return max(20, 6 * count // (2 if scenario.words[0] == "ablate" else 1))


def results(folder: Path) -> dict[str, Any]:
    """Metrics and results of all trainings in a folder."""
    found = sorted(path.parent for path in (folder / "out").rglob("result.json"))
    return {str(path.relative_to(folder)): written(path) for path in found}


def written(folder: Path) -> tuple[bytes, Any]:
    """The metrics byte for byte, and the result; one that is damaged is no result."""
    metrics = folder / "metrics.jsonl"
    try:
        result = json.loads((folder / "result.json").read_bytes())
    except ValueError:
        result = None
    return metrics.read_bytes() if metrics.exists() else b"", result


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_kills_at_random_events(scenario: Scenario, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    assert set(run(scenario, whole)) == {0}
    draw = random.Random(scenario.name)
    share = KILLS // len(SCENARIOS)
    most, at = events(scenario, whole / "out"), list[int]()
    for attempt in range(200):
        folder = tmp_path / f"part{attempt}"
        folder.mkdir()
        number = draw.randrange(1, most)
        run(scenario, folder, number)
        if not (folder / "killed").exists():
            most = number  # there are not so many
            continue
        at.append(number)
        assert set(run(scenario, folder, resume=True)) == {0}, f"resumed after event {number}"
        assert results(folder) == results(whole), f"killed at event {number}"
        shutil.rmtree(folder)
        if len(at) == share:
            break
    assert len(at) == share
    print(f"\n{scenario.name}: {len(at)} kills at I/O events {sorted(at)}: all the same")


# --- single damaged files -------------------------------------------------------------------------

HARMS: Mapping[str, Callable[[bytearray, random.Random], bytes]] = {
    "a bit": lambda data, draw: _flipped(data, draw),
    "cut": lambda data, draw: bytes(data[: draw.randrange(len(data))]),
    "zeros": lambda data, draw: bytes(len(data)),
    "zeros at the end": lambda data, draw: bytes(data[: len(data) // 2] + bytes(len(data) // 2)),
    "more": lambda data, draw: bytes(data + draw.randbytes(50)),
    "other": lambda data, draw: draw.randbytes(len(data)),
    "empty": lambda data, draw: b"",
}


def _flipped(data: bytearray, draw: random.Random) -> bytes:
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(data)


@contextlib.contextmanager
def copied(folder: Path, to: Path) -> Iterator[Path]:
    shutil.copytree(folder, to)
    try:
        yield to
    finally:
        shutil.rmtree(to)


def test_single_damaged_files(tmp_path: Path) -> None:
    """A run that is finished, and one that was killed. It is refused, or the numbers are right."""
    scenario = Scenario("damaged", RETRAIN, ("train", "--row", "ladder"))
    whole, part = tmp_path / "whole", tmp_path / "part"
    for folder in (whole, part):
        folder.mkdir()
    assert run(scenario, whole) == [0]
    expected, number = results(whole), 60
    while not (part / "killed").exists() and number:
        run(scenario, part, number)
        number -= 20
    right = evaluated(whole)
    draw, outcomes = random.Random(5), Counter[str]()
    for _ in range(DAMAGES):
        source, finished = draw.choice([(whole, True), (part, False)])
        with copied(source, tmp_path / "case") as case:
            files = sorted(p for p in (case / "out").rglob("*") if p.is_file() and p.stat().st_size)
            place, harm = draw.choice(files), draw.choice([*HARMS, "missing"])
            if harm == "missing":
                place.unlink()
            else:
                place.write_bytes(HARMS[harm](bytearray(place.read_bytes()), draw))
            what = f"{place.relative_to(case)}: {harm} of a {'finished' if finished else 'killed'}"
            damaged = place.relative_to(case)
            outcomes[checked(case, what, finished, damaged, expected, right)] += 1
    print(f"\n{sum(outcomes.values())} damaged files: {dict(outcomes)}")


def said(words: list[str]) -> tuple[int, str, str]:
    """Exit code, output and messages of a command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    return code, out.getvalue(), err.getvalue()


def evaluated(folder: Path) -> dict[str, Any] | None:
    """The metrics that `evaluate` prints; nothing if it refuses."""
    code, out, err = said(["evaluate", str(folder / "out" / "ladder.seed0"), "--json"])
    assert code in (0, 1, 2), err
    assert code == 0 or err.startswith("ladderspec: ") or "error" in err, err
    return json.loads(out)["metrics"] if code == 0 else None


def checked(
    case: Path,
    what: str,
    finished: bool,
    damaged: Path,
    expected: dict[str, Any],
    right: dict[str, Any] | None,
) -> str:
    """What was done about a damaged file; AssertionError if it was the wrong thing."""
    if finished:
        found = evaluated(case)
        if found is not None:
            assert found == right, f"{what}: silently other numbers"
    place = experiment(case, RETRAIN)
    words = ["train", str(place), "--row", "ladder", "-o", str(case / "out"), "--resume"]
    code, _, err = said(words)
    assert code in (0, 2), f"{what}: {err}"
    if code:
        return "refused"
    got = results(case)
    for run_name, (metrics, result) in expected.items():
        if (
            finished
            and damaged == Path(run_name, "result.json")
            and damaged.parent.name == "retrain"
        ):
            continue  # a finished run is not repeated; its own result says the same
        if damaged.name == "metrics.jsonl":  # reported; its rows cannot be had again
            sums = {key: result[key] for key in ("metrics_checksum", "checksum")}
            found = got[run_name][1] | sums
            assert found == result, f"{what}: another result"
        else:
            assert got[run_name] == (metrics, result), f"{what}: another result or other metrics"
    return "the same"


if sys.platform == "win32":
    pytest.skip("needs fork", allow_module_level=True)
