"""k-cliques of unipartite graphs: the order, the search around a root, the closed forms."""
