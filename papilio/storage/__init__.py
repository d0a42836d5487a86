"""Everything on disk: text formats in, graph stores, results and listings out, ledgers and JSON records.

In: files, URLs, objects of other libraries. Out: a :class:`~papilio.storage.store.GraphStore`, batches of edges.
The only package that imports pyarrow and DuckDB, beside partitioning. Nothing here knows a kernel.
Start with ``store.py`` (the store), then ``convert.py`` (a file becomes one), ``text.py`` (how lines are read).
"""
