"""What phases take: parameters, floating-point operations, and memory for the backward pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ladderspec.schedule.equations import Equation, Reader
from ladderspec.schedule.phases import Phase
from ladderspec.schedule.plan import Plan, need_masks, reads_of, times

BYTES = 4  # of a number in float32


@dataclass(frozen=True)
class Work:
    """For one sample, at each t.

    A FLOP is half a multiply-add of a linear map; norms, activations, gates and pools are left out.
    Bytes are those of the outputs and states of all nodes in float32, as the backward pass needs
    them; values inside cells are left out.
    """

    parameters: int
    flop_each: int
    bytes_each: int


def work_of(plan: Plan, phases: Iterable[Phase], readers: Iterable[Reader] = ()) -> Work:
    """The work of phases, and of the tasks' own read-outs."""
    equations = [plan.equations[node] for phase in phases for node in phase.nodes]
    both: list[Equation | Reader] = [*equations, *readers]
    return Work(
        parameters=sum(each.parameters for each in both),
        flop_each=sum(2 * each.multiplications for each in both),
        bytes_each=sum(BYTES * each.numbers for each in equations),
    )


def flop_of_costs(plan: Plan, length: int) -> int:
    """The operations that the costs need, forward: only the (node, t) that they read."""
    total = sum(2 * each.multiplications * times(each, length).bit_count() for each in plan.tasks)
    passes = [plan.tasks]
    if any(each.clean for each in plan.tasks):  # a second one, without noise
        passes.append(tuple(replace(each, at=each.clean or each.at) for each in plan.tasks))
    for readers in passes:
        for node, mask in need_masks(plan, length, reads_of(readers, length)).items():
            total += 2 * plan.equations[node].multiplications * mask.bit_count()
    return total


def show_flop(flop: int) -> str:
    """
    >>> show_flop(0), show_flop(999_960), show_flop(1_094_661_696)
    ('0 FLOP', '1.00 MFLOP', '1.09 GFLOP')
    """
    return _scaled(flop, 1000, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"))


def show_bytes(count: int) -> str:
    """
    >>> show_bytes(64), show_bytes(4096)
    ('64 B', '4.00 KiB')
    """
    return _scaled(count, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))


def _scaled(number: int, base: int, units: tuple[str, ...]) -> str:
    """Three digits; whole numbers below `base`."""
    if number < base:
        return f"{number} {units[0]}"
    scaled, unit = float(number), 0
    while scaled >= base * 0.9995 and unit < len(units) - 1:
        scaled, unit = scaled / base, unit + 1
    digits = 2 if scaled < 9.995 else 1 if scaled < 99.95 else 0
    return f"{scaled:.{digits}f} {units[unit]}"
