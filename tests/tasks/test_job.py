"""Jobs and tasks: JSON and pickle round trips, and keys that tell everything apart."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

from papilio.errors import InputError, UnsupportedError
from papilio.motifs import Biclique, Listing
from papilio.storage.records import read_record, write_record
from papilio.tasks.job import Budget, JobSpec, LeaseTask, PartitionRef, PrepareTask, digest
from tests.tasks.fakes import make_job

LEASE = LeaseTask(make_job(), "cpu", "plan", "run", 0, 3, 7, 40, "costs", "/tmp/shards", 1)
PREPARE = PrepareTask(make_job(per="edge"), "gpu", "run", 2, 1)
COSTS = np.arange(30, 0, -1, dtype=np.int64)
PIVOT = make_job(motif=Biclique(3), options=(("algorithm", "pivot"), ("anchor", "v")))
PARTED = make_job(partition=PartitionRef("/parts", "a" * 32), budget=Budget(1 << 30, None))


@pytest.mark.parametrize("spec", [make_job(), LEASE, PREPARE, PIVOT, PARTED])
def test_specs_survive_json_and_pickle(spec: JobSpec | LeaseTask | PrepareTask) -> None:
    assert read_record(type(spec), json.loads(json.dumps(write_record(spec))), "a spec", "write it again") == spec
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
