"""How long `ladderspec validate` takes from a cold start, as ratios in one run.

    python benchmarks/cold_start.py [--repeats 21]

Alternates the commands, so that a busy machine slows all of them alike, and reports medians.
Modules are compiled first, as an installation does.
"""

from __future__ import annotations

import argparse
import compileall
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMPORTS = [sys.executable, "-c", "import yaml, pydantic, networkx"]
SPEC = ROOT / "specs/ommnist/rladder.yaml"


def validate(path: Path) -> list[str]:
    return [sys.executable, "-m", "ladderspec", "validate", "-q", str(path)]


def rows(count: int, folder: Path) -> Path:
    """A ladder of `count` rows, written out."""
    row = (
        "  - name: l{i}\n"
        "    encoder: {{cell: Conv, channels: 8, filter: 3}}\n"
        "    decoder: {{cell: convG3, filter: 3}}\n"
    )
    text = "name: long\ninput: {channels: 1, size: [8, 8]}\ntime: {frames: 5}\nlevels:\n"
    path = folder / f"rows{count}.yaml"
    path.write_text(text + "".join(row.format(i=i) for i in range(count)))
    return path


def bad(good: Path, folder: Path) -> Path:
    """The same file with a mistake in every third row."""
    path = folder / f"bad_{good.name}"
    lines = good.read_text().splitlines()
    path.write_text(
        "\n".join(
            line.replace("filter: 3", "filtre: 3") if i % 9 == 5 else line
            for i, line in enumerate(lines)
        )
    )
    return path


def measure(commands: dict[str, list[str]], repeats: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in commands}
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for _ in range(repeats):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, env=environment, capture_output=True, check=False)
            times[name].append(time.perf_counter() - start)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=21)
    args = parser.parse_args()
    compileall.compile_dir(ROOT / "ladderspec", quiet=1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = {count: rows(count, folder) for count in (100, 1000, 3000)}
        commands = {
            "imports": IMPORTS,
            "rladder": validate(SPEC),
            "17 rows": validate(rows(17, folder)),
            **{f"{count} rows": validate(path) for count, path in files.items()},
            "17 bad": validate(bad(rows(17, folder), folder)),
            "1000 bad": validate(bad(files[1000], folder)),
        }
        times = measure(commands, args.repeats)
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, values in times.items():
        low, high = min(values), max(values)
        print(f"{name:>10}  {medians[name]:7.3f} s   ({low:.3f} .. {high:.3f})")
    floor = medians["17 rows"]
    per_row = {count: (medians[f"{count} rows"] - floor) / (count - 17) for count in files}
    print(f"rladder / imports        {medians['rladder'] / medians['imports']:.2f}   (at most 1.6)")
    print(f"1000 rows / 17 rows      {medians['1000 rows'] / floor:.2f}   (at most 4)")
    print(f"bad / good, 1000 rows    {medians['1000 bad'] / medians['1000 rows']:.2f}")
    shown = ", ".join(f"{count}: {cost * 1e3:.2f} ms" for count, cost in per_row.items())
    spread = max(per_row.values()) / min(per_row.values())
    print(f"time per row             {shown}; {spread:.2f} x   (within 1.5)")


if __name__ == "__main__":
    main()
