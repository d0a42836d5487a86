"""Engines: code that prepares a graph and counts or lists items of it, on CPUs (Numba) and GPUs (CUDA).

In: a graph or part in memory and a motif. Out: a :class:`~papilio.kernels.engine.Partial` of exact integers.
One folder per family with the same file names in each; ``tree`` and ``device`` know no motif.
Start with ``engine.py`` (the contract), then ``wedge/cpu.py`` and ``wedge/butterfly.cu`` (the smallest family).
"""
