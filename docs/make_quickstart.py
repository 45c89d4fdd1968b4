"""Record the runs of the quickstart: their numbers, and the pictures of the README and its page.

ladderspec ablate specs/experiments/quickstart.yaml -o out/quickstart --seeds 3
python docs/make_quickstart.py out/quickstart
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ladderspec.data import sheet
from ladderspec.experiments.reader import open_experiment
from ladderspec.learn.evaluation import recalibrated
from ladderspec.trained.run import open_run

DOCS = Path(__file__).parent
EXPERIMENT = DOCS.parent / "specs/experiments/quickstart.yaml"
ITEMS = np.arange(1)  # the first of the test data
SHOWN = ["memoryless", "both"]  # in the README


@torch.no_grad()
def predictions(folder: Path) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Frames and predicted next frames of the items, (items, T, 1, H, W)."""
    opened = open_run(folder)
    net = opened.net()
    frames = opened.data.batch("test", 0, ITEMS, ["frames"])["frames"]
    with recalibrated(net, opened.training_batches(opened.collator(net))):
        return frames, net(torch.from_numpy(frames))["next_frame"].numpy()


def picture(folder: Path, names: Sequence[str] = ()) -> sheet.ImageSheet:
    """The frames, and below them what some or all networks expected to see, with seed 0."""
    rows: list[list[sheet.Strip]] = [[] for _ in ITEMS]
    for run in open_experiment(EXPERIMENT).select(names):
        frames, later = predictions(folder / run.id)
        for row, seen, expected in zip(rows, frames[:, :, 0], later[:, :-1, 0], strict=True):
            blank = np.zeros_like(seen[:1])
            row += [] if row else [sheet.Strip("frames", list(seen))]
            row.append(sheet.Strip(run.title, list(np.concatenate([blank, expected]))))
    times = [f"t = {t}" for t in range(1, frames.shape[1] + 1)]
    groups = [(f"test item {item}", row) for item, row in zip(ITEMS, rows, strict=True)]
    return sheet.strips("Frames, and their predictions from the frames before", times, groups)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="the folder of the runs")
    folder = parser.parse_args().folder
    picture(folder).save(DOCS / "pictures/quickstart_predictions.png")
    picture(folder, SHOWN).save(DOCS / "pictures/quickstart_short.png")
    shutil.copy(folder / "curves.png", DOCS / "pictures/quickstart_curves.png")
    shutil.copy(folder / "runs.csv", DOCS / "results/quickstart/runs.csv")


if __name__ == "__main__":
    main()
