"""probe: read out what a node knows, without teaching it."""

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
)

if TYPE_CHECKING:
    from torch import Tensor


class Probe(Task):
    """A read-out trained on the values of a node; no gradient flows into the network."""

    kind: Literal["probe"]
    cost: Cost = Field("mse", description="mse: squared error; bce: cross-entropy of logits.")
    target: str = Field(description="Field of the data to read out.")

    counted_apart: ClassVar = True
    teaches: ClassVar = False

    def check_shape(self, reading: Reading) -> tuple[str, str] | None:
        return None

    def compare(self, seen: Tensor, target: Tensor) -> Tensor:
        return compare_by(self.cost, seen, target)

    def present(self, seen: Tensor) -> Tensor:
        return present_by(self.cost, seen)

    @property
    def units(self) -> dict[str, str]:
        return UNITS[self.cost]

    def measure(self, seen: Tensor, target: Tensor) -> dict[str, Tensor]:
        return measure_by(self.cost, seen, target)
