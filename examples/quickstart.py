"""Build the smallest recurrent ladder and let it learn one batch by heart."""

from __future__ import annotations

import torch

import ladderspec as ls

spec = ls.load("specs/ommnist/rladder_tiny.yaml")
net = ls.build(spec, seed=0)
print(f"{spec.name}: {sum(p.numel() for p in net.parameters()):,} parameters")

torch.manual_seed(0)
frames, labels = torch.rand(16, 5, 1, 16, 16), torch.arange(16) % 10
optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
for update in range(1, 41):
    costs = net.cost(frames, {"label": labels})
    optimiser.zero_grad()
    costs.total.backward()
    optimiser.step()
    if update in (1, 10, 20, 40):
        shown = ", ".join(f"{name} {cost.item():.3f}" for name, cost in costs.items())
        print(f"update {update:2d}: {shown}")
