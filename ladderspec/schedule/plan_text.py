"""Plan -> text: one equation for each node in the paper's letters, with its work and its why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from textwrap import wrap
from typing import Any

from ladderspec.escaping import one_line
from ladderspec.names import Role, Side, split_node
from ladderspec.schedule.equations import Equation, Reader, Term
from ladderspec.schedule.phases import Kind, Phase, Reason, Why, explain, grouped
from ladderspec.schedule.plan import Plan, Work, flop_of_costs, need_masks, reads_of, times, work_of

WIDTH = 100
TAPS = {"normalised": "z", "logits": "logits"}
TAPPED = {
    "normalised": "z(e): the normalised pre-activation of e, with its noise.",
    "logits": "logits(e): the values from which the softmax of e is computed.",
}
LEGEND = (
    "e encoder, h lateral cell, d decoder, s state of a recurrent cell;"
    " e' is e at t-1, e'' at t-2.",
    "FLOP: forward, 2 for each multiply-add of the linear maps; norms, activations, gates and pools"
    " are left out. Activations: outputs and states of the nodes in float32, for one sample, as the"
    " backward pass needs them; values inside cells are left out.",
)
Wrap = Callable[..., list[str]]


def to_text(plan: Plan, width: int = WIDTH) -> str:
    """What `print(plan)` shows, in lines of at most `width` characters."""
    wrapped = partial(_wrap, min(width, WIDTH))
    reasons = explain(plan)
    position = {node: index for index, node in enumerate(reasons)}
    title = f" ({plan.title})" if plan.title else ""
    size = f"{_many(len(plan.equations), 'node')} in {_many(len(plan.phases), 'phase')}"
    if plan.groups is not None:
        size += f", for {_many(plan.groups, 'group')}"
    work = work_of(plan, plan.phases, plan.tasks)
    lines = [f"plan of {plan.name}{title}: {size}", *wrapped("", _show_work(plan, work)), ""]
    lines += wrapped("carry   ", " ".join(_carried(plan)) or "nothing")
    for number, phase in enumerate(plan.phases, 1):
        lines += ["", f"{number}. {_time(phase)}: {_many(len(phase.nodes), 'node')}"]
        lines += wrapped("   ", _show_work(plan, work_of(plan, [phase])))
        for reason, nodes in grouped(reasons, phase.nodes).items():
            why = f"{ranges(nodes, position)}: {phrase(plan, reason)}"
            lines += wrapped("   ", why, hang=5)
        lines += ["", *_equations(plan, phase, wrapped)]
    lines += ["", *_costs(plan, position, wrapped)] if plan.tasks else []
    further = any(split_node(node)[0] is Side.INPUT for node in plan.equations)
    taps = {edge.tap for each in plan.equations.values() for edge in each.edges}
    legend = ["x is a further input."] if further else []
    legend += [*LEGEND[:1], *(text for tap, text in TAPPED.items() if tap in taps), *LEGEND[1:]]
    return "\n".join(
        [*map(one_line, lines), "", *(line for text in legend for line in wrapped("", text)), ""]
    )


def as_dict(plan: Plan) -> dict[str, Any]:
    """The plan as plain data; nodes and arrows by their full names, sizes for one sample."""
    reasons = explain(plan)
    return {
        "name": plan.name,
        "title": plan.title,
        "time": {"unit": _unit(plan), "length": plan.length},
        **({} if plan.groups is None else {"groups": plan.groups}),
        **vars(work_of(plan, plan.phases, plan.tasks)),
        "carry": {
            node: {
                "values": carried.depth,
                "state": dict.fromkeys((name for name, _ in carried.state), carried.state_depth),
                "initial": carried.initial,
            }
            for node, carried in plan.carry.items()
        },
        "phases": [
            {
                "kind": phase.kind.value,
                **vars(work_of(plan, [phase])),
                "reads": [str(edge) for edge in phase.reads],
                "shifts": [str(edge) for edge in phase.shifts],
                "carries": [str(edge) for edge in phase.carries],
                "nodes": [
                    _node_dict(plan.equations[node], phrase(plan, reasons[node]))
                    for node in phase.nodes
                ],
            }
            for phase in plan.phases
        ],
        "tasks": {each.name: _task_dict(plan, each) for each in plan.tasks},
    }


def _task_dict(plan: Plan, reader: Reader) -> dict[str, Any]:
    clean = {"clean": list(reader.clean)} if reader.clean else {}
    return {"at": list(reader.at), "t": _when(plan, reader), **clean}


def _node_dict(equation: Equation, why: str) -> dict[str, Any]:
    return {
        "node": equation.node,
        "equation": " = ".join(sides(equation)),
        "why": why,
        "shape": list(equation.shape),
        "parameters": equation.parameters,
        "flop": 2 * equation.multiplications,
    }


# --- parts ----------------------------------------------------------------------------------------


def _equations(plan: Plan, phase: Phase, wrapped: Wrap) -> list[str]:
    parts = [sides(plan.equations[node]) for node in phase.nodes]
    width = max((len(left) for left, _ in parts if len(left) <= WIDTH // 3), default=0)
    lines = []
    for left, right in parts:
        start = f"   {left:<{width}} = "
        lines += wrapped(start, right, hang=len(start) + right.index("(") + 1)
    return lines


def _carried(plan: Plan) -> list[str]:
    """What the carry holds after t; outputs and states by themselves."""
    depth: dict[str, dict[bool, int]] = {node: {} for node in plan.carry}
    for equation in plan.equations.values():
        for edge in equation.edges:
            if edge.delay:
                carried, state = depth[edge.source], edge.role is Role.STATE
                carried[state] = max(carried.get(state, 0), edge.delay)
    return [last_values(node, last[s], s) for node, last in depth.items() for s in sorted(last)]


def _costs(plan: Plan, position: Mapping[str, int], wrapped: Wrap) -> list[str]:
    """What the tasks read, and which (node, t) therefore need no computing."""
    lines: list[str] = []
    for reader in plan.tasks:
        nodes = ranges(sorted(reader.at, key=position.__getitem__), position)
        start = "        " if lines else "costs   "
        text = f"{reader.name} reads {nodes} at t = {_when(plan, reader)}"
        if reader.clean:
            targets = sorted(reader.clean, key=position.__getitem__)
            text += f", against {ranges(targets, position)} of a pass without noise"
        lines += wrapped(start, text)
    length = plan.length or max(map(_steady_length, plan.tasks))
    always, masks = (1 << length) - 1, need_masks(plan, length, reads_of(plan.tasks, length))
    if plan.length is None:  # only what holds for every T can be stated: the last t
        masks = {node: mask | always >> 1 for node, mask in masks.items()}
    unread: dict[int, list[str]] = {}
    for node in position:
        if masks[node] != always:
            unread.setdefault(masks[node] ^ always, []).append(node)
    for mask, group in unread.items():
        when = iterations(mask) if plan.length else "T"
        lines += wrapped("        ", f"not needed at t = {when}: {ranges(group, position)}")
    if plan.length and unread:
        flop = show_flop(flop_of_costs(plan, plan.length))
        lines.append(f"        the costs take {flop} in {_many(plan.length, _unit(plan))}")
    return lines


def _when(plan: Plan, reader: Reader) -> str:
    """The t at which a task reads: `5`, `1..T-1`."""
    if plan.length is not None:
        return iterations(times(reader, plan.length)) or "none"
    if isinstance(reader.when, tuple):
        return iterations(times(reader, _steady_length(reader)))
    last = f"T-{reader.ahead}" if reader.ahead else "T"
    return last if reader.when == "last" else f"1..{last}"


def _steady_length(reader: Reader) -> int:
    """A number of t beyond which the task reads the same t, counted from the last one."""
    return 1 + reader.ahead + (len(reader.when) if isinstance(reader.when, tuple) else 0)


# --- words ----------------------------------------------------------------------------------------


def phrase(plan: Plan, reason: Reason) -> str:
    """Why a node is in its phase."""
    edges = reason.edges
    past = " and ".join(map(value, edges))
    match reason.why:
        case Why.CYCLE:
            return f"on the cycle that {arrow(edges[0])} closes"
        case Why.LONG_CYCLE:
            leaves, returns = map(arrow, edges)
            return (
                "on a cycle of several delayed arrows, which leaves it"
                f" by {leaves} and comes back by {returns}"
            )
        case Why.OWN:
            return f"reads its own past {past}, and is on no other cycle"
        case Why.ALONE:
            return f"from the {'input' if plan.iterations else 'frame at t'} alone"
        case Why.BEFORE:
            text = "a path leads into a later loop, and none back"
        case Why.AFTER:
            text = "read by no loop, now or at a later t"
    if not edges:
        return text
    return f"{text}; {past} {'is a shift' if len(edges) == 1 else 'are shifts'} in time"


def _time(phase: Phase) -> str:
    return "loop over t" if phase.kind is Kind.LOOP else "needs nothing from its own past"


def _show_work(plan: Plan, work: Work) -> str:
    unit = _unit(plan)
    flop = f"{show_flop(work.flop_each)} per {unit}"
    memory = f"{show_bytes(work.bytes_each)} of activations per {unit}"
    if plan.length is not None:
        flop += f", {show_flop(plan.length * work.flop_each)} in {_many(plan.length, unit)}"
        memory = f"{show_bytes(plan.length * work.bytes_each)} of activations"
    return f"{work.parameters:,} parameters; {flop}; {memory}"


def show_flop(flop: int) -> str:
    """
    >>> show_flop(0), show_flop(999_960), show_flop(1_094_661_696)
    ('0 FLOP', '1.00 MFLOP', '1.09 GFLOP')
    """
    return _scaled(flop, 1000, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"))


def show_bytes(count: int) -> str:
    """
    >>> show_bytes(64), show_bytes(4096)
    ('64 B', '4.00 KiB')
    """
    return _scaled(count, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))


def _scaled(number: int, base: int, units: tuple[str, ...]) -> str:
    """Three digits; whole numbers below `base`."""
    if number < base:
        return f"{number} {units[0]}"
    scaled, unit = float(number), 0
    while scaled >= base * 0.9995 and unit < len(units) - 1:
        scaled, unit = scaled / base, unit + 1
    digits = 2 if scaled < 9.995 else 1 if scaled < 99.95 else 0
    return f"{scaled:.{digits}f} {units[unit]}"


def _unit(plan: Plan) -> str:
    return "iteration" if plan.iterations else "frame"


def _many(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _wrap(width: int, start: str, text: str, hang: int | None = None) -> list[str]:
    """Text after `start`; further lines stand below its beginning, or at `hang`."""
    below = " " * (len(start) if hang is None else hang)
    return wrap(
        text, width, initial_indent=start, subsequent_indent=below,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


# --- the paper's letters, with names as subscripts: e_conv_2, d_top'; times as 1..4 --------------


def letter(node: str, delay: int = 0, state: bool = False) -> str:
    """
    >>> letter("encoder.conv_2"), letter("decoder.top", 1), letter("encoder.top", 3, state=True)
    ('e_conv_2', "d_top'", 's_top(t-3)')
    """
    side, level = split_node(node)
    past = "'" * delay if delay < 3 else f"(t-{delay})"
    return f"{'s' if state else side.letter}_{level}{past}"


def value(edge: Term) -> str:
    """What an arrow carries, as its target sees it."""
    found = letter(edge.source, edge.delay, edge.role is Role.STATE)
    return f"{TAPS[edge.tap]}({found})" if edge.tap else found


def arrow(edge: Term) -> str:
    return f"{value(edge)} -> {letter(edge.target)}"


def sides(equation: Equation) -> tuple[str, str]:
    """An equation: `e_top, s_top` and `LSTM(encoder=e_pool, state=s_top')`."""
    node = equation.node
    left = f"{letter(node)}, {letter(node, state=True)}" if equation.stateful else letter(node)
    arguments = ", ".join(f"{edge.role}={value(edge)}" for edge in equation.edges)
    side, level = split_node(node)
    given = arguments or (level if side is Side.INPUT else "x")
    weights = f"; weights of {letter(equation.share)}" if equation.share else ""
    return left, f"{equation.cell}({given}{weights})"


def last_values(node: str, count: int, state: bool) -> str:
    """
    >>> last_values("encoder.top", 1, True), last_values("decoder.top", 3, False)
    ('s_top', "d_top .. d_top''")
    """
    first, last = letter(node, 0, state), letter(node, count - 1, state)
    return first if count == 1 else f"{first} .. {last}" if count > 2 else f"{first} {last}"


def ranges(nodes: Sequence[str], position: Mapping[str, int]) -> str:
    """Nodes by letter; three and more with successive positions as a range."""
    runs: list[list[str]] = []
    for node in nodes:
        if not runs or position[runs[-1][-1]] + 1 != position[node]:
            runs.append([])
        runs[-1].append(node)
    shown: list[str] = []
    for run in runs:
        names = [letter(node) for node in run]
        shown += [f"{names[0]} .. {names[-1]}"] if len(names) > 2 else names
    return ", ".join(shown)


def iterations(mask: int) -> str:
    """The t whose bits are set, t = 1 the lowest.

    >>> iterations(0b1011110)
    '2..5, 7'
    """
    runs: list[str] = []
    before = 0
    while mask:
        zeros = _trailing_zeros(mask)
        ones = _trailing_zeros(~(mask >> zeros))
        first, last = before + zeros + 1, before + zeros + ones
        runs.append(str(first) if first == last else f"{first}..{last}")
        mask >>= zeros + ones
        before = last
    return ", ".join(runs if len(runs) < 8 else [*runs[:3], "...", runs[-1]])


def _trailing_zeros(bits: int) -> int:
    return (bits & -bits).bit_length() - 1
