"""A user's cell in one file, from the documentation itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOC = Path("docs/own_cells.md").read_text()
SPEC = """
input: {channels: 2, size: 8}
time: {frames: any}
levels:
  - name: slow
    encoder: {cell: Leaky, rate: 0.25}
  - encoder: {cell: Conv, channels: 3}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    code = re.search(r"```python\n(.*?)```", DOC, re.DOTALL)
    assert code is not None
    (tmp_path / "my_cells.py").write_text(code[1])
    (tmp_path / "mine.yaml").write_text(SPEC)
    return tmp_path


def ladderspec(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ladderspec", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_cell_from_a_file(folder: Path) -> None:
    done = ladderspec(folder, "show", "mine.yaml", "--plugin", "my_cells.py")
    assert done.returncode == 0, done.stderr
    assert re.search(r"slow +Leaky .* 2x8x8 +0", done.stdout)
    done = ladderspec(folder, "graph", "mine.yaml", "--plugin", "my_cells.py")
    assert re.search(r"encoder.slow\(t-1\) -> encoder.slow +state", done.stdout)


def test_its_fields_are_checked_like_any_other(folder: Path) -> None:
    (folder / "mine.yaml").write_text(SPEC.replace("rate: 0.25", "rat: 2"))
    done = ladderspec(folder, "validate", "mine.yaml", "--plugin", "my_cells.py")
    assert "did you mean `rate`?" in done.stderr
    schema = ladderspec(folder, "schema", "--plugin", "my_cells.py")
    assert "How fast it follows." in schema.stdout


def test_a_spec_alone_brings_no_code_in(folder: Path) -> None:
    done = ladderspec(folder, "validate", "mine.yaml")
    assert done.returncode == 1
    assert "unknown cell `Leaky`" in done.stderr


@pytest.mark.parametrize(
    ("code", "message"),
    [("1 / 0", "ZeroDivisionError"), ("def", "SyntaxError"), ("import nowhere", "nowhere")],
)
def test_a_broken_plugin_is_said_plainly(folder: Path, code: str, message: str) -> None:
    (folder / "my_cells.py").write_text(code)
    done = ladderspec(folder, "validate", "mine.yaml", "--plugin", "my_cells.py")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert f"plugin my_cells.py fails: {message}" in done.stderr or message in done.stderr


def test_a_missing_plugin_is_usage(folder: Path) -> None:
    done = ladderspec(folder, "validate", "mine.yaml", "--plugin", "nowhere.py")
    assert (done.returncode, done.stderr) == (2, "ladderspec: no plugin file nowhere.py\n")


def test_an_installed_package_offers_cells(folder: Path) -> None:
    """Found through its metadata, imported only when a spec names an unknown cell."""
    info = folder / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ladderspec.cells]\nmine = my_cells\n")
    done = ladderspec(folder, "validate", "mine.yaml")
    assert done.returncode == 0, done.stderr


def test_a_cell_from_python(folder: Path) -> None:
    code = (
        "import ladderspec as ls, torch\n"
        "ls.load_plugin('my_cells.py')\n"
        "net = ls.build('mine.yaml')\n"
        "x = torch.ones(1, 3, 2, 8, 8)\n"
        "print(net.values(x, 'encoder.slow')[0, :, 0, 0, 0].tolist())\n"
        "ls.save(net, 'net')\n"
        "print(len(ls.open_net('net').plan.equations))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.stdout == "[0.25, 0.4375, 0.578125]\n3\n", done.stderr


def test_the_cells_without_yaml_run_as_documented() -> None:
    import torch

    *_, code = re.findall(r"```python\n(.*?)```", DOC, re.DOTALL)
    seen = {"frame": torch.rand(2, 1, 16, 16), "next_frame": torch.rand(2, 1, 16, 16)}
    exec(code, seen)
    assert seen["y"].shape == (2, 1, 16, 16)
    assert seen["h"].shape == (2, 8, 8, 8)
