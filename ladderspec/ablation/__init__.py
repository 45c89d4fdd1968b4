"""Ablations: the runs of an experiment, the engines that train them, and their reports."""
