"""Specs put together at random from the words of the language: a whole network, or findings."""

from __future__ import annotations

import random
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ladderspec.api import graph, loads
from ladderspec.cells import registered
from ladderspec.errors import Finding, SpecError
from ladderspec.names import Role, Side, size_of
from ladderspec.wiring.graph import parameters

ROLES = [role.value for role in Role if role is not Role.SKIP]
LEVELS = [f"l{i}" for i in range(5)]
SIDES = (Side.ENCODER, Side.LATERAL, Side.DECODER)
NODES = [f"{side}.{level}" for side in SIDES for level in ("input", *LEVELS)] + ["input.action"]
VALUES: dict[str, list[Any]] = {
    "channels": [1, 2, 5],
    "filter": [1, 2, 3, [1, 3]],
    "stride": [1, 2, [3, 1]],
    "norm": ["batch", "layer", "none", "joint", "instance", {"kind": "group", "groups": 2}],
    "inner": [1, 4],
    "initial": ["learned"],
    "weights": ["none"],
    "mode": ["average"],
    "activation": ["none", "relu6", "hard_tanh"],
    "crelu": [True],
    "resample": ["nearest", "bilinear"],
    "dilation": [2, [1, 2]],
    "channel_groups": [2],
    "noise": [{"gaussian": 0.3}],
    "share": LEVELS,
}
SELDOM = ("noise", "share", "channel_groups")  # most often these do not fit
OPTIONS: dict[str, list[Any]] = {
    "filter": [1, 2, 3],
    "gain": [0.5],
    "map": ["identity"],
    "resample": ["nearest"],
    "scale": [-1],
    "tap": ["normalised", "logits"],
    "share": [*LEVELS, "none"],
}


def cell(side: Side, chance: random.Random) -> dict[str, Any]:
    word, kind = chance.choice(sorted(registered(side).items()))
    fields = {name: chance.choice(VALUES[name]) for name in kind.model_fields if name in VALUES}
    needed = {name for name, field in kind.model_fields.items() if field.is_required()}
    odds = {name: 0.03 if name in SELDOM else 0.4 for name in fields}
    kept = {name for name in fields if name in needed or chance.random() < odds[name]}
    if word == "Pool" and chance.random() < 0.2:
        fields["filter"] = "global"
    return {"cell": word, **{name: fields[name] for name in sorted(kept)}}


def arrow(chance: random.Random) -> Any:
    source, target, delay = chance.choice(NODES), chance.choice(NODES), chance.randrange(3)
    if chance.random() < 0.5:
        return f"{source}(t-{delay}) -> {target}" if delay else f"{source} -> {target}"
    said = {
        word: chance.choice(values) for word, values in OPTIONS.items() if chance.random() < 0.1
    }
    return {"from": source, "to": target, "delay": delay, **said}


def selector(chance: random.Random) -> str:
    role, level = chance.choice(ROLES), chance.choice(["*", "input", *LEVELS])
    ends = f"{chance.choice(NODES)}(t-1) -> {chance.choice(NODES)}"
    kinds = [role, f"{role}@{level}", chance.choice(NODES), "decoder.*", f"level.{level}", ends]
    return chance.choice(kinds)


def spec(chance: random.Random) -> dict[str, Any]:
    """Like a spec that someone might write, mistakes and all."""

    def some(odds: float, words: dict[str, Any]) -> dict[str, Any]:
        return words if chance.random() < odds else {}

    rows = [
        {
            "name": name,
            "encoder": cell(Side.ENCODER, chance),
            **some(0.7, {"decoder": cell(Side.DECODER, chance)}),
        }
        for name in LEVELS[: chance.randint(1, 5)]
    ]
    where: list[Any] = ["none", "stateful", "all", ["input"], {"delay": chance.randrange(3)}]
    where += [{"gain": 0.5}, {"tap": "normalised"}, [{"levels": ["l1"], "delay": 1}]]
    action = {"channels": 2, **some(0.3, {"until": 1}), **some(0.3, {"per": "sequence"})}
    edges = {role: chance.choice(where) for role in ROLES if chance.random() < 0.1}
    task = {
        "kind": chance.choice(["probe", "denoising"]),
        "target": chance.choice(["x", "x", "clean"]),
        "cost": chance.choice(["mse", "l1", "huber"]),
        "at": chance.choice(NODES),
    }
    return {
        "input": {"channels": 2, **some(0.7, {"size": chance.choice([1, 8, [4, 7]])})},
        "inputs": {"action": action},
        "time": chance.choice([{"frames": 3}, {"iterations": 2}]),
        "levels": rows,
        **some(0.3, {"top": cell(Side.DECODER, chance)}),
        **some(0.3, {"laterals": {chance.choice(LEVELS[:2]): cell(Side.LATERAL, chance)}}),
        "edges": {**edges, **some(0.4, {"add": [arrow(chance), arrow(chance)]})},
        **some(0.3, {"without": [selector(chance)]}),
        **some(0.5, {"tasks": {"t": task}}),
    }


@settings(max_examples=500, deadline=None, derandomize=True, database=None)
@given(st.randoms(use_true_random=False))
def test_a_whole_network_or_findings(chance: random.Random) -> None:
    text = yaml.safe_dump(spec(chance), sort_keys=False)
    found: tuple[Finding, ...] = ()
    try:
        built = graph(loads(text))
    except SpecError as error:
        found = error.findings
    if found:
        assert all(finding.place is not None and finding.full() for finding in found)
        return
    assert all(size_of(shape) > 0 for _, shape in built.nodes(data="shape"))
    assert all(projection is not None for _, _, projection in built.edges(data="projection"))
    assert parameters(built) >= 0
