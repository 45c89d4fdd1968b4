"""Perceptual grouping: K copies of the ladder explain one input together [s:rtagger].

`Groups` stands above the input and gives each group what it needs to improve its explanation;
`Readout` makes that explanation: the group's reconstruction mu and the probability pi that it is
responsible for a place. The groups are folded into the batch, sample by sample: index b K + k.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from ladderspec.cells.base import Cell, DecoderCell, Site, register
from ladderspec.cells.common import STATISTICS, Filtered
from ladderspec.cells.fields import Config, NormName, Statistics, by_form
from ladderspec.cells.functions import per_channel
from ladderspec.cells.parameters import Parameter, Parameters, blocks, normal, ones, zeros
from ladderspec.cells.projections import Inlet, Projection, ShapeProblem, between
from ladderspec.names import Role, Shape, Side, show_shape, size_of

if TYPE_CHECKING:
    from torch import Tensor

CLIP = 1e-4  # probabilities stay this far from 0 and 1, as in Tagger's code

Likelihood = Literal["gaussian", "bernoulli"]
Positive = Annotated[float, Field(gt=0)]
Spread = Annotated[float, Field(ge=0)]


class Learned(Config):
    """A variance that is learned."""

    learned: Positive = Field(description="Initial value of the learned variance.")


class Start(Config):
    """Random initial pi: softmax over groups of pixel * N(0, 1) + group * N(0, 1)."""

    # CHOICE: Tagger's code has {pixel: 1, group: 0}, with which no small network separated groups.
    pixel: Spread = Field(1.0, description="Standard deviation of the noise of each pixel.")
    group: Spread = Field(
        1.0, description="Standard deviation of the noise that a whole group shares."
    )


if TYPE_CHECKING:
    Variance = float | Learned
else:
    Variance = by_form(word=Positive, mapping=Learned)


class Groups(Cell):
    """Input of each group k: mu_k, pi_k (x - mu_k), pi_k and L(pi_k), from the previous iteration.

    L(pi_k) is the likelihood of x under group k, normalised over the groups. With a Bernoulli
    likelihood the second map is d log p(x) / d mu_k.
    """

    # CHOICE: mu_k is a probability also for binary data, where Tagger's code feeds back its logit
    # from the second iteration on. The variance of x under a group is n^2 + v with v = exp(.); the
    # code has n^2 + v^2 in L(pi), v = raw + sqrt(raw^2 + 1).

    cell: Literal["Groups"] = Field("Groups", exclude=True)
    count: Annotated[int, Field(ge=1, le=1000)] = Field(
        description="Number of groups K: copies of the network that share their weights."
    )
    likelihood: Likelihood = Field(
        "gaussian", description="Distribution of a pixel around mu: gaussian or bernoulli."
    )
    variance: Variance = Field(
        0.01,
        description="Variance of the Gaussian likelihood: fixed, or {learned: 0.01}. Choose about"
        " half the variance of what one group alone leaves unexplained.",
    )
    start: Start = Field(Start(), description="Random initial pi: noise per pixel and per group.")

    sides: ClassVar = frozenset({Side.ENCODER})
    takes: ClassVar = frozenset({Role.ENCODER, Role.UPWARD_DIAGONAL})

    @property
    def row_stride(self) -> tuple[int, int]:
        return (1, 1)

    @property
    def initial_variance(self) -> float:
        """The variance before training."""
        return self.variance.learned if isinstance(self.variance, Learned) else self.variance

    @property
    def text(self) -> str:
        """Count, likelihood and variance as text.

        >>> Groups(count=3, variance={"learned": 0.01}).text
        '3, gaussian, variance learned from 0.01'
        """
        found = f"{self.count}, {self.likelihood}"
        if self.likelihood == "gaussian":
            learned = "learned from " if isinstance(self.variance, Learned) else ""
            found += f", variance {learned}{self.initial_variance:g}"
        return found

    def needs(self, side: Side) -> frozenset[Role]:
        return self.takes

    def out_shape(self, site: Site) -> Shape:
        self._check(site)
        made = shape_of_both(site.main().shape)
        return (2 * made[0], *made[1:])

    def _check(self, site: Site) -> None:
        """Refuse fields that contradict each other."""
        bernoulli = self.likelihood == "bernoulli"
        if site.noise is not None and bernoulli and site.noise.gaussian:
            raise ShapeProblem(
                "a Bernoulli likelihood explains bits, but `input.noise` is Gaussian",
                "use `noise: {flip: 0.2}`, or `likelihood: gaussian`",
            )
        if site.noise is not None and not bernoulli and site.noise.flip:
            raise ShapeProblem(
                "a Gaussian likelihood explains numbers, but `input.noise` flips bits",
                "use `noise: {gaussian: 0.2}`, or `likelihood: bernoulli`",
            )
        if bernoulli and self.variance != type(self).model_fields["variance"].default:
            raise ShapeProblem("a Bernoulli likelihood has no `variance`", "leave it out")
        if self.count > 1 and not (self.start.pixel or self.start.group):
            raise ShapeProblem(
                "all groups start alike, so they stay alike: `pixel` and `group` of `start` are 0",
                "the default is {pixel: 1, group: 1}",
            )

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        made = shape_of_both(site.main().shape)
        if inlet.role is Role.UPWARD_DIAGONAL and inlet.shape != made:
            raise ShapeProblem(
                f"groups compare the input with mu and pi, {show_shape(made)}, but the decoder"
                f" makes {show_shape(inlet.shape)}",
                "the decoder of the first row is `Readout`",
            )
        return super().project(site, inlet, out)

    def parameters(self, site: Site, out: Shape) -> Parameters:
        if self.likelihood == "bernoulli" or not isinstance(self.variance, Learned):
            return {}
        from math import log

        return {"log_variance": Parameter((1,), (log(self.initial_variance),))}

    def constants(self, site: Site, out: Shape) -> dict[str, Any]:
        gaussian = self.likelihood == "gaussian"
        level = 0.0
        if site.noise is not None:
            level = (site.noise.gaussian if gaussian else site.noise.flip) or 0.0
        return {"variance": self.initial_variance, "noise": level}

    @staticmethod
    def compute(
        encoder: Tensor,
        upward_diagonal: Tensor,
        *,
        log_variance: Tensor | None = None,
        variance: float,
        noise: float,
        count: int,
        likelihood: str,
    ) -> Tensor:
        import torch

        x, channels = encoder, encoder.shape[1]
        mu, pi = upward_diagonal[:, :channels], upward_diagonal[:, channels:]
        if likelihood == "bernoulli":
            delta, fit = bernoulli_maps(x, mu, pi, noise, count)
        else:
            v = variance if log_variance is None else log_variance.exp()
            delta, fit = gaussian_maps(x, mu, pi, noise**2 + v, count)
        return torch.cat([mu, delta, pi, fit], dim=1)


# --- the maps of a group --------------------------------------------------------------------------


def places(shape: Shape) -> int:
    """How many values pi has beside the channels of mu: one map, or one per number of a vector.

    >>> places((3, 24, 24)), places((784,))
    (1, 784)
    """
    return 1 if len(shape) == 3 else shape[0]


def shape_of_both(shape: Shape) -> Shape:
    """The shape of mu and pi together, for an input of this shape."""
    return (shape[0] + places(shape), *shape[1:])


def sum_over_groups(value: Tensor, count: int) -> Tensor:
    """The sum over the groups of each sample, for all of its groups."""
    total = value.view(-1, count, *value.shape[1:]).sum(1, keepdim=True)
    return total.expand(-1, count, *value.shape[1:]).reshape(value.shape)


def over_groups(logits: Tensor, count: int) -> Tensor:
    """Softmax over the groups of each sample, at every place."""
    apart = logits.view(-1, count, *logits.shape[1:])
    return apart.softmax(1).view(logits.shape)


def gaussian_maps(
    x: Tensor, mu: Tensor, pi: Tensor, variance: Tensor | float, count: int
) -> tuple[Tensor, Tensor]:
    """pi (x - mu), and L(pi): the likelihood of x under each group, normalised over groups."""
    difference = x - mu
    log_likelihood = difference**2 / (-2 * variance)
    if pi.shape[1] < x.shape[1]:  # the channels of a pixel belong together
        log_likelihood = log_likelihood.sum(1, keepdim=True)
    return pi * difference, over_groups(log_likelihood, count)


def bernoulli_maps(
    x: Tensor, mu: Tensor, pi: Tensor, flip: float, count: int
) -> tuple[Tensor, Tensor]:
    """d log p(x) / d mu, and L(pi), if bits are flipped with probability `flip`.

    CHOICE: for grey x too, as the derivative of x log p + (1 - x) log(1 - p).
    """
    seen = mu * (1 - 2 * flip) + flip  # the rate of ones in x, given the group
    mixed = sum_over_groups(pi * seen, count).clamp(CLIP, 1 - CLIP)
    variance = (mixed * (1 - mixed)).clamp(min=CLIP / 2)  # 1 - CLIP is 1 in half precision
    delta = (1 - 2 * flip) * pi * (x - mixed) / variance
    one, zero = seen * (1 - 2 * CLIP) + CLIP, (1 - seen) * (1 - 2 * CLIP) + CLIP
    log_likelihood = x * one.log() + (1 - x) * zero.log()
    if pi.shape[1] < x.shape[1]:  # the channels of a pixel belong together
        log_likelihood = log_likelihood.sum(1, keepdim=True)
    return delta, over_groups(log_likelihood, count)


def _groups(site: Site) -> Groups:
    """Those of the network, which a Readout needs."""
    if site.groups is None:
        raise ShapeProblem(
            "Readout makes mu and pi of groups, but this network has no groups",
            "add `groups: {count: 3}`, or use convG1 or convG3",
        )
    return site.groups


@register
class Readout(DecoderCell, Filtered):
    """Output of each group: mu = c . BN(W * d) + b and pi = softmax over groups of c_pi BN(.).

    mu is in the units of the data: times their standard deviation, plus their mean. With a
    Bernoulli likelihood it is a probability, sigmoid(c . BN(W * d) + b + logit(mean)).
    """

    cell: Literal["Readout"] = "Readout"
    norm: NormName = Field("batch", description="Norm of the pre-activation of mu and pi.")
    statistics: Statistics | None = STATISTICS

    takes: ClassVar = frozenset({Role.DECODER, Role.DOWNWARD_DIAGONAL, Role.RECURRENT_DECODER})

    def needs(self, side: Side) -> frozenset[Role]:
        return frozenset({Role.DECODER})

    def node_norm(self) -> tuple[str, str, int]:
        return "norm", self.norm, 1

    def out_shape(self, site: Site) -> Shape:
        _groups(site)
        return shape_of_both(site.estimate)

    def project(self, site: Site, inlet: Inlet, out: Shape) -> Projection:
        return between(inlet.shape, out, inlet.filter or self.filter, None, inlet.stride)

    def parameters(self, site: Site, out: Shape) -> Parameters:
        groups, channels = _groups(site), site.estimate[0]
        mean = 0.5 if groups.likelihood == "bernoulli" else 0.0
        numbers = (groups.count, 1 + size_of((places(site.estimate), *out[1:])))
        return {
            "c": ones(channels),
            "b": zeros(channels),
            "c_pi": ones(1),
            "mean": blocks(channels, values=(mean,)).as_buffer(),
            "std": ones(channels).as_buffer(),
            "noise": normal(*numbers).as_buffer(),
        }

    def constants(self, site: Site, out: Shape) -> dict[str, Any]:
        groups = _groups(site)
        start = groups.start
        found = {"count": groups.count, "likelihood": groups.likelihood}
        return {**found, "pixel": start.pixel, "group": start.group}

    @staticmethod
    def compute(
        a: Tensor,
        *,
        c: Tensor,
        b: Tensor,
        c_pi: Tensor,
        mean: Tensor,
        std: Tensor,
        count: int,
        likelihood: str,
    ) -> Tensor:
        import torch

        mu, logits = a[:, : len(c)], a[:, len(c) :]
        mu = mu * per_channel(c, mu) + per_channel(b, mu)
        if likelihood == "bernoulli":
            mu = torch.sigmoid(mu + per_channel(mean.logit(CLIP), mu))
        else:
            mu = mu * per_channel(std, mu) + per_channel(mean, mu)
        return torch.cat([mu, over_groups(c_pi * logits, count)], dim=1)

    @staticmethod
    def first_value(
        noise: Tensor, *, mean: Tensor, count: int, pixel: float, group: float, out: Shape
    ) -> Tensor:
        import torch

        logits = group * noise[:, :1] + pixel * noise[:, 1:]
        pi = over_groups(logits.view(noise.shape[0], -1, *out[1:]), count)
        mu = per_channel(mean, pi).expand(noise.shape[0], -1, *out[1:])
        return torch.cat([mu, pi], dim=1)
