"""Communities by percolation: maximal motifs that share enough vertices, joined."""
