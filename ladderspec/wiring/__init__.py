"""Spec -> graph: nodes, edges, patches, shapes; and graphs as tables, text and JSON."""
