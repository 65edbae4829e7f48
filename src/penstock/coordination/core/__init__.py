"""Pure: what a commit does to the tree of nodes."""
