"""The formula of a class, in the paper's letters, from the arrows that its cells have here."""

from __future__ import annotations

from collections.abc import Sequence

from ladderspec.export.uses import Arrow, Use
from ladderspec.letters import letter
from ladderspec.names import Role, Side

# By role: the letter of the weight, and of what arrives.
_LETTERS = {
    Role.ENCODER: ("W", "e_below"),
    Role.LATERAL: ("B", "h"),
    Role.DECODER: ("A", "v_top"),
    Role.DECODER_TO_ENCODER: ("W_d", "d"),
    Role.UPWARD_DIAGONAL: ("W_u", "d_below"),
    Role.DOWNWARD_DIAGONAL: ("A_d", "v_top"),
    Role.RECURRENT_DECODER: ("A_y", "y"),
    Role.STATE: ("W_h", "h"),
}
_ORDER = (Role.ENCODER, Role.DECODER, Role.LATERAL)  # then the others, as they come
_WIDE = 70


def norm_name(kind: frozenset[str]) -> str:
    """
    >>> norm_name(frozenset({"normed", "layer"}))
    'LN'
    """
    return "LN" if "layer" in kind else "BN" if "batch" in kind else ""


def within(name: str, text: str) -> str:
    return f"{name}({text})" if name else text


def linear(use: Use, weight: str, value: str) -> str:
    """`W * x`, or `W x` where the map is dense."""
    return f"{weight} {value}" if use.piece == "dense_arrow" else f"{weight} * {value}"


def drives(uses: Sequence[Use], offset: str, roles: frozenset[Role] | None = None) -> str:
    """The sum of the drives of a class's arrows and its bias, with the norms where they stand."""
    terms: dict[str, set[str]] = {}
    for use in uses:
        for arrow in sorted(use.arrows, key=_order):
            if arrow.use is not None and arrow.use.piece != "gate":
                if roles is None or arrow.role in roles:
                    norm, term = _term(arrow, arrow.use, use.side)
                    terms.setdefault(term, set()).add(norm)
    found = [within("N" if len(norms) > 1 else norms.pop(), term) for term, norms in terms.items()]
    return " + ".join([*found, offset] if offset else found)


def _order(arrow: Arrow) -> int:
    return _ORDER.index(arrow.role) if arrow.role in _ORDER else len(_ORDER)


def _term(arrow: Arrow, use: Use, side: Side) -> tuple[str, str]:
    """The norm of an arrow, and its linear map."""
    if arrow.role is Role.SKIP:
        weight, value = "K", letter(arrow.source)
    elif side is Side.LATERAL and arrow.role is Role.LATERAL:
        weight, value = "W", "e"
    else:
        weight, value = _LETTERS[arrow.role]
    past = f"(t-{arrow.delay})" if arrow.delay else ""
    return norm_name(use.kind), linear(use, weight, value + past)


def fold(text: str, indent: int) -> str:
    """A long sum over several lines."""
    lines = [""]
    for term in text.split(" + "):
        sum_so_far = f"{lines[-1]} + {term}" if lines[-1] else term
        if len(sum_so_far) > _WIDE:
            lines.append(f"+ {term}")
        else:
            lines[-1] = sum_so_far
    return f"\n{' ' * indent}".join(lines)
