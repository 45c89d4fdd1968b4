"""Training of one run.

train          the loop: start reading here
update         one update: costs, gradients, optimiser, Mean Teacher, divergence
train_state    everything that changes from update to update, and its checkpoints; learning rates
batches        sampler and collator: items of the data -> tensors
evaluation     recalibrated batch norm, metrics, the best weights
metrics, pictures, progress, status, log, checkpoint, run_folder, setup, processes, allocator
"""

from ladderspec.errors import require_torch

require_torch()
