"""One file per data set: its config with `@register`, and the class that makes its batches.

Every module of this package is imported when a data set is looked up by name.
"""
