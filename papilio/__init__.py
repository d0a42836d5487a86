"""Papilio: exact counting of dense motifs in large graphs."""

__version__ = "0.1.0"
