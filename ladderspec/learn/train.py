"""Training: a plain loop over updates.

    for batch in batches:
        update                         costs, gradients, a step of the optimiser
        every so often: evaluate       adjust the learning rate, stop early, save the best weights
        every so often: save           so that the run can be resumed

A run is a function of its configuration and its seed: batches, noise and initial values are drawn
by counter-based generators, so a checkpoint does not contain them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ladderspec.api import build
from ladderspec.data import DataSet, Split
from ladderspec.experiments.identity import unnoticed
from ladderspec.experiments.runs import Run
from ladderspec.experiments.training import Epochs
from ladderspec.files import make_folder
from ladderspec.learn import checkpoint, processes
from ladderspec.learn.allocator import keep_freed_memory
from ladderspec.learn.batches import Collator, Sampler, TensorBatch
from ladderspec.learn.evaluation import Evaluator
from ladderspec.learn.log import CHECKSUM, MetricsLog, metrics_checksum, tensorboard
from ladderspec.learn.processes import Interrupted, SignalGuard
from ladderspec.learn.progress import Callback, Display, Here, Progress
from ladderspec.learn.run_folder import begun, changed_inputs, claim, locked, owner, read_result
from ladderspec.learn.setup import freeze, initialise, set_dropout
from ladderspec.learn.status import remove_status
from ladderspec.learn.train_state import (
    CheckpointTimer,
    ScheduleState,
    TrainState,
    new_train_state,
    save,
)
from ladderspec.learn.update import read_costs, update


def train(
    run: Run,
    folder: str | Path,
    *,
    resume: bool = False,
    data: str | Path | None = None,
    quiet: bool = False,
    display: Display | None = None,
    on_update: Callback | None = None,
    on_evaluation: Callback | None = None,
) -> dict[str, Any]:
    """Train a run in its folder. A finished run is not repeated.

    Args:
        run: the run, from an experiment.
        folder: where its checkpoints, metrics and result are written.
        resume: continue an interrupted run; otherwise a folder with checkpoints is refused.
        data: the data folder. Default: that of the environment.
        quiet: show no progress.
        display: where to show it. Default: one of its own.
        on_update: called after every update with an `Event`; in the first of several processes.
        on_evaluation: called after every evaluation with an `Event`.

    Returns:
        The content of `result.json`.
    """
    display = display or Display(quiet=quiet)
    folder, root = Path(folder), Path(data) if data is not None else None
    finished = read_result(folder, run)
    if finished is not None:
        if not display.quiet and (what := changed_inputs(folder, run, root)):
            display.say(f"{run.id}: finished with other {what} than those that are there now")
        if message := unnoticed([run]):
            display.say(f"{run.id}: {message}")
        return finished
    if run.machine.keep_freed_memory:
        keep_freed_memory()
    with ExitStack() as stack:
        device = stack.enter_context(processes.joined(run.machine.device))
        stack.enter_context(processes.torch_threads(run.machine.threads))
        progress = Progress(run.id)
        if processes.rank() == 0:
            stack.enter_context(locked(folder))
            claim(folder, run, resume, root)
            progress = Progress(run.id, folder, display, on_update=on_update,
                                on_evaluation=on_evaluation)  # fmt: skip
            stack.enter_context(display.following({run.id: Here(progress)}))
            stack.callback(remove_status, folder)
            progress.note("preparing")
        processes.wait()
        opened = run.data.open(run.seed, root)
        result = _train(run, folder, opened, device, progress)
        if run.training.retrain != "no":
            result = _retrain(run, folder, opened, device, progress, result)
        return MetricsLog(folder, processes.rank() > 0).write_result(result)


def _retrain(
    run: Run,
    folder: Path,
    data: DataSet,
    device: torch.device,
    progress: Progress,
    first: dict[str, Any],
) -> dict[str, Any]:
    """Train again on training and validation data, for as many updates as the reported weights had.

    The learning rates are those of the first training.
    """
    updates = first["best_update"] if first["reported"] == "best" else first["updates"]
    changes = {"updates": updates, "epochs": None, "stop": None}
    again = replace(run, training=run.training.model_copy(update=changes))
    schedule = ScheduleState(changes=[tuple(change) for change in first["changes"]])
    inner = folder / "retrain"
    if processes.rank() == 0:
        make_folder(inner)
    processes.wait()
    result = _train(again, inner, data, device, progress, folder, Split.BOTH, schedule)
    MetricsLog(inner, processes.rank() > 0).write_result(result)
    return {**result, "digest": run.digest, "first": first}


def _train(
    run: Run,
    folder: Path,
    data: DataSet,
    device: torch.device,
    progress: Progress,
    home: Path | None = None,
    split: Split = Split.TRAIN,
    replay: ScheduleState | None = None,
) -> dict[str, Any]:
    """Train and test one network.

    Args:
        run: the run.
        folder: where to write.
        data: the opened data set.
        device: where to compute.
        progress: where it stands.
        home: the folder of the run, if `folder` is inside it.
        split: the data to train on.
        replay: the learning rates of an earlier training.
    """
    # Network, data and state; `message` is about initial weights from another run.
    resumes = begun(folder)
    state, message = _prepare(run, home or folder, data, device, split, resumes)
    state.owner = owner(folder)
    state.check = run.machine.check or (1 if device.type == "cpu" else run.machine.log)
    if replay is not None:
        state.schedule, state.replays = replay, True
    silent = processes.rank() > 0
    log = MetricsLog(folder, silent, tensorboard(folder, run.machine.track and not silent))
    evaluator = Evaluator(run, state, log, folder, progress)
    processes.wait()  # all have looked for a checkpoint before one is written
    if resumes:
        _resume(state, folder, log, progress)
        if message := unnoticed([run]):
            progress.say(message)
    else:
        if log.has_rows:
            progress.say(f"{folder} has metrics but no checkpoint; starts again at update 0")
            log.truncate(0)
        save(state, folder)
        if message:
            progress.say(message)

    every, timer = _updates_between(run, state), CheckpointTimer(run.machine.checkpoint)
    progress.start(state.update, state.total)
    with SignalGuard(progress.display.stop) as signals:
        for batch, share in batches(state, run.machine.workers):
            update(state, batch, share)
            progress.step(state.update, state.latest)
            last = state.update >= state.total
            if state.update % run.machine.log == 0 or last:
                read_costs(state)
                _log_row(state, log, progress)
            if state.update % every == 0 or last:
                read_costs(state)
                evaluator.validate()
            done = last or bool(state.schedule.stopped)
            # Several processes agree on it when they have read their costs.
            agreed = processes.world() == 1 or not state.unread
            interrupted = agreed and processes.any_of(signals.received, device)
            if done or interrupted or timer.due(state.update):
                read_costs(state)
                timer.save(state, folder)
            if done:
                break
            if interrupted:
                progress.say(f"interrupted after update {state.update}; --resume continues")
                raise Interrupted

    return {
        "digest": run.digest,
        "id": run.id,
        "updates": state.update,
        "best_update": state.schedule.best_update,
        "stopped": state.schedule.stopped,
        "changes": state.schedule.changes,
        **evaluator.conclude(),
    }


def _prepare(
    run: Run, home: Path, data: DataSet, device: torch.device, split: Split, resumes: bool
) -> tuple[TrainState, str]:
    """The state before the first update, and a message about its initial weights."""
    config = run.training
    dtype = torch.float64 if config.precision == "float64" else torch.float32
    net = build(run.spec, run.seed)
    net.to(device, dtype)
    collator = Collator(data, net.tasks, config.steps, device, dtype, inputs=net.inputs.forms[1:])
    collator.check(net, run.spec.config.time.frames)
    message = "" if resumes else initialise(net, run, data, home)
    freeze(net, run)
    if config.drop:
        set_dropout(net, config.drop)
    sampler = Sampler(collator, split, config.batch, processes.rank(), processes.world())
    sampler.check()
    total = config.updates or sampler.total_updates(float(config.epochs or 1))
    return new_train_state(net, collator, sampler, config, run.seed, total), message


def _resume(state: TrainState, folder: Path, log: MetricsLog, progress: Progress) -> None:
    """Continue from the last checkpoint, or from the one before it if that is damaged."""
    found, message = checkpoint.read_latest(folder, "last", state.owner)
    if message:
        progress.say(message)
    state.load(found)
    left = log.truncate(state.written)
    if left != state.written and not log.silent:
        progress.say(f"metrics.jsonl lacks {state.written - left} bytes: rows before are lost")
        state.written = left
    elif found.attributes.get(CHECKSUM) not in (None, metrics_checksum(folder)):
        progress.say("metrics.jsonl is damaged or was changed: some of its rows may be wrong")
    progress.say(f"continues after update {state.update}")


def batches(state: TrainState, workers: int) -> Iterator[tuple[TensorBatch, float]]:
    """The next batches, and the share of each in the batch of all processes.

    The position in the state is always that after the batch just yielded.
    """
    if state.update >= state.total or state.schedule.stopped:
        return
    skip = state.piece
    for epoch, number, size, arrays in state.sampler.batches(state.epoch, state.number, workers):
        pieces = list(state.collator.pieces(arrays))
        for piece, batch in enumerate(pieces):
            if piece < skip:
                continue
            last = piece + 1 == len(pieces)
            state.epoch, state.number = epoch, number + last
            state.piece = 0 if last else piece + 1
            yield batch, len(batch) / size if state.sampler.world > 1 else 1.0
        skip = 0


def _updates_between(run: Run, state: TrainState) -> int:
    """The number of updates between two evaluations."""
    every = run.evaluation.every
    if isinstance(every, Epochs):
        return max(1, round(every.epochs * state.sampler.updates(0)))
    return int(every)


def _log_row(state: TrainState, log: MetricsLog, progress: Progress) -> None:
    values = state.means()
    row = {"update": state.update, "epoch": state.epoch, "split": str(state.sampler.split)}
    state.written = log.append({**row, **values}, state.written)
    log.time({"update": state.update, "updates per second": progress.rate(state.update)})
    progress.row(state.update, values)
