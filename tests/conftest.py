"""Fixtures of all tests: golden files, one thread and a seed, cells of one module alone."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from ladderspec.cells import base

GOLDEN = Path(__file__).parent / "golden"

# The same examples on every machine: a red run can be repeated. New ones, to look for more:
# pytest --hypothesis-profile=new --hypothesis-seed=7
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.register_profile("new", database=None, deadline=None)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with its golden file; with --update-golden, write the file instead."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), f"pytest --update-golden rewrites {name}"

    return compare


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Small tensors are fastest so, and sums have one order."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def cells_of_the_module() -> Iterator[None]:
    """Cells that are registered after it are known to the tests of one module alone."""
    before = {side: dict(cells) for side, cells in base._CELLS.items()}
    yield
    base._CELLS.update(before)
