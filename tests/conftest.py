"""What all tests share: `golden(name, text)` compares with tests/golden/NAME, or rewrites it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

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
