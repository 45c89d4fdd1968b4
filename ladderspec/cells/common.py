"""Base classes of cells: places with their sizes, and a normalised pre-activation.

A cell of a family is a place and a computation: ConvLSTM is an LSTM on the maps of an encoder. The
fields of a place come first, then those of the norm.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from ladderspec.cells.base import Cell, DecoderCell, EncoderCell, Site
from ladderspec.cells.fields import Count, NormChoice, NormField, Pair, PairField, Statistics
from ladderspec.cells.parameters import Parameters, ones
from ladderspec.cells.projections import (
    Inlet,
    Projection,
    group_count,
    need_map,
    pre_activation,
    strided,
)
from ladderspec.names import Shape

FILTER = Field((3, 3), description="Filter size, one number or [height, width].")
STATISTICS = Field(None, description="Statistics that batch norm keeps for evaluation.")
NORM_TEXT = "Norm: {} (default) or another norm; joint or separate."

# --- places ---------------------------------------------------------------------------------------


class Filtered(Cell):
    """A cell with a filter."""

    filter: PairField = FILTER


class EncoderUnits(EncoderCell):
    """An encoder that makes vectors; incoming maps are flattened."""

    channels: Count = Field(description="Number of units.")

    def out_shape(self, site: Site) -> Shape:
        return (self.channels,)


class EncoderMaps(EncoderCell):
    """An encoder that makes maps from maps."""

    channels: Count = Field(description="Output channels.")
    filter: PairField = FILTER
    stride: PairField = Field(
        (1, 1), description="Stride: output size = input size / stride, rounded up."
    )

    on_vectors: ClassVar[str]  # the cell to use instead if vectors arrive

    @property
    def row_stride(self) -> Pair:
        return self.stride

    def out_shape(self, site: Site) -> Shape:
        below = site.main().shape
        need_map(below, self.cell, self.on_vectors)
        return (self.channels, *strided(below, self.stride))


class Estimate(DecoderCell):
    """A decoder that makes the estimate of its level, or other channels of that size."""

    channels: Count | None = Field(
        None, description="Output channels. Default: those of the level it estimates."
    )

    def out_shape(self, site: Site) -> Shape:
        return (self.channels or site.estimate[0], *site.estimate[1:])


class EstimateMaps(Estimate):
    """A decoder that estimates maps: what comes from above is resampled to their size."""

    filter: PairField = FILTER

    on_vectors: ClassVar[str]

    def out_shape(self, site: Site) -> Shape:
        need_map(site.estimate, self.cell, self.on_vectors)
        return super().out_shape(site)


# --- norms ----------------------------------------------------------------------------------------


class Normed(Cell):
    """A cell whose pre-activation is a sum of terms, one for each edge, with a norm.

    Each term is normalised by itself; or their sum, under `norm: joint`, with the gain on the node.
    """

    norm: NormField = Field(NormChoice(), description=NORM_TEXT.format("batch"))
    statistics: Statistics | None = STATISTICS

    default_norm: ClassVar[str] = "batch"
    norm_parts: ClassVar[int] = 1  # blocks of the pre-activation that are normalised separately

    def term(
        self, inlet: Inlet, target: Shape, filter: Pair = (1, 1), **options: Any
    ) -> Projection:
        """The term of one edge; `options` are those of `pre_activation`."""
        norm = self.norm, self.default_norm
        return pre_activation(inlet, target, filter, *norm, groups=self.norm_parts, **options)

    def node_norm(self) -> tuple[str, str, int]:
        kind = self.norm.kind or self.default_norm
        if self.norm.terms != "joint" or kind == "none":
            return super().node_norm()
        return "joint", kind, group_count(kind, self.norm, self.norm_parts)

    def gain(self, channels: int) -> Parameters:
        """The gain that `norm: joint` moves to the node."""
        return {"gain": ones(channels)} if self.node_norm()[1] != "none" else {}
