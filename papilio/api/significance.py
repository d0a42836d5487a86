"""The public function that compares a count with the counts in random graphs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from time import perf_counter
from typing import Any, Unpack, overload

from papilio.api.call import Call, enter_executor, owns_output
from papilio.api.read import AskedOptions, Graph, ask
from papilio.arguments import Count, Samples, Seed, Workers, checked, plural
from papilio.cluster.events import Progress
from papilio.cluster.progress import shows_progress
from papilio.cluster.selection import is_auto
from papilio.errors import InputError, PapilioError
from papilio.kernels.engine import EngineChoice
from papilio.kernels.null.ensemble import Ensemble
from papilio.kernels.null.models import NullName
from papilio.motifs import Granularity, Motif, motif_to_json
from papilio.question import Question
from papilio.storage.answers import file_metadata, question_metadata, write_arrow
from papilio.storage.labelled import Vectors
from papilio.storage.listings import ListingShard
from papilio.storage.objects import holds_graphs
from papilio.storage.tables import check_table_file
from papilio.tasks.significance import SignificanceResult
from papilio.tasks.significances import SignificanceResults


@overload
def significance(
    graph: Mapping[str, str | os.PathLike[str] | Graph],
    motif: Motif | str,
    *,
    null: NullName | None = None,
    samples: int = 1000,
    seed: int = 0,
    steps: int | None = None,
    per: Granularity = "total",
    cluster: Any = None,
    engine: EngineChoice = "auto",
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    workers: int | None = None,
    progress: Progress = None,
    options: Mapping[str, str] | None = None,
    **asked: Unpack[AskedOptions],
) -> SignificanceResults: ...


@overload
def significance(
    graph: Any,
    motif: Motif | str,
    *,
    null: NullName | None = None,
    samples: int = 1000,
    seed: int = 0,
    steps: int | None = None,
    per: Granularity = "total",
    cluster: Any = None,
    engine: EngineChoice = "auto",
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    workers: int | None = None,
    progress: Progress = None,
    job: str | os.PathLike[str] | None = None,
    options: Mapping[str, str] | None = None,
    **asked: Unpack[AskedOptions],
) -> SignificanceResult: ...


@checked
@shows_progress
def significance(
    graph: Any,
    motif: Motif | str,
    *,
    null: NullName | None = None,
    samples: Samples = 1000,
    seed: Seed = 0,
    steps: Count | None = None,
    per: Granularity = "total",
    cluster: Any = None,
    engine: EngineChoice = "auto",
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    workers: Workers | None = None,
    progress: Progress = None,
    job: str | os.PathLike[str] | None = None,
    options: Mapping[str, str] | None = None,
    **asked: Unpack[AskedOptions],
) -> SignificanceResult | SignificanceResults:
    """Compare the count of a motif with its counts in random graphs: z, empirical p, quantiles.

    The answer depends on the graph, the null model, the samples and the seed, not on engines or workers. Samples are
    the work items of the job: with ``job`` an interrupted count continues with the next sample.

    Parameters
    ----------
    graph, motif, cluster, engine, workers, progress, job, options, asked
        As for :func:`papilio.count`. For a table of sizes, each size is compared. A dictionary of graphs by name, such
        as ``{"1990": "1990.csv", "1991": "1991.csv"}``, is compared graph by graph, all in the same way, without
        ``job``.
    null : {"degrees", "expected-degrees", "edges", "signs"}, optional
        What random graphs share with the graph: the degree of each vertex; these degrees on average; the number of
        edges alone; or all edges, with their signs permuted. By default "signs" for motifs that are defined by signs,
        else "degrees".
    samples : int
        Random graphs, from 2 to 1,000,000.
    seed : int
        Seed of the random graphs.
    steps : int, optional
        Steps of the chain from the graph to a sample, for "degrees"; by default 20, of as many trades as a pilot finds
        enough (``trades``, ``bias``). From 100 samples on, 20 further chains of twice as many steps show whether they
        are enough (``mixing``, ``warning``).
    per : {"total", "vertex"}
        Compare the count of the whole graph, or of every vertex.
    output : path-like, optional
        File for the rows of ``to_arrow``: the samples, the sizes, or the vertices; of several graphs, their rows. Its
        suffix is its format, as for :func:`papilio.count`.
    overwrite : bool
        Replace an existing file at ``output``.

    Returns
    -------
    SignificanceResult
    SignificanceResults
        For several graphs: a mapping of their names to results, with one table of all.

    Raises
    ------
    PapilioError
        As :func:`papilio.count`; UnsupportedError for a null model that does not fit the graph or the motif, and for
        counts per edge. Of several graphs it begins with the name of the graph; all are opened before the first count.

    Examples
    --------
    >>> papilio.significance("women.csv", "butterfly", samples=1000).z
    3.1
    """
    question: dict[str, Any] = {
        "null": null, "samples": samples, "seed": seed, "steps": steps, "per": per, "options": options, "asked": asked
    }  # fmt: skip
    where: dict[str, Any] = {"cluster": cluster, "engine": engine, "workers": workers, "progress": progress}
    if not holds_graphs(graph):
        where |= {"output": output, "overwrite": overwrite, "job": job}
        return SignificanceCall(graph, motif, **question, **where).execute()
    if job is not None:
        raise InputError(
            f"job is {os.fspath(job)!r}, for {plural(len(graph), 'graph')}: a job keeps one graph; leave it out"
        )
    return _compare_each(graph, motif, output, overwrite, question, where)


@contextmanager
def _named(name: Any) -> Iterator[None]:
    try:
        yield
    except PapilioError as error:
        raise type(error)(f"{name}: {error}") from error


def _compare_each(
    graphs: Mapping[Any, Any],
    motif: Motif | str,
    output: str | os.PathLike[str] | None,
    overwrite: bool,
    question: dict[str, Any],
    where: dict[str, Any],
) -> SignificanceResults:
    began, results = perf_counter(), dict[Any, SignificanceResult]()
    target = None if output is None else check_table_file(output, overwrite)
    with ExitStack() as stack:
        if not is_auto(where["cluster"]):  # all graphs share its workers
            started = enter_executor(stack, where["cluster"], where["engine"], where["workers"])
            where = {**where, "cluster": started, "workers": None}
        calls = {}
        for name, graph in graphs.items():
            with _named(name):
                calls[name] = SignificanceCall(graph, motif, output=None, overwrite=False, **question, **where)
        for name in graphs:
            with _named(name):
                results[name] = calls.pop(name).execute()
    found = SignificanceResults(results, perf_counter() - began, None if target is None else str(target))
    if target is not None:
        first = next(iter(results.values()))
        hashes = {str(name): each.graph["hash"] for name, each in results.items()}
        asked = {"motif": motif_to_json(first.motif), "ensemble": asdict(first.ensemble)}
        write_arrow(target, found.to_arrow(), question_metadata(graphs=hashes, **asked), overwrite=overwrite)
    return found


class SignificanceCall(Call[SignificanceResult]):
    """A comparison with random graphs; the samples, the sizes or the vertices go to a file."""

    def __init__(
        self,
        graph: Any,
        motif: Motif | str,
        *,
        null: NullName | None,
        samples: int,
        seed: int,
        steps: int | None,
        per: Granularity,
        options: Mapping[str, str] | None,
        output: str | os.PathLike[str] | None,
        overwrite: bool,
        asked: Mapping[str, Any],
        **where: Any,
    ) -> None:
        target = None

        def question_of(motif: Motif) -> Question:
            nonlocal target
            model = null or ("signs" if motif.needs_signs else "degrees")
            question = Question.of(motif, per, options, ensemble=Ensemble.of(model, samples, seed, steps))
            if output is not None:
                target = check_table_file(output, self._overwrite)  # before the graph is read
            return question

        self._overwrite = overwrite or owns_output(where.get("job"), output)
        graph, question = ask(graph, motif, asked, question_of)
        super().__init__(graph, question, target, **where)
        graph.require_storable(target)

    def write(self, result: SignificanceResult, listed: Sequence[ListingShard], kept: bool) -> SignificanceResult:
        vectors = Vectors(dict(result.vectors), self.graph.labelled)
        whole = replace(result, vectors=vectors, source=self.graph.held)
        if self.target is not None:
            asked = {"motif": motif_to_json(result.motif), "ensemble": self.spec.identity["ensemble"]}
            metadata = file_metadata(self.spec.graph_hash, **asked)
            write_arrow(self.target, whole.to_arrow(), metadata, overwrite=self._overwrite)
        return whole
