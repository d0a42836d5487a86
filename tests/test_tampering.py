"""Directories as they were written before, whole and damaged: the right answer or an error, never a traceback.

The directories are of the Southern Women graph, with and without labels, and of two others: finished and unfinished
counts, one for every vertex, a table, a listing, counts of partitions for butterflies, bicliques and cliques, and an
experiment. They were written once and are kept as they are, so that what is written today is not the only thing that
can be read. Only their answers have been put into the form of version 2. Those of the large graph have several files
and row groups.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import random
import shutil
import signal
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import papilio
from papilio.cli import main
from papilio.cli.app import EXIT_CODES
from papilio.errors import PapilioError, StoreError
from papilio.partitioning.partition import open_partition
from papilio.reports.experiment import ExperimentDirectory
from papilio.reports.measure import read_run
from papilio.storage.answers import read_partial_shard
from papilio.storage.listings import check_listing, check_listing_shards, read_listing
from papilio.storage.store import open_store
from tests.conftest import ROOT
from tests.tools.tampering import MUTATIONS, mutate, reseal

WRITTEN_AT = "/tmp/papilio-jobs"
"""Where the directories were written."""

CASES = int(os.environ.get("PAPILIO_TAMPERED", "3000"))
"""Damaged files of the long test."""

SEED = int(os.environ.get("PAPILIO_SEED", "1"))

RUN = ("--cluster", "inline", "--engine", "cpu")

COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "counted": (
        ("resume", "@counted"), ("status", "@counted"), ("verify", "@counted"),
        ("count", "butterfly", "@store", "--job", "@counted", "--cluster", "inline"),
    ),
    "vertex": (
        ("resume", "@vertex"), ("verify", "@vertex"),
        ("count", "butterfly", "@named", "--per", "vertex", "--job", "@vertex", "--cluster", "inline"),
    ),
    "table": (("resume", "@table"), ("status", "@table"), ("verify", "@table")),
    "listing": (("resume", "@listing"), ("verify", "@listing"), ("status", "@listing")),
    "unfinished": (("resume", "@unfinished", "--engine", "cpu"), ("status", "@unfinished")),
    "parted": (("resume", "@parted"), ("verify", "@parted")),
    "rooted": (("resume", "@rooted"), ("verify", "@rooted")),
    "parts": (("count", "butterfly", "@store", "--parts", "@parts", *RUN), ("verify", "@parted")),
    "roots": (
        ("count", "biclique", "@store", "-p", "2", "-q", "3", "--per", "vertex", "--parts", "@roots", *RUN),
        ("verify", "@rooted"),
    ),
    "cliques": (("count", "clique", "@friends", "-k", "3", "--per", "edge", "--parts", "@cliques", *RUN),),
    "large-parts": (("count", "butterfly", "@large", "--per", "vertex", "--parts", "@large-parts", *RUN),),
    "store": (
        ("count", "butterfly", "@store", *RUN), ("info", "@store", "--verify"),
        ("resume", "@unfinished", "--engine", "cpu"),
    ),
    "named": (
        ("count", "butterfly", "@named", "--per", "vertex", *RUN), ("info", "@named", "--verify"),
        ("count", "butterfly", "@named", "--per", "edge", *RUN),
    ),
    "friends": (("count", "clique", "@friends", "--all-k", *RUN), ("info", "@friends", "--verify")),
    "large": (("count", "butterfly", "@large", "--per", "edge", *RUN), ("info", "@large", "--verify")),
    "listed": (("resume", "@listing"),),
    "scale": (("report", "@scale", "--no-figures"),),
}  # fmt: skip
"""The commands that read each directory."""

Answers = dict[tuple[str, ...], dict[str, Any]]
"""What commands answer for the whole directories."""

FACTS = ("count", "table", "top", "n_edges", "n_u", "n_v", "degrees", "graph_hash", "problem", "runs")
"""What an answer says, of what its JSON holds."""


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directories, whole."""
    root = tmp_path_factory.mktemp("written")
    with tarfile.open(ROOT / "tests/data/written-before.tar.gz") as archive:
        archive.extractall(root, filter="data")
    move(root, WRITTEN_AT, root)
    return root


def move(root: Path, before: str | Path, after: Path) -> None:
    """Let the JSON files below ``root`` name another directory; their digests follow."""
    for path in root.rglob("*.json"):
        text = path.read_text()
        if str(before) in text:
            path.write_text(text.replace(str(before), str(after)))
            reseal(path)


def call(*words: str) -> tuple[int, dict[str, Any], str]:
    """Call a command; return its exit code, the JSON that it wrote, and its messages."""
    out, err = io.StringIO(), io.StringIO()
    before = signal.getsignal(signal.SIGTERM)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main([*words, "--json"])
    signal.signal(signal.SIGTERM, before)
    assert isinstance(ended.value.code, int)
    text = out.getvalue()
    return ended.value.code, json.loads(text) if text.startswith("{") else {}, err.getvalue()


def facts_of(answer: dict[str, Any]) -> dict[str, Any]:
    """Return what an answer says that may not be wrong; a job without its count says nothing."""
    found = {name: answer[name] for name in FACTS if answer.get(name) is not None}
    if "runs" in found:
        found["runs"] = [(each["workers"], each["repeat"], each["count"]) for each in found["runs"]]
    if answer.get("graph"):
        found["hash"] = answer["graph"]["hash"] if isinstance(answer["graph"], dict) else answer["graph"]
    return found


@contextlib.contextmanager
def copied(written: Path, root: Path) -> Iterator[Path]:
    """Give a copy of the directories, as if they had been written there."""
    shutil.copytree(written, root)
    move(root, written, root)
    yield root
    shutil.rmtree(root)


def in_root(root: Path, words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(root / word[1:]) if word.startswith("@") else word for word in words)


@pytest.fixture(scope="session")
def answers(written: Path, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """The facts that each command gives for the whole directories."""
    found = {}
    for words in {each for commands in COMMANDS.values() for each in commands}:
        with copied(written, tmp_path_factory.mktemp("whole") / "x") as root:
            code, answer, message = call(*in_root(root, words))
            assert code == 0, message
            found[words] = facts_of(answer)
    return found


def test_directories_that_were_written_before_are_read(answers: Answers, written: Path) -> None:
    counts = {words: found.get("count") for words, found in answers.items() if words[0] == "resume"}
    assert counts == {
        ("resume", "@counted"): 341, ("resume", "@vertex"): 341, ("resume", "@table"): 25_737,
        ("resume", "@listing"): 36, ("resume", "@unfinished", "--engine", "cpu"): 341, ("resume", "@parted"): 341,
        ("resume", "@rooted"): 267,
    }  # fmt: skip
    job = papilio.open_job(written / "counted")
    assert job.history().plan_keys == {job.plan_key}
    assert job.control.coordinator is not None
    assert ExperimentDirectory(written / "scale").experiment.workers == (1,)


@pytest.mark.parametrize("change", [{"labels": [99]}, {"count": 92}, {"ids": [1]}, {"place": "v"}])
def test_largest_counts_are_those_of_the_vectors_and_the_store(
    written: Path, tmp_path: Path, answers: Answers, change: dict[str, Any]
) -> None:
    words = ("resume", "@vertex")
    with copied(written, tmp_path / "x") as root:
        path = root / "vertex" / "result.json"
        data = json.loads(path.read_text())
        data["result"]["top"][0] |= change
        reseal(path, **data)
        code, answer, message = call(*in_root(root, words))
        if "labels" in change:
            assert facts_of(answer) == answers[words]
        else:
            assert code == 1
            assert "differ from the answer" in message
        top = data["result"]["top"]
        path = root / "counted" / "result.json"
        data = json.loads(path.read_text())
        data["result"]["top"] = top
        reseal(path, **data)
        code, _, message = call(*in_root(root, ("resume", "@counted")))
        assert code == 1
        assert "was counted per total" in message


@pytest.mark.parametrize(
    ("name", "file", "advice"),
    [
        ("store", "graph.json", "convert the graph again"), ("parts", "partition.json", "create it again"),
        ("counted", "job.json", "count again"), ("listed", "_listing.json", "remove it"),
        ("scale", "scale.json", "run the experiment in another directory"),
    ],
)  # fmt: skip
def test_files_of_version_1_hold_no_digests(written: Path, tmp_path: Path, name: str, file: str, advice: str) -> None:
    shutil.copytree(written / name, tmp_path / "x")
    reseal(tmp_path / "x" / file, format_version=1)
    with pytest.raises(StoreError, match=rf"{file} has format_version 1, without digests .* reads 2: .*{advice}"):
        READERS[name](tmp_path / "x")


def test_an_answer_of_version_1_is_written_again(written: Path, tmp_path: Path) -> None:
    shutil.copytree(written / "vertex", tmp_path / "x")
    count = papilio.open_job(tmp_path / "x").result().count
    file = tmp_path / "x" / "result.json"
    reseal(file, format_version=...)
    with pytest.raises(StoreError, match=r"result.json has format_version 1; .* reads 2: remove the file"):
        papilio.open_job(tmp_path / "x").result()
    file.unlink()
    assert papilio.resume_job(tmp_path / "x").count == count


def test_every_key_of_an_answer_counts(written: Path, tmp_path: Path) -> None:
    """A key ``checksum`` with another name was taken for that of a newer version, and the answer for one without."""
    shutil.copytree(written / "table", tmp_path / "x")
    path = tmp_path / "x" / "result.json"
    whole = json.loads(path.read_text())
    for key in whole["result"]:
        result = {f"{name}x" if name == key else name: value for name, value in whole["result"].items()}
        path.write_text(json.dumps({**whole, "result": result}))
        with pytest.raises(StoreError, match=r"result.json has digest"):
            papilio.open_job(tmp_path / "x").result()


def test_the_ledger_of_another_job_is_refused(written: Path, tmp_path: Path) -> None:
    for name, q in (("one", 2), ("two", 3)):
        papilio.count(written / "store", papilio.Biclique(2, q), engine="cpu", job=tmp_path / name)
        (tmp_path / name / "result.json").unlink()
    shutil.copyfile(tmp_path / "two" / "ledger.jsonl", tmp_path / "one" / "ledger.jsonl")
    for words in (("resume", "@one"), ("status", "@one")):
        code, _, message = call(*in_root(tmp_path, words))
        assert code == 1
        assert "ledger.jsonl belongs to plan" in message


def check(seed: str, kind: str, written: Path, scratch: Path, answers: Answers) -> None:
    """Damage one file, and call a command that reads it."""
    rng = random.Random(seed)
    name = rng.choice(list(COMMANDS))
    words = rng.choice(COMMANDS[name])
    with copied(written, scratch) as root:
        files = sorted(path for path in (root / name).rglob("*") if path.is_file())
        changed = False
        while not changed:
            path = rng.choice(files)
            inner = path.relative_to(root / name)
            found = [root / each / inner for each in COMMANDS if each != name]
            others = [each for each in found if each.is_file()]
            changed = mutate(rng, kind, path, rng.choice(others) if others else None)
            kind = kind if changed else rng.choice(MUTATIONS)
        damaged = path.read_bytes() if path.is_file() else None
        what = f"seed {seed}: {kind} of {name}/{inner}, papilio {' '.join(words)}"
        try:
            code, answer, message = call(*in_root(root, words))
        except BaseException as error:
            raise AssertionError(f"{what}: {error!r}") from error
        if code == 0:
            facts, right = facts_of(answer), dict(answers[words])
            if words[0] == "report" and path.suffix == ".jsonl":  # a torn ledger may lack the last runs
                assert set(facts.pop("runs", [])) <= set(right.pop("runs")), f"{what}: {facts}"
            assert facts.items() <= right.items(), f"{what}: {facts}"
            assert words[0] == "status" or facts.keys() == right.keys(), f"{what}: {facts}"
        else:
            assert code in {each for _, each, _ in EXIT_CODES}, f"{what}: {code} {message}"
            assert message.startswith("papilio: "), f"{what}: {message}"
            if damaged is not None and path.suffix == ".json":
                assert path.read_bytes() == damaged, f"{what} changed the file"


def test_a_few_damaged_files(written: Path, tmp_path: Path, answers: Answers) -> None:
    for i in range(2 * len(MUTATIONS)):
        check(f"{SEED}-{i}", MUTATIONS[i % len(MUTATIONS)], written, tmp_path / "x", answers)


Content = tuple[Any, list[Any]]
"""What a directory holds, and which leases or runs its ledgers say are done: a torn ledger may lack the last ones."""


def read_store(path: Path) -> Content:
    """Read the edges, at once and by ranges, and the labels."""
    store = open_store(path)
    graph, half = store.read(), store.n_u // 2
    parts = [store.read(0, half), store.read(half, store.n_u)]
    assert np.array_equal(np.concatenate([part.u for part in parts]), graph.u)
    columns = [store.label_column("u"), store.label_column("v")]
    labels = [None if column is None else column.to_pylist() for column in columns]
    return (store.manifest, graph.u.tolist(), graph.v.tolist(), labels), []


def read_parts(path: Path) -> Content:
    partition = open_partition(path)
    found = [partition.read_part(part.index) for part in partition.manifest.parts]
    return (partition.manifest, pickle.dumps(found)), []


def read_job(path: Path) -> Content:
    """Read plan, ledger, shards, answer and control files; the graph of the job is elsewhere."""
    job = papilio.open_job(path)
    control, leases = job.control, []
    for lease in job.history().leases:
        shard = lease.shard
        vectors = {} if shard is None else read_partial_shard(shard.path, shard.digest)
        check_listing_shards(lease.listed)
        held = {name: vector.tolist() for name, vector in vectors.items()}
        leases.append((replace(lease, shard=None, listed=()), held))
    files = control.submission, control.coordinator, control.request
    fixed = job.job, job.plan(), files
    if not job.finished:
        return fixed, leases
    answer = job.result()
    vectors = {name: vector.tolist() for name, vector in answer.vectors.items()}
    return (fixed, vectors, {**answer.to_dict(), "job": None}), leases


def read_listed(path: Path) -> Content:
    listing = read_listing(path)
    if listing is None:
        raise StoreError("it is gone")
    check_listing(path, listing)
    return (listing, [pq.read_table(path / each["name"]).to_pylist() for each in listing["files"]]), []


def read_experiment(path: Path) -> Content:
    directory = ExperimentDirectory(path)
    runs = directory.finished_runs()
    return (directory.experiment, directory.failed_runs()), [(run, read_run(directory, run)) for run in runs]


READERS: dict[str, Callable[[Path], Content]] = {
    **dict.fromkeys(("store", "named", "friends", "large"), read_store),
    **dict.fromkeys(("parts", "roots", "cliques", "large-parts"), read_parts),
    **dict.fromkeys(("counted", "vertex", "table", "listing", "unfinished", "parted", "rooted"), read_job),
    "listed": read_listed,
    "scale": read_experiment,
}

DAMAGES = (
    "flip",
    "ranges",
    "truncate",
    "swap",
    "flip",
    "ranges",
    "twice",
    "zeros",
    "drop",
    "exchange",
    "nudge",
)


def check_reading(seed: str, kind: str, written: Path, scratch: Path, right: dict[str, Content]) -> bool:
    """Damage one file of a directory, and read all of it; return whether that was an error."""
    rng = random.Random(seed)
    name = rng.choice(list(READERS))
    shutil.copytree(written / name, scratch)
    try:
        files = sorted(path for path in scratch.rglob("*") if path.is_file())
        path = rng.choice(files)
        if kind == "swap" and (name, path.name) == ("unfinished", "ledger.jsonl"):
            return False  # other leases of the same items may take their place
        others = [each for each in sorted(written.rglob(f"*{path.suffix}")) if each.is_file()]
        if not mutate(rng, kind, path, rng.choice(others)):
            return False
        what = f"seed {seed}: {kind} of {name}/{path.relative_to(scratch)}"
        try:
            found, done = READERS[name](scratch)
        except PapilioError:
            return True
        except BaseException as error:
            raise AssertionError(f"{what}: {error!r}") from error
        expected, known = right[name]
        assert found == expected, what
        assert done == known or (path.suffix == ".jsonl" and all(each in known for each in done)), what
        return False
    finally:
        shutil.rmtree(scratch)


def check_readings(cases: int, prefix: str, written: Path, scratch: Path) -> None:
    right: dict[str, Content] = {}
    for name, read in READERS.items():
        shutil.copytree(written / name, scratch)
        right[name] = read(scratch)
        shutil.rmtree(scratch)
    kinds = [DAMAGES[i % len(DAMAGES)] for i in range(cases)]
    refused = sum(check_reading(f"{prefix}-{SEED}-{i}", kind, written, scratch, right) for i, kind in enumerate(kinds))
    assert refused > cases // 2, "most damage is of bytes that are read"


def test_every_kind_of_file_is_read_as_it_was_written_or_not_at_all(written: Path, tmp_path: Path) -> None:
    check_readings(400, "read", written, tmp_path / "x")


@pytest.mark.slow
def test_thousands_of_damaged_files_are_read_as_they_were_written_or_not_at_all(written: Path, tmp_path: Path) -> None:
    check_readings(CASES, "long-read", written, tmp_path / "x")


@pytest.mark.slow
def test_thousands_of_damaged_files(written: Path, tmp_path: Path, answers: Answers) -> None:
    """``PAPILIO_TAMPERED`` says how many, ``PAPILIO_SEED`` which."""
    for i in range(CASES):
        check(f"long-{SEED}-{i}", MUTATIONS[i % len(MUTATIONS)], written, tmp_path / "x", answers)
