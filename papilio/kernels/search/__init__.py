"""Searches on bit matrices, by subsets and by pivots, for any motif."""
