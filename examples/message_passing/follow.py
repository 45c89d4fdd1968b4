"""Follow a sequence with the temporal chain, frame by frame, and predict the next one.

    python examples/message_passing/follow.py [--frames 2000]

Draws x_1, x_2, ... from the model of the appendix; the ladder sees one after the other.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

import ladderspec as ls

HERE = Path(__file__).parent


def sequence(p: dict[str, float], frames: int) -> np.ndarray:
    """x_t from its own past and y_t, that from its own past and z_t."""
    rng = np.random.default_rng(0)
    x = y = z = 0.0
    found = []
    for e_x, e_y, e_z in rng.normal(size=(frames, 3)):
        z = p["w_z"] * z + p["sz2"] ** 0.5 * e_z
        y = p["w_y"] * y + p["w_yz"] * z + p["sy2"] ** 0.5 * e_y
        x = p["w_x"] * x + p["w_xy"] * y + p["sx2"] ** 0.5 * e_x
        found.append(x)
    return np.array(found)


def solved(p: dict[str, float], xs: np.ndarray) -> np.ndarray:
    """The next x expected after each frame: the two means of every t as a linear system."""
    x_before = m_y = m_z = 0.0
    found = []
    for x in xs:
        a = np.array(
            [
                [p["w_xy"] ** 2 / p["sx2"] + 1 / p["sy2"], -p["w_yz"] / p["sy2"]],
                [-p["w_yz"] / p["sy2"], p["w_yz"] ** 2 / p["sy2"] + 1 / p["sz2"]],
            ]
        )
        below = p["w_xy"] * (x - p["w_x"] * x_before) / p["sx2"] + p["w_y"] * m_y / p["sy2"]
        above = p["w_z"] * m_z / p["sz2"] - p["w_yz"] * p["w_y"] * m_y / p["sy2"]
        m_y, m_z = np.linalg.solve(a, [below, above])
        x_before = x
        next_y = p["w_y"] * m_y + p["w_yz"] * p["w_z"] * m_z
        found.append(p["w_x"] * x + p["w_xy"] * next_y)
    return np.array(found)


def followed(xs: np.ndarray, variant: str | None) -> np.ndarray:
    """The same by the ladder: one iteration for each frame, what it remembers in between."""
    net = ls.build(ls.load(HERE / "temporal_chain.yaml", variant))
    frames = torch.from_numpy(xs)[None, :, None]
    expected = net.values(frames, "decoder.input")
    assert isinstance(expected, torch.Tensor)
    return expected[0, :, 0].numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=2000)
    frames = parser.parse_args().frames
    ls.load_plugin(HERE / "gaussian_cells.py")
    words = ls.load(HERE / "temporal_chain.yaml").config.params
    p = {name: float(value) for name, value in words.items()}
    xs = sequence(p, frames)
    exact = solved(p, xs)
    print("                        error of the next x   from the solved means")
    for name, expected in {
        "the last x": xs,
        "one sweep": followed(xs, None),
        "exact gain": followed(xs, "exact"),
        "solved": exact,
    }.items():
        error = np.mean((expected[:-1] - xs[1:]) ** 2)
        far = np.abs(expected - exact).max()
        print(f"{name:<22}  {error:19.3f}   {far:21.1e}")


if __name__ == "__main__":
    main()
