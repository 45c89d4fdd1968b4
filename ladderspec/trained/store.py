"""Save and open a network: its graph as JSON, its weights as safetensors.

    ls.save(net, "mine")                mine/net.json, mine/graph.json, mine/weights.safetensors
    net = ls.open_net("mine")

The graph is the spec after all changes: every node with the fields of its cell, every arrow, every
task. Nothing is ever unpickled, and a folder never runs code: a user's cells must be registered
before it is opened.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as to_bytes
from torch import nn

from ladderspec.arguments import check_type, checked
from ladderspec.errors import UsageError, reason, tick
from ladderspec.files import checksum, make_folder, read_json, read_regular, write_atomic
from ladderspec.learn.checkpoint import CheckpointError, restore, tensors_in
from ladderspec.network.net import Net
from ladderspec.schedule.plan import schedule
from ladderspec.version import __version__
from ladderspec.wiring import graph_json
from ladderspec.wiring.graph import Graph, parameters

FORMAT = "ladderspec net 2"
GRAPH, WEIGHTS, RECORD = "graph.json", "weights.safetensors", "net.json"
TYPES = ("float32", "float64", "bfloat16", "float16")


def save(net: nn.Module, folder: str | Path) -> Path:
    """Write a network into a folder. The record is written last: a partial folder is refused.

    Args:
        net: A network that `build` made; it may be wrapped by torch.compile or
            DistributedDataParallel.
        folder: The folder, which is created if it is missing.

    Returns:
        The folder.

    Raises:
        UsageError: if `net` is another module, if its weights have several types, or if modules
            were shared by hand.
    """
    net = _unwrapped(net)
    check_type("folder", folder, str | Path)
    state = net.state_dict()
    _refuse_shared(state)
    dtype = _dtype(state)
    parts = {
        GRAPH: (graph_json.dumps(net.graph) + "\n").encode(),
        WEIGHTS: to_bytes({k: v.detach().cpu().contiguous() for k, v in state.items()}),
    }
    record = {
        "format": FORMAT,
        "name": net.graph.graph["name"],
        "title": net.graph.graph["title"],
        "dtype": dtype,
        "checksums": {name: checksum(data) for name, data in parts.items()},
        "versions": {"ladderspec": __version__, "torch": torch.__version__},
    }
    folder = make_folder(folder)
    for name, data in parts.items():
        write_atomic(folder / name, data)
    write_atomic(folder / RECORD, json.dumps(record, indent=1) + "\n")
    return folder


def _unwrapped(net: nn.Module) -> Net:
    """The network inside the wrappers of torch.compile and DistributedDataParallel."""
    for wrapper in ("_orig_mod", "module") if isinstance(net, nn.Module) else ():
        net = net._modules.get(wrapper) or net
    if not isinstance(net, Net):
        raise UsageError(f"a network of ladderspec is needed, not {type(net).__name__}")
    return net


def _refuse_shared(state: dict[str, torch.Tensor]) -> None:
    """Refuse weights that were shared by hand: the graph does not record that."""
    owners: dict[tuple[torch.device, int], str] = {}
    for name, tensor in state.items():
        if tensor.numel():
            owner = owners.setdefault((tensor.device, tensor.data_ptr()), name)
            if owner != name:
                raise UsageError(
                    f"{name} is the same tensor as {owner}, which its graph does not say;"
                    " share weights with `share` in the spec, or copy one of the modules"
                )


def _dtype(state: dict[str, torch.Tensor]) -> str:
    """The type of all floating-point tensors."""
    found = {str(v.dtype).removeprefix("torch.") for v in state.values() if v.is_floating_point()}
    if len(found) > 1:
        raise UsageError(f"the network is partly {' and partly '.join(sorted(found))}: choose one")
    return next(iter(found), TYPES[0])


@checked
def open_net(folder: str | Path) -> Net:
    """Open a network that `save` wrote.

    Args:
        folder: The folder. Cells of users must be registered before, with `load_plugin`.

    Raises:
        CheckpointError: if the folder is incomplete or damaged, or if the weights do not fit.
    """
    folder = Path(folder)
    record = _record(folder / RECORD)
    _check(folder / GRAPH, _read(folder / GRAPH), record)
    graph, weights = open_graph(folder), _read(folder / WEIGHTS)
    tensors = tensors_in(weights, folder / WEIGHTS)
    check_size(graph, tensors, folder)
    net = net_of(graph, getattr(torch, record["dtype"]))
    restore(net, tensors, str(folder / WEIGHTS))  # first: its message names what differs
    _check(folder / WEIGHTS, weights, record)
    return net


def _record(place: Path) -> dict[str, Any]:
    try:
        found = read_json(place)
    except FileNotFoundError:
        raise CheckpointError(f"{place.parent} holds no network: there is no {RECORD}") from None
    except UsageError as error:
        raise CheckpointError(str(error)) from None
    if found.get("format") != FORMAT:
        raise CheckpointError(f"{place}: expected `{FORMAT}`, not {tick(found.get('format'))}")
    if found.get("dtype") not in TYPES:
        raise CheckpointError(f"{place}: unknown type {tick(found.get('dtype'))}")
    if not isinstance(found.get("checksums"), dict):
        raise CheckpointError(f"{place} is damaged: it has no checksums")
    return dict(found)


def _read(place: Path) -> bytes:
    try:
        return read_regular(place)
    except FileNotFoundError as error:
        raise CheckpointError(f"cannot read {place}: {reason(error)}") from None
    except UsageError as error:
        raise CheckpointError(str(error)) from None


def _check(place: Path, data: bytes, record: dict[str, Any]) -> None:
    if checksum(data) != record["checksums"].get(place.name):
        raise CheckpointError(
            f"{place} is damaged, or was changed after it was saved:"
            f" its checksum is not that of {RECORD}"
        )


def open_graph(folder: Path) -> Graph:
    """The graph in the folder of a network or of a run."""
    return graph_json.open_graph(folder / GRAPH)


def check_size(graph: Graph, tensors: Mapping[str, torch.Tensor], folder: Path) -> None:
    """Refuse a graph with far more parameters than its weights, before memory is requested."""
    wanted, there = parameters(graph), sum(value.numel() for value in tensors.values())
    if wanted > 2 * there + 10**6:
        raise CheckpointError(
            f"{folder}: the network of {GRAPH} has {wanted:,} parameters, but only {there:,} are"
            " stored"
        )


def net_of(graph: Graph, dtype: torch.dtype = torch.float32) -> Net:
    """The network of a graph."""
    return Net(graph, schedule(graph)).to(dtype)
