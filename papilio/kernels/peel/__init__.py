"""Decompositions by peeling: tips, wings, the forest of components."""
