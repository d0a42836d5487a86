"""The public functions: a module per verb.

In: what a user gives: paths, objects, motifs, options. Out: results with labels, tables and files.
``call.py`` owns the way of every call: open the graph, choose where to run, run the job, write the answer.
Start with ``count.py``.
"""
