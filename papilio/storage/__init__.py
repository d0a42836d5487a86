"""Everything on disk: text formats in, graph stores, results and listings out, ledgers and JSON records.

Input: files, URLs, objects of other libraries. Output: a :class:`~papilio.storage.store.GraphStore`, batches of edges.
The only package besides partitioning that imports pyarrow and DuckDB; it is independent of the kernels. Start reading
at ``store.py`` (the store), then ``convert.py`` (conversion of a file to a store), ``text.py`` (reading lines).
"""
