"""Files appear whole, where they were asked for; and no file makes a reader wait."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from pathlib import Path

import pytest

from ladderspec.cli import main
from ladderspec.errors import UsageError
from ladderspec.files import make_folder, read_json, write_all, write_atomic


def test_writes_through_symbolic_links(tmp_path: Path) -> None:
    (tmp_path / "paper").mkdir()
    link = tmp_path / "figure.svg"
    link.symlink_to("paper/figure.svg")  # dangling at first
    for content in ("first", "second"):
        assert write_atomic(link, content) == link
        assert link.is_symlink()
        assert (tmp_path / "paper" / "figure.svg").read_text() == content
    link.unlink()
    link.symlink_to(link.name)
    with pytest.raises(UsageError, match=r"cannot write .*figure.svg: too many levels of symbol"):
        write_atomic(link, "x")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_pipes_and_devices_are_not_replaced(tmp_path: Path) -> None:
    """As root, `-o /dev/null` would otherwise replace the device by a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match=r"cannot write .*pipe: no such device"):  # nobody reads
        write_atomic(pipe, "x")
    content = b"through" * 100_000  # more than a pipe holds
    files = [(pipe, content), (tmp_path / "file", b"beside")]
    end, got = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), b""
    writer = threading.Thread(target=write_all, args=[files])
    writer.start()
    while writer.is_alive() or len(got) < len(content):
        with contextlib.suppress(BlockingIOError):
            got += os.read(end, 2**20)
    os.close(end)
    assert got == content
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert write_atomic("/dev/null", "x") == Path("/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(UsageError, match="pipe: it is not a regular file"):
        read_json(pipe)


def test_names_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    for name in ("a" * 255, "é" * 127):
        assert write_atomic(tmp_path / name, "x").read_text() == "x"
    with pytest.raises(UsageError, match="file name too long"):
        write_atomic(tmp_path / ("a" * 256), "x")
    with pytest.raises(UsageError, match="null byte"):
        write_atomic(tmp_path / "a\0b", "x")
    with pytest.raises(UsageError, match="null byte"):
        make_folder(tmp_path / "a\0b")


@pytest.mark.parametrize("command", ["show", "train", "evaluate", "draw", "export"])
def test_commands_refuse_names_that_are_too_long(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "a" * 300]) == 2
    assert "file name too long" in capsys.readouterr().err
