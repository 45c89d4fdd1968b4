"""The folder of a run, opened again: its network as it was, its data, how it was trained."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from ladderspec.data import DataSet, words_of
from ladderspec.errors import UsageError
from ladderspec.learn import checkpoint
from ladderspec.learn.evaluation import training_feeds
from ladderspec.learn.feed import Diet, Feed
from ladderspec.learn.inputs import EvaluationNoise, noise_of
from ladderspec.learn.journal import reported
from ladderspec.learn.words import Evaluation, Training
from ladderspec.network.adopt import Adopted
from ladderspec.network.net import Net
from ladderspec.trained.lesion import lesion
from ladderspec.trained.store import net_of, open_graph, open_net
from ladderspec.wiring.graph import Graph


@dataclass
class Opened:
    """A run that was trained, or is still being trained."""

    folder: Path  # of the run
    facts: dict[str, Any]  # run.json
    weights: checkpoint.Checkpoint
    which: str  # `best` or `last`
    graph: Graph
    root: Path | None = None  # of the data
    notes: list[str] = field(default_factory=list)

    @cached_property
    def training(self) -> Training:
        return Training.model_validate(self.facts["training"])

    @cached_property
    def evaluation(self) -> Evaluation:
        """As it was; a run without `noise` was measured on clean input (see `Run.facts`)."""
        return Evaluation.model_validate({"noise": False, **self.facts["evaluation"]})

    @cached_property
    def data(self) -> DataSet:
        return words_of(**self.facts["data"]).open(int(self.facts["seed"]), self.root)

    @property
    def dtype(self) -> torch.dtype:
        return torch.float64 if self.training.precision == "float64" else torch.float32

    def net(self, without: Sequence[str] = (), teacher: bool = False) -> Net:
        """The trained network, or its teacher; without some of its arrows."""
        tensors = self.weights.under("teacher." if teacher else "net.")
        if not without:
            net = net_of(self.graph, self.dtype)
            checkpoint.restore(net, tensors, str(self.folder))
            return net.eval()
        net = net_of(lesion(self.graph, without), self.dtype)
        self._note(net.adopt(tensors))
        return net.eval()

    def _note(self, adopted: Adopted) -> None:
        """A lesioned network has nothing that was not trained."""
        odd = [*adopted.missing, *adopted.reshaped]
        if odd:
            raise UsageError(f"without that, {odd[0]} would have to learn anew; take out less")

    @property
    def has_teacher(self) -> bool:
        return any(name.startswith("teacher.") for name in self.weights.tensors)

    def diet(self, net: Net) -> Diet:
        return Diet(self.data, net.tasks, self.training.steps, dtype=self.dtype)

    def noise(self, asked: bool | None = None) -> bool | None:
        """`evaluation.noise` as it is asked for; None: as in the run."""
        if asked and noise_of(self.graph) is None:
            raise UsageError("there is no noise to add: the network has no `input.noise`")
        return self.evaluation.noise if asked is None else asked

    def seen(self, net: Net, asked: bool | None = None) -> Diet:
        """What pictures and activations see: noisy input if any task is measured on it."""
        noisy = EvaluationNoise(self.noise(asked), net.noise).any_noisy(net.tasks)
        return self.diet(net).with_noise(net.noise if noisy else None)

    def settling(self, diet: Diet, batches: int | None = None) -> list[Feed]:
        """Training data for the statistics of batch norms."""
        count = self.evaluation.statistics if batches is None else batches
        split = "train+valid" if self.folder.name == "retrain" else "train"
        return list(training_feeds(diet, split, self.training.batch, count))


def open_run(place: str | Path, which: str | None = None, data: Path | None = None) -> Opened:
    """Open a run by its folder, or by one of its checkpoints: `out/run` or `out/run/best.json`."""
    place = Path(place)
    if place.suffix == ".json" and place.is_file():
        place, which = place.parent, place.stem
    elif which and (place / "retrain" / f"{which}.json").exists():
        place = place / "retrain"
    home = place.parent if place.name == "retrain" else place
    record = home / "run.json"
    try:
        facts = json.loads(record.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{home} holds no run: there is no run.json") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {record}: {error}") from None
    place, chosen = (place, which) if which else reported(place)
    weights = checkpoint.read(place, chosen)
    return Opened(place, facts, weights, chosen, open_graph(home), data)


def take_weights(net: Net, place: str | Path) -> None:
    """Give a network the weights of a run, of one of its checkpoints, or of a saved network."""
    if (Path(place) / "net.json").exists():
        tensors = open_net(place).state_dict()
    else:
        tensors = open_run(place).weights.under("net.")
    net.to(next(iter(tensors.values())).dtype)
    checkpoint.restore(net, tensors, str(place))
