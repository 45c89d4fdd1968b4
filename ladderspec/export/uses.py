"""What the network asks of the file: for every module a class, features of it, and arguments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ladderspec.names import Role, Side
from ladderspec.wiring.graph import Graph

Pair = tuple[int, int]
NOTHING = frozenset[str]()


@dataclass(frozen=True)
class Use:
    """One module: the piece that defines its class, what it needs of it, and its arguments.

    Uses of another `kind` get a class of their own; what they `ask` for, one class can do for all.
    """

    piece: str = ""  # none: `arguments` is a module of torch itself
    arguments: tuple[str, ...] = ()
    kind: frozenset[str] = NOTHING
    asks: frozenset[str] = NOTHING
    arrows: tuple[Arrow, ...] = ()
    activation: str = ""
    side: Side = Side.ENCODER

    @property
    def key(self) -> tuple[str, frozenset[str]]:
        """What says which class it is of."""
        return self.piece, self.kind

    @property
    def by_role(self) -> bool:
        """Whether it is called with one value per arrow, by role; else with the only value."""
        return self.piece not in ("", "average", "average_pool")


@dataclass(frozen=True)
class Arrow:
    """One arrow into a cell; without a `use`, it brings its value as it is."""

    key: str
    role: Role
    delay: int
    source: str
    use: Use | None = None


@dataclass(frozen=True)
class Facts:
    """What holds for the whole file."""

    pairs: bool  # some filter or stride has two sizes: all are written with two
    kept: int  # t whose statistics batch norm keeps apart; 1: shared by all t

    def size(self, pair: Pair) -> str:
        """A filter or a stride."""
        return str(pair) if self.pairs else str(pair[0])

    def norm(self, kind: str, statistics: str | None) -> frozenset[str]:
        """The features of a norm."""
        if kind == "batch":
            own = "shared" if statistics == "shared" or self.kept == 1 else "per_t"
            return frozenset({"normed", "batch", own})
        return NOTHING if kind == "none" else frozenset({"normed", "layer"})


def facts_of(graph: Graph) -> Facts:
    steps = graph.graph["frames"] or graph.graph["iterations"]
    return Facts(any(a != b for a, b in _sizes(graph)), 1 if steps == "any" else steps)


def _sizes(graph: Graph) -> Iterator[Pair]:
    """All filters and strides."""
    for _, _, projection in graph.edges(data="projection"):
        if projection.kind in ("conv", "transposed"):
            yield from (projection.filter, projection.stride)
    for _, cell in graph.nodes(data="cell"):
        yield getattr(cell, "inner_filter", (1, 1))
