"""Laws of every motif, on CPUs, by the functions that users call; what they ask is in ``examples.py``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, replace
from math import inf
from pathlib import Path
from typing import Any, cast, get_args, get_type_hints

import numpy as np
import pyarrow.parquet as pq
import pytest

import papilio
from papilio.api.estimate import Estimate, EstimateCall
from papilio.cluster.estimate_job import Goal
from papilio.cluster.events import LeaseFinished
from papilio.errors import InputError, UnsupportedError
from papilio.graph import BipartiteGraph, GraphKind
from papilio.kernels import threads
from papilio.kernels.engine import ENGINES, Engine, fold_partials
from papilio.kernels.motif_row import MotifRow
from papilio.motifs import (
    GRANULARITIES,
    MOTIFS,
    Granularity,
    Motif,
    motif_from_json,
    motif_to_json,
    read_motif,
)
from papilio.registry import MOTIF_ROWS, load_engine, motif_row
from papilio.storage.records import read_record, write_record
from papilio.storage.store import write_store
from papilio.tasks import forecast, leases
from papilio.tasks.job import JobSpec, LeaseTask, digest
from tests.families.examples import EXAMPLES, GRAPHS, example_of
from tests.kernels.test_memory_terms import predict
from tests.tasks.fakes import make_job, plan_of
from tests.tools.commands import Run
from tests.tools.differential import cases, laws
from tests.tools.differential.answers import Answer, EngineAnswerer
from tests.tools.differential.definition import OracleAnswerer
from tests.tools.little_cliques import ROW

HERE: dict[str, Any] = {"cluster": "inline", "engine": "cpu"}
CPU, ORACLE = EngineAnswerer("cpu", None), OracleAnswerer()

NAMES = [*MOTIF_ROWS, ROW.motif.name]
"""The motifs of the package, and one that it does not know."""

MOTIFS_ASKED = [motif for name in NAMES if name in EXAMPLES for motif in EXAMPLES[name].questions]
FIRST = [EXAMPLES[name].questions[0] for name in NAMES if name in EXAMPLES]
ASKED = [(motif, per) for motif in MOTIFS_ASKED for per in motif.granularities]

of_motifs = pytest.mark.parametrize("motif", MOTIFS_ASKED, ids=repr)
of_first = pytest.mark.parametrize("motif", FIRST, ids=repr)
of_questions = pytest.mark.parametrize(("motif", "per"), ASKED, ids=lambda each: str(each))


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    """The rows of the package, and one that it does not know; probes may wait for a compiler or a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MOTIFS, ROW.motif.name, ROW.motif)
        patch.setitem(MOTIF_ROWS, ROW.motif.name, ROW)
        patch.setattr(forecast, "SLOW_PROBES_S", inf)
        yield


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Stores of the graphs, whose vertices have labels."""
    folder = tmp_path_factory.mktemp("graphs")
    for kind, graph in GRAPHS.items():
        labels: dict[str, Any] = {"labels_u": np.array([f"a{i}" for i in range(graph.n_u)], object)}
        if isinstance(graph, BipartiteGraph):
            labels["labels_v"] = np.array([f"b{i}" for i in range(graph.n_v)], object)
        write_store(folder / kind, graph, provenance={}, **labels)
    return {kind: folder / kind for kind in GRAPHS}


@pytest.fixture
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases of few items, however quick they are."""
    monkeypatch.setattr(leases, "SHORTEST_LEASE_S", 1e-12)
    monkeypatch.setattr(leases, "MAX_LEASE_S", 1e-12)
    monkeypatch.setattr(leases, "VECTOR_OVERHEAD", 1e9)
    monkeypatch.setattr(leases, "TAIL_VECTOR_OVERHEAD", 1e9)


class Stopped(Exception):
    """Ends a job after a lease."""


def stop_after_a_lease(event: object) -> None:
    if isinstance(event, LeaseFinished):
        raise Stopped


def graph_of(motif: Motif) -> Any:
    return GRAPHS[motif_row(motif).graph_kind]


def define(motif: Motif, per: Granularity = "total", *, listed: bool = False) -> Answer:
    """Return the answer by definition."""
    listing = papilio.motifs.Listing() if listed else None
    return ORACLE(graph_of(motif), cases.Question(motif, per, (), listing), {})


def assert_counts(result: Any, wanted: Answer) -> None:
    """Compare a result with an answer by definition."""
    assert (result.count, dict(result.table)) == (wanted.total, wanted.cells)
    assert {name: result.vectors[name].tolist() for name in result.vectors} == {
        name: vector.tolist() for name, vector in wanted.vectors.items()
    }
    if wanted.checksum is not None:
        assert result.checksum == wanted.checksum


def can_be_listed(motif: Motif) -> bool:
    row = motif_row(motif)
    return row.listed is not None and bool(row.listed.columns(motif))


def overrides(motif: Motif, *methods: str) -> bool:
    """Return whether the engine for CPUs has one of these methods of its own."""
    engine = motif_row(motif).engines["cpu"]()
    return any(getattr(engine, name) is not getattr(Engine, name) for name in methods)


@pytest.mark.parametrize("name", NAMES)
def test_every_motif_has_an_example(name: str) -> None:
    questions = example_of(name).questions
    assert all(type(motif) is MOTIF_ROWS[name].motif for motif in questions)
    kind = MOTIF_ROWS[name].motif
    assert kind.by_size or not questions[0].is_table, f"the first question of EXAMPLES[{name!r}] is a table"
    assert not kind.sizes or any(motif.is_table for motif in questions), f"EXAMPLES[{name!r}] has no table"
    assert all(define(motif).total > 1 for motif in questions), f"EXAMPLES[{name!r}] counts too little"
    if MOTIF_ROWS[name].listed is not None:
        assert can_be_listed(questions[0]), f"the first question of EXAMPLES[{name!r}] cannot be listed"


@of_questions
def test_counts_are_those_of_the_definition(motif: Motif, per: Granularity) -> None:
    result = papilio.count(graph_of(motif), motif, per=per, **HERE)
    assert_counts(result, define(motif, per))
    assert (result.motif, result.per, result.engine) == (motif, per, "cpu")
    found = json.loads(result.to_json())
    assert (found["count"], found["motif"], found["per"]) == (result.count, motif.name, per)
    if per != "total":
        names = set(motif_row(motif).members(motif, ())) & set(result.vectors)
        assert names == set(result.vectors), "members of the row name other vectors than the engine has"


@of_questions
def test_laws_of_the_search_for_wrong_counts_hold(motif: Motif, per: Granularity) -> None:
    """Sums, any split, other names, layers exchanged, a graph beside it, an edge less, parts, closed forms."""
    for listing in (None, papilio.motifs.Listing()) if can_be_listed(motif) and per == "total" else (None,):
        question = cases.Question(motif, per, (), listing)
        case = cases.Case(0, motif.name, "example", graph_of(motif), question, {"cpu_threads": 2})
        answer = CPU(case.graph, question, case.tuning)
        asked = laws.Asked(case, CPU, answer, np.random.default_rng(46))
        assert laws.check_sums(asked) == ""
        for name, law in laws.LAWS.items():
            if name != "closed_forms" or motif.name in MOTIF_ROWS.keys() - {ROW.motif.name}:
                assert law(asked) == "", f"the law of {name}"


@of_questions
def test_a_run_that_is_cut_answers_for_the_items_that_it_finished(
    motif: Motif, per: Granularity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "SERIAL_COST", 1)
    engine = load_engine(motif, "cpu", 2)
    prepared = engine.prepare(graph_of(motif), motif, per)
    n = prepared.n_items
    whole = engine.run(prepared, 0, n)
    for most in (0, 1, 3, 9):
        asked = iter(range(most))
        first = engine.run(prepared, 0, n, list(range(1, n)), lambda asked=asked: next(asked, None) is None)
        assert 0 <= first.n_items <= n
        for got, wanted in (
            (first, engine.run(prepared, 0, first.n_items)),
            (fold_partials(first, engine.run(prepared, first.n_items, n)), whole),
        ):
            assert (got.n_items, got.total, got.cells) == (wanted.n_items, wanted.total, wanted.cells)
            assert (got.checksum, got.best) == (wanted.checksum, wanted.best)
            assert all((got.vectors[name] == vector).all() for name, vector in wanted.vectors.items())
    with pytest.raises(InputError, match=r"are not within \[0, "):
        engine.run(prepared, 0, n + 1)


@of_questions
def test_plans_have_the_items_and_survive_json(motif: Motif, per: Granularity, stores: Mapping[str, Path]) -> None:
    plan = papilio.plan(stores[motif_row(motif).graph_kind], motif, per=per, **HERE)
    plan.validate()
    assert papilio.CountPlan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    prepared = load_engine(motif, "cpu", 1).prepare(graph_of(motif), motif, per)
    assert plan.n_items == prepared.n_items > 0
    assert (plan.job.motif, plan.job.per, plan.job.options) == (motif, per, ())


@of_questions
@pytest.mark.usefixtures("short_leases")
def test_a_job_that_was_stopped_is_resumed_and_verified(
    motif: Motif, per: Granularity, stores: Mapping[str, Path], tmp_path: Path
) -> None:
    store, job = stores[motif_row(motif).graph_kind], tmp_path / "job"
    with pytest.raises(Stopped):
        papilio.count(store, motif, per=per, job=job, progress=stop_after_a_lease, **HERE)
    resumed = papilio.resume_job(job)
    wanted = define(motif, per)
    assert_counts(resumed, wanted)
    assert resumed.leases_before == 1
    assert resumed.leases > 1 or resumed.items == 1
    again = papilio.resume_job(job)
    assert again.reused
    assert_counts(again, wanted)
    answer = papilio.open_job(job).result()
    assert_counts(answer, wanted)
    assert answer.best == resumed.best == papilio.count(store, motif, **HERE).best
    check, recount = papilio.verify_job(job, sample=2)
    assert (check.count, check.leases) == (wanted.total, resumed.leases)
    assert recount is not None
    assert recount.leases == min(2, resumed.leases)


def sample(motif: Motif) -> Estimate:
    """Estimate what could be counted in less time."""
    call = EstimateCall(graph_of(motif), motif, Goal(0.1, 0.999, None), 46, **HERE)
    return call.estimate(may_count=False)


@of_motifs
def test_estimates_hold_the_count_or_are_refused(motif: Motif) -> None:
    if not overrides(motif, "prober"):
        with pytest.raises(UnsupportedError, match=r"cannot (?:be )?(?:probe|estimate)"):
            sample(motif)
        return
    found, wanted = sample(motif), define(motif).total
    low, high = found.interval
    assert low <= wanted <= high
    assert found.is_reliable
    assert found.exact in (None, wanted)  # some searches end with their first probes
    assert papilio.estimate(graph_of(motif), motif, **HERE).exact == wanted


@of_first
def test_random_graphs_are_counted_or_refused(motif: Motif) -> None:
    graph, null = graph_of(motif), "signs" if motif.needs_signs else "degrees"
    found = papilio.significance(graph, motif, samples=3, seed=46, **HERE)
    assert (found.count, len(found.samples), found.null) == (define(motif).total, 3, null)
    assert papilio.significance(graph, motif, samples=3, seed=46, **HERE).samples == found.samples
    with pytest.raises(UnsupportedError, match=r"random graphs have different edges|cannot be counted per edge"):
        papilio.significance(graph, motif, samples=3, per="edge", **HERE)
    wrong = "degrees" if motif.needs_signs else "signs"
    with pytest.raises(UnsupportedError, match=f"null is {wrong!r}, and a .* signs: use null"):
        papilio.significance(graph, motif, samples=3, null=cast(Any, wrong), **HERE)


@of_motifs
def test_motifs_and_questions_survive_json(motif: Motif) -> None:
    assert motif_from_json(json.loads(json.dumps(motif_to_json(motif)))) == motif
    assert read_motif(motif.name, {each.name: getattr(motif, each.name) for each in fields(motif)}) == motif
    for per in motif.granularities:
        job = make_job(motif=motif, per=per, signed=True)
        assert read_record(JobSpec, json.loads(json.dumps(write_record(job))), "a job", "") == job
    assert motif.title
    assert motif.words[0] == motif.name


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_makes_another_question(name: str) -> None:
    """A parameter that is left out of the identity would give the answer of one job directory to another question."""
    starts = list(EXAMPLES[name].questions)
    asked = set(starts)
    for field, values in values_of(MOTIF_ROWS[name].motif).items():
        changed = [motif for start in starts for motif in change(start, field, values)]
        assert changed, f"no other value of {field} was found"
        starts += (changed[0], changed[-1])  # some fields depend on others
        asked |= set(changed)
    jobs = [make_job(motif=motif, signed=True) for motif in asked]
    costs = np.array([2, 1])
    lease = LeaseTask(jobs[0], "cpu", "plan", "run", 0, 3, 7, 40, "costs", "/tmp/shards", 1)
    assert len({digest(job.identity) for job in jobs}) == len(asked)
    assert len({replace(lease, job=job).key for job in jobs}) == len(asked)
    assert len({plan_of(costs, job=job).key for job in jobs}) == len(asked)


def values_of(kind: type[Motif]) -> dict[str, tuple[Any, ...]]:
    """Return values of every type that the fields of a motif may have, by field."""
    hints = get_type_hints(kind)
    named = {each.name: get_args(hints[each.name]) for each in fields(kind)}
    choices = {name: (*args, *(one for arg in args for one in get_args(arg))) for name, args in named.items()}
    return {name: (*values, None, 2, 3, 4, 0.25) for name, values in choices.items()}


def change(motif: Motif, field: str, values: tuple[Any, ...]) -> Iterator[Motif]:
    for value in values:
        try:
            other = replace(motif, **{field: value})
        except InputError:
            continue
        if other != motif:
            yield other


@of_first
def test_wrong_kinds_of_graphs_are_refused(motif: Motif) -> None:
    row = motif_row(motif)
    other: GraphKind = "bipartite" if row.graph_kind == "unipartite" else "unipartite"
    for ask in (papilio.count, papilio.plan, papilio.estimate, papilio.significance):
        with pytest.raises(UnsupportedError, match=f"{motif.name!r} is defined on {row.graph_kind} graphs"):
            ask(GRAPHS[other], motif, **HERE)
    engine = load_engine(motif, "cpu", 1)
    with pytest.raises(UnsupportedError, match=f"requires a {row.graph_kind} graph"):
        engine.prepare(GRAPHS[other], motif, "total")
    with pytest.raises(UnsupportedError, match="engine cannot count 'other'"):
        engine.prepare(GRAPHS[row.graph_kind], type("Other", (Motif,), {"name": "other"})(), "total")
    if motif.needs_signs:
        graph = GRAPHS["bipartite"]
        with pytest.raises(UnsupportedError, match="sign"):
            papilio.count(BipartiteGraph.from_edges(graph.u, graph.v), motif, **HERE)


@of_motifs
def test_granularities_that_a_motif_does_not_have_are_refused(motif: Motif) -> None:
    wrong = [per for per in GRANULARITIES if per not in motif.granularities]
    for per in wrong:
        said = f"cannot be counted per {per}; use {' or '.join(motif.granularities)}"
        with pytest.raises(UnsupportedError, match=said):
            papilio.count(graph_of(motif), motif, per=per, **HERE)
        with pytest.raises(UnsupportedError, match=f"cannot be counted per {per!r}; expected one of total"):
            load_engine(motif, "cpu", 1).prepare(graph_of(motif), motif, per)
    with pytest.raises((InputError, UnsupportedError), match="per is 'face'"):
        papilio.count(graph_of(motif), motif, per=cast(Any, "face"), **HERE)


@of_first
def test_engines_options_and_sizes_that_a_motif_does_not_have_are_refused(motif: Motif) -> None:
    graph, row = graph_of(motif), motif_row(motif)
    for engine in ENGINES:
        if engine not in row.engines:
            place = "CPUs" if "cpu" in row.engines else "GPUs"
            said = f"{motif.name}s are counted on {place}, and engine is {engine!r}; give"
            with pytest.raises(UnsupportedError, match=said):
                papilio.count(graph, motif, engine=engine, cluster="inline")
            with pytest.raises(UnsupportedError, match=f"motif {motif.name!r} has no {engine} engine"):
                load_engine(motif, engine)
    with pytest.raises(InputError, match=f"{motif.name} has no option 'pace'; its options: "):
        papilio.count(graph, motif, options={"pace": "slow"}, **HERE)
    for name, values in motif.choices.items():
        with pytest.raises(InputError, match=f"{name} is 'slow'; expected one of {', '.join(values)}"):
            papilio.count(graph, motif, options={name: "slow"}, **HERE)
        for value in values:
            assert papilio.count(graph, motif, options={name: value}, **HERE).count == define(motif).total
    with pytest.raises(InputError, match=f"pace is given, but {motif.name!r} has "):
        read_motif(motif.name, {"pace": 3})
    needed = [each.name for each in fields(motif) if each.default is MISSING]
    if needed:
        with pytest.raises(InputError, match=f"motif is {motif.name!r}, which needs .*{needed[0]}"):
            read_motif(motif.name)
    for each in fields(motif):
        with pytest.raises(InputError, match=each.name):
            replace(motif, **{each.name: "much"})


def list_rows(folder: Path, row: MotifRow, motif: Motif) -> list[tuple[Any, ...]]:
    """Return the vertices of the rows of a listing, and their numbers, sorted."""
    tables = [pq.read_table(file) for file in sorted(folder.glob("*.parquet"))]
    rows = [tuple(each.values()) for table in tables for each in table.to_pylist()]
    if row.numbers(motif):  # files of pairs have a column for each vertex
        return sorted(((one, two), numbers) for one, two, *numbers in rows)
    return sorted(tuple(map(tuple, each)) for each in rows)


@of_first
@pytest.mark.usefixtures("short_leases")
def test_listings_have_the_rows_of_the_definition(motif: Motif, stores: Mapping[str, Path], tmp_path: Path) -> None:
    row = motif_row(motif)
    store = stores[row.graph_kind]
    if not can_be_listed(motif):
        with pytest.raises(UnsupportedError, match="cannot be listed; "):
            papilio.enumerate(store, motif, output=tmp_path / "rows", limit=None, **HERE)
        return
    named = {"u": "a", "v": "b", "n": "a"}
    marks = [named[layer] for layer in row.columns(motif)]
    wanted = sorted(
        (*(tuple(f"{mark}{i}" for i in side) for mark, side in zip(marks, each, strict=False)),
         *map(list, each[len(marks) :]))
        for each in define(motif, listed=True).rows or ()
    )  # fmt: skip
    listed = papilio.enumerate(store, motif, output=tmp_path / "rows", limit=None, **HERE)
    assert list_rows(tmp_path / "rows", row, motif) == wanted
    assert listed.rows == len(wanted) > 3
    few = papilio.enumerate(store, motif, output=tmp_path / "few", limit=3, **HERE)
    rows = list_rows(tmp_path / "few", row, motif)
    assert (few.rows, few.limit_reached, len(rows)) == (3, True, 3)
    assert all(each in wanted for each in rows)
    job, output = tmp_path / "job", tmp_path / "resumed"
    with pytest.raises(Stopped):
        papilio.enumerate(store, motif, output=output, limit=None, job=job, progress=stop_after_a_lease, **HERE)
    assert not output.exists()
    resumed = papilio.resume_job(job)
    assert 1 == resumed.leases_before < resumed.leases
    assert list_rows(output, row, motif) == wanted
    _, recount = papilio.verify_job(job, sample=2)
    assert recount is not None


@of_motifs
def test_the_command_counts_as_many(motif: Motif, stores: Mapping[str, Path], run: Run) -> None:
    where = ("--cluster", "inline", "--engine", "cpu")
    code, out, err = run("count", *motif.words, stores[motif_row(motif).graph_kind], "--json", *where)
    assert code == 0, err
    assert json.loads(out)["count"] == define(motif).total


@of_questions
def test_memory_is_predicted_for_every_engine(motif: Motif, per: Granularity) -> None:
    row = motif_row(motif)
    listings = [None, papilio.motifs.Listing()] if can_be_listed(motif) and per == "total" else [None]
    for engine in row.engines:
        for listing in listings:
            host, device, *parts = predict(motif, listing, engine, per)
            assert host > 0
            assert (device > 0) == (engine == "gpu")
            assert len(parts) == (0 if row.parted is None else 4)
            assert not parts or min(parts[:3]) > 0
