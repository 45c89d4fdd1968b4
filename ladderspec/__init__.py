"""Recurrent ladder networks from a table of layers."""
