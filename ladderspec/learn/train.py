"""Training: a plain loop over updates.

    for feed in feeds:
        update                      learn
        every so often: evaluate    change the learning rate, stop, keep the best
        every so often: save        so that a run can go on at any moment

A run is a pure function of its words and its seed: batches, noise and initial values are drawn by
counter, so whatever is not in a checkpoint can be had again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ladderspec.corridor import build
from ladderspec.data import DataSet, Split
from ladderspec.experiments.runs import Run, digest
from ladderspec.learn import checkpoint, processes
from ladderspec.learn.evaluation import Examiner
from ladderspec.learn.feed import Diet, Feed
from ladderspec.learn.hold import held
from ladderspec.learn.interrupt import Interrupted, Patience
from ladderspec.learn.journal import Journal, claim, read_result, tracker
from ladderspec.learn.learner import Learner, learner_of
from ladderspec.learn.progress import Progress
from ladderspec.learn.sampler import Order
from ladderspec.learn.saving import Saving, save
from ladderspec.learn.schedule import Course
from ladderspec.learn.start import begin_with, freeze, leave_out
from ladderspec.learn.update import update
from ladderspec.learn.words import Epochs


def train(
    run: Run,
    folder: str | Path,
    *,
    resume: bool = False,
    data: str | Path | None = None,
    quiet: bool = False,
) -> dict[str, Any]:
    """Train a run in its folder; what `result.json` then says. A finished run is not repeated."""
    folder = Path(folder)
    found = read_result(folder, run.facts())
    if found is not None:
        return found
    with ExitStack() as stack:
        device = stack.enter_context(processes.joined(run.machine.device))
        stack.enter_context(_machine(run))
        if processes.rank() == 0:
            stack.enter_context(held(folder))
            claim(folder, run, resume)
        processes.wait()
        opened = run.data.open(run.seed, Path(data) if data is not None else None)
        phase = Phase(run, folder, folder, opened, device, quiet or processes.rank() > 0)
        result = phase.run_through()
        if run.training.retrain != "no":
            result = _retrain(phase, result)
    return result


@dataclass
class Phase:
    """One training of a run: on the training data, or anew on all that is not for testing."""

    run: Run
    home: Path  # of the run
    folder: Path  # of this training of it
    data: DataSet
    device: torch.device
    quiet: bool
    split: Split = Split.TRAIN
    replay: Course | None = None  # the learning rates of the first training

    def run_through(self) -> dict[str, Any]:
        """Train, test, and write the result."""
        begun = (self.folder / "last.json").exists()
        learner, began = self._learner(begun)
        silent = processes.rank() > 0
        journal = Journal(
            self.folder, silent, tracker(self.folder, self.run.machine.track and not silent)
        )
        progress = Progress(self.run.id, learner.total, self.quiet)
        examiner = Examiner(self.run, learner, journal, self.folder, progress)
        processes.wait()  # until all have looked whether it was begun
        if begun:
            self._resume(learner, journal, progress)
        else:
            save(learner, self.folder)
            if began:
                progress.say(began)
        loop(examiner)
        result = {
            "digest": digest(self.run.facts()),
            "id": self.run.id,
            "updates": learner.update,
            "best_update": learner.course.best_update,
            "stopped": learner.course.stopped,
            "changes": learner.course.changes,
            **examiner.conclude(),
        }
        if self.run.training.retrain == "no" or self.split is Split.BOTH:
            journal.conclude(result)
        return result

    def _learner(self, begun: bool) -> tuple[Learner, str]:
        """The learner, and what there is to say of the weights that it begins with."""
        run, words = self.run, self.run.training
        net = build(run.spec, run.seed)
        dtype = torch.float64 if words.precision == "float64" else torch.float32
        net.to(self.device, dtype)
        diet = Diet(self.data, net.tasks, words.steps, self.device, dtype)
        diet.check(net, run.spec.words.time.frames)
        began = "" if begun else begin_with(net, run, self.data, self.home)
        freeze(net, run)
        if words.drop:
            leave_out(net, words.drop)
        order = Order(diet, self.split, words.batch, processes.rank(), processes.world())
        order.check()
        total = words.updates or order.total(float(words.epochs or 1))
        learner = learner_of(net, diet, order, words, run.seed, total)
        if self.replay is not None:
            learner.course, learner.replays = self.replay, True
        return learner, began

    def _resume(self, learner: Learner, journal: Journal, progress: Progress) -> None:
        """Go on with the last checkpoint that is whole."""
        try:
            found = checkpoint.read(self.folder, "last")
        except checkpoint.CheckpointError as error:
            if not (self.folder / "last.before.json").exists():
                raise
            progress.say(f"{error}; going on with the one before it")
            found = checkpoint.read(self.folder, "last.before")
        learner.load(found)
        journal.cut(learner.written)
        progress.say(f"goes on after update {learner.update}")


def _retrain(phase: Phase, first: dict[str, Any]) -> dict[str, Any]:
    """Train anew on both, for as many updates as the weights had that validation has chosen."""
    updates = first["best_update"] if first["reported"] == "best" else first["updates"]
    words = phase.run.training.model_copy(update={"updates": updates, "epochs": None, "stop": None})
    run = replace(phase.run, training=words)
    folder = phase.folder / "retrain"
    if processes.rank() == 0:
        folder.mkdir(exist_ok=True)
    processes.wait()
    course = Course(changes=[tuple(change) for change in first["changes"]])
    again = replace(phase, run=run, folder=folder, split=Split.BOTH, replay=course)
    result = {**again.run_through(), "digest": digest(phase.run.facts()), "first": first}
    Journal(phase.folder, processes.rank() > 0).conclude(result)
    return result


# --- the loop -------------------------------------------------------------------------------------


def loop(examiner: Examiner) -> None:
    """Update after update, until all are done or an evaluation says stop."""
    run, learner, progress = examiner.run, examiner.learner, examiner.progress
    every, saving = updates_between(run, learner), Saving(run.machine.checkpoint)
    progress.begin(learner.update)
    with Patience() as patience:
        for feed, share in feeds(learner, run.machine.workers):
            said = update(learner, feed, share)
            learner.add(said)
            progress.step(learner.update, said)
            last = learner.update >= learner.total
            if learner.update % run.machine.log == 0 or last:
                _row(learner, examiner.journal, progress)
            if learner.update % every == 0 or last:
                examiner.examine()
            done = last or bool(learner.course.stopped)
            interrupted = processes.any_of(patience.over, learner.diet.device)
            if done or interrupted or saving.due(learner.update):
                saving.save(learner, examiner.folder)
            if done:
                return
            if interrupted:
                progress.say(f"interrupted after update {learner.update}; --resume goes on")
                raise Interrupted


def feeds(learner: Learner, workers: int) -> Iterator[tuple[Feed, float]]:
    """What comes next, from where the learner is; and which share of its batch it is.

    The learner's position is always that of the piece after the one handed out.
    """
    if learner.update >= learner.total or learner.course.stopped:
        return
    skip = learner.piece
    for epoch, number, size, batch in learner.order.batches(learner.epoch, learner.number, workers):
        pieces = list(learner.diet.pieces(batch))
        for piece, feed in enumerate(pieces):
            if piece < skip:
                continue
            last = piece + 1 == len(pieces)
            learner.epoch, learner.number = epoch, number + last
            learner.piece = 0 if last else piece + 1
            yield feed, len(feed) / size if learner.order.world > 1 else 1.0
        skip = 0


def updates_between(run: Run, learner: Learner) -> int:
    """How many updates there are between two evaluations."""
    every = run.evaluation.every
    if isinstance(every, Epochs):
        return max(1, round(every.epochs * learner.order.updates(0)))
    return int(every)


def _row(learner: Learner, journal: Journal, progress: Progress) -> None:
    values = learner.means()
    row = {"update": learner.update, "epoch": learner.epoch, "split": str(learner.order.split)}
    learner.written = journal.append({**row, **values}, learner.written)
    journal.time({"update": learner.update, "updates per second": progress.speed(learner.update)})
    progress.row(learner.update, values)


# --- the machine ---------------------------------------------------------------------------------


@contextmanager
def _machine(run: Run) -> Iterator[None]:
    """Threads as asked for; torch's own generator is left as it was."""
    threads = torch.get_num_threads()
    if run.machine.threads is not None:
        torch.set_num_threads(run.machine.threads)
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(threads)
