"""The cost of a drawing from the command line, as ratios to `ladderspec validate` of the same file.

    python benchmarks/draw_cost.py [--repeats 15]

Alternates the commands, so that a busy machine slows all of them alike, and reports medians.
Modules are compiled first, as an installation does.
"""

from __future__ import annotations

import argparse
import compileall
import statistics
import sys
import tempfile
from pathlib import Path

from cold_start import ROOT, SPEC, measure, rows, validate


def draw(path: Path, output: Path, iterations: int) -> list[str]:
    words = ["draw", str(path), "-n", str(iterations), "-o", str(output)]
    return [sys.executable, "-m", "ladderspec", *words]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    args = parser.parse_args()
    compileall.compile_dir(ROOT / "ladderspec", quiet=1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = {levels: rows(levels, folder) for levels in (50, 100, 200)}
        commands = {
            "17 validate": validate(SPEC),
            "17 svg": draw(SPEC, folder / "a.svg", 2),
            "17 html": draw(SPEC, folder / "a.html", 2),
        }
        for levels, path in files.items():
            commands[f"{levels} validate"] = validate(path)
            commands[f"{levels} x 5 svg"] = draw(path, folder / f"{levels}.svg", 5)
        times = measure(commands, args.repeats)
        missing = [each for each in ("a.svg", "a.html", "200.svg") if not (folder / each).exists()]
    if missing:
        sys.exit(f"not drawn: {', '.join(missing)}")
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, values in times.items():
        print(f"{name:>12}  {medians[name]:7.3f} s   ({min(values):.3f} .. {max(values):.3f})")
    small = medians["17 svg"] / medians["17 validate"]
    large = medians["200 x 5 svg"] / medians["200 validate"]
    own = {n: medians[f"{n} x 5 svg"] - medians[f"{n} validate"] for n in files}
    print(f"svg / validate, 17 levels          {small:.2f}   (at most 1.3)")
    print(f"svg / validate, 200 levels x 5     {large:.2f}   (under 10)")
    print(f"drawing alone, 200 / 100 levels    {own[200] / own[100]:.2f}   (2 is linear)")
    print(f"html / validate, 17 levels         {medians['17 html'] / medians['17 validate']:.2f}")


if __name__ == "__main__":
    main()
