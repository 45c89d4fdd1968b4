"""Text -> a tree of values with their lines and columns."""
