"""Recurrent Ladder networks written out by hand in plain PyTorch.

Five networks, each a loop over time around explicit cells:

* ``RLadder``: recurrent Ladder for Occluded Moving MNIST (2,861,140 parameters);
* ``TemporalBaseline``: convolutions below one LSTM (229,908);
* ``HierarchicalRNN``: the encoder of ``RLadder`` alone (351,348);
* ``MusicRLadder``: recurrent Ladder for piano rolls of 88 notes (3,220,871);
* ``RTagger``: a small RTagger for images of 24x24, its groups folded into the batch (248,569).

Levels are numbered from the input, which is level 1. ``e[l]`` is the encoder output of level l and
``d[l]`` the decoder output, of the same shape: d[l] = g_l(top=d[l+1], lateral=e[l]), so the cell
``dec<l>`` undoes the encoder row l + 1. The recurrent levels also read d[l] of the previous
iteration. All states and decoder values start at zero.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

EPS = 1e-5

Cell = tuple[Tensor, Tensor]
"""Hidden and cell value (h, c) of an LSTM."""


class State(NamedTuple):
    """The state between two iterations; ``cells`` and ``decoded`` are keyed by level."""

    t: int
    cells: dict[int, Cell]
    decoded: dict[int, Tensor]


class LayerNorm(nn.Module):
    """LN(x) = gain * (x - mean) / std, over C, H, W of each sample; one gain per channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        return functional.group_norm(x, 1, self.weight, None, EPS)


class BatchNorm(nn.Module):
    """BN(x) = gain * (x - mean) / std + bias, with running statistics per iteration.

    Gain and bias are shared by all iterations; iterations beyond the last kept one use its
    statistics. ``iterations=1`` therefore shares the statistics as well.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self, channels: int, iterations: int = 1, affine: bool = True, biased: bool = True
    ) -> None:
        super().__init__()
        self.iterations = iterations
        self.weight = nn.Parameter(torch.ones(channels)) if affine else None
        self.bias = nn.Parameter(torch.zeros(channels)) if affine and biased else None
        self.register_buffer("running_mean", torch.zeros(iterations, channels))
        self.register_buffer("running_var", torch.ones(iterations, channels))

    def forward(self, x: Tensor, t: int) -> Tensor:
        k = min(t, self.iterations - 1)
        return functional.batch_norm(
            x,
            self.running_mean[k],
            self.running_var[k],
            self.weight,
            self.bias,
            training=self.training,
            momentum=0.1,
            eps=EPS,
        )


class ConvBlock(nn.Module):
    """e = relu(BN(W * x))."""

    def __init__(self, in_channels: int, channels: int, kernel: int, iterations: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, channels, kernel, padding=kernel // 2, bias=False)
        self.norm = BatchNorm(channels, iterations)

    def forward(self, x: Tensor, t: int) -> Tensor:
        return functional.relu(self.norm(self.conv(x), t))


def lstm_update(a: Tensor, c: Tensor) -> Cell:
    """i, f, o, g = split(a); c' = sig(f) c + sig(i) tanh(g); h' = sig(o) tanh(c')."""
    i, f, o, g = a.chunk(4, dim=1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    h = torch.sigmoid(o) * torch.tanh(c)
    return h, c


class ConvLSTMCell(nn.Module):
    """a = LN(W_x * x) + LN(W_h * h) [+ LN(W_d * d)] + b, then the LSTM update.

    x is the input from below, d the decoder value of this level one iteration ago.
    """

    def __init__(
        self,
        in_channels: int,
        channels: int,
        kernel: tuple[int, int],
        stride: tuple[int, int] = (1, 1),
        feedback: bool = True,
    ) -> None:
        super().__init__()
        gates = 4 * channels
        pad = (kernel[0] // 2, kernel[1] // 2)
        self.conv_x = nn.Conv2d(in_channels, gates, kernel, stride, padding=pad, bias=False)
        self.norm_x = LayerNorm(gates)
        self.conv_h = nn.Conv2d(channels, gates, kernel, padding=pad, bias=False)
        self.norm_h = LayerNorm(gates)
        if feedback:
            self.conv_d = nn.Conv2d(channels, gates, kernel, padding=pad, bias=False)
            self.norm_d = LayerNorm(gates)
        self.bias = nn.Parameter(torch.zeros(gates, 1, 1))
        with torch.no_grad():
            self.bias[channels : 2 * channels] = 1.0  # forget gate

    def forward(self, x: Tensor, cell: Cell, d: Tensor | None = None) -> Cell:
        h, c = cell
        a = self.norm_x(self.conv_x(x)) + self.norm_h(self.conv_h(h)) + self.bias
        if d is not None:
            a = a + self.norm_d(self.conv_d(d))
        return lstm_update(a, c)


class LSTMCell(nn.Module):
    """a = W_x x + W_h h [+ W_d d] + b, then the LSTM update; b is the bias of ``linear_x``."""

    def __init__(self, in_features: int, units: int, feedback_features: int = 0) -> None:
        super().__init__()
        self.linear_x = nn.Linear(in_features, 4 * units)
        self.linear_h = nn.Linear(units, 4 * units, bias=False)
        if feedback_features:
            self.linear_d = nn.Linear(feedback_features, 4 * units, bias=False)
        nn.init.zeros_(self.linear_x.bias)
        with torch.no_grad():
            self.linear_x.bias[units : 2 * units] = 1.0  # forget gate

    def forward(self, x: Tensor, cell: Cell, d: Tensor | None = None) -> Cell:
        h, c = cell
        a = self.linear_x(x.flatten(1)) + self.linear_h(h)
        if d is not None:
            a = a + self.linear_d(d)
        return lstm_update(a, c)


class SoftmaxLogits(nn.Module):
    """BN(W x), the logits of a softmax layer."""

    def __init__(self, in_features: int, classes: int, iterations: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, classes, bias=False)
        self.norm = BatchNorm(classes, iterations)

    def forward(self, x: Tensor, t: int) -> Tensor:
        logits: Tensor = self.norm(self.linear(x), t)
        return logits


def ladder_weights(*shape: int) -> nn.Parameter:
    """Start value (1, 1, 0, 0, 0) of the weights of ``ladder_function``, for units of ``shape``."""
    w = torch.zeros(5, *shape)
    w[:2] = 1.0
    return nn.Parameter(w)


def ladder_function(u: Tensor, w: Tensor) -> Tensor:
    """f(u, w) = w0 sig(w1 u + w2) + w3 u + w4."""
    return w[0] * torch.sigmoid(w[1] * u + w[2]) + w[3] * u + w[4]


class G1(nn.Module):
    """u = BN(A v + b); s = f(u, w_s); y = s h + (1 - s) f(u, w)."""

    def __init__(self, top_features: int, lateral_features: int, iterations: int) -> None:
        super().__init__()
        self.linear = nn.Linear(top_features, lateral_features)
        self.norm = BatchNorm(lateral_features, iterations, affine=False)
        self.w = ladder_weights(lateral_features)
        self.w_s = ladder_weights(lateral_features)

    def forward(self, top: Tensor, lateral: Tensor, t: int) -> Tensor:
        h = lateral.flatten(1)
        u = self.norm(self.linear(top.flatten(1)), t)
        s = ladder_function(u, self.w_s)
        y = s * h + (1 - s) * ladder_function(u, self.w)
        return y.view_as(lateral)


class ConvG2Branch(nn.Module):
    """f(LN(A * v) + LN(B * h) + c, w) with (1, 3) kernels; A is transposed where it upsamples."""

    def __init__(self, top: int, lateral: int, stride: int, output_padding: int) -> None:
        super().__init__()
        self.conv_top: nn.Module
        if stride == 1:
            self.conv_top = nn.Conv2d(top, lateral, (1, 3), padding=(0, 1), bias=False)
        else:
            self.conv_top = nn.ConvTranspose2d(
                top,
                lateral,
                (1, 3),
                stride=(1, stride),
                padding=(0, 1),
                output_padding=(0, output_padding),
                bias=False,
            )
        self.norm_top = LayerNorm(lateral)
        self.conv_lateral = nn.Conv2d(lateral, lateral, (1, 3), padding=(0, 1), bias=False)
        self.norm_lateral = LayerNorm(lateral)
        self.bias = nn.Parameter(torch.zeros(lateral, 1, 1))
        self.w = ladder_weights(lateral, 1, 1)

    def forward(self, top: Tensor, lateral: Tensor) -> Tensor:
        u = self.norm_top(self.conv_top(top)) + self.norm_lateral(self.conv_lateral(lateral))
        return ladder_function(u + self.bias, self.w)


class ConvG2(nn.Module):
    """y = s mu1 + (1 - s) mu2, each of mu1, mu2, s a branch of its own."""

    def __init__(self, top: int, lateral: int, stride: int = 1, output_padding: int = 0) -> None:
        super().__init__()
        self.mu1 = ConvG2Branch(top, lateral, stride, output_padding)
        self.mu2 = ConvG2Branch(top, lateral, stride, output_padding)
        self.s = ConvG2Branch(top, lateral, stride, output_padding)

    def forward(self, top: Tensor, lateral: Tensor) -> Tensor:
        s = self.s(top, lateral)
        y: Tensor = s * self.mu1(top, lateral) + (1 - s) * self.mu2(top, lateral)
        return y


class ConvG3(nn.Module):
    """u = relu(LN(A * v) + LN(B * h) + c); s = sig(W_s * u); y = s (D * u) + (1 - s) (E * u).

    u has as many channels as v; W_s, D and E are 1x1. With ``upsample`` A is a transposed
    convolution that doubles the size (kernel 6). Even kernels on h are padded (k - 1) // 2 before
    and k // 2 after.
    """

    def __init__(self, top: int, lateral: int, kernel: int, upsample: bool = False) -> None:
        super().__init__()
        pad = (kernel - 1) // 2
        self.conv_top: nn.Module
        if upsample:
            self.conv_top = nn.ConvTranspose2d(top, top, kernel, 2, padding=pad, bias=False)
        else:
            self.conv_top = nn.Conv2d(top, top, kernel, padding=pad, bias=False)
        self.norm_top = LayerNorm(top)
        self.conv_lateral = nn.Conv2d(lateral, top, kernel, padding=pad, bias=False)
        self.norm_lateral = LayerNorm(top)
        self.bias = nn.Parameter(torch.zeros(top, 1, 1))
        self.conv_s = nn.Conv2d(top, lateral, 1, bias=False)
        self.conv_d = nn.Conv2d(top, lateral, 1, bias=False)
        self.conv_e = nn.Conv2d(top, lateral, 1, bias=False)
        self.even = kernel % 2 == 0

    def forward(self, top: Tensor, lateral: Tensor) -> Tensor:
        if self.even:
            lateral = functional.pad(lateral, (0, 1, 0, 1))
        u = self.norm_top(self.conv_top(top)) + self.norm_lateral(self.conv_lateral(lateral))
        u = functional.relu(u + self.bias)
        s = torch.sigmoid(self.conv_s(u))
        y: Tensor = s * self.conv_d(u) + (1 - s) * self.conv_e(u)
        return y


class RecurrentNet(nn.Module):
    """Runs ``iterate`` over the frames (B, T, C, H, W) and stacks its outputs over time."""

    def initial_state(self, batch: int) -> State:
        raise NotImplementedError

    def iterate(self, frame: Tensor, state: State) -> tuple[dict[str, Tensor], State]:
        raise NotImplementedError

    def forward(self, frames: Tensor) -> dict[str, Tensor]:
        state = self.initial_state(frames.shape[0])
        steps = []
        for t in range(frames.shape[1]):
            outputs, state = self.iterate(frames[:, t], state)
            steps.append(outputs)
        return {name: torch.stack([s[name] for s in steps], dim=1) for name in steps[0]}

    def _zeros(self, *shape: int) -> Tensor:
        return next(self.parameters()).new_zeros(shape)

    def _zero_cell(self, *shape: int) -> Cell:
        return self._zeros(*shape), self._zeros(*shape)


class Encoder(nn.Module):
    """Encoder rows of the Occluded Moving MNIST networks, 1x32x32 to ten class logits.

    Levels: 1 input; 2 ConvLSTM 32; 3, 4, 5 Conv 32; 6 max pool; 7 ConvLSTM 32; 8, 9, 10 Conv 64;
    11 max pool; 12 Conv 128; 13 Conv 64 (1x1); 14 Conv 32 (1x1); 15 average pool; 16 LSTM 16;
    17 softmax 10.
    """

    def __init__(self, iterations: int, feedback: bool) -> None:
        super().__init__()
        self.lstm2 = ConvLSTMCell(1, 32, (3, 3), feedback=feedback)
        self.conv3 = ConvBlock(32, 32, 3, iterations)
        self.conv4 = ConvBlock(32, 32, 3, iterations)
        self.conv5 = ConvBlock(32, 32, 3, iterations)
        self.lstm7 = ConvLSTMCell(32, 32, (3, 3), feedback=feedback)
        self.conv8 = ConvBlock(32, 64, 3, iterations)
        self.conv9 = ConvBlock(64, 64, 3, iterations)
        self.conv10 = ConvBlock(64, 64, 3, iterations)
        self.conv12 = ConvBlock(64, 128, 3, iterations)
        self.conv13 = ConvBlock(128, 64, 1, iterations)
        self.conv14 = ConvBlock(64, 32, 1, iterations)
        self.lstm16 = LSTMCell(512, 16, feedback_features=10 if feedback else 0)
        self.softmax17 = SoftmaxLogits(16, 10, iterations)

    def forward(
        self, frame: Tensor, state: State
    ) -> tuple[dict[int, Tensor], Tensor, dict[int, Cell]]:
        """Encoder outputs by level, class logits and new cells."""
        t, cells, decoded = state
        e = {1: frame}
        new_cells = {2: self.lstm2(e[1], cells[2], decoded.get(2))}
        e[2] = new_cells[2][0]
        e[3] = self.conv3(e[2], t)
        e[4] = self.conv4(e[3], t)
        e[5] = self.conv5(e[4], t)
        e[6] = functional.max_pool2d(e[5], 2)
        new_cells[7] = self.lstm7(e[6], cells[7], decoded.get(7))
        e[7] = new_cells[7][0]
        e[8] = self.conv8(e[7], t)
        e[9] = self.conv9(e[8], t)
        e[10] = self.conv10(e[9], t)
        e[11] = functional.max_pool2d(e[10], 2)
        e[12] = self.conv12(e[11], t)
        e[13] = self.conv13(e[12], t)
        e[14] = self.conv14(e[13], t)
        e[15] = functional.avg_pool2d(e[14], 2)
        new_cells[16] = self.lstm16(e[15], cells[16], decoded.get(16))
        e[16] = new_cells[16][0]
        logits = self.softmax17(e[16], t)
        return e, logits, new_cells


class RLadder(RecurrentNet):
    """Recurrent Ladder for Occluded Moving MNIST: digit class and next frame.

    The class probabilities are the top of the decoder; levels 2, 7 and 16 read their decoder
    value of the previous iteration.
    """

    def __init__(self, iterations: int = 5, prediction_weight: float = 100.0) -> None:
        super().__init__()
        self.prediction_weight = prediction_weight
        self.encoder = Encoder(iterations, feedback=True)
        self.dec15 = G1(10, 512, iterations)
        self.dec14 = G1(512, 2048, iterations)
        self.dec13 = ConvG3(32, 64, 3)
        self.dec12 = ConvG3(64, 128, 3)
        self.dec11 = ConvG3(128, 64, 3)
        self.dec10 = ConvG3(64, 64, 6, upsample=True)
        self.dec9 = ConvG3(64, 64, 3)
        self.dec8 = ConvG3(64, 64, 3)
        self.dec7 = ConvG3(64, 32, 3)
        self.dec6 = ConvG3(32, 32, 9)
        self.dec5 = ConvG3(32, 32, 6, upsample=True)
        self.dec4 = ConvG3(32, 32, 3)
        self.dec3 = ConvG3(32, 32, 3)
        self.dec2 = ConvG3(32, 32, 3)
        self.dec1 = ConvG3(32, 1, 9)

    def initial_state(self, batch: int) -> State:
        """All-zero cells and decoder values for ``batch`` sequences."""
        cells = {
            2: self._zero_cell(batch, 32, 32, 32),
            7: self._zero_cell(batch, 32, 16, 16),
            16: self._zero_cell(batch, 16),
        }
        decoded = {
            2: self._zeros(batch, 32, 32, 32),
            7: self._zeros(batch, 32, 16, 16),
            16: self._zeros(batch, 10),
        }
        return State(0, cells, decoded)

    def iterate(self, frame: Tensor, state: State) -> tuple[dict[str, Tensor], State]:
        """One frame (B, 1, 32, 32): class logits (B, 10), next frame (B, 1, 32, 32), new state."""
        t = state.t
        e, logits, cells = self.encoder(frame, state)
        d = {16: logits.softmax(dim=1)}
        d[15] = self.dec15(d[16], e[15], t)
        d[14] = self.dec14(d[15], e[14], t)
        d[13] = self.dec13(d[14], e[13])
        d[12] = self.dec12(d[13], e[12])
        d[11] = self.dec11(d[12], e[11])
        d[10] = self.dec10(d[11], e[10])
        d[9] = self.dec9(d[10], e[9])
        d[8] = self.dec8(d[9], e[8])
        d[7] = self.dec7(d[8], e[7])
        d[6] = self.dec6(d[7], e[6])
        d[5] = self.dec5(d[6], e[5])
        d[4] = self.dec4(d[5], e[4])
        d[3] = self.dec3(d[4], e[3])
        d[2] = self.dec2(d[3], e[2])
        d[1] = self.dec1(d[2], e[1])
        outputs = {"digit": logits, "next_frame": d[1]}
        return outputs, State(t + 1, cells, {2: d[2], 7: d[7], 16: d[16]})

    def cost(self, frames: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy after the last frame + weight * mean squared error of frames 2..T."""
        outputs = self(frames)
        cost = functional.cross_entropy(outputs["digit"][:, -1], labels)
        if frames.shape[1] > 1:
            error = functional.mse_loss(outputs["next_frame"][:, :-1], frames[:, 1:])
            cost = cost + self.prediction_weight * error
        return cost


class HierarchicalRNN(RecurrentNet):
    """Encoder of ``RLadder`` without decoder and without decoder inputs."""

    def __init__(self, iterations: int = 5) -> None:
        super().__init__()
        self.encoder = Encoder(iterations, feedback=False)

    def initial_state(self, batch: int) -> State:
        """All-zero cells for ``batch`` sequences."""
        cells = {
            2: self._zero_cell(batch, 32, 32, 32),
            7: self._zero_cell(batch, 32, 16, 16),
            16: self._zero_cell(batch, 16),
        }
        return State(0, cells, {})

    def iterate(self, frame: Tensor, state: State) -> tuple[dict[str, Tensor], State]:
        """One frame (B, 1, 32, 32): class logits (B, 10) and the new state."""
        _, logits, cells = self.encoder(frame, state)
        return {"digit": logits}, State(state.t + 1, cells, {})

    def cost(self, frames: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy after the last frame."""
        return functional.cross_entropy(self(frames)["digit"][:, -1], labels)


class TemporalBaseline(RecurrentNet):
    """Feed-forward convolutions per frame below one LSTM.

    Levels: 1 input; 2, 3, 4 Conv 32; 5 max pool; 6, 7, 8 Conv 64; 9 max pool; 10 Conv 128;
    11 Conv 64 (1x1); 12 Conv 32 (1x1); 13 average pool; 14 LSTM 16; 15 softmax 10.
    """

    def __init__(self, iterations: int = 5) -> None:
        super().__init__()
        self.conv2 = ConvBlock(1, 32, 3, iterations)
        self.conv3 = ConvBlock(32, 32, 3, iterations)
        self.conv4 = ConvBlock(32, 32, 3, iterations)
        self.conv6 = ConvBlock(32, 64, 3, iterations)
        self.conv7 = ConvBlock(64, 64, 3, iterations)
        self.conv8 = ConvBlock(64, 64, 3, iterations)
        self.conv10 = ConvBlock(64, 128, 3, iterations)
        self.conv11 = ConvBlock(128, 64, 1, iterations)
        self.conv12 = ConvBlock(64, 32, 1, iterations)
        self.lstm14 = LSTMCell(512, 16)
        self.softmax15 = SoftmaxLogits(16, 10, iterations)

    def initial_state(self, batch: int) -> State:
        """All-zero cell for ``batch`` sequences."""
        return State(0, {14: self._zero_cell(batch, 16)}, {})

    def iterate(self, frame: Tensor, state: State) -> tuple[dict[str, Tensor], State]:
        """One frame (B, 1, 32, 32): class logits (B, 10) and the new state."""
        t = state.t
        x = self.conv4(self.conv3(self.conv2(frame, t), t), t)
        x = functional.max_pool2d(x, 2)
        x = self.conv8(self.conv7(self.conv6(x, t), t), t)
        x = functional.max_pool2d(x, 2)
        x = self.conv12(self.conv11(self.conv10(x, t), t), t)
        x = functional.avg_pool2d(x, 2)
        cell = self.lstm14(x, state.cells[14])
        logits = self.softmax15(cell[0], t)
        return {"digit": logits}, State(t + 1, {14: cell}, {})

    def cost(self, frames: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy after the last frame."""
        return functional.cross_entropy(self(frames)["digit"][:, -1], labels)


class MusicRLadder(RecurrentNet):
    """Recurrent Ladder for piano rolls, frames 1x1x88; predicts logits of the next 88 notes.

    Levels: 1 input; 2 to 6 ConvLSTM 32x88, 64x44, 96x22, 128x11, 160x6; 7 average pool 160x3;
    8 LSTM 96; 9 softmax 19, whose probabilities are the top of the decoder and have no cost.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lstm2 = ConvLSTMCell(1, 32, (1, 3))
        self.lstm3 = ConvLSTMCell(32, 64, (1, 3), stride=(1, 2))
        self.lstm4 = ConvLSTMCell(64, 96, (1, 3), stride=(1, 2))
        self.lstm5 = ConvLSTMCell(96, 128, (1, 3), stride=(1, 2))
        self.lstm6 = ConvLSTMCell(128, 160, (1, 3), stride=(1, 2))
        self.lstm8 = LSTMCell(480, 96, feedback_features=19)
        self.softmax9 = SoftmaxLogits(96, 19, iterations=1)
        self.dec7 = G1(19, 480, iterations=1)
        self.dec6 = G1(480, 960, iterations=1)
        self.dec5 = ConvG2(160, 128, stride=2, output_padding=0)
        self.dec4 = ConvG2(128, 96, stride=2, output_padding=1)
        self.dec3 = ConvG2(96, 64, stride=2, output_padding=1)
        self.dec2 = ConvG2(64, 32, stride=2, output_padding=1)
        self.dec1 = ConvG2(32, 1)

    def initial_state(self, batch: int) -> State:
        """All-zero cells and decoder values for ``batch`` sequences."""
        shapes = {2: (32, 1, 88), 3: (64, 1, 44), 4: (96, 1, 22), 5: (128, 1, 11), 6: (160, 1, 6)}
        cells = {level: self._zero_cell(batch, *shape) for level, shape in shapes.items()}
        decoded = {level: self._zeros(batch, *shape) for level, shape in shapes.items()}
        cells[8] = self._zero_cell(batch, 96)
        decoded[8] = self._zeros(batch, 19)
        return State(0, cells, decoded)

    def iterate(self, frame: Tensor, state: State) -> tuple[dict[str, Tensor], State]:
        """One frame (B, 1, 1, 88): logits of the next frame (B, 1, 1, 88) and the new state."""
        t, cells, decoded = state
        new_cells = {2: self.lstm2(frame, cells[2], decoded[2])}
        new_cells[3] = self.lstm3(new_cells[2][0], cells[3], decoded[3])
        new_cells[4] = self.lstm4(new_cells[3][0], cells[4], decoded[4])
        new_cells[5] = self.lstm5(new_cells[4][0], cells[5], decoded[5])
        new_cells[6] = self.lstm6(new_cells[5][0], cells[6], decoded[6])
        pooled = functional.avg_pool2d(new_cells[6][0], (1, 2))
        new_cells[8] = self.lstm8(pooled, cells[8], decoded[8])
        e = {1: frame, 7: pooled} | {level: cell[0] for level, cell in new_cells.items()}

        d = {8: self.softmax9(e[8], t).softmax(dim=1)}
        d[7] = self.dec7(d[8], e[7], t)
        d[6] = self.dec6(d[7], e[6], t)
        d[5] = self.dec5(d[6], e[5])
        d[4] = self.dec4(d[5], e[4])
        d[3] = self.dec3(d[4], e[3])
        d[2] = self.dec2(d[3], e[2])
        d[1] = self.dec1(d[2], e[1])
        return {"next_frame": d[1]}, State(t + 1, new_cells, {level: d[level] for level in cells})

    def cost(self, frames: Tensor, labels: Tensor | None = None) -> Tensor:
        """Negative log-likelihood of x_2..x_T: sum over notes, mean over predicted steps.

        ``labels`` is not read; it keeps the signature of the other networks.
        """
        batch, steps = frames.shape[:2]
        if steps < 2:
            raise ValueError("the cost needs at least two frames: the first is never predicted")
        logits = self(frames)["next_frame"][:, :-1]
        nll = functional.binary_cross_entropy_with_logits(logits, frames[:, 1:], reduction="sum")
        return nll / (batch * (steps - 1))


# --- perceptual grouping --------------------------------------------------------------------------


class BatchNormLSTM(nn.Module):
    """a = BN(W_x * x) + BN(W_h * h) + BN(W_d * d) + b, then the LSTM update; W_x has stride 2."""

    def __init__(self, in_channels: int, channels: int, iterations: int) -> None:
        super().__init__()
        gates = 4 * channels
        self.conv_x = nn.Conv2d(in_channels, gates, 4, 2, padding=1, bias=False)
        self.norm_x = BatchNorm(gates, iterations)
        self.conv_h = nn.Conv2d(channels, gates, 3, padding=1, bias=False)
        self.norm_h = BatchNorm(gates, iterations, biased=False)
        self.conv_d = nn.Conv2d(channels, gates, 3, padding=1, bias=False)
        self.norm_d = BatchNorm(gates, iterations, biased=False)
        with torch.no_grad():
            self.norm_x.bias[channels : 2 * channels] = 1.0  # forget gate
            self.norm_h.weight.fill_(1 / 8)
            self.norm_d.weight.fill_(1 / 64)

    def forward(self, x: Tensor, cell: Cell, d: Tensor, t: int) -> Cell:
        h, c = cell
        a = self.norm_x(self.conv_x(x), t) + self.norm_h(self.conv_h(h), t)
        a = a + self.norm_d(self.conv_d(d), t)
        return lstm_update(a, c)


class ConvG1(nn.Module):
    """u = BN(A * v + b); s = f(u, w_s); y = s h + (1 - s) f(u, w); one w per channel."""

    def __init__(self, top: int, lateral: int, iterations: int, upsample: bool = False) -> None:
        super().__init__()
        self.conv: nn.Module
        if upsample:
            self.conv = nn.ConvTranspose2d(top, lateral, 4, 2, padding=1)
        else:
            self.conv = nn.Conv2d(top, lateral, 3, padding=1)
        self.norm = BatchNorm(lateral, iterations, affine=False)
        self.w = ladder_weights(lateral, 1, 1)
        self.w_s = ladder_weights(lateral, 1, 1)

    def forward(self, top: Tensor, lateral: Tensor, t: int) -> Tensor:
        u = self.norm(self.conv(top), t)
        s = ladder_function(u, self.w_s)
        return s * lateral + (1 - s) * ladder_function(u, self.w)


class RTagger(nn.Module):
    """A small RTagger: K groups explain an image of 24x24 together, in three iterations.

    Levels: 2 ConvLSTM 16; 3 Conv 16; 4 ConvLSTM 24; 5 Conv 24; 6 ConvLSTM 32; 7 global average
    pool; 8 softmax 11. Group k of sample b is at index b K + k of the batch.
    """

    mean: Tensor
    std: Tensor
    start: Tensor

    def __init__(
        self,
        groups: int = 3,
        iterations: int = 3,
        variance: float = 0.006,
        noise: float = 0.2,
        digit_weight: float = 0.5,
    ) -> None:
        super().__init__()
        self.groups, self.iterations = groups, iterations
        self.variance, self.noise, self.digit_weight = variance, noise, digit_weight
        self.lstm2 = BatchNormLSTM(4, 16, iterations)
        self.conv3 = ConvBlock(16, 16, 3, iterations)
        self.lstm4 = BatchNormLSTM(16, 24, iterations)
        self.conv5 = ConvBlock(24, 24, 3, iterations)
        self.lstm6 = BatchNormLSTM(24, 32, iterations)
        self.softmax8 = SoftmaxLogits(32, 11, iterations)
        self.dec7 = G1(11, 32, iterations)
        self.dec5 = ConvG1(32, 24, iterations, upsample=True)
        self.dec4 = ConvG1(24, 24, iterations)
        self.dec3 = ConvG1(24, 16, iterations, upsample=True)
        self.dec2 = ConvG1(16, 16, iterations)
        self.dec1 = nn.ConvTranspose2d(16, 2, 4, 2, padding=1, bias=False)
        self.norm1 = BatchNorm(2, iterations, affine=False)
        self.c = nn.Parameter(torch.ones(1))
        self.b = nn.Parameter(torch.zeros(1))
        self.c_pi = nn.Parameter(torch.ones(1))
        self.register_buffer("mean", torch.zeros(1))
        self.register_buffer("std", torch.ones(1))
        self.register_buffer("start", torch.randn(groups, 1 + 24 * 24))

    def over_groups(self, logits: Tensor) -> Tensor:
        """Softmax over the K groups of each sample."""
        return logits.unflatten(0, (-1, self.groups)).softmax(1).flatten(0, 1)

    def first_mu_and_pi(self, batch: int) -> tuple[Tensor, Tensor]:
        """mu is the mean of the data; pi is random, in evaluation always the same."""
        noise = self.start.repeat(batch, 1)
        if self.training:
            noise = torch.randn_like(noise)
        pi = self.over_groups((noise[:, :1] + noise[:, 1:]).view(-1, 1, 24, 24))
        return self.mean.expand_as(pi), pi

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """(B, 1, 24, 24) -> class logits (B, T, K, 11), mu and pi (B, T, K, 2, 24, 24)."""
        x = images + self.noise * torch.randn_like(images) if self.training else images
        x = x.repeat_interleave(self.groups, dim=0)
        mu, pi = self.first_mu_and_pi(images.shape[0])
        zeros = [x.new_zeros(x.shape[0], c, n, n) for c, n in ((16, 12), (24, 6), (32, 3))]
        cell2, cell4, cell6 = ((z, z) for z in zeros)
        d2, d4, d6 = zeros
        digits, segments = [], []
        for t in range(self.iterations):
            difference = x - mu
            fit = self.over_groups(-(difference**2) / (2 * (self.noise**2 + self.variance)))
            maps = torch.cat([mu, pi * difference, pi, fit], dim=1)
            cell2 = self.lstm2(maps, cell2, d2, t)
            e3 = self.conv3(cell2[0], t)
            cell4 = self.lstm4(e3, cell4, d4, t)
            e5 = self.conv5(cell4[0], t)
            cell6 = self.lstm6(e5, cell6, d6, t)
            e7 = cell6[0].mean(dim=(2, 3))
            logits = self.softmax8(e7, t)
            d7 = self.dec7(logits.softmax(dim=1), e7, t)
            d6 = d7[:, :, None, None].expand(-1, -1, 3, 3)
            d5 = self.dec5(d6, e5, t)
            d4 = self.dec4(d5, cell4[0], t)
            d3 = self.dec3(d4, e3, t)
            d2 = self.dec2(d3, cell2[0], t)
            u = self.norm1(self.dec1(d2), t)
            mu = (self.c * u[:, :1] + self.b) * self.std + self.mean
            pi = self.over_groups(self.c_pi * u[:, 1:])
            digits.append(logits)
            segments.append(torch.cat([mu, pi], dim=1))
        outputs = {"digit": torch.stack(digits, dim=1), "segment": torch.stack(segments, dim=1)}
        groups = (-1, self.groups)
        return {k: v.unflatten(0, groups).transpose(1, 2) for k, v in outputs.items()}

    def cost(self, images: Tensor, labels: Tensor) -> Tensor:
        """-log sum_k pi_k N(x; mu_k, v) of the clean image; the class, from all groups together."""
        outputs = self(images)
        mu, pi = outputs["segment"].split(1, dim=3)
        v = torch.tensor(self.variance, dtype=images.dtype)
        log_likelihood = -0.5 * ((images[:, None, None] - mu) ** 2 / v + v.log())
        segment = -torch.logsumexp((pi + 1e-5).log() + log_likelihood, dim=2).mean()
        p = outputs["digit"][:, -1].softmax(dim=2)[:, :, :10].sum(dim=1)  # the last means "none"
        digit = functional.nll_loss((p / p.sum(dim=1, keepdim=True)).log(), labels)
        return segment + self.digit_weight * digit
