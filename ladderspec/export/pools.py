"""Pool -> a module of torch itself, where it has one that gives ceil(n / stride) windows."""

from __future__ import annotations

from dataclasses import dataclass

from ladderspec.cells.pool import Pool
from ladderspec.export.uses import Arrow, Pair, Use
from ladderspec.names import Shape


@dataclass(frozen=True)
class Windows:
    """The windows along one side of a map."""

    size: int
    filter: int
    stride: int

    @property
    def before(self) -> int:
        """What a window reaches beyond its block, on the near side."""
        return max(self.filter - self.stride, 0) // 2

    @property
    def after(self) -> int:
        """Where overlap cannot be shared evenly, `ceil_mode` alone gives one window too few."""
        overlap = self.filter - self.stride
        return int(overlap > 0 and overlap % 2 == 1 and (self.size - 1) % self.stride == 0)

    @property
    def uneven(self) -> bool:
        """Whether the last window reaches over the border."""
        return (self.size + 2 * self.before + self.after - self.filter) % self.stride != 0


def pool_use(words: Pool, below: Shape, arrows: tuple[Arrow, ...]) -> Use:
    name = "Max" if words.mode == "max" else "Avg"
    if words.filter == "global":
        return Use("", (f"nn.Sequential(nn.Adaptive{name}Pool2d(1), nn.Flatten())",), arrows=arrows)
    filter, stride = words.filter, words.window_stride
    rows, columns = (Windows(*one) for one in zip(below[1:], filter, stride, strict=True))
    before, after = (rows.before, columns.before), (rows.after, columns.after)
    if any(after) and words.mode == "average":
        return Use("average_pool", tuple(map(str, (filter, stride, before, after))), arrows=arrows)
    options = {
        f"stride={_size(stride)}": stride != filter,
        f"padding={_size(before)}": any(before),
        "ceil_mode=True": rows.uneven or columns.uneven,
        "count_include_pad=False": any(before) and words.mode == "average",
    }
    arguments = [_size(filter), *(option for option, needed in options.items() if needed)]
    pool = f"nn.{name}Pool2d({', '.join(arguments)})"
    if any(after):
        beyond = f"nn.ConstantPad2d((0, {after[1]}, 0, {after[0]}), -torch.inf)"
        pool = f"nn.Sequential({beyond}, {pool})"
    return Use("", (pool,), arrows=arrows)


def _size(pair: Pair) -> str:
    return str(pair[0] if pair[0] == pair[1] else pair)
