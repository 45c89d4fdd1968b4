"""The paper's letters, with names as subscripts: e_conv_2, d_top', s_lstm1; and times as 1..4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ladderspec.names import Role, Side, split_node
from ladderspec.schedule.equations import Equation, Term

TAPS = {"normalised": "z", "logits": "logits"}


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
