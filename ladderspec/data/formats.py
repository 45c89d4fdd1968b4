"""File formats: mapped .npz and .npy arrays, MATLAB cells, IDX, pictures. Never a pickle."""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ladderspec.data.dataset import DataError

NamedArrays = dict[str, NDArray[Any]]

_PACKAGES = {"sklearn.datasets": "scikit-learn", "scipy.io": "scipy"}


def require(module: str, what: str) -> Any:
    """A module of the optional dependencies `[data]`."""
    try:
        return import_module(module)
    except ImportError:
        package = _PACKAGES.get(module, module)
        hint = "install it with `pip install 'ladderspec[data]'`"
        raise DataError(f"{what} need {package}; {hint}") from None


def explain_pickle(error: Exception) -> str:
    """The message of an error; if numpy refused a pickle, the reason."""
    if any(word in str(error).lower() for word in ("pickle", "python object")):
        return "it contains Python objects (a pickle), which can run code and are never read"
    return str(error)


# --- numpy ----------------------------------------------------------------------------------------


def read_arrays(path: Path) -> NamedArrays:
    """Arrays by name from an .npz file or a folder of .npy files, memory-mapped if possible."""
    try:
        found = _read_folder(path) if os.path.isdir(path) else _read_npz(path)
    except Exception as error:  # numpy and zipfile raise many kinds of errors on damaged files
        raise DataError(f"cannot read {path}: {explain_pickle(error)}") from None
    if not found:
        raise DataError(f"{path} contains no arrays (.npy)")
    return found


def _read_folder(path: Path) -> NamedArrays:
    def load(file: Path) -> NDArray[Any]:
        try:
            return np.asarray(np.load(file, mmap_mode="r", allow_pickle=False))
        except ValueError as error:
            raise ValueError(f"{file.name}: {explain_pickle(error)}") from None

    return {file.stem: load(file) for file in sorted(path.glob("*.npy"))}


def _read_npz(path: Path) -> NamedArrays:
    found: NamedArrays = {}
    with ZipFile(path) as archive:
        members = [each for each in archive.infolist() if each.filename.endswith(".npy")]
        size = sum(each.file_size for each in members if each.compress_type != ZIP_STORED)
        if size > memory():
            raise ValueError(
                f"its arrays take {size:,} bytes of memory; store them uncompressed"
                " (numpy.savez), so that they can be mapped"
            )
        for member in members:
            name = member.filename.removesuffix(".npy")
            try:
                array = _map_member(path, member)
                if array is None:
                    array = _read_member(archive, member)
            except ValueError as error:
                raise ValueError(f"{name}: {explain_pickle(error)}") from None
            found[name] = array
    return found


def memory() -> int:
    """The bytes of memory of this machine."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return 2**40


def _read_member(archive: ZipFile, member: ZipInfo) -> NDArray[Any]:
    """Read an array, if its header says no more than the archive holds."""
    with archive.open(member) as file:
        if (header := _read_header(file)) is not None:
            shape, _, dtype = header
            _check_size(shape, dtype, member.file_size)
    with archive.open(member) as file:
        return np.asarray(npy.read_array(file, allow_pickle=False))


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]] | None:
    """Shape, Fortran order and type of an array; None for versions that numpy alone reads."""
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    reader = readers.get(npy.read_magic(file))
    return None if reader is None else reader(file)


def _check_size(shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> None:
    wanted = math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and wanted > size:
        raise ValueError(f"its header says {wanted:,} bytes, but there are {size:,}")


def _map_member(path: Path, member: ZipInfo) -> NDArray[Any] | None:
    """Map an uncompressed array inside a zip file; None if it has to be read instead."""
    if member.compress_type != ZIP_STORED or member.flag_bits & 1:
        return None
    with path.open("rb") as file:
        file.seek(member.header_offset + 26)  # lengths of the name and the extra field
        name, extra = struct.unpack("<HH", file.read(4))
        file.seek(name + extra, 1)
        if (header := _read_header(file)) is None:
            return None
        shape, fortran, dtype = header
        if dtype.hasobject or 0 in shape or fortran:
            return None  # refused, or not worth mapping
        _check_size(shape, dtype, member.file_size)
        start = file.tell()
    # A plain array over the mapped memory: slices of np.memmap itself are slow.
    return np.asarray(np.memmap(path, dtype, "r", start, shape))


# --- others ---------------------------------------------------------------------------------------


def read_cells(path: Path, names: Sequence[str]) -> dict[str, list[NDArray[Any]]]:
    """MATLAB's cell arrays of these names from a .mat file."""
    io = require("scipy.io", ".mat files")
    try:
        content = io.loadmat(path, variable_names=list(names))
    except Exception as error:  # scipy raises many kinds of errors on damaged files
        raise DataError(f"cannot read {path}: {error}") from None
    for name in names:
        if name not in content or content[name].dtype != object:
            raise DataError(f"{path} has no cells `{name}`")
    return {name: list(content[name].ravel()) for name in names}


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An IDX file of bytes, compressed with gzip: the format of MNIST."""
    try:
        data = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path}: {error}") from None
    axes = data[3] if len(data) > 3 and data[:3] == b"\0\0\x08" else 0
    shape = tuple(np.frombuffer(data, ">u4", axes, 4).astype(int)) if axes else ()
    if not axes or len(data) != 4 + 4 * axes + int(np.prod(shape)):
        raise DataError(f"{path} is not an IDX file of bytes")
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)


def read_grey(path: Path) -> NDArray[np.float32]:
    """A picture as grey values from 0 (black) to 1 (white), (H, W)."""
    from PIL import Image

    try:
        with Image.open(path) as picture:
            if picture.mode not in ("1", "L", "LA", "P", "RGB", "RGBA"):
                raise ValueError(f"it has mode {picture.mode}; save it with 8 bits per channel")
            return np.asarray(picture.convert("L"), np.float32) / np.float32(255)
    except Exception as error:  # Pillow raises many kinds of errors on damaged files
        raise DataError(f"cannot read {path}: {error}") from None
