"""The task of networks with groups: their mixture explains the input, or the next frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from ladderspec.cells.grouping import CLIP
from ladderspec.names import Shape, show_shape
from ladderspec.tasks.base import Metric, Panel, Reading, Task, register

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from ladderspec.tasks.base import Measured

LEAST_PI = 1e-5  # added to pi, so that every group explains a little, as in Tagger's code


@register
class Grouping(Task):
    """-log sum_k pi_k p(x | mu_k), a mean over places; p is the likelihood of `groups`."""

    kind: Literal["grouping"]
    at: str = Field(
        "decoder.input", description="Node to read: the Readout that computes mu and pi."
    )
    ahead: Annotated[int, Field(ge=0)] = Field(
        0, description="Prediction horizon. 0: explain the clean input; 1: predict the next frame."
    )
    truth: str | None = Field(
        None,
        description="Field of the data with the true groups, -1 where they are unknown: measured"
        " by the adjusted mutual information (AMI). Without it, the residual is measured: the mean"
        " squared difference of the target and the sum of pi mu.",
    )

    explains: ClassVar[bool] = True

    def check_shape(self, reading: Reading) -> tuple[str, str] | None:
        if reading.cell != "Readout":
            return (
                f"grouping reads mu and pi, but {reading.node} is made by {reading.cell}",
                "read `decoder.input`, made by `decoder: Readout` on the first row",
            )
        if self.ahead and not reading.frames:
            return (
                "`ahead` needs frames, but time runs over iterations on one input",
                "leave it out, or say `time: {frames: 20}`",
            )
        if problem := reading.check_ahead(self.ahead):
            return problem
        if self.head is not None:
            return "grouping takes no `head`", "leave it out"
        if self.target is None and not _fits(reading.shape, reading.input):
            return (
                f"grouping compares {show_shape(reading.shape)} with {show_shape(reading.input)}",
                "",
            )
        return None

    def target_shape(self, seen: Shape) -> Shape:
        """Of what is seen, (K, C + 1, H, W) or (K, 2 N), the shape of mu."""
        _, channels, *size = seen
        return (channels - 1, *size) if size else (channels // 2,)

    def combine(self, seen: Tensor) -> Tensor:
        return seen

    def compare(
        self,
        seen: Tensor,
        target: Tensor,
        *,
        likelihood: str = "gaussian",
        variance: Tensor | float = 1.0,
    ) -> Tensor:
        """The negative log-likelihood, without its constant: a mean over places."""
        mu, pi = self.split(seen)
        x = target.to(seen.dtype)[:, None]
        cost = bernoulli_cost if likelihood == "bernoulli" else gaussian_cost
        return cost(x, mu, pi, variance).flatten(1).mean(1)

    def split(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """mu, (n, K, C, H, W) or (n, K, N), and pi, (n, K, 1, H, W) or (n, K, N)."""
        channels = self.target_shape(tuple(seen.shape[1:]))[0]
        return seen[:, :, :channels], seen[:, :, channels:]

    def present(self, seen: Tensor) -> Tensor:
        """The mean of the mixture, sum_k pi_k mu_k."""
        mu, pi = self.split(seen)
        return (mu * pi).sum(1)

    def pictures(self, name: str, seen: Tensor) -> dict[str, Tensor | Panel]:
        """pi in the colours of groups, the mean, and mu of each group [f:brodatz_vis_result]."""
        mu, pi = self.split(seen)
        each = enumerate(mu.unbind(1))
        return {
            f"{name}: groups": Panel(_shares(pi), shares=True),
            name: self.present(seen),
            **{f"{name}: mu {k + 1}": Panel(frames, group=k) for k, frames in each},
        }

    def generated_pictures(self, name: str, seen: Tensor) -> dict[str, Tensor | Panel]:
        """pi in colours, and what each group predicts, pi_k mu_k [f:moving_mnist_generation]."""
        mu, pi = self.split(seen)
        predicted = mu * pi
        each = enumerate(predicted.unbind(1))
        return {
            f"{name}: colours": Panel(_shares(predicted), shares=True),
            f"{name}: groups": Panel(_shares(pi), shares=True),
            **{f"{name}: pi mu {k + 1}": Panel(frames, group=k) for k, frames in each},
        }

    @property
    def metrics(self) -> dict[str, Metric]:
        if self.truth is None:
            return {"residual": Metric(last=True)}
        return {"ami": Metric(better="higher", last=True)}

    @property
    def further_fields(self) -> dict[str, str]:
        return {} if self.truth is None else {"truth": self.truth}

    def check_further(self, given: Shape, seen: Shape) -> str:
        """The true groups: one number for each place."""
        places = tuple(seen[2:]) or (seen[1] // 2,)
        if [n for n in given if n != 1] == [n for n in places if n != 1]:
            return ""
        shown = show_shape(given) if given else "one number"
        return f"true groups are one number for each place, {show_shape(places)}, but it is {shown}"

    def check_values(self, values: NDArray[Any]) -> str:
        """True groups are whole numbers: NaN would count as a group of its own."""
        if (wrong := values[values % 1 != 0]).size:
            return f"has {wrong[0]:g}, but groups are whole numbers, and -1 where they are unknown"
        return ""

    def measure(self, seen: Tensor, target: Tensor, **further: Tensor) -> Measured:
        """Adjusted mutual information of the largest pi and the true groups, where known.

        Without true groups: the mean squared difference of the target and sum_k pi_k mu_k.
        """
        from ladderspec.grouping_scores import grouping_scores

        if "truth" not in further:
            return {"residual": (self.present(seen) - target).square().flatten(1).mean(1)}
        found = self.split(seen)[1].argmax(1).flatten(1).cpu().numpy()
        truth = further["truth"].flatten(1).cpu().numpy()
        scores = seen.new_tensor(grouping_scores(truth, found))
        return {"ami": (scores.nan_to_num(), (~scores.isnan()).to(seen.dtype))}

    @property
    def horizon(self) -> int:
        return self.ahead

    @property
    def feeds_back(self) -> bool:
        return self.ahead == 1

    @property
    def cost_label(self) -> str:
        return "NLL"


def _shares(values: Tensor) -> Tensor:
    """Values of groups as shares of each pixel: (n, K, C, H, W) -> (n, K, H, W)."""
    return values.mean(2) if values.dim() == 5 else values


def _fits(made: Shape, x: Shape) -> bool:
    return made == ((x[0] + 1, *x[1:]) if len(x) == 3 else (2 * x[0],))


def gaussian_cost(x: Tensor, mu: Tensor, pi: Tensor, variance: Tensor | float) -> Tensor:
    """-log sum_k (pi_k + 1e-5) N(x; mu_k, v) at each place, without the constant of 2 pi.

    Args:
        x: The target, (n, 1, C, ...).
        mu: The mean of each group, (n, K, C, ...).
        pi: The probability of each group, (n, K, 1, ...) for maps, (n, K, N) for vectors.
        variance: The variance v.
    """
    import torch

    v = variance if isinstance(variance, torch.Tensor) else mu.new_full((), variance)
    v = v.to(mu.dtype)
    log_likelihood = -0.5 * ((x - mu) ** 2 / v + v.log())
    if pi.shape[2] < mu.shape[2]:  # the channels of a pixel belong together
        log_likelihood = log_likelihood.sum(2, keepdim=True)
    return -torch.logsumexp((pi + LEAST_PI).log() + log_likelihood, dim=1)


def bernoulli_cost(x: Tensor, mu: Tensor, pi: Tensor, variance: Tensor | float = 0.0) -> Tensor:
    """Cross-entropy of x under the mixed probability sum_k pi_k mu_k, at each place."""
    mixed, ones = (pi * mu).sum(1), x[:, 0]
    one, zero = mixed * (1 - 2 * CLIP) + CLIP, (1 - mixed) * (1 - 2 * CLIP) + CLIP
    # In half precision the probabilities of all groups may add up to more than 1.
    return -(ones * one.log() + (1 - ones) * zero.clamp(min=CLIP / 2).log())
