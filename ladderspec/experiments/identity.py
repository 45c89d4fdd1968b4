"""The identity of a run: everything that its numbers depend on, as JSON, and a digest of that.

A finished run is recognised by the digest in its `result.json`. So that the library can grow
without orphaning finished runs, an identity contains

- the fields of cells, tasks, data, training and evaluation that differ from their defaults,
- the `revision` of every cell, task and data set. A change of a default or a computation needs a
  new revision of that class: earlier runs then differ. 1 is left out.
- the digest of every plug-in file that defines something that the run uses, of any kind. Runs that
  were recorded before these digests existed are still recognised.

A new optional field therefore changes no digest. The fields in `RECORDED` are the exception: early
runs were recorded with all their fields, so these are part of an identity even at their defaults.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from ladderspec.cells.projections import Projection
from ladderspec.data import DataConfig
from ladderspec.experiments.training import (
    EvaluationNoise,
    noise_of,
    tasks_of,
)
from ladderspec.names import TABLE, Role
from ladderspec.plugins import admitted, files_of, of_no_file
from ladderspec.wiring.graph import Graph
from ladderspec.wording import first_of

if TYPE_CHECKING:
    from ladderspec.experiments.runs import Run

FORMAT = "ladderspec run 1"

_NORM = "norm norm.kind norm.terms statistics"
_TASK = "kind at weight weight.start weight.to weight.updates when target"
_DATA = "set input seed labelled_per_batch"

# Fields that are recorded even at their defaults. This table never grows: a new field is not in it.
RECORDED: dict[str, frozenset[str]] = {
    name: frozenset(fields.split())
    for name, fields in {
        # cells
        "Input": "cell initial channels size noise noise.gaussian noise.flip",
        "Conv": f"cell initial channels filter stride activation {_NORM}",
        "ConvGRU": f"cell initial channels filter stride {_NORM}",
        "ConvLSTM": f"cell initial channels filter stride forget_bias gate_bias {_NORM}",
        "FC": f"cell initial channels activation {_NORM}",
        "GRU": f"cell initial channels {_NORM}",
        "LSTM": f"cell initial channels forget_bias gate_bias {_NORM}",
        "Pool": "cell initial mode filter stride",
        "SoftMax": f"cell initial channels weights {_NORM}",
        "Average": "cell initial",
        "Identity": "cell initial",
        "G1": f"cell initial w w_s {_NORM}",
        "convG1": f"cell initial filter w w_s {_NORM}",
        "convG2": f"cell initial channels filter inner w {_NORM}",
        "convG3": f"cell initial channels filter inner inner_filter {_NORM}",
        # tasks
        "classification": _TASK,
        "prediction": f"{_TASK} cost ahead",
        "denoising": f"{_TASK} cost",
        "consistency": f"{_TASK} decay ramp_decay ramp",
        "probe": f"{_TASK} cost",
        # data sets
        "arrays": f"{_DATA} path scale still valid test",
        "digits": f"{_DATA} digits side flat valid labelled",
        "music": f"{_DATA} name file transpose",
        "occluded_mnist": f"{_DATA} digits canvas digit visible bar velocity frames extra bounce"
        " flights valid labelled keep",
        # sections of an experiment file
        "training": "updates epochs batch optimiser optimiser.kind optimiser.lr optimiser.betas"
        " optimiser.eps optimiser.probe optimiser.schedule optimiser.schedule.kind"
        " optimiser.schedule.floor optimiser.schedule.watch optimiser.schedule.stop"
        " optimiser.schedule.start optimiser.warm_up optimiser.clip optimiser.clip.norm"
        " optimiser.clip.tasks stop stop.patience stop.watch retrain steps recompute precision"
        " explode",
        "evaluation": "every every.epochs statistics batch items report",
    }.items()
}


def identity(run: Run, all_fields: bool = False, plugins: bool = True) -> dict[str, Any]:
    """Everything that the numbers of a run depend on, as JSON.

    Args:
        run: the run.
        all_fields: include all fields of cells and data sets that are not in `RECORDED`, as runs
            with classes of users were recorded before only differences counted.
        plugins: include the digests of plug-in files, which earlier runs were recorded without.
    """
    graph, data, start = run.graph, run.data, run.start
    if run.data_path is not None:
        data = data.model_copy(update={"path": run.data_path})
    if run.origin is not None:
        start = digest(identity(run.origin, all_fields, plugins))
    evaluation = fields(run.evaluation, "evaluation")
    evaluation.pop("noise", None)
    if EvaluationNoise(run.evaluation.noise, noise_of(graph)).any_noisy(tasks_of(graph)):
        evaluation["noise"] = run.evaluation.noise  # early runs had clean input, and no `noise`
    found = {
        "format": FORMAT,
        "seed": run.seed,
        "graph": _graph(graph, all_fields),
        "data": data_identity(data, all_fields),
        "training": fields(run.training, "training"),
        "evaluation": evaluation,
        "start": start,
        "freeze": list(run.freeze),
    }
    if plugins and (used := plugins_of(graph, data, run.training, run.evaluation)):
        found["plugins"] = used
    plain: dict[str, Any] = json.loads(json.dumps(found))
    return plain


def plugins_of(graph: Graph, *configs: BaseModel | None) -> dict[str, str]:
    """The digests of the plug-in files whose classes and functions a run uses, by name.

    Args:
        graph: its network.
        configs: its data, its training and so on.
    """
    return files_of(_used(graph, *configs))


def unnoticed(runs: Iterable[Run]) -> str:
    """A message with the classes and functions of users that have no digest; empty if none."""
    parts = [_used(run.graph, run.data, run.training, run.evaluation) for run in runs]
    names = of_no_file(chain.from_iterable(parts))
    message = "not from a plug-in file, so changes are not noticed"
    return f"{message}: {first_of(names)}" if names else ""


def _used(graph: Graph, *configs: BaseModel | None) -> Iterator[object]:
    """The classes that a run uses, and the functions of plug-ins."""
    cells = [cell for *_, cell in graph.nodes(data="cell")]
    norms = [cell.node_norm() for cell in cells]
    projections = [projection for *_, projection in graph.edges(data="projection")]
    tasks = [entry["task"] for entry in graph.graph["tasks"].values()]
    return _registered([cells, norms, projections, tasks, configs])


def _registered(value: object) -> Iterator[object]:
    """The classes of all configs in a value, and what plug-ins registered under its words.

    Norms and activations are looked up by name when a network is built. A config has its class.
    """
    if isinstance(value, str):
        yield from (each for each in admitted(value) if not _is_config(each))
    elif isinstance(value, BaseModel):
        yield type(value)
        yield from _registered([getattr(value, name) for name in type(value).model_fields])
    elif isinstance(value, Projection):
        yield from _registered(value.norm)
    elif isinstance(value, Mapping):
        yield from _registered(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _registered(each)


def _is_config(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseModel)


def data_identity(data: DataConfig, all_fields: bool = False) -> dict[str, Any]:
    """The identity of the data of a run; `data.config_of_run` opens them again.

    >>> from ladderspec.data import data_config
    >>> data_identity(data_config("music", name="etudes", transpose=2))["transpose"]
    2
    """
    return {"set": data.set, **fields(data, data.set, all_fields)}


def digest(identity: Mapping[str, Any]) -> str:
    """
    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    text = json.dumps(identity, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


# --- fields ---------------------------------------------------------------------------------------


def fields(config: BaseModel, name: str, all_fields: bool = False) -> dict[str, Any]:
    """The fields of a config that identify it: those recorded under `name`, and differences.

    >>> from ladderspec.experiments.training import EvaluationConfig
    >>> fields(EvaluationConfig(), "another")
    {}
    >>> fields(EvaluationConfig(items=40), "another")
    {'items': 40}
    """
    if all_fields and name not in RECORDED:
        found = config.model_dump(mode="json")
    else:
        found = dict(_fields(config, RECORDED.get(name, frozenset())))
    revision = getattr(config, "revision", 1)
    return found | ({"revision": revision} if revision != 1 else {})


def _fields(
    config: BaseModel, always: frozenset[str], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    for name, dumped in config.model_dump(mode="json").items():
        value, path = getattr(config, name), f"{prefix}{name}"
        default = type(config).model_fields[name].get_default(call_default_factory=True)
        if path in always or value != default:
            nested = isinstance(value, BaseModel)
            yield name, dict(_fields(value, always, f"{path}.")) if nested else dumped


def _without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _without_none(value) if isinstance(value, dict) else value
        for name, value in fields.items()
        if value is not None
    }


# --- the network ----------------------------------------------------------------------------------


# Roles whose delays are always included: early runs were recorded with them. It must never grow.
RECORDED_ROLES = frozenset(
    {
        "encoder",
        "state",
        "lateral",
        "decoder",
        "decoder_to_encoder",
        "upward_diagonal",
        "downward_diagonal",
        "recurrent_decoder",
    }
)


def _graph(graph: Graph, all_fields: bool) -> dict[str, Any]:
    """Nodes, arrows and tasks; not their titles, labels and places in files."""
    return {
        "graph": {
            **{key: graph.graph[key] for key in ("levels", "frames", "iterations")},
            "delays": {
                str(role): delay
                for role, delay in graph.graph["delays"].items()
                if role in RECORDED_ROLES or delay != TABLE[role].delay
            },
            "tasks": {
                name: {
                    "kind": entry["task"].kind,
                    **_without_none(fields(entry["task"], entry["task"].kind)),
                    "nodes": entry["at"],
                    **({"clean": entry["clean"]} if entry["clean"] else {}),
                }
                for name, entry in graph.graph["tasks"].items()
            },
        },
        "nodes": [_node(graph, node, all_fields) for node in graph],
        "edges": [_edge(graph, *edge) for edge in graph.edges(keys=True)],
    }


def _node(graph: Graph, node: str, all_fields: bool) -> dict[str, Any]:
    attributes = graph.nodes[node]
    cell = attributes["cell"]
    return {
        "id": node,
        "side": str(attributes["side"]),
        "level": attributes["level"],
        "cell": {"cell": cell.cell, **_without_none(fields(cell, cell.cell, all_fields))},
        "initial": attributes["initial"],
        "shape": attributes["shape"],
        "parameters": attributes["parameters"],
    }


def _edge(graph: Graph, source: str, target: str, key: str) -> dict[str, Any]:
    attributes = graph.edges[source, target, key]
    found: dict[str, Any] = {"source": source, "target": target, "key": key}
    found |= {"role": str(attributes["role"])}
    found |= {name: attributes[name] for name in ("delay", "parameters", "declared")}
    words = ("filter", "norm", "gain", "map", "resample", "scale", "share", "tap")
    optional = {name: attributes.get(name) for name in words}
    found |= {name: value for name, value in optional.items() if value is not None}
    projection = attributes.get("projection")
    if "gain" not in found and projection is not None and projection.norm != "none":
        first = _first_gain(graph, target, attributes["role"])
        found |= {"initial_gain": projection.gain} if projection.gain != first else {}
    return found


def _first_gain(graph: Graph, target: str, role: Role) -> float:
    """The initial gain of an arrow's norm by the rule of the first recorded runs.

    Arrows into cells without a state then started at 1, whatever their delay.
    """
    roles = {role for *_, role in graph.in_edges(target, data="role")}
    if role in (Role.ENCODER, Role.LATERAL, Role.DECODER) or Role.STATE not in roles:
        return 1.0
    return 1 / 8 if role is Role.STATE else 1 / 64
