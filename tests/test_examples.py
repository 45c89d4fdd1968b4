"""The notebooks in `examples/`: all are executed, the quickest is run again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
BOOKS = sorted(EXAMPLES.glob("*.ipynb"))


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_notebooks_are_executed_and_listed(path: Path) -> None:
    """`make examples` executes them."""
    cells = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert outputs
    assert not [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"]
    assert f"]({path.name})" in (EXAMPLES / "README.md").read_text()
    assert path.name in (EXAMPLES.parent / "docs" / "notebooks.md").read_text()


def test_a_network_by_hand_and_its_spec_agree() -> None:
    cells = json.loads((EXAMPLES / "spec_instead_of_code.ipynb").read_text())["cells"]
    scope: dict[str, object] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), scope)  # asserts that outputs and gradients agree
    assert scope["gradients"] < 1e-5
