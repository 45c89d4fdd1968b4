"""Pictures and specs that the drawing tests share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from ladderspec.api import graph, load
from ladderspec.cells.feedforward import Conv
from ladderspec.cells.recurrent import ConvLSTM
from ladderspec.drawing.picture import Arrow, Level, Part, Picture, TaskLabel, picture_of
from ladderspec.names import Role, Side, edge_key

SPECS = Path(__file__).parents[2] / "specs"
GROUPED = """
name: grouped
title: RTagger
input: {channels: 1, size: [24, 24], noise: {gaussian: 0.2}}
time: {iterations: 3}
groups: {count: 3, variance: 0.006}
levels:
  - name: lstm1
    encoder: {cell: ConvLSTM, channels: 16, filter: 4, stride: 2}
    decoder: {cell: Readout, filter: 4}
  - {name: conv, encoder: {cell: Conv, channels: 16}, decoder: convG1}
  - {name: lstm2, encoder: {cell: ConvLSTM, channels: 32, stride: 2}, decoder: convG1}
  - {name: pool, encoder: {cell: Pool, mode: average, filter: global}, decoder: Average}
  - {name: class, encoder: {cell: SoftMax, channels: 11}, decoder: G1}
tasks:
  segment: {kind: grouping, truth: groups}
  digit: {kind: classification, at: encoder.class, none: last, weight: 0.5}
variants:
  tagger: {title: Tagger, set: {encoder.lstm*.cell: Conv}}
  no_decoder_to_encoder: {without: [decoder_to_encoder]}
  no_lateral: {without: [lateral]}
"""
PLAIN, STATEFUL = Conv(channels=32), ConvLSTM(channels=32)


def shipped() -> list[str]:
    """Every spec of the repository and every variant of it, as FILE or FILE:VARIANT."""
    found = []
    for path in sorted(SPECS.rglob("*.yaml")):
        if "experiments" in path.parts:
            continue
        name = str(path.relative_to(SPECS))
        found += [name, *(f"{name}:{variant}" for variant in load(path).config.variants)]
    return found


@cache
def picture(name: str) -> Picture:
    path, _, variant = name.partition(":")
    return picture_of(graph(load(SPECS / path, variant or None)))


class Builder:
    """Builds a picture part by part."""

    def __init__(self, levels: Iterable[str]) -> None:
        self.levels = list(levels)
        self.parts: dict[str, Part] = {}
        self.arrows: dict[tuple[str, str, str], Arrow] = {}

    def part(self, side: Side, level: str, stateful: bool = False, task: str = "") -> None:
        name = f"{side}.{level}"
        cell = STATEFUL if stateful else PLAIN
        readings = (TaskLabel(task, False),) if task else ()
        self.parts[name] = Part(name, side, level, cell, (32, 16, 16), 12345, readings)

    def arrow(
        self, source: str, target: str, role: Role, delay: int, label: str | None = None
    ) -> None:
        """Add an arrow, unless an end is missing or it would be a loop without a delay."""
        if source in self.parts and target in self.parts and (delay or source != target):
            key = edge_key(role, source, delay)
            self.arrows[source, target, key] = Arrow(source, target, key, role, delay, label)

    def done(self) -> Picture:
        levels = tuple(Level(name, name, str(i)) for i, name in enumerate(self.levels))
        return Picture("made", "Made up", levels, self.parts, tuple(self.arrows.values()))


def ladder(
    height: int, stateful: Iterable[int] = (), decoders: bool = True, laterals: Iterable[int] = ()
) -> Builder:
    """The arrows of a plain ladder; the topmost level has no decoder."""
    build = Builder(["input", *(f"level_{i}" for i in range(1, height))])
    names, remembers, beside = build.levels, set(stateful), set(laterals)
    for i, level in enumerate(names):
        build.part(Side.ENCODER, level, i in remembers)
        if decoders and i < height - 1:
            build.part(Side.DECODER, level, task="cost: MSE" if i == 0 else "")
            if i in beside:
                build.part(Side.LATERAL, level, True)
    for i, level in enumerate(names):
        encoder, decoder, lateral = (
            f"{side}.{level}" for side in ("encoder", "decoder", "lateral")
        )
        if i:
            build.arrow(f"encoder.{names[i - 1]}", encoder, Role.ENCODER, 0)
        if i in remembers:
            build.arrow(encoder, encoder, Role.STATE, 1)
            build.arrow(decoder, encoder, Role.DECODER_TO_ENCODER, 1)
        if lateral in build.parts:
            build.arrow(encoder, lateral, Role.LATERAL, 0)
            build.arrow(lateral, decoder, Role.LATERAL, 0)
            build.arrow(lateral, lateral, Role.STATE, 1)
        else:
            build.arrow(encoder, decoder, Role.LATERAL, 0)
        if i < height - 1:
            above = names[i + 1]
            source = "decoder" if f"decoder.{above}" in build.parts else "encoder"
            build.arrow(f"{source}.{above}", decoder, Role.DECODER, 0)
    return build


_LABELS = st.sampled_from([None, None, "w_x m_y", "\\frac{1}{\\sigma^2}", "feedback"])


@st.composite
def pictures(draw: st.DrawFn) -> Picture:
    """Ladders of 3 to 60 levels with declared arrows from anywhere to anywhere."""
    height = draw(st.integers(3, 60))
    rows = st.integers(0, height - 1)
    build = ladder(
        height,
        draw(st.sets(rows, max_size=12)),
        draw(st.booleans()),
        draw(st.sets(rows, max_size=4)),
    )
    _appendix_c(build, draw(st.sets(rows, max_size=4)))
    names = sorted(build.parts)
    ends = st.sampled_from(names)
    skips = st.tuples(ends, ends, st.integers(0, 3), _LABELS)
    for source, target, delay, label in draw(st.lists(skips, max_size=12)):
        build.arrow(source, target, Role.SKIP, delay, label)
    return build.done()


def _appendix_c(build: Builder, rows: Iterable[int]) -> None:
    for row in rows:
        if row + 1 < len(build.levels):
            level, above = build.levels[row : row + 2]
            build.arrow(f"decoder.{level}", f"encoder.{above}", Role.UPWARD_DIAGONAL, 1)
            build.arrow(f"decoder.{above}", f"decoder.{level}", Role.DOWNWARD_DIAGONAL, 1)
            build.arrow(f"decoder.{level}", f"decoder.{level}", Role.RECURRENT_DECODER, 1)


def views() -> Iterator[dict[str, object]]:
    """The views in which every shipped spec is checked."""
    yield {}
    yield {"kind": "rolled"}
    yield {"kind": "mini"}
    yield {"kind": "mini", "levels": "none", "group": True}
    yield {"fold": True}
    yield {"group": True}
    yield {"kind": "rolled", "group": True, "width": 241.0}
    yield {"kind": "rolled", "fold": True, "labels": frozenset({"cell", "name", "shape", "params"})}
    yield {"iterations": 1}
    yield {"iterations": 4, "levels": "numbers"}
    yield {"labels": frozenset()}
