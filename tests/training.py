"""A network and an experiment that train in milliseconds, for tests."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from ladderspec.experiments.reader import open_experiment
from ladderspec.experiments.runs import Run

SPEC = """
name: nano
input: {channels: 1, size: [12, 12]}
time: {frames: 3}
levels:
  - {name: lstm1, encoder: {cell: ConvLSTM, channels: 2}, decoder: convG3}
  - {name: conv2, encoder: {cell: Conv, channels: 4, stride: 2}, decoder: {cell: convG3, filter: 4}}
  - {name: pool3, encoder: {cell: Pool, mode: average, filter: 2}, decoder: G1}
  - {name: top, encoder: {cell: LSTM, channels: 8}, decoder: G1}
  - {name: class, encoder: {cell: SoftMax, channels: 10}, decoder: Identity}
tasks:
  digit: {kind: classification, at: encoder.class}
  next_frame: {kind: prediction, at: decoder.input, weight: 10}
variants:
  open: {without: [decoder_to_encoder]}
  noisy: {set: {input.noise.gaussian: 0.1}}
  taught:
    of: [noisy]
    tasks: {agree: {kind: consistency, at: encoder.class, weight: 2, ramp: 0.5}}
  probed:
    tasks: {probe: {kind: probe, at: decoder.lstm1, target: clean, head: 1}}
"""

MUSIC = """
name: nano-music
input: {channels: 1, size: [1, 88]}
time: {frames: any}
levels:
  - name: lstm1
    encoder: {cell: ConvLSTM, channels: 2, filter: [1, 3], stride: [1, 4]}
    decoder: {cell: convG2, filter: [1, 5], inner: 2}
  - {name: top, encoder: {cell: LSTM, channels: 8}, decoder: G1}
tasks:
  next_notes: {kind: prediction, at: decoder.input, cost: bce}
"""

EXPERIMENT = """
name: nano
data: {set: occluded_mnist, digits: embedded, canvas: 12, frames: 3}
spec: nano.yaml
rows:
  - {name: ladder, paper: {digit: 0.74 ± 0.09}}
  - {name: open, variant: open}
training: {updates: 12, batch: 10, optimiser: {lr: 0.01}}
evaluation: {every: 6, statistics: 2, items: 40, batch: 150}
machine: {log: 4, threads: 1, pictures: 0, checkpoint: {updates: 5}}
"""


def experiment(folder: Path, text: str = EXPERIMENT, spec: str = SPEC) -> Path:
    """Write an experiment and its spec; the path of the experiment."""
    (folder / "nano.yaml").write_text(spec, encoding="utf-8")
    place = folder / "experiment.yaml"
    place.write_text(text, encoding="utf-8")
    return place


def one_run(folder: Path, text: str = EXPERIMENT, spec: str = SPEC, **training: Any) -> Run:
    """The first run of an experiment, with changes to its training."""
    run = open_experiment(experiment(folder, text, spec)).runs[0]
    return replace(run, training=run.training.model_copy(update=training))


def rows(folder: Path) -> list[dict[str, Any]]:
    """The metrics of a run."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
