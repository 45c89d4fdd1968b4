"""docs/network.md: every block of Python is run, every value beside an expression is its value."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed, multiprocessing
from torch.nn.parallel import DistributedDataParallel

import ladderspec as ls

PAGE = Path("docs/network.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SPEC = "specs/ommnist/rladder_tiny.yaml"


def run(block: str, scope: dict[str, Any]) -> int:
    """Run a block; how many values it showed."""
    lines, shown = block.splitlines(), 0
    for statement in ast.parse(block).body:
        _, _, comment = lines[statement.end_lineno - 1].rpartition("  # ")
        code = ast.get_source_segment(block, statement)
        if isinstance(statement, ast.Expr) and re.fullmatch(r"[(\[].*[)\]]|True", comment):
            assert eval(code, scope) == ast.literal_eval(comment), code
            shown += 1
        else:
            exec(code, scope)
    return shown


@pytest.mark.filterwarnings("ignore")  # of torch.export, about itself
def test_the_page():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    scope: dict[str, Any] = {}
    assert sum(run(block, scope) for block in BLOCKS) >= 10
    assert scope["again"].state_dict().keys() == scope["net"].state_dict().keys()


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (Path("docs") / target).exists(), target


# --- several processes ----------------------------------------------------------------------------


def _learn(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    place = f"file://{folder}/meet"
    distributed.init_process_group("gloo", init_method=place, rank=rank, world_size=2)
    scope: dict[str, Any] = {"torch": torch}
    exec(next(block for block in BLOCKS if "class Cost" in block), scope)
    for steps in (5, 1):
        net = ls.build(SPEC).double()
        frames, labels = torch.load(f"{folder}/batch.pt")
        part = slice(rank, None, 2)
        both = DistributedDataParallel(scope["Cost"](net))
        for _ in range(2):  # a parameter without a gradient is found at the second
            net.zero_grad()
            both(frames[part, :steps], labels[part]).backward()
        if rank == 0:
            torch.save({n: p.grad for n, p in net.named_parameters()}, f"{folder}/{steps}.pt")
    distributed.barrier()  # a process that ends while the other still talks to it may abort
    distributed.destroy_process_group()


def test_two_processes_have_the_gradient_of_one(tmp_path):
    torch.manual_seed(0)
    frames, labels = torch.rand(8, 5, 1, 16, 16).double(), torch.arange(8)
    torch.save((frames, labels), tmp_path / "batch.pt")
    multiprocessing.spawn(_learn, (str(tmp_path),), 2)
    for steps in (5, 1):
        net = ls.build(SPEC).double()
        net.cost(frames[:, :steps], labels).total.backward()
        found = torch.load(tmp_path / f"{steps}.pt")
        largest = max(p.grad.abs().max() for p in net.parameters())
        for name, parameter in net.named_parameters():
            torch.testing.assert_close(found[name], parameter.grad, rtol=1e-6, atol=1e-9 * largest)
