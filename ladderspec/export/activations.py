"""Activations in the file: as a module where cells differ, else as an expression of the sum a."""

MODULES = {
    "none": "nn.Identity()",
    "relu": "nn.ReLU()",
    "leaky_relu": "nn.LeakyReLU(0.1)",
    "elu": "nn.ELU()",
    "gelu": "nn.GELU()",
    "silu": "nn.SiLU()",
    "softplus": "nn.Softplus()",
    "tanh": "nn.Tanh()",
    "sigmoid": "nn.Sigmoid()",
}
EXPRESSIONS = {
    "none": "a",
    "relu": "torch.relu(a)",
    "leaky_relu": "functional.leaky_relu(a, 0.1)",
    "elu": "functional.elu(a)",
    "gelu": "functional.gelu(a)",
    "silu": "functional.silu(a)",
    "softplus": "functional.softplus(a)",
    "tanh": "torch.tanh(a)",
    "sigmoid": "torch.sigmoid(a)",
}
HALVING = ("relu", "leaky_relu", "elu", "gelu", "silu")  # let about half of the variance through
