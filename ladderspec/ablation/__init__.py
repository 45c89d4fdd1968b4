"""Ablations: the runs of an experiment, wherever they are trained, and what comes out of them."""
