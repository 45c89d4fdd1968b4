"""A small RTagger learns to group textured digits, and every iteration helps."""

from __future__ import annotations

import json
from pathlib import Path

from ladderspec.cli import main

SPEC = Path("specs/textured/rtagger_tiny.yaml").resolve()
EXPERIMENT = f"""
spec: {SPEC}
rows: [{{name: rtagger}}]
data:
  set: textured_mnist
  digits: embedded
  textures: builtin
  canvas: 24
  brightness: apart
  contrast: 0.1
training:
  updates: 300
  batch: 16
  optimiser: {{lr: 0.008, schedule: {{kind: linear, start: 0.6}}}}
evaluation: {{every: 300, items: 100, batch: 100}}
machine: {{threads: 1}}
"""


def test_a_small_rtagger_learns_to_group_in_twenty_seconds(tmp_path: Path) -> None:
    place = tmp_path / "grouping.yaml"
    place.write_text(EXPERIMENT)
    assert main(["train", str(place), "-o", str(tmp_path / "out")]) == 0
    (result,) = (tmp_path / "out").rglob("result.json")
    first, _, third = json.loads(result.read_text())["by_time"]["test"]["segment.ami"]
    assert third > 0.4
    assert third > first
