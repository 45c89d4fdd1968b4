"""Checkpoints: tensors as safetensors, everything else as JSON. Nothing is ever unpickled.

A checkpoint is NAME.json, its manifest: the run that it belongs to, the attributes of the state,
the file of its tensors and their checksum, and a checksum of the manifest itself. The manifest is
renamed into place last, so it names complete files even if the process is killed at any moment.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from ladderspec.errors import UsageError, tick
from ladderspec.files import checksum, intact, read_json, read_regular, sealed, write_atomic
from ladderspec.wording import first_of

FORMAT = "ladderspec checkpoint 2"
FIRST_FORMAT = "ladderspec checkpoint 1"  # without a checksum of the manifest
OWNER = "run"  # attribute: the run that it belongs to


class CheckpointError(UsageError):
    """A checkpoint that cannot be used."""


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name, and the other attributes of the state."""

    tensors: dict[str, Tensor]
    attributes: dict[str, Any]

    def under(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names start with a prefix, without the prefix."""
        return {k.removeprefix(prefix): v for k, v in self.tensors.items() if k.startswith(prefix)}


def write(
    folder: Path, name: str, tensors: Mapping[str, Tensor], attributes: Mapping[str, Any]
) -> None:
    """Replace the checkpoint `name`. The previous one is kept as NAME.before."""
    data = save({key: value.detach().cpu().contiguous() for key, value in tensors.items()})
    digest = checksum(data)
    file = f"{name}-{digest[:12]}.safetensors"
    write_atomic(folder / file, data)
    content = {"format": FORMAT, "file": file, "checksum": digest, **attributes}
    manifest = sealed(content, "manifest")
    place, before = folder / f"{name}.json", folder / f"{name}.before.json"
    if os.path.exists(place):
        write_atomic(before, place.read_bytes())
    write_atomic(place, json.dumps(manifest, indent=1) + "\n")
    _remove_unused(folder, name)


def _remove_unused(folder: Path, name: str) -> None:
    """Remove the tensor files that no checkpoint of this name uses."""
    used = set()
    for record in (folder / f"{name}.json", folder / f"{name}.before.json"):
        try:
            used.add(str(read_json(record)["file"]))
        except (FileNotFoundError, UsageError, KeyError):
            continue
    for file in folder.glob(f"{name}-*.safetensors"):
        if file.name not in used:
            file.unlink(missing_ok=True)


def read(folder: Path, name: str, owner: str | None = None) -> Checkpoint:
    """Read and verify the checkpoint `name`, which must be one of the run `owner`.

    Checkpoints of earlier versions do not say whose they are, and are read for any run.
    """
    place = folder / f"{name}.json"
    try:
        record = read_json(place)
        if record["format"] not in (FORMAT, FIRST_FORMAT):
            raise CheckpointError(f"{place}: expected `{FORMAT}`, not {tick(record['format'])}")
        if record["format"] == FORMAT and not (record["manifest"] and intact(record, "manifest")):
            raise CheckpointError(f"{place} is damaged: its checksum is another")
        if owner is not None and record.get(OWNER) not in (None, owner):
            raise CheckpointError(f"{place} is a checkpoint of another run")
        file, digest = folder / str(record["file"]), record["checksum"]
        if file.parent != folder:
            raise CheckpointError(f"{place} names a file outside its folder")
        data = read_regular(file)
    except FileNotFoundError as error:
        raise CheckpointError(f"no checkpoint {error.filename}") from None
    except KeyError as error:
        raise CheckpointError(f"{place} is damaged: it has no {error}") from None
    except UsageError as error:
        raise CheckpointError(str(error)) from None
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{place} is damaged: {error}") from None
    if checksum(data) != digest:
        raise CheckpointError(f"{file} is damaged: its checksum is not that of {place.name}")
    return Checkpoint(tensors_in(data, file), record)


def tensors_in(data: bytes, file: Path) -> dict[str, Tensor]:
    """The tensors in the content of a file."""
    try:
        return load(data)
    except (SafetensorError, ValueError, KeyError) as error:  # a KeyError: torch lacks the type
        raise CheckpointError(f"{file} is damaged: {error}") from None


def read_latest(folder: Path, name: str, owner: str | None = None) -> tuple[Checkpoint, str]:
    """Read the checkpoint `name` of the run `owner`, or the one before it if that fails.

    The one before it then replaces it, so that two whole checkpoints exist again after the next.

    Returns:
        The checkpoint, and a message if it is the one before.
    """
    try:
        return read(folder, name, owner), ""
    except CheckpointError as error:
        if not os.path.exists(folder / f"{name}.before.json"):
            raise
        found = read(folder, f"{name}.before", owner)
        write_atomic(folder / f"{name}.json", (folder / f"{name}.before.json").read_bytes())
        return found, f"{error}; continuing with the one before it"


def restore(module: torch.nn.Module, tensors: Mapping[str, Tensor], what: str) -> None:
    """Copy tensors into a module. Raises CheckpointError if names, shapes or types differ."""
    state = module.state_dict()
    if differs := difference(state, tensors):
        raise CheckpointError(f"{what} does not fit: {differs}")
    with torch.no_grad():
        for name, value in state.items():
            value.copy_(tensors[name])
    broken = [name for name, value in module.named_parameters() if not value.isfinite().all()]
    if broken:
        raise CheckpointError(f"{what} has weights that are not finite: {first_of(broken, 1)}")


def difference(state: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> str:
    """Names that are missing, unknown, or have another shape or type, in one line."""
    parts = []
    missing = [name for name in state if name not in given]
    unknown = [name for name in given if name not in state]
    for phrase, names in (("it lacks", missing), ("the network has no", unknown)):
        if names:
            parts.append(f"{phrase} {first_of(names)}")
    for name in state:
        if name in given:
            here, there = state[name], given[name]
            if here.shape != there.shape:
                parts.append(f"{name} is {tuple(there.shape)}, not {tuple(here.shape)}")
            elif here.dtype != there.dtype:
                parts.append(f"{name} is {there.dtype}, not {here.dtype}")
    return first_of(parts, 5, "; ")
