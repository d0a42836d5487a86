"""What counts are used for: clustering, cohesion, pairs by their signs, largest cliques and bicliques.

In: a graph as for :func:`papilio.count`. Out: values with ``to_dict``, tables by vertex or pair.
They call the public functions; nothing else imports them but reports and the command line.
Start with ``bipartite.py``.
"""
