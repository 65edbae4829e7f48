"""The HTTP edge: what a node shows of itself."""
