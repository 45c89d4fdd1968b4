"""Random specs: small networks of all cells, wired in every way the language allows.

`specs()` draws the text of a spec; `features(graph, plan)` names what a drawn one has in it, so
that a test can assert what its examples have covered.
"""

from __future__ import annotations

from typing import Any

import networkx as nx
import yaml
from hypothesis import assume, note
from hypothesis import strategies as st

from ladderspec.api import graph, loads
from ladderspec.cells import registered
from ladderspec.errors import SpecError
from ladderspec.language.read import Spec
from ladderspec.names import Role, Side
from ladderspec.schedule.phases import Kind
from ladderspec.schedule.plan import Plan
from ladderspec.wiring.graph import Graph

Words = dict[str, Any]

DENSE_NORMS = ["batch", "layer", "none", "joint", {"kind": "batch", "terms": "joint"}]
NORMS = st.sampled_from(DENSE_NORMS)
GROUP = {"kind": "group", "groups": 2}
GROUPS = [GROUP, {**GROUP, "terms": "joint"}]  # need an even number of channels
MAP_NORMS = st.sampled_from(
    [*DENSE_NORMS, "instance", {"kind": "instance", "terms": "joint"}, *GROUPS, *GROUPS]
)
PLAIN_NORMS = st.sampled_from(["batch", "layer", "none"])
RESAMPLE = st.sampled_from(["nearest", "bilinear"])
DELAYS = st.sampled_from([1, 1, 2])
COSTS = ["mse", "bce", "l1", "huber"]
FEATURES = {
    "batch norm",
    "layer norm",
    "group norm",
    "instance norm",
    "joint norm",
    "dilation",
    "channel groups",
    "decoder with a state",
    "classes of places",
    "delay of one level",
    "no weights",
    "resampled",
    "shared weights",
    "shared weights without their owner",
    "delay 2",
    "state of delay 2",
    "parallel edges",
    "delay across components",
    "lateral cell",
    "pruned",
    "odd size",
    "iterations",
    "any length",
    "learned initial",
    "once",
    "loop",
    "vector to map",
    "decoder to encoder",
    "no decoder to encoder",
    "noise in a cell",
    "noise in gates",
    "gain",
    "shared arrow",
    "tap",
    "tap of logits",
    "delayed tap",
    "clean target",
    "decoder on top",
    "cost mse",
    "cost bce",
    "cost l1",
    "cost huber",
    "activity",
}


@st.composite
def specs(draw: st.DrawFn, grouped: bool = False, inputs: bool = False) -> Spec:
    """A spec that says nothing wrong; with groups if `grouped`, with several inputs if `inputs`."""
    drawn = draw(words())
    drawn = draw(with_groups(drawn)) if grouped else drawn
    drawn = draw(with_inputs(drawn)) if inputs else drawn
    text = yaml.safe_dump(drawn, default_flow_style=None, sort_keys=False)
    note(text)
    try:
        found = loads(text)
    except SpecError:
        assume(False)
        raise
    assume(any(sizes_of(graph(found)).values()))  # there is something to learn
    return found


@st.composite
def words(draw: st.DrawFn) -> Words:
    """The words of a spec; some of them do not fit together."""
    maps = draw(st.integers(0, 3)) > 0
    size = {"size": [draw(st.integers(2, 6)), draw(st.integers(2, 6))]} if maps else {}
    spec: Words = {
        "input": {"channels": draw(st.integers(1, 3)), **size},
        "time": draw(st.sampled_from([{"frames": "any"}, {"frames": 3}, {"iterations": 3}])),
        "levels": [],
    }
    shapes = [maps]  # whether each level holds maps, from the input up
    widths = [spec["input"]["channels"]]  # the channels of each level
    for index in range(draw(st.integers(1, 4))):
        cell = draw(encoder_cells(shapes[-1], widths[-1]))
        if maps and index == 0 and draw(st.integers(0, 2)) == 0:  # words that seldom fit together
            spec["input"]["channels"] = widths[0] = 2
            cell = {"cell": "Conv", "channels": 2, "channel_groups": 2, "norm": "instance"}
            cell |= {"stride": 2, "filter": draw(st.integers(1, 4))}
        row: Words = {"name": f"l{index}", "encoder": cell}
        if draw(st.integers(0, 3)):
            row["decoder"] = draw(decoder_cells(shapes[-1]))
        if draw(st.integers(0, 2)) == 0:
            row = draw(sharing(row, spec["levels"], shapes, widths))
            cell = row["encoder"]
        spec["levels"].append(row)
        shapes.append(shapes[-1] and cell["cell"] not in DENSE)
        widths.append(cell.get("channels", widths[-1] * (2 if cell.get("crelu") else 1)))
    if draw(st.booleans()):
        places = {"weights": "conv"} if shapes[-1] and draw(st.integers(0, 4)) else {}
        spec["levels"].append(
            {
                "name": "class",
                "encoder": {"cell": "SoftMax", "channels": 3, "norm": draw(NORMS), **places},
                **(
                    {"decoder": draw(st.sampled_from(["Identity", "G1"]))} if not shapes[-1] else {}
                ),
            }
        )
        shapes.append(bool(places))
    if draw(st.integers(0, 4)) == 0:
        spec["top"] = {"cell": "Conv" if shapes[-1] else "FC", "norm": draw(PLAIN_NORMS)}
    elif spec["levels"][-1]["encoder"]["cell"] != "Sum" and draw(st.integers(0, 2)) == 0:
        spec["top"] = {"cell": "convG1" if shapes[-1] else "G1", "weights": "none"}
    if draw(st.integers(0, 3)) == 0:
        spec["laterals"] = draw(lateral_cells(spec, shapes))
    spec["edges"] = draw(edges(spec))
    if draw(st.booleans()):
        spec["edges"]["add"] += draw(weightless(spec, shapes, widths))
    spec["tasks"] = draw(tasks(spec))
    owners = [row["encoder"]["share"] for row in spec["levels"] if "share" in row["encoder"]]
    if owners and draw(st.booleans()):
        spec["without"] = [f"level.{draw(st.sampled_from(owners))}"]
    return spec


@st.composite
def with_groups(draw: st.DrawFn, spec: Words) -> Words:
    """The same rows for several groups."""
    likelihood = draw(st.sampled_from(["gaussian", "bernoulli"]))
    variance = st.sampled_from([0.5, {"learned": 0.3}])
    groups = {"count": draw(st.integers(1, 3)), "likelihood": likelihood}
    groups |= {"variance": draw(variance)} if likelihood == "gaussian" else {}
    groups |= {"start": {"pixel": draw(st.sampled_from([0, 1])), "group": 0.5}}
    norm = {"norm": draw(PLAIN_NORMS)}
    spec["levels"][0]["decoder"] = {"cell": "Readout", "filter": draw(st.integers(1, 4)), **norm}
    noise = {"gaussian": 0.3} if likelihood == "gaussian" else {"flip": 0.2}
    spec["input"]["noise"] = noise
    ahead = {"ahead": 1} if "frames" in spec["time"] and draw(st.booleans()) else {}
    left_out = ("pixels", "levels")
    pixels = {name: task for name, task in spec["tasks"].items() if name not in left_out}
    spec["tasks"] = {**pixels, "segment": {"kind": "grouping", **ahead}}
    if "laterals" in spec:
        spec["laterals"].pop("input", None)
    spec["edges"].pop("upward_diagonal", None)
    add = spec["edges"].get("add", [])
    spec["edges"]["add"] = [arrow for arrow in add if "-> decoder.input" not in str(arrow)]
    return {**{"groups": groups}, **spec}


def _takes_skips(side: Side, cell: str | Words) -> bool:
    """Whether an arrow from a further input can enter a cell; Pool, for one, refuses it."""
    name = cell if isinstance(cell, str) else cell["cell"]
    return Role.SKIP in registered(side)[name].takes


@st.composite
def with_inputs(draw: st.DrawFn, spec: Words) -> Words:
    """The same rows with further inputs, each read by an arrow or two."""
    until = st.sampled_from([{}, {"until": 1}, {"until": 2}])
    spec["input"] |= draw(until)
    per = ["frame", "sequence"] if "frames" in spec["time"] else ["sequence"]
    rows = spec["levels"]
    nodes = [f"encoder.{row['name']}" for row in rows if _takes_skips(Side.ENCODER, row["encoder"])]
    below = ["input", *(row["name"] for row in rows)]
    nodes += [
        f"decoder.{below[i]}"
        for i, row in enumerate(rows)
        if "decoder" in row and _takes_skips(Side.DECODER, row["decoder"])
    ]
    nodes += [f"lateral.{level}" for level in spec.get("laterals", {})]
    assume(nodes)
    spec["inputs"] = {}
    for name in ["action", "goal"][: draw(st.integers(1, 2))]:
        cell: Words = {"channels": draw(st.integers(1, 3)), "per": draw(st.sampled_from(per))}
        if draw(st.booleans()):
            cell["size"] = spec["input"].get("size", [3, 2])
        if draw(st.booleans()):
            cell["initial"] = "learned"
        spec["inputs"][name] = cell | draw(until)
        delays = [0, 1, 2] if cell["per"] == "frame" else [0]
        for target in draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=2, unique=True)):
            delay = draw(st.sampled_from(delays))
            spec["edges"]["add"].append({"from": f"input.{name}", "to": target, "delay": delay})
    return spec


DENSE = ("FC", "LSTM", "GRU", "SoftMax")
GATED = ("ConvLSTM", "ConvGRU", "LSTM", "GRU")  # z has a part for each gate


@st.composite
def encoder_cells(draw: st.DrawFn, maps: bool, below: int) -> Words:
    kinds = ["Conv", "ConvLSTM", "ConvGRU", "Pool", "FC", "LSTM"] if maps else ["FC", "LSTM", "GRU"]
    kind = draw(st.sampled_from([*kinds, *kinds, "Sum"]))
    cell: Words = {"cell": kind}
    if kind == "Sum":
        return cell | {"resample": draw(RESAMPLE), "crelu": draw(st.booleans())}
    if kind == "Pool":
        cell |= {"mode": draw(st.sampled_from(["max", "average"]))}
        return cell | {"filter": draw(st.integers(2, 3)), "stride": 2}
    cell["channels"] = draw(st.integers(1, 3))
    if kind not in ("LSTM", "GRU") or draw(st.integers(0, 3)) == 0:
        cell["norm"] = draw(NORMS if kind in DENSE else MAP_NORMS)
    if cell.get("norm") in GROUPS:
        cell["channels"] = 2
    if kind in DENSE and cell.get("norm") == "layer":
        # Layer norm of one value is zero, but for rounding errors, which later norms magnify.
        cell["channels"] = max(2, cell["channels"])
    if kind in ("Conv", "ConvLSTM", "ConvGRU"):
        cell |= {"filter": draw(st.integers(1, 4)), "stride": draw(st.integers(1, 2))}
        if draw(st.integers(0, 3)) == 0:
            cell["dilation"] = draw(st.integers(2, 3))
    if kind == "Conv" and below > 1 and cell["norm"] not in GROUPS and draw(st.booleans()):
        cell |= {"channels": below, "channel_groups": below}
    if kind in ("Conv", "FC"):
        cell["activation"] = draw(
            st.sampled_from(["relu", "tanh", "none", "softplus", "relu6", "hard_tanh"])
        )
    if kind in ("Conv", "FC") and draw(st.integers(0, 2)) == 0:
        kind = draw(st.sampled_from(["batch", "layer"]))  # of one value, layer norm is zero
        kind = "batch" if cell["channels"] == 1 else kind
        norm = GROUP if cell["norm"] in GROUPS else {"kind": kind}
        cell |= {"norm": {**norm, "terms": "joint"}, "noise": {"gaussian": 0.3}}
    elif "stride" in cell and cell["norm"] != "none" and draw(st.booleans()):
        cell |= {"norm": "joint", "noise": {"gaussian": 0.3}}  # behind the norm of all gates
    if draw(st.integers(0, 3)) == 0:
        cell["initial"] = "learned"
    return cell


@st.composite
def decoder_cells(draw: st.DrawFn, maps: bool) -> Words:
    """A decoder whose level holds maps, or a vector."""
    kind = draw(
        st.sampled_from(
            ["convG3", "convG3", "convG2", "convG1", "Conv", "G1", "ConvLSTM", "ConvGRU"]
            if maps
            else ["G1", "FC"]
        )
    )
    cell: Words = {"cell": kind}
    if kind in ("convG3", "convG2", "Conv", "FC", "ConvLSTM", "ConvGRU"):
        cell["norm"] = draw(NORMS)
    if kind == "ConvLSTM" and draw(st.booleans()):  # four gates: an even number of channels
        cell["norm"] = draw(MAP_NORMS)
    else:
        cell["norm"] = draw(PLAIN_NORMS)
    if kind.startswith(("conv", "Conv")):
        cell["filter"] = draw(st.integers(1, 4))
    if kind in ("Conv", "FC"):
        cell["activation"] = "tanh"
    if draw(st.integers(0, 3)) == 0:
        cell["initial"] = "learned"
    return cell


@st.composite
def sharing(
    draw: st.DrawFn, row: Words, rows: list[Words], shapes: list[bool], widths: list[int]
) -> Words:
    """The same row, or one that shares weights with an earlier row of as many channels."""
    found = [
        other
        for i, other in enumerate(rows)
        if (shapes[i], widths[i]) == (shapes[-1], widths[-1])
        and "channels" in other["encoder"]
        and "share" not in other["encoder"]
    ]
    if not found:
        return row
    other = draw(st.sampled_from(found))
    cell = {**other["encoder"], "share": other["name"]}
    if "stride" in cell:
        cell["stride"] = draw(st.integers(1, 2))
    if "decoder" in other and "share" not in other["decoder"] and draw(st.integers(0, 3)) == 0:
        row["decoder"] = {**other["decoder"], "share": other["name"]}
    return {**row, "encoder": cell}


@st.composite
def lateral_cells(draw: st.DrawFn, spec: Words, shapes: list[bool]) -> Words:
    """A cell on the lateral arrow of a level that has a decoder."""
    rows = spec["levels"]
    index = draw(st.integers(0, len(rows) - 1))
    rows[index]["decoder"] = {"cell": "convG3" if shapes[index] else "FC", "norm": "layer"}
    level = rows[index - 1]["name"] if index else "input"
    kind = draw(st.sampled_from(["ConvLSTM", "Conv"] if shapes[index] else ["LSTM", "FC"]))
    return {level: {"cell": kind, "channels": 2}}


@st.composite
def edges(draw: st.DrawFn, spec: Words) -> Words:
    found: Words = {}
    for role, odds in ROLES.items():
        if draw(st.integers(0, odds)) == 0:
            found[role] = draw(st.sampled_from(["all", "stateful", "none"]))
    for role in ("decoder_to_encoder", "state", "lateral"):
        if draw(st.integers(0, 7)) == 0:
            found[role] = {"delay": 2 if role != "lateral" else 1}
    if draw(st.integers(0, 2)) == 0 and all(map(_can_tap, spec["levels"])):
        lateral = found.get("lateral", {})
        found["lateral"] = {**lateral, "tap": "normalised"}
    names = [row["name"] for row in spec["levels"]]
    if draw(st.integers(0, 3)) == 0:
        some = {"levels": [draw(st.sampled_from(names))], "delay": draw(DELAYS)}
        found["encoder"] = [some]
    nodes = [f"encoder.{name}" for name in ["input", *names]]
    below = ["input", *names]
    nodes += [f"decoder.{below[i]}" for i, row in enumerate(spec["levels"]) if "decoder" in row]
    arrow = st.builds(
        lambda a, b, delay: f"{a}(t-{delay}) -> {b}" if delay else f"{a} -> {b}",
        st.sampled_from(nodes), st.sampled_from(nodes[1:]), st.sampled_from([0, 1, 1, 2]),
    )  # fmt: skip
    found["add"] = draw(st.lists(arrow, max_size=3, unique=True))
    noisy = [
        f"encoder.{row['name']}"
        for row in spec["levels"]
        if "noise" in row["encoder"] and row["encoder"]["cell"] not in GATED
    ]
    if noisy and draw(st.booleans()):  # their sum has one norm
        ends = {"from": draw(st.sampled_from(noisy)), "to": draw(st.sampled_from(nodes[1:]))}
        found["add"].append({**ends, "delay": draw(DELAYS), "tap": "normalised"})
    if draw(st.integers(0, 2)) == 0:  # several arrows between the same two nodes
        a, b = draw(st.sampled_from(nodes)), draw(st.sampled_from(nodes[1:]))
        both = [f"{a}(t-{d}) -> {b}" for d in (1, 2)]
        found["add"] += [each for each in both if each not in found["add"]]
        if draw(st.booleans()):
            found["add"].remove(both[1])
            found["add"].append({"arrow": both[1], "share": both[0]})
    if names[-1] == "class" and draw(st.booleans()):
        target = draw(st.sampled_from(nodes[1:]))
        logits = {"from": "encoder.class", "to": target, "delay": draw(DELAYS), "tap": "logits"}
        found["add"].append(logits)
    if draw(st.integers(0, 2)) == 0:
        role = draw(st.sampled_from(["encoder", "lateral", "state"]))
        if not isinstance(found.get(role, {}), (str, list)):
            found[role] = {**found.get(role, {}), "gain": 0.5}
    return found


def _can_tap(row: Words) -> bool:
    """Whether a row has one norm for all that arrives, or none; LSTMs have four gates."""
    norm = row["encoder"].get("norm", "none")
    joint = norm == "joint" or (isinstance(norm, dict) and norm.get("terms") == "joint")
    return row["encoder"]["cell"] not in GATED and (
        joint or row["encoder"]["cell"] in ("Conv", "FC", "SoftMax", "Pool", "Sum")
    )


@st.composite
def weightless(draw: st.DrawFn, spec: Words, shapes: list[bool], widths: list[int]) -> list[Words]:
    """An arrow without weights between two encoders of as many channels, if there are some."""
    rows = [{"name": "input", "encoder": {"cell": "Input"}}, *spec["levels"]]
    found = [
        (a["name"], b["name"])
        for i, a in enumerate(rows[: len(widths)])
        for j, b in enumerate(rows[: len(widths)])
        if b["encoder"]["cell"] in ("Conv", "FC", "Sum")
        and shapes[i] == shapes[j]
        and widths[i] == (widths[j] // 2 if b["encoder"].get("crelu") else widths[j])
    ]
    if not found:
        return []
    strides, size = {"input": 1}, 1
    for row in spec["levels"]:
        strides[row["name"]] = size = size * row["encoder"].get("stride", 1)
    apart = [(a, b) for a, b in found if strides[a] != strides[b]]  # of two sizes
    a, b = draw(st.sampled_from(apart or found))
    ends = {"from": f"encoder.{a}", "to": f"encoder.{b}", "delay": draw(DELAYS)}
    return [{**ends, "map": "identity", "resample": draw(RESAMPLE), "scale": -0.5}]


ROLES = {
    "decoder_to_encoder": 2,
    "upward_diagonal": 6,
    "downward_diagonal": 6,
    "recurrent_decoder": 6,
}


@st.composite
def tasks(draw: st.DrawFn, spec: Words) -> Words:
    rows = spec["levels"]
    frames = "frames" in spec["time"]
    names = ["input", *(row["name"] for row in rows)]
    found: Words = {}
    when = st.sampled_from(["last", "all"])
    if rows[-1]["name"] == "class" and draw(st.integers(0, 4)):
        found["digit"] = {"kind": "classification", "at": "encoder.class", "when": draw(when)}
    if "decoder" in rows[0] and draw(st.integers(0, 4)):
        kind = draw(st.sampled_from(["prediction", "denoising"])) if frames else "denoising"
        cost = draw(st.sampled_from(COSTS))
        found["pixels"] = {"kind": kind, "at": "decoder.input", "cost": cost, "weight": 2.0}
        found["pixels"] |= {"when": draw(when)}
    if "decoder" in rows[0] and "groups" not in spec and draw(st.integers(0, 2)) == 0:
        weight = {"decoder.input": 2.0, "else": 0.5} if draw(st.booleans()) else 0.7
        found["levels"] = {"kind": "denoising", "at": "decoder.*", "target": "clean"}
        found["levels"] |= {"weight": weight, "when": draw(when), "stop": draw(st.booleans())}
    if draw(st.integers(0, 5)) == 0:
        at = f"encoder.{draw(st.sampled_from(names[1:]))}"
        found["still"] = {"kind": "activity", "at": at, "weight": 0.5}
    if not found or draw(st.integers(0, 4)) == 0:
        at = f"encoder.{draw(st.sampled_from(names[1:]))}"
        found["digit"] = {"kind": "classification", "at": at, "head": 4, "when": draw(when)}
    return found


# --- what is in them ------------------------------------------------------------------------------


def features(spec: Spec, plan: Plan) -> set[str]:
    """Which of FEATURES a spec has."""
    wired = graph(spec)
    projections = [edge["projection"] for *_, edge in wired.edges(data=True)]
    norms = {projection.norm for projection in projections}
    nodes = wired.nodes.values()
    roles = set(nx.get_edge_attributes(wired, "role").values())
    delays = {(edge["role"], edge["delay"]) for *_, edge in wired.edges(data=True)}
    sizes = [facts["shape"][1:] for facts in nodes]
    taps = [edge for *_, edge in wired.edges(data=True) if edge["tap"] not in (None, "output")]
    shared = {facts["shared"] for facts in nodes} - {None}
    has = {
        "batch norm": "batch" in norms,
        "layer norm": "layer" in norms,
        "group norm": "group" in norms,
        "instance norm": "instance" in norms,
        "dilation": any(each.dilation != (1, 1) for each in projections),
        "channel groups": any(each.channel_groups > 1 for each in projections),
        "decoder with a state": any(
            facts["side"] == "decoder" and facts["cell"].stateful for facts in nodes
        ),
        "classes of places": any(
            getattr(facts["cell"], "weights", None) == "conv" for facts in nodes
        ),
        "delay of one level": len({d for role, d in delays if role == "encoder"}) > 1,
        "no weights": any(each.kind == "scaled" for each in projections),
        "resampled": any(each.kind == "resampled" for each in projections),
        "shared weights": bool(shared),
        "shared weights without their owner": any(
            name.count(".") == 1 and name not in wired for name in shared
        ),
        "joint norm": any("gain" in facts["cell_parameters"] for facts in nodes),
        "delay 2": any(delay == 2 for _, delay in delays),
        "state of delay 2": ("state", 2) in delays,
        "parallel edges": any(wired.number_of_edges(a, b) > 1 for a, b in wired.edges()),
        "delay across components": any(phase.shifts for phase in plan.phases),
        "lateral cell": any(facts["side"] == "lateral" for facts in nodes),
        "pruned": any("pruned" in note for note in wired.graph["notes"]),
        "odd size": any(n % 2 and n > 1 for size in sizes for n in size),
        "iterations": plan.iterations,
        "any length": plan.length is None,
        "learned initial": any("initial" in facts["cell_parameters"] for facts in nodes),
        "vector to map": any(_vector_to_map(each) for each in projections),
        "noise in a cell": any(
            facts["cell"].noise and facts["cell"].cell != "Input" for facts in nodes
        ),
        "noise in gates": any(
            facts["cell"].noise and facts["cell"].cell in GATED for facts in nodes
        ),
        "gain": any(edge["gain"] is not None for *_, edge in wired.edges(data=True)),
        "shared arrow": any(edge["share"] for *_, edge in wired.edges(data=True)),
        "tap": bool(taps),
        "tap of logits": any(edge["tap"] == "logits" for edge in taps),
        "delayed tap": any(edge["delay"] for edge in taps),
        "clean target": any(entry["clean"] for entry in wired.graph["tasks"].values()),
        "decoder on top": any(getattr(facts["cell"], "weights", "") == "none" for facts in nodes),
        "decoder to encoder": "decoder_to_encoder" in roles,
        "no decoder to encoder": "decoder_to_encoder" not in roles,
    }
    kinds = {(task.kind, getattr(task, "cost", "")) for task in spec.config.tasks.values()}
    has |= {f"cost {cost}": any(c == cost for _, c in kinds) for cost in COSTS}
    has["activity"] = ("activity", "") in kinds
    has |= {kind.value: any(phase.kind is kind for phase in plan.phases) for kind in Kind}
    assert has.keys() == FEATURES
    return {name for name, there in has.items() if there}


def _vector_to_map(projection: Any) -> bool:
    return len(projection.source) == 1 and len(projection.target) == 3


def sizes_of(wired: Graph) -> dict[str, int]:
    """Predicted parameters of every node, with the arrows that enter it."""
    return {
        node: wired.nodes[node]["parameters"]
        + sum(edge["parameters"] for *_, edge in wired.in_edges(node, data=True))
        for node in wired
    }
