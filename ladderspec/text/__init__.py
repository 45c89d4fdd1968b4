"""Characters -> a tree whose every value knows its line and column."""
