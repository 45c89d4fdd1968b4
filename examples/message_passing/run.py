"""Iterate the static chain and follow its means to the exact posterior.

    python examples/message_passing/run.py [-o FOLDER]

Prints the sweeps; with matplotlib (`pip install 'ladderspec[plot]'`) also draws convergence.svg.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from ladderspec.api import build, load
from ladderspec.plugins import load_plugin

HERE = Path(__file__).parent
X = -1.3


def exact(p: dict[str, float]) -> np.ndarray:
    """The posterior means of x, y, z: a linear system, whatever the ladder says."""
    precision = np.array(
        [
            [1 / p["s2"] + 1 / p["sx2"], -p["w_x"] / p["sx2"], 0],
            [-p["w_x"] / p["sx2"], p["w_x"] ** 2 / p["sx2"] + 1 / p["sy2"], -p["w_yz"] / p["sy2"]],
            [0, -p["w_yz"] / p["sy2"], p["w_yz"] ** 2 / p["sy2"] + 1 / p["sz2"]],
        ]
    )
    return np.linalg.solve(precision, [X / p["s2"], 0, p["mu_z"] / p["sz2"]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("out"))
    folder = parser.parse_args().output
    load_plugin(HERE / "gaussian_cells.py")
    spec = load(HERE / "static_chain.yaml")
    p = {name: float(value) for name, value in spec.config.params.items()}
    net = build(spec)
    nodes = ("decoder.input", "decoder.y", "decoder.z")
    values = net.values(torch.tensor([[X]], dtype=torch.float64), *nodes)
    units = (1.0, p["w_x"], p["w_yz"])
    found = np.stack([values[n][0, :, 0].numpy() / u for n, u in zip(nodes, units, strict=True)], 1)
    truth = exact(p)
    print("iteration      m_x         m_y         m_z      largest error")
    for t in (1, 2, 3, 5, 10, 20, 50, 100, 200):
        error = np.abs(found[t - 1] - truth).max()
        print(f"{t:9d}  " + "  ".join(f"{m:10.6f}" for m in found[t - 1]) + f"      {error:.1e}")
    print("    exact  " + "  ".join(f"{m:10.6f}" for m in truth))
    plot(np.abs(found - truth), folder)


def plot(errors: np.ndarray, folder: Path) -> None:
    try:
        import matplotlib
    except ImportError:
        print("no plot: it needs matplotlib")
        return
    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams.update({"svg.hashsalt": "ladderspec", "svg.fonttype": "none"})
    figure, axes = pyplot.subplots(figsize=(5.2, 3.2), layout="constrained")
    for name, error in zip(("m_x", "m_y", "m_z"), errors.T, strict=True):
        axes.semilogy(range(1, len(error) + 1), np.maximum(error, 1e-16), label=f"${name}$")
    axes.set(xlabel="iteration", ylabel="distance to the exact mean")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "convergence.svg", metadata={"Date": None})
    print(f"wrote {folder / 'convergence.svg'}")


if __name__ == "__main__":
    main()
