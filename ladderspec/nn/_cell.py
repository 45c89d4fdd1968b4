"""What every cell is: arrows that project what arrives, and a join of their drives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from ladderspec.names import Shape
from ladderspec.nn._arrow import Arrow
from ladderspec.nn._checks import check_gates, check_targets
from ladderspec.nn._fused import transformed
from ladderspec.nn._norms import NOW, NormKind, When, make_norm
from ladderspec.nn._own import ONES, Owner, watched

Values = Mapping[str, Tensor]
Result = tuple[Tensor, dict[str, Tensor]]

# Arrows that are there at every t; one of them can carry the bias of the sum.
_MAIN = ("encoder", "decoder", "lateral")
# Where the norm gains of arrows from the past start, unless a spec says otherwise.
_PAST = {"state": 1 / 8} | dict.fromkeys(
    ("decoder_to_encoder", "upward_diagonal", "downward_diagonal", "recurrent_decoder"), 1 / 64
)


class Drives(dict[str, Tensor]):
    """Drives that were made for one call, so that their sum may take the place of one of them."""


class Cell(Owner):
    """A cell is called with one value per arrow and returns its output and what else it knows.

    The second result holds `c` of an LSTM, `logits` of a SoftMax, else nothing. `previous` is that
    of the iteration from which the `state` arrow comes. The two halves can be called apart:
    `project` for one arrow, `join` for all their drives.
    """

    offset: str = ""  # the own parameter that is added to the sum of the drives
    gain: Tensor  # of the sum, under `norm: joint`
    apart: frozenset[str] = frozenset()  # arrows whose drives do not enter that sum
    gates: int = 1  # channels of the sum for each one of the output
    remembers: tuple[str, ...] = ()  # what it needs of `previous`, besides its `state`

    def __init__(
        self,
        arrows: Mapping[str, Arrow],
        joint: NormKind = "none",
        groups: int = 1,
        iterations: int = 1,
    ) -> None:
        super().__init__()
        self._check_arrows(arrows)
        for key, arrow in arrows.items():
            self.add_module(key, arrow)
        self.keys = tuple(arrows)
        self.key_set = frozenset(arrows)
        self.summed = tuple(key for key in arrows if key not in self.apart)
        first = [key for key in _MAIN if key in self.summed] or self.summed
        self.carrier = first[0] if first else ""
        for key in arrows.keys() & _PAST.keys():
            arrows[key].start_gain(_PAST[key])
        self.joint = make_norm(joint, self.width, groups, iterations)
        if self.joint is not None:
            self.own("gain", (self.width,), ONES)

    @classmethod
    def of(
        cls,
        inputs: Shape | Mapping[str, Shape],
        *,
        out: Shape | None = None,
        iterations: int = 1,
        **fields: Any,
    ) -> Self:
        """A cell for values of these shapes, with the fields that a spec would give it.

        One shape is that from below (of a decoder: from above); several go by the names of their
        arrows, `state` follows by itself. A decoder has the shape of its `lateral`, or `out`, and
        inverts a row of `stride`; left out, the smallest that fits. `iterations` is how many t
        have statistics of their own in batch norms.
        """
        from ladderspec.nn._of import cell_of  # which builds every kind of cell

        return cast(Self, cell_of(cls.__name__, inputs, out, iterations, fields))

    def arrow(self, key: str) -> Arrow:
        return self._modules[key]  # type: ignore[return-value]

    @property
    def width(self) -> int:
        """Channels of the sum of the drives."""
        return self.arrow(self.carrier).target[0] if self.carrier else 0

    def forward(self, values: Values, previous: Values | None = None, when: When = NOW) -> Result:
        if type(values) is not dict or values.keys() != self.key_set:
            self._check_values(values)
        drives = Drives({key: self.project(key, value, when) for key, value in values.items()})
        if "state" in values:
            previous = {"h": values["state"], **(previous or {})}
            for name in self.remembers:
                if name not in previous:
                    self._refuse_past(name)
        elif previous and "state" in self.key_set:
            self._refuse_past("state")
        return self.join(drives, previous, when)

    def project(self, key: str, value: Tensor, when: When = NOW) -> Tensor:
        """The drive of one arrow; that of the `carrier` includes the bias of the sum."""
        carries = key == self.carrier and self.offset and self.joint is None
        bias = getattr(self, self.offset) if carries else None
        arrow = self.arrow(key)
        drive: Tensor = (arrow if watched(arrow) else arrow.forward)(value, when, bias)
        return drive

    def join(self, drives: Values, previous: Values | None = None, when: When = NOW) -> Result:
        """Output and extras from the drives; `previous` is the former state with its value `h`."""
        raise NotImplementedError

    def may_lack(self, key: str) -> bool:
        """Whether zeros on this arrow say nothing, so that a call may leave it out."""
        enters = key == "state" or (key in self.summed and key != self.carrier)
        return enters and self.arrow(key).silent

    def gather(self, drives: Values, when: When = NOW) -> Tensor:
        """The sum of the drives and the bias; `norm: joint` normalises the sum."""
        total = self.total(drives)
        return total if self.joint is None else self.normalise(total, when)

    def total(self, drives: Values) -> Tensor:
        """The sum of the drives that enter it, in the order of the arrows.

        It may take the place of the first, whose values no gradient reads.
        """
        first, *others = [key for key in self.summed if key in drives]
        total = drives[first]
        if not others and not isinstance(drives, Drives):
            return total.clone()  # the caller's, who may use it again; the sum is overwritten
        in_place = others and isinstance(drives, Drives) and not transformed()
        in_place = in_place and makes_values(self.arrow(first))
        for key in others:
            drive = drives[key]
            fits = in_place and drive.dtype == total.dtype  # under autocast they may differ
            total = total.add_(drive) if fits else total + drive
        return total

    def normalise(self, total: Tensor, when: When = NOW) -> Tensor:
        """The norm of the sum, under `norm: joint`."""
        assert self.joint is not None
        normal: Tensor = self.joint(total, self.gain, getattr(self, self.offset), when)
        return normal

    def merged(self, values: Values) -> tuple[Tensor, Tensor]:
        """Several dense arrows as one: all values side by side, and one weight for them."""
        weight = torch.cat([self.arrow(key).weight for key in values], dim=1)
        thinned = [self.arrow(key).thinned(value).flatten(1) for key, value in values.items()]
        return torch.cat(thinned, dim=1), weight

    @property
    def plain(self) -> bool:
        """Whether no norm stands between the arrows and the sum."""
        return self.joint is None and all(self.arrow(key).norm is None for key in self.keys)

    # --- mistakes --------------------------------------------------------------------------------

    def _check_arrows(self, arrows: Mapping[str, Arrow]) -> None:
        who = type(self).__name__
        named = isinstance(arrows, Mapping)
        if not named or not all(isinstance(arrow, Arrow) for arrow in arrows.values()):
            raise TypeError(
                f"{who} takes a dict of arrows, {{'encoder': Arrow(...)}}, not {arrows!r};"
                f" `{who}.of` makes them from the shapes of what arrives"
            )
        targets = {
            key: arrow.target
            for key, arrow in arrows.items()
            if key not in self.apart or key == "state"
        }
        if targets:
            check_targets(who, targets)
            state = arrows["state"].source if "state" in arrows else None
            check_gates(who, self.gates, next(iter(targets.values())), state)

    def _refuse_past(self, lacking: str) -> None:
        raise ValueError(
            f"{type(self).__name__} goes on from both results of an earlier call: the output"
            f" as `state`, the dict as `previous`; {lacking} is missing"
        )

    def _check_values(self, values: Values) -> None:
        who, known = type(self).__name__, ", ".join(self.keys)
        if not isinstance(values, Mapping):
            kind = type(values).__name__
            raise TypeError(f"{who} is called with a dict of values for {known}, not with a {kind}")
        strange = [repr(key) for key in values if key not in self.key_set]
        if strange:
            raise ValueError(f"{who} has no arrow {', '.join(strange)}; it has {known}")
        lacking = [key for key in self.keys if key not in values and not self.may_lack(key)]
        if lacking:
            raise ValueError(f"{who} needs a value for {', '.join(lacking)}")


def makes_values(arrow: nn.Module) -> bool:
    """Whether what it gives is new, and no part of something else."""
    return isinstance(arrow, Arrow) and (arrow.norm is not None or arrow.kind == "conv")
