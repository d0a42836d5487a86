"""Graphs beyond memory: cutting a store into parts that each hold all edges that their items need.

In: a store, a question, memory limits. Out: a partition, a directory of blocks with a manifest.
Every item belongs to exactly one part; blocks are read at the speed of copying.
Start with ``cut_run.py`` (how a cut runs), then ``store.py`` and ``blocks.py`` (what it writes).
"""
