"""Jobs and tasks: JSON and pickle round trips, and keys that tell everything apart."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

from papilio.errors import InputError, UnsupportedError
from papilio.motifs import MOTIFS as KNOWN
from papilio.motifs import (
    BalancedBiclique,
    BalancedButterfly,
    Biclique,
    Butterfly,
    Census,
    Clique,
    Listing,
    MaximalBiclique,
    MaximalClique,
    Motif,
    Projection,
)
from papilio.storage.records import read_record, write_record
from papilio.tasks.job import Budget, JobSpec, LeaseTask, PartitionRef, PrepareTask, digest
from tests.tasks.fakes import make_job, plan_of

LEASE = LeaseTask(make_job(), "cpu", "plan", "run", 0, 3, 7, 40, "costs", "/tmp/shards", 1)
PREPARE = PrepareTask(make_job(per="edge"), "gpu", "run", 2, 1)
COSTS = np.arange(30, 0, -1, dtype=np.int64)
PIVOT = make_job(motif=Biclique(3), options=(("algorithm", "pivot"), ("anchor", "v")))
PARTED = make_job(partition=PartitionRef("/parts", "a" * 32), budget=Budget(1 << 30, None))


@pytest.mark.parametrize("spec", [make_job(), LEASE, PREPARE, PIVOT, PARTED])
def test_specs_survive_json_and_pickle(spec: JobSpec | LeaseTask | PrepareTask) -> None:
    assert (
        read_record(type(spec), json.loads(json.dumps(write_record(spec))), "a spec", "write it again")
        == spec
    )
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_lease_keys_differ_in_everything_that_changes_the_result() -> None:
    others = [
        replace(LEASE, job=make_job(graph_hash="1" * 32)),
        replace(LEASE, job=make_job(per="vertex")),
        replace(LEASE, engine="gpu"),
        replace(LEASE, plan_key="other"),
        replace(LEASE, run_id="other"),
        replace(LEASE, partition=1),
        replace(LEASE, start=2),
        replace(LEASE, stop=8),
        replace(LEASE, sequence=2),
    ]
    assert len({LEASE.key, *(other.key for other in others)}) == len(others) + 1
    assert replace(LEASE).key == LEASE.key


MOTIFS: list[Motif] = [
    Butterfly(), BalancedButterfly(), Census("u"), Census("v"), BalancedBiclique(2, 3), Biclique(2, 3), Biclique(3, 2),
    Biclique(2, 4),
    Biclique(2, None), Biclique(None, 2), Biclique(), Biclique(max_p=2), Biclique(max_q=2), Biclique(max_p=2, max_q=3),
    Biclique(max_p=3, max_q=3), Biclique(2, None, max_q=3), Biclique(None, 2, max_p=3),
    *(Biclique(max_p=k, max_q=9 - k) for k in range(3, 6)),
    BalancedButterfly(k=3), BalancedButterfly(k=3, pair_side="v"), BalancedButterfly(k=None),
    BalancedButterfly(k=None, max_k=3), BalancedButterfly(k=None, max_k=4),
    Clique(3), Clique(4), Clique(), Clique(max_k=3), Clique(max_k=4), MaximalClique(), MaximalClique(3),
    MaximalBiclique(), MaximalBiclique(2), MaximalBiclique(min_v=2), MaximalBiclique(max_u=2), MaximalBiclique(max_v=2),
    Projection("u"), Projection("v"), Projection("u", 3), Projection("u", weighting="jaccard"),
    Projection("u", significance="hypergeometric"), Projection("u", significance="expected-degrees"),
    Projection("u", significance="hypergeometric", fdr=0.1), Projection("u", significance="degrees"),
    Projection("u", significance="degrees", samples=9), Projection("u", significance="degrees", seed=9),
]  # fmt: skip


def test_each_motif_with_each_of_its_parameters_is_another_question() -> None:
    """A parameter that is left out would give the answer of one job directory to another question."""
    jobs = [make_job(motif=motif, signed=True) for motif in MOTIFS]
    assert len({digest(job.identity) for job in jobs}) == len(jobs)
    tasks = [replace(LEASE, job=job) for job in jobs]
    assert (
        len({task.key for task in tasks}) == len({plan_of(COSTS, job=job).key for job in jobs}) == len(jobs)
    )
    assert {motif.name for motif in MOTIFS} == set(KNOWN), "each kind of motif is here"


def test_prepare_keys_differ_by_slot_run_and_attempt() -> None:
    others = [replace(PREPARE, slot=0), replace(PREPARE, run_id="x"), replace(PREPARE, attempt=0)]
    assert len({PREPARE.key, *(other.key for other in others)}) == 4


def test_source_partition_and_budget_do_not_belong_to_the_question() -> None:
    assert make_job(source="/a").identity == make_job(source="/b").identity == PARTED.identity


def test_jobs_written_before_there_were_partitions_are_read() -> None:
    written = json.loads(json.dumps(write_record(make_job())))
    del written["partition"], written["budget"]
    assert read_record(JobSpec, written, "a job", "write it again") == make_job()


def test_a_listing_of_parts_and_an_empty_budget_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="not on the parts of /parts"):
        replace(PARTED, motif=Biclique(2, 2), listing=Listing())
    with pytest.raises(InputError, match="host memory is 0 bytes"):
        Budget(host_bytes=0)


def test_vector_entries_follow_the_granularity() -> None:
    assert [make_job(per=per).vector_entries for per in ("total", "vertex", "edge")] == [0, 10, 9]


def test_unknown_granularity_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="per is 'face'; expected one of total, vertex, edge"):
        make_job(per="face")


def test_options_do_not_belong_to_the_question() -> None:
    assert PIVOT.identity == make_job(motif=Biclique(3)).identity
    assert make_job(motif=Biclique(3)) != PIVOT


def test_options_must_be_those_of_the_motif_and_in_order() -> None:
    with pytest.raises(InputError, match="butterfly has no option 'anchor'"):
        make_job(options=(("anchor", "v"),))
    for options in ((("anchor", "auto"),), (("anchor", "v"), ("algorithm", "pivot"))):
        with pytest.raises(UnsupportedError, match="are not sorted"):
            make_job(motif=Biclique(3), options=options)


def test_granularities_that_the_motif_does_not_have_are_refused() -> None:
    assert make_job(motif=Biclique(3, 3), per="vertex").vector_entries == 10
    with pytest.raises(UnsupportedError, match="a biclique cannot be counted per edge; use total or vertex"):
        make_job(motif=Biclique(3, 3), per="edge")
    with pytest.raises(UnsupportedError, match="a table of counts cannot be counted per vertex; use total"):
        make_job(motif=Biclique(3), per="vertex")


def test_digest_ignores_the_order_of_names() -> None:
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert len(digest([])) == 32
