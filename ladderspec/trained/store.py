"""A network in a folder: its graph as JSON, its weights as safetensors, and what wrote them.

    ls.save(net, spec, "mine")          mine/net.json, mine/graph.json, mine/weights.safetensors
    net = ls.open_net("mine")

Nothing is ever unpickled, and a folder never runs code: cells of one's own must be registered
before it is opened.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from safetensors.torch import save as to_bytes

from ladderspec.corridor import graph
from ladderspec.errors import UsageError
from ladderspec.files import write_atomic
from ladderspec.language.read import Spec
from ladderspec.learn.checkpoint import CheckpointError, restore
from ladderspec.network.net import Net
from ladderspec.schedule.plan import Plan, schedule
from ladderspec.version import __version__
from ladderspec.wiring import graph_json
from ladderspec.wiring.absent import few
from ladderspec.wiring.graph import Graph

FORMAT = "ladderspec net 1"


def save(net: Net, spec: Spec, folder: str | Path) -> Path:
    """Write a network; the record comes last, so that a folder is whole or refused."""
    folder, wired = Path(folder), graph(spec)
    _check_same(net.plan, schedule(wired))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {(error.strerror or '').lower()}") from None
    weights = to_bytes({k: v.detach().cpu().contiguous() for k, v in net.state_dict().items()})
    record = {
        "format": FORMAT,
        "name": spec.name,
        "title": spec.title,
        "dtype": str(next(net.parameters()).dtype).removeprefix("torch."),
        "checksum": hashlib.blake2b(weights, digest_size=16).hexdigest(),
        "versions": {"ladderspec": __version__, "torch": torch.__version__},
    }
    write_atomic(folder / "graph.json", graph_json.dumps(wired) + "\n")
    write_atomic(folder / "weights.safetensors", weights)
    write_atomic(folder / "net.json", json.dumps(record, indent=1) + "\n")
    return folder


def _check_same(has: Plan, says: Plan) -> None:
    """The network is that of the spec, or what differs is named."""
    ours, theirs = has.equations, says.equations
    odd = [node for node in {**ours, **theirs} if ours.get(node) != theirs.get(node)]
    if odd or has.tasks != says.tasks or has.length != says.length:
        at = few(odd) if odd else "the tasks" if has.tasks != says.tasks else "time"
        raise UsageError(f"this network is not that of the spec: they differ at {at}")


def open_net(folder: str | Path) -> Net:
    """The network that `save` wrote."""
    folder = Path(folder)
    record = _record(folder / "net.json")
    net = net_of(open_graph(folder), getattr(torch, str(record["dtype"])))
    place = folder / "weights.safetensors"
    try:
        data = place.read_bytes()
        tensors = load(data)
    except (OSError, SafetensorError, ValueError) as error:
        raise CheckpointError(f"{place} is damaged: {error}") from None
    if hashlib.blake2b(data, digest_size=16).hexdigest() != record["checksum"]:
        raise CheckpointError(f"{place} is damaged: its checksum is not that of net.json")
    restore(net, tensors, str(place))
    return net


def _record(place: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
        if found["format"] != FORMAT:
            raise CheckpointError(f"{place}: expected `{FORMAT}`, not `{found['format']}`")
        if found["dtype"] not in ("float32", "float64", "bfloat16", "float16"):
            raise CheckpointError(f"{place}: unknown type `{found['dtype']}`")
        return found
    except FileNotFoundError:
        raise CheckpointError(f"{place.parent} holds no network: there is no net.json") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{place} is damaged: {error}") from None


def open_graph(folder: Path) -> Graph:
    """The graph in a folder."""
    place = folder / "graph.json"
    try:
        return graph_json.loads(place.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"cannot read {place}: {(error.strerror or '').lower()}") from None
    except ValueError as error:
        raise CheckpointError(f"{place} is damaged: {error}") from None


def net_of(graph: Graph, dtype: torch.dtype = torch.float32) -> Net:
    """The network of a graph."""
    return Net(graph, schedule(graph)).to(dtype)
