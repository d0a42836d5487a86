"""Rows of a graph by rank, which wedges, bicliques, projections, decompositions and measures walk."""
