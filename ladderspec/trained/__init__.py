"""Trained networks: saved, opened, evaluated, lesioned; and what they generate."""
