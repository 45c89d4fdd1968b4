"""denoising: the clean input behind a noisy one."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from ladderspec.tasks._contract import (
    UNITS,
    Cost,
    Reading,
    Task,
    compare_by,
    measure_by,
    present_by,
    same_as_input,
)

if TYPE_CHECKING:
    from torch import Tensor


class Denoising(Task):
    """Squared error (mse) or cross-entropy of logits (bce) against the input without its noise."""

    kind: Literal["denoising"]
    cost: Cost = Field("mse", description="mse: squared error; bce: cross-entropy of logits.")

    denoises: ClassVar = True

    def check_shape(self, reading: Reading) -> tuple[str, str] | None:
        return same_as_input(self, reading)

    def compare(self, seen: Tensor, target: Tensor) -> Tensor:
        return compare_by(self.cost, seen, target)

    def present(self, seen: Tensor) -> Tensor:
        return present_by(self.cost, seen)

    @property
    def units(self) -> dict[str, str]:
        return UNITS[self.cost]

    def measure(self, seen: Tensor, target: Tensor) -> dict[str, Tensor]:
        return measure_by(self.cost, seen, target)
