"""Applications of counts: clustering, cohesion, pairs by their signs, largest cliques and bicliques.

In: a graph as for :func:`papilio.count`. Out: values with ``to_dict``, tables by vertex or pair.
They call the public functions; only reports and the command line import them.
Start with ``bipartite.py``.
"""
