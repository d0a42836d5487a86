"""Wrong counts are sought on drawn graphs, for as long as there is time: one engine against another, and laws.

``python -m tests.tools.differential --engine gpu --against cpu --seconds 60 --seed 1``

A case follows from its number alone: a graph that crosses the sizes at which kernels take other paths
(:mod:`.graphs`), a question with options of the engine (:mod:`.cases`), constants of the launches and a law
(:mod:`.laws`). A case that fails is printed with the smallest part of its graph that still does (:mod:`.shrink`), and
``--case NUMBER`` repeats it. ``--record FILE`` keeps what an engine answers and ``--recorded FILE`` compares with it,
so that a GPU need not wait for a CPU.
"""
