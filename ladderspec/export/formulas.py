"""The formula of a class, in the paper's letters, from the arrows that its cells have here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from ladderspec.export.uses import Arrow, Use
from ladderspec.names import Role, Side
from ladderspec.schedule.letters import letter

_LETTERS = {  # by role: the weight, and what arrives
    Role.ENCODER: ("W", "e_below"),
    Role.LATERAL: ("B", "h"),
    Role.DECODER: ("A", "v_top"),
    Role.STATE: ("W_h", "h"),
    Role.DECODER_TO_ENCODER: ("W_d", "d"),
    Role.UPWARD_DIAGONAL: ("W_u", "d_below"),
    Role.DOWNWARD_DIAGONAL: ("A_d", "v_top"),
    Role.RECURRENT_DECODER: ("A_y", "y"),
}
_ORDER = (Role.ENCODER, Role.DECODER, Role.LATERAL)  # then the others, as they come


def norm_name(kind: Collection[str]) -> str:
    """
    >>> norm_name({"normed", "layer"})
    'LN'
    """
    return "LN" if "layer" in kind else "BN" if "batch" in kind else ""


def within(name: str, text: str) -> str:
    """
    >>> within("LN", "x"), within("", "x")
    ('LN(x)', 'x')
    """
    return f"{name}({text})" if name else text


def linear(use: Use, weight: str, value: str) -> str:
    """`W * x`, or `W x` where the map is dense."""
    return f"{weight} {value}" if use.piece == "dense_arrow" else f"{weight} * {value}"


def drives(uses: Sequence[Use], roles: Collection[Role] = frozenset(Role)) -> str:
    """The sum of what the arrows of a class bring; in brackets, what some of its cells lack."""
    skips = {(a.source, a.delay) for use in uses for a in use.arrows if a.role is Role.SKIP}
    sums = [_terms(use, roles, len(skips) > 1) for use in uses]
    counts = Counter(term for terms in sums for term in dict.fromkeys(terms))
    always = [term for term in counts if counts[term] == len(uses)]
    if not always:
        norm = norm_name({norm for use in uses for a in use.arrows if a.use for norm in a.use.kind})
        return f"sum of {within(norm, 'W * x')}"
    sometimes = [f" [+ {term}]" for term in counts if term not in always]
    return " + ".join(always) + "".join(sometimes)


def _terms(use: Use, roles: Collection[Role], any_skip: bool) -> list[str]:
    found = []
    for arrow in sorted(use.arrows, key=_order):
        if arrow.use is not None and arrow.use.piece != "gate" and arrow.role in roles:
            weight, value = _letters(arrow, use.side, any_skip)
            found.append(within(norm_name(arrow.use.kind), linear(arrow.use, weight, value)))
    return found


def _order(arrow: Arrow) -> int:
    return _ORDER.index(arrow.role) if arrow.role in _ORDER else len(_ORDER)


def _letters(arrow: Arrow, side: Side, any_skip: bool) -> tuple[str, str]:
    """The weight of an arrow, and what it brings."""
    if arrow.role is Role.SKIP and any_skip:
        return "K", "skip"
    past = f"(t-{arrow.delay})" if arrow.delay else ""
    if arrow.role is Role.SKIP:
        return "K", f"{letter(arrow.source)}{past}"
    if side is Side.LATERAL and arrow.role is Role.LATERAL:
        return "W", f"e{past}"
    weight, value = _LETTERS[arrow.role]
    return weight, f"{value}{past}"
