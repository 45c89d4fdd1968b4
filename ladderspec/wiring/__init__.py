"""Spec -> graph: nodes, arrows, variants, shapes, tables."""
