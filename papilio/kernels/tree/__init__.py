"""Searches on bit matrices, by subsets and by pivots; they know of no motif."""
