"""Gates in few passes over memory, with gradients of their own.

Channels-last maps hold all gates of a place side by side. What reads one gate alone strides over
the others, and sigmoid and tanh are then four times slower than on whole maps. So here all gates
go through one sigmoid, and their gradients are written into one map without copies.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad
from torch.overrides import handle_torch_function, has_torch_function_unary

FEW = 1 << 14  # numbers for which the calls take longer than the passes over memory


def transformed() -> bool:
    """Whether a compiler or torch.func rewrites what is computed, or tangents go along."""
    return (
        torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
        or torch._C._functorch.peek_interpreter_stack() is not None
        or forward_ad._current_level >= 0
    )


def asks_for_more(dy: Tensor) -> bool:
    """Whether derivatives of gradients are wanted too, or many gradients at once."""
    batched = torch._C._dispatch_key_parse("Batched")
    return torch.is_grad_enabled() or torch._C._dispatch_keys(dy).has(batched) or transformed()


def fusible(gates: Tensor, other: Tensor | None = None) -> bool:
    """Not where a compiler fuses by itself, nor under autocast, which mixes precisions."""
    if transformed() or gates.numel() < FEW:
        return False
    return other is None or other.dtype == gates.dtype


class LSTMUpdate(Function):
    """`lstm_update` in the place of `a`, by tanh(x) = 1 - 2 sigmoid(-2 x): three times faster.

    What stands for a tanh below is the sigmoid in it: g for that of the gate, s for that of c. The
    gates come out too, for those who ask for derivatives of gradients.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, c: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        ctx.mark_dirty(a)  # autograd refuses to use it again
        a.chunk(4, 1)[3].mul_(-2)
        i, f, o, g = a.sigmoid_().chunk(4, 1)
        new = torch.addcmul(i, i, g, value=-2)
        new = new if c is None else new.addcmul_(f, c)
        s = torch.mul(new, -2).sigmoid_()
        ctx.save_for_backward(a, c, new, s)
        ctx.set_materialize_grads(False)  # None would become zeros, and those in another layout
        return torch.addcmul(o, o, s, value=-2), new, a

    @staticmethod
    def backward(
        ctx: Any, dh: Tensor | None, dc: Tensor | None, dgates: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        gates, c, new, s = ctx.saved_tensors
        dh = torch.zeros_like(s) if dh is None else dh
        if dgates is not None or asks_for_more(dh) or (dc is not None and asks_for_more(dc)):
            return _lstm_gradients(gates, c, new, dh, dc, dgates)
        i, f, o, g = gates.chunk(4, 1)
        da = torch.empty_like(gates)
        da_i, da_f, da_o, da_g = da.chunk(4, 1)
        torch.addcmul(dh, dh, s, value=-2, out=da_o)
        d = torch.ops.aten.sigmoid_backward(dh * o, s)
        d = d.mul_(4) if dc is None else torch.add(dc, d, alpha=4, out=d)
        torch.addcmul(d, d, g, value=-2, out=da_i)
        torch.addcmul(d.new_zeros(()), d, i, value=4, out=da_g)
        if c is None:
            da_f.zero_()
        else:
            torch.mul(d, c, out=da_f)
        torch.ops.aten.sigmoid_backward(da, gates, grad_input=da)
        return da, None if c is None else d.mul_(f)


def _lstm_gradients(
    gates: Tensor,
    c: Tensor | None,
    new: Tensor,
    dh: Tensor,
    dc: Tensor | None,
    dgates: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    """The same gradients, with derivatives of their own."""
    i, f, o, g = gates.chunk(4, 1)
    s = torch.sigmoid(-2 * new)
    d = 4 * dh * o * s * (1 - s)
    d = d if dc is None else d + dc
    parts = (
        d * (1 - 2 * g),
        torch.zeros_like(d) if c is None else d * c,
        dh * (1 - 2 * s),
        -2 * d * i,
    )
    direct = torch.cat(parts, 1)
    da = (direct if dgates is None else direct + dgates) * gates * (1 - gates)
    da_i, da_f, da_o, da_g = da.chunk(4, 1)
    return torch.cat([da_i, da_f, da_o, -2 * da_g], 1), None if c is None else d * f


class GatedMaps(Function):
    """sigmoid(s) . a + (1 - sigmoid(s)) . b of maps that hold s, a and b side by side."""

    @staticmethod
    def forward(ctx: Any, maps: Tensor) -> Tensor:
        s, a, b = maps.chunk(3, 1)
        s = torch.empty_like(s).copy_(s).sigmoid_()
        ctx.save_for_backward(maps, s)
        return torch.lerp(b, a, s)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        maps, s = ctx.saved_tensors
        first, a, b = maps.chunk(3, 1)
        if asks_for_more(dy):
            s = torch.sigmoid(first)
            return torch.cat([dy * (a - b) * s * (1 - s), dy * s, dy * (1 - s)], 1)
        d = torch.empty_like(maps)
        d_s, d_a, d_b = d.chunk(3, 1)
        torch.mul(dy, s, out=d_a)
        torch.sub(dy, d_a, out=d_b)
        difference = torch.sub(a, b, out=torch.empty_like(s)).mul_(dy)
        torch.ops.aten.sigmoid_backward(difference, s, grad_input=d_s)
        return d


# As functions of torch, which whoever records its calls takes for one call each: what is inside
# has gradients of its own. Without gradients the inside is as good, and faster.


def fused_lstm_update(a: Tensor, c: Tensor | None) -> tuple[Tensor, Tensor]:
    if torch.is_grad_enabled() and has_torch_function_unary(a):
        found: tuple[Tensor, Tensor] = handle_torch_function(fused_lstm_update, (a,), a, c)
        return found
    h, new, _ = LSTMUpdate.apply(a, c)  # type: ignore[no-untyped-call]
    return h, new


def gated_maps(maps: Tensor) -> Tensor:
    if torch.is_grad_enabled() and has_torch_function_unary(maps):
        found: Tensor = handle_torch_function(gated_maps, (maps,), maps)
        return found
    y: Tensor = GatedMaps.apply(maps)  # type: ignore[no-untyped-call]
    return y
