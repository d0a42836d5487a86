"""The public functions: a module per verb.

In: paths, objects, motifs and options from the user. Out: results with labels, tables and files.
``call.py`` has the steps of every call: open the graph, choose where to run, run the job, write the answer.
Start with ``count.py``.
"""
