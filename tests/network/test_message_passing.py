"""The paper's appendices B and C as ladders, against vectors worked out apart from this code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from ladderspec.api import build, load, loads
from ladderspec.network.history import Carry
from ladderspec.plugins import load_plugin

FOLDER = Path("examples/message_passing")


@pytest.fixture(autouse=True, scope="module")
def gaussian_cells(cells_of_the_module: None) -> None:
    load_plugin(FOLDER / "gaussian_cells.py")


def params(**values: float) -> dict[str, float]:
    return {f"params.{name}": value for name, value in values.items()}


# --- the static chain -----------------------------------------------------------------------------

STATIC = {
    "S1": (
        {"w_x": 1, "sx2": 1, "w_yz": 1, "sy2": 1, "mu_z": 0, "sz2": 1, "s2": 1},
        1.0,
        (0.75, 0.5, 0.25),
        [
            (0.65625, 0.3125, 0.125),
            (0.712890625, 0.42578125, 0.1953125),
            (0.734985351562, 0.469970703125, 0.227050781250),
        ],
    ),
    "S2": (
        {"w_x": 0.8, "sx2": 0.5, "w_yz": 1.5, "sy2": 0.3, "mu_z": 0.25, "sz2": 2, "s2": 0.7},
        -1.3,
        (-1.037827715356, -1.063202247191, -0.648876404494),
        [
            (-0.680817779161, -0.298180955344, -0.101788294798),
            (-0.753468559641, -0.453861199231, -0.200900910492),
        ],
    ),
}


def means(w_x: float, w_yz: float, values: dict[str, Tensor]) -> Tensor:
    """(T, 3): m_x, m_y, m_z; the decoders send them in the units of the level below."""
    m_y, m_z = values["decoder.y"] / w_x, values["decoder.z"] / w_yz
    return torch.stack([values["decoder.input"], m_y, m_z], -1).flatten(0, 2)


@pytest.mark.parametrize("name", list(STATIC))
def test_sweeps_and_fixed_point_of_the_static_chain(name: str) -> None:
    numbers, x, converged, sweeps = STATIC[name]
    spec = load(FOLDER / "static_chain.yaml", set=params(**numbers))
    net = build(spec)
    nodes = ("decoder.input", "decoder.y", "decoder.z")
    values = net.values(torch.tensor([[x]], dtype=torch.float64), *nodes)
    assert isinstance(values, dict)
    found = means(numbers["w_x"], numbers["w_yz"], values)
    for k, sweep in enumerate(sweeps):
        assert found[k].tolist() == pytest.approx(sweep, abs=1e-10)
    assert found[-1].tolist() == pytest.approx(converged, abs=1e-10)


def chain(weights: list[float], variances: list[float], s2: float, mu: float) -> str:
    """A static chain of any length, as a spec: level k holds v_k, and v_k follows v_{k+1}."""
    rows = []
    for k in range(len(weights)):  # row k makes encoder.v{k+1}, which estimates v_k
        w = 1 if k == 0 else weights[k - 1]
        noise = s2 if k == 0 else variances[k - 1]
        words = f"w: {w}, noise: {noise}, variance: {variances[k]}"
        rows.append(
            f"  - name: v{k + 1}\n    encoder: {{cell: Gaussian, {words}}}\n"
            f"    decoder: {{cell: Gaussian, {words}, send: {w}}}\n"
        )
    top = f"w: {weights[-1]}, noise: {variances[-2]}, variance: {variances[-1]}"
    return (
        "input: {channels: 1}\ntime: {iterations: 4000}\nlevels:\n" + "".join(rows)
        + f"top: {{cell: Gaussian, {top}, mean: {mu}, send: {weights[-1]}}}\n"
        + "edges: {decoder_to_encoder: all}\n"
    )  # fmt: skip


@pytest.mark.parametrize("length", [1, 2, 5, 8])
def test_a_chain_of_any_length_finds_the_exact_posterior_means(length: int) -> None:
    """Against the linear system of the joint Gaussian, solved by numpy."""
    rng = np.random.default_rng(length)
    weights = [round(w, 3) for w in rng.uniform(0.6, 1.6, length)]
    variances = [round(v, 3) for v in rng.uniform(0.3, 2.0, length + 1)]
    s2, mu, x = 0.5, 0.25, 1.7
    precision = np.zeros((length + 1, length + 1))
    potential = np.zeros(length + 1)
    precision[0, 0] += 1 / s2
    potential[0] += x / s2
    for k, (w, v) in enumerate(zip(weights, variances, strict=False)):  # v_k ~ N(w v_{k+1}, v)
        precision[k, k] += 1 / v
        precision[k + 1, k + 1] += w * w / v
        precision[k, k + 1] -= w / v
        precision[k + 1, k] -= w / v
    precision[-1, -1] += 1 / variances[-1]
    potential[-1] += mu / variances[-1]
    exact = np.linalg.solve(precision, potential)

    net = build(loads(chain(weights, variances, s2, mu)))
    nodes = [f"decoder.{level}" for level in ["input", *(f"v{k + 1}" for k in range(length))]]
    values = net.values(torch.tensor([[x]], dtype=torch.float64), *nodes)
    assert isinstance(values, dict)
    units = [1.0, *weights]
    found = [values[node][0, -1, 0].item() / unit for node, unit in zip(nodes, units, strict=True)]
    assert found == pytest.approx(list(exact), abs=1e-10)


# --- the temporal chain --------------------------------------------------------------------------

ORDER = ("w_x", "w_xy", "w_y", "w_yz", "w_z", "sx2", "sy2", "sz2")
TEMPORAL = {
    "T1": {
        "numbers": (0, 1, 0.9, 1, 0.95, 1, 0.5, 0.25),
        "past": (0, 0, 0),  # x, m_y, m_z at t-1
        "x": 1.0,
        "corrected": (0.333333333333, 0.111111111111),
        "one_sweep": (0.407407407407, 0.111111111111),
        "converged": (0.428571428571, 0.142857142857),
        "next": 0.521428571429,
    },
    "T2": {
        "numbers": (0.3, 0.8, 0.6, 1.4, 0.9, 0.4, 0.7, 1.2),
        "past": (0.5, 0.35, -0.2),
        "x": -1.1,
        "corrected": (-0.845283018868, -0.622174138826),
        "one_sweep": (-1.137284808659, -0.622174138826),
        "converged": (-1.304052216481, -0.874707642100),
        "next": -1.837650367147,
    },
}


def after_one_frame(case: dict[str, object], variant: str | None) -> dict[str, Tensor]:
    """The chain after x_t, from the means of t-1 as carry."""
    numbers = dict(zip(ORDER, case["numbers"], strict=True))  # type: ignore[call-overload]
    net = build(load(FOLDER / "temporal_chain.yaml", variant, set=params(**numbers)))
    x_before, m_y, m_z = case["past"]  # type: ignore[misc]
    next_z = numbers["w_z"] * m_z  # type: ignore[has-type]
    next_y = numbers["w_y"] * m_y + numbers["w_yz"] * next_z  # type: ignore[has-type]
    next_x = numbers["w_x"] * x_before + numbers["w_xy"] * next_y  # type: ignore[has-type]
    known = {"decoder.z": [m_z, next_z], "decoder.y": [m_y, next_y], "decoder.input": [next_x]}  # type: ignore[has-type]
    carry = Carry(1, {n: (torch.tensor([v], dtype=torch.float64),) for n, v in known.items()})
    nodes = ("encoder.y", "encoder.z", "decoder.y", "decoder.z", "decoder.input")
    found = net.values(torch.tensor([[[case["x"]]]], dtype=torch.float64), *nodes, carry=carry)
    assert isinstance(found, dict)
    return {node: value[0, 0] for node, value in found.items()}


@pytest.mark.parametrize("name", list(TEMPORAL))
def test_one_sweep_of_the_temporal_chain(name: str) -> None:
    case = TEMPORAL[name]
    found = after_one_frame(case, None)
    corrected = (found["encoder.y"].item(), found["encoder.z"].item())
    settled = (found["decoder.y"][0].item(), found["decoder.z"][0].item())
    assert corrected == pytest.approx(case["corrected"], abs=1e-10)
    assert settled == pytest.approx(case["one_sweep"], abs=1e-10)


@pytest.mark.parametrize("name", list(TEMPORAL))
def test_the_exact_gain_reaches_the_fixed_point_at_once(name: str) -> None:
    case = TEMPORAL[name]
    found = after_one_frame(case, "exact")
    settled = (found["decoder.y"][0].item(), found["decoder.z"][0].item())
    assert settled == pytest.approx(case["converged"], abs=1e-10)
    assert found["decoder.input"].item() == pytest.approx(case["next"], abs=1e-10)


def temporal(own: list[float], above: list[float], gains: list[float]) -> str:
    """A temporal chain of any length, as a spec: v_k follows its past and v_{k+1}; v_0 is x."""
    rows = []
    for k, w in enumerate(above):
        channels = 1 if k == 0 else 2
        rows.append(
            f"  - name: v{k + 1}\n"
            f"    encoder: {{cell: Correct, w: {w}, gain: {gains[k + 1]}}}\n"
            f"    decoder: {{cell: Settle, w: {own[k]}, w_above: {w}, gain: {gains[k]},"
            f" channels: {channels}}}\n"
        )
    settling = ", ".join(f"v{k}" for k in range(1, len(above)))
    return (
        "input: {channels: 1}\ntime: {frames: any}\nlevels:\n" + "".join(rows)
        + f"top: {{cell: Settle, w: {own[-1]}, gain: {gains[-1]}}}\n"
        + "edges: {decoder_to_encoder: all, upward_diagonal: all,"
        + f" downward_diagonal: [{settling}]}}\n"
    )  # fmt: skip


@pytest.mark.parametrize("length", [1, 2, 5, 8])
def test_a_temporal_chain_of_any_length_follows_its_equations(length: int) -> None:
    """Against the equations, written out frame by frame."""
    rng = np.random.default_rng(length)
    own, above, gains = (
        [round(number, 3) for number in rng.uniform(0.3, 0.9, count)]
        for count in (length + 1, length, length + 1)
    )
    frames = rng.normal(size=6)
    m = np.zeros(length + 1)
    for x in frames:
        expected = own * m
        for k in reversed(range(length)):
            expected[k] += above[k] * expected[k + 1]
        seen = np.array([x, *np.zeros(length)])
        for k in range(1, length + 1):
            surprise = seen[k - 1] - expected[k - 1]
            seen[k] = expected[k] + gains[k] / above[k - 1] * surprise
        m = seen.copy()
        for k in reversed(range(1, length)):
            m[k] += (1 - gains[k]) * above[k] * (m[k + 1] - expected[k + 1])

    net = build(loads(temporal(own, above, gains)))
    nodes = [f"decoder.v{k + 1}" for k in range(length)]
    given = torch.tensor(frames, dtype=torch.float64).view(1, -1, 1)
    values = net.values(given, nodes)
    assert isinstance(values, dict)
    found = [values[node][0, -1, 0].item() for node in nodes]
    assert found == pytest.approx(list(m[1:]), abs=1e-10)


# --- what the page shows --------------------------------------------------------------------------


def test_the_run_of_the_page() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    shown = page.split("$ python examples/message_passing/follow.py\n")[1].split("```")[0]
    command = [sys.executable, FOLDER / "follow.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    for line, expected in zip(done[1:], shown.splitlines()[1:], strict=True):
        assert line.split()[:-1] == expected.split()[:-1]
    assert float(done[3].split()[-1]) < 1e-10, "the exact gain gives the solved means"
    for name in re.findall(r"\]\(([^)]+)\)", page):
        assert (FOLDER / name).exists(), name
