"""Projections: pairs of vertices of one layer, with their common neighbours, weights and p-values."""
