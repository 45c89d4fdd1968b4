"""Experiment files: rows by columns, over seeds."""
