"""Pool -> a module of torch itself, where it has one that gives ceil(n / stride) windows."""

from __future__ import annotations

from ladderspec.cells.pool import Pool
from ladderspec.export.uses import Arrow, Pair, Use
from ladderspec.names import Shape


def pool_use(words: Pool, below: Shape, arrows: tuple[Arrow, ...]) -> Use:
    name = "Max" if words.mode == "max" else "Avg"
    if words.filter == "global":
        return _torch(f"nn.Sequential(nn.Adaptive{name}Pool2d(1), nn.Flatten())", arrows)
    filter, stride = words.filter, words.window_stride
    windows = list(zip(below[1:], filter, stride, strict=True))
    before = _pair(max(k - s, 0) // 2 for _, k, s in windows)
    # Where overlap cannot be shared evenly, ceil_mode alone gives one window too few.
    after = _pair(int(k > s and (k - s) % 2 == 1 and (n - 1) % s == 0) for n, k, s in windows)
    uneven = any(
        (n + 2 * p + q - k) % s for (n, k, s), p, q in zip(windows, before, after, strict=True)
    )
    if any(after) and words.mode == "average":
        return Use("average_pool", tuple(map(str, (filter, stride, before, after))), arrows=arrows)
    arguments = [_size(filter)]
    arguments += [f"stride={_size(stride)}"] * (stride != filter)
    arguments += [f"padding={_size(before)}"] * any(before)
    arguments += ["ceil_mode=True"] * uneven
    arguments += ["count_include_pad=False"] * (any(before) and words.mode == "average")
    pool = f"nn.{name}Pool2d({', '.join(arguments)})"
    if any(after):
        beyond = f"nn.ConstantPad2d((0, {after[1]}, 0, {after[0]}), -torch.inf)"
        pool = f"nn.Sequential({beyond}, {pool})"
    return _torch(pool, arrows)


def _torch(module: str, arrows: tuple[Arrow, ...]) -> Use:
    return Use("", (module,), arrows=arrows)


def _pair(numbers: object) -> Pair:
    assert isinstance(numbers, tuple)
    return numbers[0], numbers[1]


def _size(pair: Pair) -> str:
    return str(pair[0] if pair[0] == pair[1] else pair)
