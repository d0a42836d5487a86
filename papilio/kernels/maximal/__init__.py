"""Maximal bicliques: the graph to search, the stars, the search."""
