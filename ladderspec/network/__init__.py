"""Plan -> torch: the module that unrolls time by itself."""
