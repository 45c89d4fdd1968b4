"""Experiment files: their configuration, their runs, and the identity of each run.

config      the file: rows, columns, seeds
training    its sections `training`, `evaluation` and `machine`
reader      YAML -> Experiment, with every mistake at its place
layers      settings of the file, of columns, rows and the command line, merged
checks      checks across sections
runs        Run and Experiment
identity    what a run's numbers depend on, and its digest
"""
