"""Tasks on values: prediction of the next frame, denoising, probes, and activity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from ladderspec.names import show_shape
from ladderspec.tasks.base import Metric, Reading, Task, register

if TYPE_CHECKING:
    from torch import Tensor


CLEAN = "clean"


class Reconstruction(Task):
    """A cost per value against values of the data: squared, absolute or Huber error, or bce."""

    cost: Literal["mse", "bce", "l1", "huber"] = Field(
        "mse",
        description="Cost: mse (squared error), bce (cross-entropy of logits), l1 (absolute error)"
        " or huber (squared error below `delta`, absolute error above).",
    )
    delta: Annotated[float, Field(gt=0)] = Field(
        1.0, description="Threshold of `cost: huber` between squared and absolute error."
    )

    def compare(self, seen: Tensor, target: Tensor) -> Tensor:
        """mse, l1, huber: mean over the values of a sample; bce: sum over them, in nats."""
        from torch.nn import functional

        target = target.to(seen.dtype).reshape(seen.shape)
        if self.cost == "bce":
            each = functional.binary_cross_entropy_with_logits(seen, target, reduction="none")
            return each.flatten(1).sum(1)
        if self.cost == "mse":
            each = functional.mse_loss(seen, target, reduction="none")
        elif self.cost == "l1":
            each = functional.l1_loss(seen, target, reduction="none")
        else:
            each = functional.huber_loss(seen, target, reduction="none", delta=self.delta)
        return each.flatten(1).mean(1)

    def note(self, reading: Reading, limits: str) -> str:
        if self.head is not None or not limits:
            idle = "delta" in self.model_fields_set and self.cost != "huber"
            return "`delta` changes nothing without `cost: huber`" if idle else ""
        what = "logits" if self.logits else "values"
        way_out = "change that, or give the task a `head`"
        return f"{self.cost} compares {what}, but {reading.node} is {limits}; {way_out}"

    def present(self, seen: Tensor) -> Tensor:
        """The values themselves; with bce, their probabilities."""
        return seen.sigmoid() if self.logits else seen

    @property
    def logits(self) -> bool:
        return self.cost == "bce"

    @property
    def cost_label(self) -> str:
        return self.cost.upper()

    @property
    def metrics(self) -> dict[str, Metric]:
        return {"nll": Metric("nats")} if self.logits else {"error": Metric("x 1e-5")}

    def measure(self, seen: Tensor, target: Tensor, **further: Tensor) -> dict[str, Tensor]:
        """The cost: per value, x 1e-5 as in [t:ommnist]; bce: nats per frame as in [t:midires]."""
        each = self.compare(seen, target)
        return {"nll": each} if self.logits else {"error": each * 1e5}

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
    """A cost per value against the next frame, by default the squared error."""

    kind: Literal["prediction"]
    ahead: Annotated[int, Field(ge=1)] = Field(
        1, description="Prediction horizon: the number of frames ahead."
    )

    @property
    def starts_at_mean(self) -> bool:
        return True

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
        return reading.check_ahead(self.ahead) or self._check_same_as_input(reading)


@register
class Denoising(Reconstruction):
    """A cost per value against the input without its noise, by default the squared error.

    With `target: clean`, decoders are compared with what their lateral arrows carry in a second
    pass without any noise, as in the original Ladder.
    """

    kind: Literal["denoising"]
    target: str | None = Field(
        None,
        description="Field of the data to compare with; or `clean`: each decoder is compared with"
        " its level in a pass without noise. Default: the input without its noise.",
    )
    stop: bool = Field(
        False, description="With `target: clean`: no gradient flows into the pass without noise."
    )

    @property
    def clean(self) -> bool:
        return self.target == CLEAN

    @property
    def stops(self) -> bool:
        return self.stop

    @property
    def field(self) -> str | None:
        return None if self.clean else self.target

    @property
    def denoises(self) -> bool:
        return not self.clean

    @property
    def starts_at_mean(self) -> bool:
        return not self.clean

    @property
    def metrics(self) -> dict[str, Metric]:
        return {} if self.clean else super().metrics

    def check_shape(self, reading: Reading) -> tuple[str, str] | None:
        if not self.clean:
            if self.stop:
                hint = "add `target: clean`, or leave out `stop`"
                return "`stop` is for a target that the network computes", hint
            return self._check_same_as_input(reading)
        if reading.level is None:
            return (
                f"`target: clean` compares decoders with their level, but {reading.node} is none",
                "read `decoder.*`, or some of these nodes",
            )
        if reading.groups is not None:
            return (
                "`target: clean` has no meaning with groups: a group of the clean pass need not"
                " explain what the same group of the noisy pass does",
                "`kind: grouping` compares all groups with the clean input; or leave out `groups`",
            )
        if self.head is not None:
            return "`head` has no meaning with `target: clean`", "leave out `head`"
        if self.cost == "bce":
            return "`cost: bce` compares with bits, not with the values of a level", "`cost: mse`"
        if reading.shape != reading.level:
            return (
                f"`target: clean` compares {reading.node} ({show_shape(reading.shape)}) with its"
                f" level ({show_shape(reading.level)})",
                "leave out `channels` of that decoder, or do not read it",
            )
        return None


@register
class Probe(Reconstruction):
    """A read-out trained on the values of a node; no gradient flows into the network."""

    kind: Literal["probe"]
    target: str = Field(description="Field of the data to read out.")

    counted_apart: ClassVar = True
    teaches: ClassVar = False

    def check_shape(self, reading: Reading) -> tuple[str, str] | None:
        return None


@register
class Activity(Task):
    """L1 penalty on the activity of a node: the mean of absolute values. It has no target."""

    kind: Literal["activity"]

    compares: ClassVar = False

    def check_shape(self, reading: Reading) -> tuple[str, str] | None:
        for name in ("target", "head"):
            if getattr(self, name) is not None:
                return f"`{name}` has no meaning in an activity penalty", f"leave out `{name}`"
        return None

    def combine(self, seen: Tensor) -> Tensor:
        """The activity of all groups counts."""
        return seen

    def compare(self, seen: Tensor, target: Tensor) -> Tensor:
        return seen.abs().flatten(1).mean(1)

    @property
    def metrics(self) -> dict[str, Metric]:
        return {"activity": Metric()}

    def measure(self, seen: Tensor, target: Tensor, **further: Tensor) -> dict[str, Tensor]:
        return {"activity": self.compare(seen, target)}

    @property
    def cost_label(self) -> str:
        return "L1"

    def pictures(self, name: str, seen: Tensor) -> dict[str, Tensor]:
        return {}
