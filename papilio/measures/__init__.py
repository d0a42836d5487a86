"""Measures of graphs that counts are put into: clustering, cohesion, pairs by their signs."""
