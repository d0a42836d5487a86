"""Maximal bicliques: what is searched, the stars, the search."""
