"""What every cell is: arrows that project what arrives, and a join of their drives."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import torch
from torch import Tensor

from ladderspec.nn._arrow import Arrow
from ladderspec.nn._norms import NOW, NormKind, When, make_norm
from ladderspec.nn._own import ONES, Owner

Values = Mapping[str, Tensor]
Result = tuple[Tensor, dict[str, Tensor]]

# Arrows that are there at every t; one of them can carry the bias of the sum.
_MAIN = ("encoder", "decoder", "lateral")


class Cell(Owner):
    """A cell is called with one value per arrow and returns its output and what else it knows.

    The second result holds `c` of an LSTM, `logits` of a SoftMax, else nothing. `previous` is that
    of the iteration from which the `state` arrow comes. The two halves can be called apart:
    `project` for one arrow, `join` for all their drives.
    """

    offset: str = ""  # the own parameter that is added to the sum of the drives
    gain: Tensor  # of the sum, under `norm: joint`
    apart: frozenset[str] = frozenset()  # arrows whose drives do not enter that sum

    def __init__(
        self,
        arrows: Mapping[str, Arrow],
        joint: NormKind = "none",
        groups: int = 1,
        iterations: int = 1,
    ) -> None:
        super().__init__()
        for key, arrow in arrows.items():
            self.add_module(key, arrow)
        self.keys = tuple(arrows)
        self.summed = tuple(key for key in arrows if key not in self.apart)
        first = [key for key in _MAIN if key in self.summed] or self.summed
        self.carrier = first[0] if first else ""
        if "state" in arrows:
            for key in set(arrows) - set(_MAIN):
                arrows[key].start_softly()
        self.joint = make_norm(joint, self.width, groups, iterations)
        if self.joint is not None:
            self.own("gain", (self.width,), ONES)

    def arrow(self, key: str) -> Arrow:
        return self._modules[key]  # type: ignore[return-value]

    @property
    def width(self) -> int:
        """Channels of the sum of the drives."""
        return self.arrow(self.carrier).target[0] if self.carrier else 0

    def forward(self, values: Values, previous: Values | None = None, when: When = NOW) -> Result:
        if len(values) < len(self.keys):
            self._check_lacking(values)
        drives = {key: self.project(key, value, when) for key, value in values.items()}
        if "state" in values:
            previous = {"h": values["state"], **(previous or {})}
        return self.join(drives, previous, when)

    def project(self, key: str, value: Tensor, when: When = NOW) -> Tensor:
        """The drive of one arrow; that of the `carrier` includes the bias of the sum."""
        carries = key == self.carrier and self.offset and self.joint is None
        drive: Tensor = self.arrow(key)(
            value, when, getattr(self, self.offset) if carries else None
        )
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
        """The sum of the drives that enter it, in the order of the arrows."""
        return reduce(torch.add, [drives[key] for key in self.summed if key in drives])

    def normalise(self, total: Tensor, when: When = NOW) -> Tensor:
        """The norm of the sum, under `norm: joint`."""
        assert self.joint is not None
        normal: Tensor = self.joint(total, self.gain, getattr(self, self.offset), when)
        return normal

    def merged(self, values: Values) -> tuple[Tensor, Tensor]:
        """Several dense arrows as one: all values side by side, and one weight for them."""
        weight = torch.cat([self.arrow(key).weight for key in values], dim=1)
        return torch.cat([value.flatten(1) for value in values.values()], dim=1), weight

    @property
    def plain(self) -> bool:
        """Whether no norm stands between the arrows and the sum."""
        return self.joint is None and all(self.arrow(key).norm is None for key in self.keys)

    def _check_lacking(self, values: Values) -> None:
        lacking = [key for key in self.keys if key not in values and not self.may_lack(key)]
        if lacking:
            raise ValueError(f"{type(self).__name__} needs a value for {', '.join(lacking)}")
