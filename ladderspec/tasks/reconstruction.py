"""Tasks on values of the data: prediction of the next frame, denoising, and probes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from ladderspec.names import show_shape
from ladderspec.tasks.base import Metric, Reading, Task, register

if TYPE_CHECKING:
    from torch import Tensor


class Reconstruction(Task):
    """Squared error (mse) or cross-entropy of logits (bce) against values of the data."""

    cost: Literal["mse", "bce"] = Field(
        "mse", description="Cost: mse (squared error) or bce (cross-entropy of logits)."
    )

    def compare(self, seen: Tensor, target: Tensor) -> Tensor:
        """mse: mean over the values of a sample; bce: sum over them, in nats."""
        from torch.nn import functional

        target = target.to(seen.dtype).reshape(seen.shape)
        if self.cost == "mse":
            return functional.mse_loss(seen, target, reduction="none").flatten(1).mean(1)
        each = functional.binary_cross_entropy_with_logits(seen, target, reduction="none")
        return each.flatten(1).sum(1)

    def present(self, seen: Tensor) -> Tensor:
        """The values themselves; with bce, their probabilities."""
        return seen if self.cost == "mse" else seen.sigmoid()

    @property
    def logits(self) -> bool:
        return self.cost == "bce"

    @property
    def cost_label(self) -> str:
        return self.cost.upper()

    @property
    def metrics(self) -> dict[str, Metric]:
        return {"error": Metric("x 1e-5")} if self.cost == "mse" else {"nll": Metric("nats")}

    def measure(self, seen: Tensor, target: Tensor, **further: Tensor) -> dict[str, Tensor]:
        """mse: per value, x 1e-5 as in [t:ommnist]; bce: nats per frame as in [t:midires]."""
        each = self.compare(seen, target)
        return {"error": each * 1e5} if self.cost == "mse" else {"nll": each}

    def _check_same_as_input(self, reading: Reading) -> tuple[str, str] | None:
        """Without a target or a head, the node is compared with the input."""
        if reading.groups is not None and self.head is None:
            return (
                f"{self.kind} compares one value, but {reading.node} has one for each of"
                f" {reading.groups} groups",
                "`kind: grouping`; or give a `head`, whose output is averaged over the groups",
            )
        if self.head is None and self.target is None and reading.shape != reading.input:
            return (
                f"{self.kind} compares {reading.node} ({show_shape(reading.shape)}) with the input"
                f" ({show_shape(reading.input)})",
                "read `decoder.input`, or name a `target` of that shape, or give a `head`",
            )
        return None


@register
class Prediction(Reconstruction):
    """Squared error (mse) or cross-entropy of logits (bce) against the next frame."""

    kind: Literal["prediction"]
    ahead: Annotated[int, Field(ge=1)] = Field(
        1, description="Prediction horizon: the number of frames ahead."
    )

    starts_at_mean: ClassVar = True

    @property
    def horizon(self) -> int:
        return self.ahead

    @property
    def feeds_back(self) -> bool:
        return self.ahead == 1

    def check_shape(self, reading: Reading) -> tuple[str, str] | None:
        if not reading.frames:
            return (
                "`kind: prediction` needs frames, but time runs over iterations on one input",
                "`time: {frames: 5}` or `{frames: any}`; or `kind: denoising`",
            )
        if reading.steps is not None and self.ahead >= reading.steps:
            frames = f"there are only {reading.steps} frames"
            return (f"`ahead` is {self.ahead}, but {frames}", "less than the number of frames")
        return self._check_same_as_input(reading)


@register
class Denoising(Reconstruction):
    """Squared error (mse) or cross-entropy of logits (bce) against the input without its noise."""

    kind: Literal["denoising"]

    denoises: ClassVar = True
    starts_at_mean: ClassVar = True

    def check_shape(self, reading: Reading) -> tuple[str, str] | None:
        return self._check_same_as_input(reading)


@register
class Probe(Reconstruction):
    """A read-out trained on the values of a node; no gradient flows into the network."""

    kind: Literal["probe"]
    target: str = Field(description="Field of the data to read out.")

    counted_apart: ClassVar = True
    teaches: ClassVar = False
    shows_target: ClassVar = True

    def check_shape(self, reading: Reading) -> tuple[str, str] | None:
        return None
