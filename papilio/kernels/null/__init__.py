"""Null models: random graphs that share degrees, their number of edges, or their edges with a graph."""
