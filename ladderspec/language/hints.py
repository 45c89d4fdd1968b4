"""What would be right: examples by key, and what other programs call our words."""

from __future__ import annotations

# What a value looks like, by the key that it stands under.
LIKE = {
    "input": "{channels: 1, size: [32, 32]}",
    "channels": "32",
    "size": "[32, 32]",
    "noise": "{gaussian: 0.15}",
    "time": "{frames: 5}",
    "encoder": "{cell: Conv, channels: 32}",
    "decoder": "{cell: convG3, filter: 3}",
    "top": "{cell: convG3, filter: 3}",
    "laterals": "{conv_1: {cell: ConvLSTM, channels: 32}}",
    "defaults": "{Conv: {activation: elu}}",
    "params": "{width: 32}",
    "tasks": "{digit: {kind: classification, at: encoder.class}}",
    "at": "encoder.class",
    "weight": "100",
    "target": "digit",
    "edges": "{lateral: none, add: [decoder.conv(t-1) -> encoder.conv]}",
    "add": "[decoder.conv(t-1) -> encoder.conv]",
    "arrow": "decoder.conv(t-1) -> encoder.conv",
    "from": "decoder.conv",
    "to": "encoder.conv",
    "delay": "1",
    "without": "[lateral, decoder.*]",
    "variants": "{no_lateral: {without: [lateral]}}",
    "of": "[another_variant]",
    "set": "{encoder.conv.channels: 16}",
    "expect": "{parameters: 12345}",
    "parameters": "12345",
    "shape": "{encoder.conv: [32, 16, 16]}",
    "updates": "1000",
}

ROW = "`- encoder: {cell: Conv, channels: 32}`"
TASK = "`{kind: classification, at: encoder.class}`"
VARIANT = "`{without: [lateral]}`"

# What other programs call it.
ELSEWHERE = {
    "act": "activation",
    "base": "extends",
    "class": "cell",
    "filters": "filter",
    "hidden": "channels",
    "hidden_size": "channels",
    "in_channels": "channels",
    "include": "extends",
    "kernel": "filter",
    "kernel_size": "filter",
    "layer": "cell",
    "layers": "levels",
    "loss": "cost",
    "losses": "tasks",
    "nonlinearity": "activation",
    "normalisation": "norm",
    "normalization": "norm",
    "out_channels": "channels",
    "outputs": "tasks",
    "parameters": "params",
    "pool_size": "filter",
    "remove": "without",
    "source": "from",
    "steps": "frames",
    "target": "to",
    "type": "cell",
    "units": "channels",
    "width": "channels",
    "window": "filter",
}

# Words that are not there because nothing has to be said.
NOT_NEEDED = {
    "batch_norm": "like `norm: batch`, which is the default of Conv, FC and SoftMax",
    "bias": "every cell has one bias per sum; there is nothing to set",
    "padding": "an output has size n / stride, rounded up; there is no padding to set",
    "skip": "skip arrows are declared one by one, under `add`",
}
