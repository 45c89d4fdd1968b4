"""The whole way once, thinly: YAML, graph, shapes, cells, a loop over t, and learning."""

from __future__ import annotations

import torch
from torch.nn import functional

from ladderspec.api import graph, loads
from tests.interpreter import Interpreter, read

SPEC = """
name: thin-slice
params: {width: 4}
input: {channels: 1, size: [16, 16]}
time: {frames: 4}
levels:
  - {name: lstm1, encoder: {cell: ConvLSTM, channels: $width}, decoder: {cell: convG3, filter: 5}}
  - {name: conv2, encoder: {cell: Conv, channels: $width}, decoder: convG3}
  - {name: pool3, encoder: Pool, decoder: {cell: convG3, filter: 6}}
  - {name: conv4, encoder: {cell: Conv, channels: $(width * 2)}, decoder: convG2}
  - {name: pool5, encoder: {cell: Pool, mode: average, filter: 4}, decoder: G1}
  - {name: top, encoder: {cell: LSTM, channels: 16}, decoder: G1}
  - {name: class, encoder: {cell: SoftMax, channels: 10}, decoder: Identity}
tasks:
  digit: {kind: classification, at: encoder.class, when: last}
  next_frame: {kind: prediction, at: decoder.input, weight: 100}
"""


def test_a_tiny_ladder_learns_one_batch_by_heart():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = Interpreter(graph(loads(SPEC)), seed=1)
    # Bright squares that move: what comes next follows from what was seen.
    frames = torch.zeros(8, 4, 1, 16, 16)
    for b in range(8):
        for t in range(4):
            frames[b, t, 0, b + t : b + t + 4, 2 * t + b % 3 : 2 * t + b % 3 + 4] = 1.0
    labels = torch.arange(8)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.02)
    costs = []
    for _ in range(60):
        history = net(frames)
        digit = functional.cross_entropy(read(history, "encoder.class")[:, -1], labels)
        predicted = read(history, "decoder.input")[:, :-1]
        next_frame = functional.mse_loss(predicted, frames[:, 1:])
        optimiser.zero_grad()
        (digit + 100 * next_frame).backward()
        optimiser.step()
        costs.append((digit.item(), next_frame.item()))
    assert costs[-1][0] < 0.1 < 1.5 < costs[0][0]
    assert costs[-1][1] < 0.02 < 0.05 < costs[0][1]
