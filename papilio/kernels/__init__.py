"""Engines: prepare a graph and count or list motifs in it, on CPUs (Numba) and GPUs (CUDA).

Input: a graph or part in memory and a motif. Output: a :class:`~papilio.kernels.engine.Partial` of exact integers.
One folder per family, with the same file names in each; ``rows``, ``search`` and ``device`` do not depend on any motif.
Start with ``engine.py`` (the contract), then ``wedge/cpu.py`` and ``wedge/butterfly.cu`` (the smallest family).
"""
