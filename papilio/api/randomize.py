"""The public function that draws random graphs: the samples that ``significance`` counts, as graphs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack, overload

from papilio.api.read import Graph, open_graph, save_graph
from papilio.arguments import Count, Seed, checked, plural, read_argument
from papilio.errors import InputError
from papilio.kernels.null.ensemble import Ensemble
from papilio.kernels.null.models import NullName
from papilio.motifs import Butterfly, Clique
from papilio.registry import motif_row
from papilio.storage.files import check_file
from papilio.storage.labelled import LabelledGraph
from papilio.storage.reading import GraphOptions


@checked
def randomize(
    graph: Any,
    *,
    null: NullName = "degrees",
    samples: Count = 1,
    seed: Seed = 0,
    steps: Count | None = None,
    trades: Count | None = None,
    **reading: Unpack[GraphOptions],
) -> RandomGraphs:
    """Draw random graphs that share something with a graph, such as the degree of every vertex.

    Sample i of a seed is the random graph i that :func:`papilio.significance` counts with the same seed, null model and
    number of trades.

    Parameters
    ----------
    graph : path or object
        As for :func:`papilio.read`.
    null : {"degrees", "expected-degrees", "edges", "signs"}
        What the random graphs share with the graph, as for :func:`papilio.significance`.
    samples : int
        Number of random graphs. Each is drawn on first use.
    seed : int
        Seed of the random graphs.
    steps : int, optional
        Steps of the chain from the graph to a sample, for "degrees"; by default 20, from 100 samples on of as many
        trades as a pilot finds enough for butterflies, or for triangles of a unipartite graph.
    trades : int, optional
        Global trades of that chain instead, such as ``papilio.significance(...).trades``.
    **reading
        As for :func:`papilio.read`.

    Returns
    -------
    RandomGraphs
        A sequence of graphs, with the labels of the given one.

    Raises
    ------
    PapilioError
        As :func:`papilio.read`; InputError for steps of a model that takes none, or steps and trades;
        UnsupportedError for a null model that does not fit the graph.

    Examples
    --------
    >>> for random in papilio.randomize("women.csv", samples=100, seed=7):
    ...     networkx.transitivity(random.to_networkx())
    """
    if steps is not None and trades is not None:
        raise InputError(f"steps is {steps} and trades is {trades}; give one of them")
    opened = open_graph(graph, "bipartite", reading, "")
    return RandomGraphs(opened, Ensemble.of(null, max(samples, 2), seed, trades or steps), samples, trades)


class RandomGraphs(Sequence[Graph]):
    """Random graphs, each drawn on first use.

    Attributes
    ----------
    null : str
    seed : int
    trades : int or None
        Global trades from the graph to each of them; None for null models without a chain.
    """

    def __init__(self, graph: Graph, ensemble: Ensemble, samples: int, trades: int | None) -> None:
        from papilio.kernels.null.cpu import ChainRandomizer, make_randomizer
        from papilio.kernels.null.engine import SampleEngine

        arrays = graph.arrays()
        if not ensemble.model.keeps_signs and arrays.sign is not None:
            arrays = replace(arrays, sign=None)
        self.null, self.seed, self._samples = ensemble.null, ensemble.seed, samples
        self.trades: int | None = None
        randomizer = make_randomizer(arrays, ensemble.model)
        if ensemble.pilot:  # as significance does for the smallest motif with a cycle
            motif = Butterfly() if graph.kind == "bipartite" else Clique(3)
            engine = SampleEngine(motif_row(motif).engines["cpu"]()(1), ensemble, 1)
            randomizer = engine.prepare(arrays, motif, "total").randomizer
        if isinstance(randomizer, ChainRandomizer):
            if trades is not None:
                randomizer.trades_per_step = 1
            self.trades = randomizer.trades_per_step * ensemble.steps
        self._randomizer = randomizer
        labels_v = graph.labels("v") if graph.kind == "bipartite" else None
        self._labelled = LabelledGraph(arrays, graph.labels("u"), labels_v, layers=graph.layers)

    def __len__(self) -> int:
        return self._samples

    @overload
    def __getitem__(self, index: int) -> Graph: ...
    @overload
    def __getitem__(self, index: slice) -> list[Graph]: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._samples))]
        at = range(self._samples)[index]
        return Graph(None, replace(self._labelled, graph=self._randomizer.sample(self.seed, at)))

    def __iter__(self) -> Iterator[Graph]:
        return map(self.__getitem__, range(self._samples))

    def __repr__(self) -> str:
        how = "" if self.trades is None else f", {plural(self.trades, 'trade')} each"
        return f"{plural(self._samples, 'random graph')} of null model {self.null!r} (seed {self.seed}{how})"

    def save(self, output: str | os.PathLike[str], *, overwrite: bool = False) -> list[str]:
        """Write the graphs, and return their paths.

        A single graph goes to ``output``: a graph store, or a table of its edges where the name has the suffix of one
        (.csv, .tsv, .parquet, .json, .jsonl, .arrow). Several go into the new directory ``output``, as stores.

        Raises
        ------
        InputError, StoreError
            If something exists at ``output``, unless it is a table and ``overwrite`` is set.
        """
        target = Path(read_argument("output", os.fspath(output), str))
        if self._samples == 1:
            return [save_graph(self[0], target, self._facts(0), overwrite=overwrite)]
        check_file(target, False)
        target.mkdir()
        digits = len(str(self._samples - 1))
        return [str(each.save(target / f"{at:0{digits}}").path) for at, each in enumerate(self)]

    def _facts(self, index: int) -> dict[str, str]:
        asked = {"null": self.null, "seed": self.seed, "sample": index, "trades": self.trades}
        return {f"papilio.{name}": str(value) for name, value in asked.items() if value is not None}
