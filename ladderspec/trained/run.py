"""A trained run, opened from its folder: its network, its data, its training."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ladderspec.data import DataConfig, DataSet, config_of_run
from ladderspec.errors import UsageError
from ladderspec.experiments.identity import plugins_of
from ladderspec.experiments.training import (
    EvaluationConfig,
    EvaluationNoise,
    TrainingConfig,
    noise_of,
    refresh,
)
from ladderspec.files import checksum, read_regular, read_sealed
from ladderspec.learn import checkpoint
from ladderspec.learn.batches import CPU, Collator, TensorBatch
from ladderspec.learn.evaluation import training_batches
from ladderspec.learn.processes import device_of
from ladderspec.learn.run_folder import CONTENT, GRAPH_CHECKSUM, content_changed, owner, reported
from ladderspec.network.net import Net
from ladderspec.trained.lesion import lesion
from ladderspec.trained.store import GRAPH, check_size, net_of, open_graph, open_net
from ladderspec.wiring.graph import Graph
from ladderspec.wording import first_error

C = TypeVar("C", bound=BaseModel)


class Settings(BaseModel):
    """Data, training and evaluation of a run; each is validated by its own class."""

    data: dict[str, Any]
    training: dict[str, Any]
    evaluation: dict[str, Any]


class RunRecord(BaseModel):
    """The content of `run.json`, as far as it opens a run."""

    model_config = ConfigDict(strict=True)

    title: str
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    data: dict[str, Any]
    training: dict[str, Any]
    evaluation: dict[str, Any]
    settings: Settings | None = None
    plugins: dict[str, str] = {}


@dataclass
class TrainedRun:
    """A run that was trained, or is still being trained."""

    folder: Path
    record: dict[str, Any]  # run.json
    weights: checkpoint.Checkpoint
    which: str  # checkpoint: `best` or `last`
    graph: Graph
    root: Path | None = None  # data folder
    device: torch.device = CPU

    @property
    def settings(self) -> dict[str, Any]:
        """Data, training and evaluation, complete. Early runs recorded them in their identity."""
        found: dict[str, Any] = self.record.get("settings", self.record)
        return found

    @cached_property
    def training(self) -> TrainingConfig:
        refresh()
        return self._config(TrainingConfig, self.settings["training"])

    @cached_property
    def evaluation(self) -> EvaluationConfig:
        """As it was. Runs recorded before there was `noise` were measured on clean input."""
        return self._config(EvaluationConfig, {"noise": False, **self.settings["evaluation"]})

    def _config(self, kind: type[C], fields: dict[str, Any]) -> C:
        try:
            return kind.model_validate(fields)
        except ValidationError as error:
            place = self.folder / "run.json"
            raise UsageError(f"{place} cannot be used: {first_error(error)}") from None

    @cached_property
    def data_config(self) -> DataConfig:
        """Refused if the data set has another revision now."""
        return config_of_run({**self.record["data"], **self.settings["data"]})

    @cached_property
    def data(self) -> DataSet:
        return self.data_config.open(int(self.record["seed"]), self.root)

    @property
    def notes(self) -> list[str]:
        """Notes on inputs that changed after the run began: the user's own data, plug-in files."""
        found = self.plugin_notes(self.data_config)
        if content_changed(self.record.get(CONTENT), self.data_config, self.root):
            found.append("the run was trained with other data than those that are there now")
        return found

    def plugin_notes(self, data: DataConfig | None = None) -> list[str]:
        """The plug-in files of the network, and of its data, that have changed."""
        now = plugins_of(self.graph, data)
        before = {**now, **self.record.get("plugins", {})}
        return [
            f"plug-in `{name}` has changed since the run was trained: it computes something else"
            for name in now
            if not set(now[name].split("+")) <= set(before[name].split("+"))
        ]

    @property
    def dtype(self) -> torch.dtype:
        return torch.float64 if self.training.precision == "float64" else torch.float32

    def net(self, without: Sequence[str] = (), teacher: bool = False) -> Net:
        """The trained network or its Mean Teacher, in evaluation mode.

        Args:
            without: selectors of what is removed (a lesion).
            teacher: the teacher instead of the network.
        """
        tensors = self.weights.under("teacher." if teacher else "net.")
        if not without:
            check_size(self.graph, tensors, self.folder)
            net = net_of(self.graph, self.dtype)
            checkpoint.restore(net, tensors, str(self.folder))
            return net.to(self.device).eval()
        net = net_of(lesion(self.graph, without), self.dtype)
        adopted = net.adopt(tensors)
        untrained = [*adopted.missing, *adopted.reshaped]
        if untrained:
            raise UsageError(
                f"without that, {untrained[0]} would have to be trained again; remove less"
            )
        return net.to(self.device).eval()

    @property
    def has_teacher(self) -> bool:
        return any(name.startswith("teacher.") for name in self.weights.tensors)

    def collator(self, net: Net) -> Collator:
        """Turns the run's data into the tensors of a network."""
        steps, further = self.training.steps, net.inputs.forms[1:]
        return Collator(self.data, net.tasks, steps, self.device, self.dtype, inputs=further)

    def noise(self, asked: bool | None = None) -> bool | None:
        """`evaluation.noise`, as asked for or as in the run."""
        if asked and noise_of(self.graph) is None:
            raise UsageError("there is no noise to add: the network has no `input.noise`")
        return self.evaluation.noise if asked is None else asked

    def shown(self, net: Net, asked: bool | None = None) -> Collator:
        """The inputs of pictures and activations: noisy if any task is measured on noisy input."""
        noisy = EvaluationNoise(self.noise(asked), net.noise).any_noisy(net.tasks)
        return self.collator(net).with_noise(net.noise if noisy else None)

    def training_batches(self, collator: Collator, batches: int | None = None) -> list[TensorBatch]:
        """Training data to recalibrate batch norm on."""
        count = self.evaluation.statistics if batches is None else batches
        split = "train+valid" if self.folder.name == "retrain" else "train"
        return list(training_batches(collator, split, self.training.batch, count))


def open_run(
    place: str | Path,
    which: str | None = None,
    data: Path | None = None,
    device: str = "cpu",
) -> TrainedRun:
    """Open a run by its folder or one of its checkpoints: `out/run` or `out/run/best.json`.

    Args:
        place: the folder or checkpoint.
        which: `best` or `last`. Default: the weights that the result reports.
        data: the data folder.
        device: where its networks compute.
    """
    chosen_device = device_of(device)
    place = Path(place)
    if place.suffix == ".json" and os.path.isfile(place):
        if which not in (None, place.stem):
            raise UsageError(f"checkpoint `{which}` would be ignored: {place} is one itself")
        place, which = place.parent, place.stem
    elif which and os.path.exists(place / "retrain" / f"{which}.json"):
        place = place / "retrain"
    home = place.parent if place.name == "retrain" else place
    record = home / "run.json"
    if os.path.isfile(home):
        raise UsageError(
            f"{home} is a file, but a trained network is the folder of a run, like"
            " out/quickstart/both.seed0, or one of its checkpoints"
        )
    try:
        content = read_sealed(record)
        RunRecord.model_validate(content)
    except FileNotFoundError:
        missing = "there is no run.json" if os.path.isdir(home) else "there is no such folder"
        if inside := sorted(home.glob("*/run.json")):
            missing = f"its folders do, like {inside[0].parent}"
        raise UsageError(f"{home} holds no run: {missing}") from None
    except ValidationError as error:
        raise UsageError(f"{record} is no record of a run: {first_error(error)}") from None
    place, chosen = (place, which) if which else reported(place)
    weights = checkpoint.read(place, chosen, owner(place))
    graph = open_graph(home)
    if content.get(GRAPH_CHECKSUM) not in (None, checksum(read_regular(home / GRAPH))):
        raise UsageError(f"{home / GRAPH} is damaged or was changed: its checksum is another")
    return TrainedRun(place, content, weights, chosen, graph, data, chosen_device)


def take_weights(net: Net, place: str | Path) -> list[str]:
    """Load the weights of a run, of one of its checkpoints, or of a saved network.

    Returns notes on plug-in files that have changed since.
    """
    notes = list[str]()
    if os.path.exists(Path(place) / "net.json"):
        tensors = open_net(place).state_dict()
    else:
        opened = open_run(place)
        tensors, notes = opened.weights.under("net."), opened.plugin_notes()
    net.to(next(iter(tensors.values())).dtype)
    checkpoint.restore(net, tensors, str(place))
    return notes
