"""Progress of training: live lines on a terminal, plain lines elsewhere, callbacks."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path

import pytest

from ladderspec.learn.progress import Display, Event, Here, Progress, lines
from ladderspec.learn.status import FILE, Status, read_status, write_status
from ladderspec.learn.train import train
from tests.training import one_run

LATER = time.time() + 1e6  # no time has passed since then


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def plain(text: str) -> str:
    return re.sub("\033\\[[0-9;]*[A-Za-z]", "", text)


@pytest.mark.parametrize("width", [20, 40, 60, 79, 119, 200])
@pytest.mark.parametrize("name", ["ladder.all_labels.seed0", "a_row_with_a_long_name" * 3])
def test_lines_fit(name: str, width: int) -> None:
    measures = {"segment.ami": 0.45678, "next_frame.error": 1234.56}
    runs = [
        (name, Status(2500, 10_000, 25.0, "", measures, LATER)),
        ("other", Status(10_000, 10_000, 25.0, "validating", measures, time.time())),
        ("third", Status(note="starting", since=time.time())),
        ("fourth", None),
    ]
    found = lines(runs, width, 20)
    assert [len(line) <= width for line in found] == [True] * 4
    if width >= 79:
        assert "####...." in found[0] or "##......" in found[0]
        assert " 2500/10000  25/s  5:00 left  " in found[0]
        assert "ami 0.4568" in found[0]
        assert "| validating 0:00" in found[1]
    assert len(lines(runs, width, 3)) == 3  # a low terminal


def test_a_live_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    display = Display(total=2, out=out)
    progress = Progress("a", display=display)
    with display.following({"a": Here(progress), "b": lambda: None}):
        progress.start(0, 10)
        progress.step(5, {"cost": 1.5, "lr": 1.0})
        display.show()
        display.say("a line")
        display.forget("b")
        display.done += 1
        display.show()
    shown = plain(out.getvalue()).splitlines()
    assert re.match(r"a  ━{12}─{12}  5/10  .*/s  0:00 left  cost 1.5", shown[-2])
    assert "b  waiting" in shown
    assert "a line" in shown
    assert shown[-1] == "1 of 2 runs finished"
    assert out.getvalue().endswith("\033[2F\033[J")  # nothing is left


def test_a_display_that_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = Terminal()
    display = Display(total=2, out=out)
    progress = Progress("a", display=display)
    progress.start(0, 10)
    with display.following({"a": Here(progress), "b": lambda: None}):
        display.stop()
        out.truncate(0)
        progress.step(5, {"cost": 1.5})
        display.show()
        progress.measured("valid", {"error": 3.0})
        display.show()
        shown = plain(out.getvalue())
    assert re.search(r"5/10  . stopping 0:00  cost 1.5\n", shown)
    assert re.search(r"5/10  . stopping 0:00  error 3\n", shown)
    assert "left" not in shown
    assert "waiting" not in shown


@pytest.mark.parametrize("live", [True, False])
def test_the_cost_of_one_task_is_shown_once(live: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for tasks, shown in ((["digit"], "cost 1"), (["a", "b"], "cost 1  a.cost 1  b.cost 1")):
        out = Terminal() if live else io.StringIO()
        progress = Progress("run", display=Display(out=out))
        costs = {"cost": 1.0, **{f"{task}.cost": 1.0 for task in tasks}}
        progress.start(0, 10)
        with progress.display.following({"run": Here(progress)}):
            progress.step(1, costs)
            progress.row(1, {**costs, "lr": 2.0})
            progress.display.show()
        ending = re.escape(shown) + ("\n" if live else "  lr 2\n")
        assert re.search(rf" left  {ending}", plain(out.getvalue()))


@pytest.mark.parametrize("colour", [True, False])
def test_no_color(colour: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if not colour:
        monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    display = Display(out=out)
    with display.following({"a": lambda: Status(5, 10, 1.0)}):
        display.show()
    assert ("\033[36m" in out.getvalue()) is colour
    monkeypatch.setenv("TERM", "dumb")
    assert not display.live


def test_a_status_of_another_process(tmp_path: Path) -> None:
    assert read_status(tmp_path) is None
    write_status(tmp_path, Status(3, 10, 2.0, "", {"cost": 1.0}, since=100.0))
    assert read_status(tmp_path) == Status(3, 10, 2.0, "", {"cost": 1.0}, since=100.0)
    assert read_status(tmp_path, since=101.0) is None  # of an earlier process
    (tmp_path / FILE).unlink()
    wrong = ['{"since": "now"}', '{"total": "many"}', '{"rate": null}', '{"measures": [3]}']
    for text in ("", "[]", "{", '{"unknown": 1}', "[" * 100_000, *wrong):
        (tmp_path / FILE).write_text(text)
        assert read_status(tmp_path) is None, text


def test_a_clock_that_jumps_back() -> None:
    """Times since then are not negative."""
    (line,) = lines([("a", Status(note="testing", since=time.time() + 100))], 79, 9)
    assert line.endswith("testing 0:00")


def test_training_reports(tmp_path: Path) -> None:
    updates, evaluations = list[Event](), list[Event]()
    log = io.StringIO()
    result = train(
        one_run(tmp_path), tmp_path / "run", display=Display(out=log),
        on_update=updates.append, on_evaluation=evaluations.append,
    )  # fmt: skip
    assert [event.update for event in updates] == list(range(1, result["updates"] + 1))
    assert {event.split for event in updates} == {"train"}
    assert "cost" in updates[0].values
    assert {event.split for event in evaluations} == {"valid", "test"}
    assert evaluations[-1].values == result["metrics"]["test"]
    assert re.search(
        rf"^{updates[0].run}: \d+/\d+  .* updates/s, .* left  cost ", log.getvalue(), re.M
    )
    assert not (tmp_path / "run" / FILE).exists()
