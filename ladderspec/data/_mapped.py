"""Named arrays in an .npz file or a folder of .npy files, mapped into memory where possible."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ladderspec.data._contract import DataError
from ladderspec.data._rolls import say_pickle

Arrays = dict[str, NDArray[Any]]


def read_arrays(path: Path) -> Arrays:
    """The arrays by name."""
    try:
        found = _folder(path) if path.is_dir() else _npz(path)
    except Exception as error:  # numpy and zipfile raise whatever they stumble over
        raise DataError(f"cannot read {path}: {say_pickle(error)}") from None
    if not found:
        raise DataError(f"{path} holds no arrays (.npy)")
    return found


def _folder(path: Path) -> Arrays:
    def load(file: Path) -> NDArray[Any]:
        try:
            return _own(np.load(file, mmap_mode="r", allow_pickle=False))
        except ValueError as error:
            raise ValueError(f"{file.name}: {say_pickle(error)}") from None

    return {file.stem: load(file) for file in sorted(path.glob("*.npy"))}


def _npz(path: Path) -> Arrays:
    found: Arrays = {}
    with ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.filename.endswith(".npy"):
                continue
            name = member.filename.removesuffix(".npy")
            mapped = _member(path, member)
            if mapped is None:
                with archive.open(member) as file:
                    mapped = npy.read_array(file, allow_pickle=False)
            found[name] = mapped
    return found


def _member(path: Path, member: ZipInfo) -> NDArray[Any] | None:
    """An array that lies uncompressed inside a zip file; None where it has to be read."""
    if member.compress_type != ZIP_STORED or member.flag_bits & 1:
        return None
    with path.open("rb") as file:
        file.seek(member.header_offset + 26)  # lengths of the name and the extra field
        name, extra = struct.unpack("<HH", file.read(4))
        file.seek(name + extra, 1)
        readers: dict[Any, Callable[..., Any]] = {
            (1, 0): npy.read_array_header_1_0,
            (2, 0): npy.read_array_header_2_0,
        }
        version = npy.read_magic(file)
        if version not in readers:
            return None
        shape, fortran, dtype = readers[version](file)
        if dtype.hasobject or 0 in shape or fortran:
            return None  # refused, or not worth a map
        start = file.tell()
    return _own(np.memmap(path, dtype, "r", start, shape))


def _own(array: NDArray[Any]) -> NDArray[Any]:
    """A plain array over the mapped memory: memmap's own class slows every small slice."""
    return np.asarray(array)
