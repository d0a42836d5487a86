"""(p,q)-bicliques, balanced or not: the index, both engines, listing, the closed forms."""
