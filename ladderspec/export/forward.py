"""`forward` of the network: what is there at first, then a plain loop over t."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ladderspec.cells.input import Noise
from ladderspec.export.constructor import sides
from ladderspec.export.readouts import Readout
from ladderspec.export.rows import quoted
from ladderspec.export.unroll import INPUT, Unrolled
from ladderspec.wiring.graph import Graph


@dataclass(frozen=True)
class Forward:
    """What it is written from; `modules` are the nodes that have one."""

    graph: Graph
    modules: Sequence[str]
    readouts: Sequence[Readout]
    unrolled: Unrolled

    @property
    def argument(self) -> str:
        return "e_input" if self.graph.graph["frames"] is None else "frames"

    @property
    def once(self) -> bool:
        """Whether there is one t, and nothing before it."""
        return self.graph.graph["iterations"] == 1 and not self.unrolled.delayed

    def lines(self) -> Iterator[str]:
        """Its body, in lines that may be too long."""
        yield f'"""{self._about()}"""'
        yield from self._noise(self.graph.nodes[INPUT]["cell"].noise)
        used = sides(self.modules)
        yield f"{', '.join(used)} = {', '.join(f'self.{side}' for side in used)}"
        if self.once:
            yield ""
            yield from self.unrolled.iteration()
            seen = [f"{quoted(each.name)}: {self._sees(each)}[:, None]" for each in self.readouts]
            yield f"return {{{', '.join(seen)}}}"
            return
        yield from self._before()
        yield self._head()
        yield from (f"    {line}" if line else "" for line in self._iteration())
        yield "return {name: torch.stack(seen, dim=1) for name, seen in outputs.items()}"

    def _about(self) -> str:
        shape = ", ".join(map(str, self.graph.nodes[INPUT]["shape"]))
        if self.argument == "frames":
            return f"Frames (B, T, {shape}) -> what each task sees, (B, T, ...)."
        steps = self.graph.graph["iterations"]
        again = "" if steps == 1 else ", the same at every t,"
        return f"An input (B, {shape}){again} -> what each task sees, (B, {steps}, ...)."

    def _noise(self, noise: Noise | None) -> Iterator[str]:
        x = self.argument
        if noise is not None and (noise.gaussian or noise.flip):
            yield "if self.training:"
            if noise.gaussian:
                yield f"    {x} = {x} + {noise.gaussian} * torch.randn_like({x})"
            if noise.flip:
                yield f"    {x} = torch.where(torch.rand_like({x}) < {noise.flip}, 1 - {x}, {x})"

    def _before(self) -> Iterator[str]:
        start = list(self.unrolled.start())
        text = "\n".join(start)
        if "spread(" in text:
            yield f"batch = {self.argument}.shape[0]"
        if "zeros(" in text:
            yield ""
            yield "def zeros(*shape: int) -> Tensor:"
            yield f"    return {self.argument}.new_zeros({self.argument}.shape[0], *shape)"
        if start:
            yield ""
            zero = "" if "spread(" in text else ", all is zero"
            yield f"# Before the first t{zero}."
            yield from start
            yield ""
        empty = ", ".join(f"{quoted(each.name)}: []" for each in self.readouts)
        yield f"outputs: dict[str, list[Tensor]] = {{{empty}}}"

    def _head(self) -> str:
        timed = bool(self.unrolled.timed)
        if self.argument == "e_input":
            return f"for {'t' if timed else '_'} in range(ITERATIONS):"
        if timed:
            return "for t, e_input in enumerate(frames.unbind(dim=1)):"
        return "for e_input in frames.unbind(dim=1):"

    def _iteration(self) -> Iterator[str]:
        yield from self.unrolled.iteration()
        for each in self.readouts:
            yield f"outputs[{quoted(each.name)}].append({self._sees(each)})"

    def _sees(self, readout: Readout) -> str:
        value = self.unrolled.seen_at(readout.node)
        value += ".detach()" if readout.stopped else ""
        return f"self.task{readout.access}({value})" if readout.module else value
