"""Files of edges where a graph store goes: converted into a cache, made again whenever they change, and reported."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import papilio
from papilio.errors import GraphError, InputError, InputWarning, StoreError, UnsupportedError
from papilio.storage import convert as converting
from papilio.storage import reading
from papilio.storage.any_object import from_any
from papilio.storage.interop import from_networkx, from_pandas
from papilio.storage.reading import Reading, cache_directory, readings_reported
from papilio.storage.store import open_store
from tests.conftest import ROOT
from tests.tools.commands import Run

LINES = "user,film,stars\na,x,5\na,y,4\nb,x,2\nb,y,5\nc,x,1\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PAPILIO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "conversions"


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "ratings.csv"
    path.parent.mkdir()
    path.write_text(LINES, "utf-8")
    return path


def read_quietly(path: Path, **options: Any) -> tuple[papilio.GraphStore, bool]:
    """Return the store of a file, and whether an earlier conversion was used."""
    seen: list[Reading] = []
    with readings_reported(seen.append):
        store = papilio.read(path, **options).held
    assert isinstance(store, papilio.GraphStore)
    assert len(seen) == 1
    return store, seen[0].reused


def edges_of(store: papilio.GraphStore) -> list[tuple[str, str]]:
    graph, u, v = store.read(), store.labels("u"), store.labels("v")
    assert u is not None
    assert v is not None
    return sorted((str(u[a]), str(v[b])) for a, b in zip(graph.u, graph.v, strict=True))


# What is kept, where


def test_a_file_is_converted_once_and_nothing_lies_beside_it(ratings: Path, cache: Path) -> None:
    store, reused = read_quietly(ratings)
    assert not reused
    assert Path(store.path).is_relative_to(cache)
    assert read_quietly(ratings)[1]
    linked = ratings.parent / "link.csv"
    linked.symlink_to(ratings)
    assert read_quietly(linked)[1], "another name of the same file"
    assert {path.name for path in ratings.parent.iterdir()} == {"ratings.csv", "link.csv"}
    assert len(list(cache.iterdir())) == 1
    for place in (cache, cache.parent):
        assert place.stat().st_mode & 0o777 == 0o700


def test_what_it_is_read_as_has_a_conversion_of_its_own(ratings: Path, cache: Path) -> None:
    asked: list[dict[str, Any]] = [
        {}, {"kind": "unipartite"}, {"sign": "stars", "positive_from": 4}, {"header": False},
        {"sign": "stars", "positive_from": 5}, {"u": "film", "v": "user"}, {"u": 2, "v": 1},
    ]  # fmt: skip
    for options in asked:
        assert not read_quietly(ratings, **options)[1]
    for options in asked:
        assert read_quietly(ratings, **options)[1]
    assert len(list(cache.iterdir())) == len(asked)
    copy = ratings.with_name("copy.csv")
    copy.write_text(LINES, "utf-8")
    assert not read_quietly(copy)[1], "another path"


@pytest.mark.parametrize(
    ("own", "shared", "expected"),
    [
        ("own", "/shared", "own/conversions"),
        ("/own", "/shared", "/own/conversions"),
        ("~/own", "", "home/own/conversions"),
        ("", "/shared", "/shared/papilio/conversions"),
        (None, "/shared", "/shared/papilio/conversions"),
        (None, "relative", "home/.cache/papilio/conversions"),
        (None, "", "home/.cache/papilio/conversions"),
        (None, None, "home/.cache/papilio/conversions"),
    ],
)
def test_where_the_cache_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str | None, shared: str | None, expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name, value in (("PAPILIO_CACHE", own), ("XDG_CACHE_HOME", shared)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert cache_directory() == tmp_path / expected


def test_a_home_that_can_only_be_read_has_a_temporary_cache(
    ratings: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("PAPILIO_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != home and access(path, mode))
    reading._temporary_cache.cache_clear()
    made = []
    try:
        for _ in range(2):
            store = papilio.read(ratings).store
            assert store is not None
            made.append(Path(store.path).parent)
        assert made[0] == made[1], "the second call reuses the conversion"
        assert made[0].parent == cache_directory() != home / ".cache" / "papilio" / "conversions"
        assert [each.path for each in papilio.list_conversions()] == [str(made[0])]
        assert list(home.iterdir()) == []
        said = [each.getMessage() for each in caplog.records if "until this process ends" in each.getMessage()]
        assert len(said) == 1
        assert f"{home}/.cache/papilio/conversions cannot be written" in said[0]
    finally:
        reading._temporary_cache.cache_clear()


def test_a_cache_that_cannot_be_used_is_named_with_what_to_do(
    ratings: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PAPILIO_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(StoreError, match=r"ratings.csv is not a graph store, .*file/cache.*set PAPILIO_CACHE"):
        papilio.read(ratings)
    for mode in (0o777, 0o770):
        shared = tmp_path / f"shared{mode}"
        (shared / "conversions").mkdir(parents=True)
        (shared / "conversions").chmod(mode)
        monkeypatch.setenv("PAPILIO_CACHE", str(shared))
        with pytest.raises(StoreError, match=r"is writable by other users .*set PAPILIO_CACHE"):
            papilio.read(ratings)
        assert not list((shared / "conversions").iterdir())
        (shared / "conversions").chmod(0o700)
        read_quietly(ratings)
        (shared / "conversions").chmod(mode)
        with pytest.raises(StoreError, match="is writable by other users"):
            papilio.read(ratings)


def test_a_conversion_is_read_from_a_cache_that_is_read_only(ratings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_quietly(ratings)

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    monkeypatch.setattr(Path, "mkdir", refuse)
    assert read_quietly(ratings)[1]


# When it is used again


def replace_by(path: Path, text: str) -> None:
    other = path.with_name("other")
    other.write_text(text, "utf-8")
    other.replace(path)


def replace_with_times_of(path: Path, text: str) -> None:
    before = path.stat()
    replace_by(path, text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def overwrite_with_times_of(path: Path, text: str) -> None:
    before = path.stat()
    path.write_text(text, "utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def restore_from_backup(path: Path, text: str) -> None:
    replace_by(path, text)
    os.utime(path, (1e9, 1e9))


CHANGES: dict[str, Callable[[Path, str], Any]] = {
    "overwritten at once": lambda path, text: path.write_text(text, "utf-8"),
    "replaced": replace_by,
    "replaced, with the times of before": replace_with_times_of,
    "overwritten, with the times of before": overwrite_with_times_of,
    "an older file": restore_from_backup,
}
"""Ways to change a file, to another text of the same size."""


@pytest.mark.parametrize("how", CHANGES)
def test_a_file_that_changed_is_converted_again(ratings: Path, how: str) -> None:
    for text in (LINES.replace("c,x,1", "c,y,1"), LINES.replace("a,x,5", "c,y,5"), LINES):
        CHANGES[how](ratings, text)
        store, reused = read_quietly(ratings)
        assert not reused
        assert edges_of(store) == sorted(tuple(line.split(",")[:2]) for line in text.split()[1:])


@pytest.mark.parametrize("seed", range(3))
def test_what_is_read_is_always_what_the_file_holds(ratings: Path, seed: int) -> None:
    chance = random.Random(seed)
    text = LINES
    for _ in range(25):
        if chance.random() < 0.6:
            rows = [f"{chance.choice('abc')},{chance.choice('xyz')},1" for _ in range(5)]
            text = "\n".join(["user,film,stars", *rows, ""])
            CHANGES[chance.choice([*CHANGES])](ratings, text)
        elif chance.random() < 0.3:
            ratings.touch()
        store, _ = read_quietly(ratings)
        assert edges_of(store) == sorted({tuple(line.split(",")[:2]) for line in text.split()[1:]})


def test_a_file_that_changes_while_it_is_read_is_refused(
    ratings: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert = converting.convert

    def slowly(*args: Any, **options: Any) -> Any:
        found = convert(*args, **options)
        with ratings.open("a") as file:
            file.write("d,x,1\n")
        return found

    monkeypatch.setattr(converting, "convert", slowly)
    with pytest.raises(InputError, match="changed while it was read"):
        papilio.read(ratings)
    assert not list(cache.iterdir())


@pytest.mark.parametrize(
    ("part_ns", "age_ns", "rest_s"),
    [
        (5, 1_000_000, 0.019),
        (5, 19_000_000, 0.001),
        (5, 20_000_000, None),
        (5, -(10**9), 0.02),
        (0, 5 * 10**8, 1.5),
    ],
)
def test_times_that_the_next_change_might_share_are_waited_out(
    ratings: Path, monkeypatch: pytest.MonkeyPatch, part_ns: int, age_ns: int, rest_s: float | None
) -> None:
    changed_ns, waited = 10**18 + part_ns, list[float]()
    monkeypatch.setattr(reading, "record_of", lambda *_: {"ctime_ns": changed_ns})
    monkeypatch.setattr(time, "time_ns", lambda: changed_ns + age_ns)
    monkeypatch.setattr(time, "sleep", waited.append)
    reading._settled_record(str(ratings), "bipartite", {})
    assert waited == ([] if rest_s is None else [pytest.approx(rest_s)])


def break_manifest(entry: Path) -> None:
    (entry / "graph" / "graph.json").write_text("{")


def break_record(entry: Path) -> None:
    (entry / "source.json").write_text("[]")


def lose_edges(entry: Path) -> None:
    next((entry / "graph" / "edges").iterdir()).unlink()


def become_a_file(entry: Path) -> None:
    entry.rename(entry.with_name(".away"))
    entry.touch()


@pytest.mark.parametrize("damage", [break_manifest, break_record, lose_edges, become_a_file])
def test_a_damaged_conversion_is_made_again(ratings: Path, cache: Path, damage: Callable[[Path], None]) -> None:
    read_quietly(ratings)
    damage(next(cache.iterdir()))
    assert [each.state for each in papilio.list_conversions()] == ["damaged"]
    store, reused = read_quietly(ratings)
    assert (store.n_edges, reused) == (5, False)
    assert [each.state for each in papilio.list_conversions()] == ["valid"]


def test_another_version_reads_again(ratings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_quietly(ratings)
    monkeypatch.setattr(reading, "__version__", "99.0")
    assert not read_quietly(ratings)[1]
    assert sorted(each.state for each in papilio.list_conversions()) == ["outdated", "valid"]


def test_processes_convert_at_once(ratings: Path, cache: Path) -> None:
    ratings.write_text("u,v\n" + "".join(f"{i % 997},{i % 1009}\n" for i in range(100_000)), "utf-8")
    code = (
        "import sys, warnings, papilio; warnings.simplefilter('ignore');"
        "print(papilio.read(sys.argv[1]).held.read().n_edges)"
    )
    command = [sys.executable, "-c", code, str(ratings)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(3)]
    assert [each.communicate(timeout=300)[0].strip() for each in running] == ["100000"] * 3
    assert len(list(cache.iterdir())) == 1, "one conversion, and nothing left over"


def test_who_comes_second_takes_what_is_there(ratings: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    convert, made = converting.convert, []

    def meanwhile(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(converting, "convert", convert)
        made.append(os.stat(Path(read_quietly(ratings)[0].path) / "graph.json").st_ino)
        return convert(*args, **options)

    monkeypatch.setattr(converting, "convert", meanwhile)
    store, _ = read_quietly(ratings)
    assert edges_of(store) == edges_of(read_quietly(ratings)[0])
    assert made == [os.stat(Path(store.path) / "graph.json").st_ino], "nothing is taken from the other's readers"
    assert len(list(cache.iterdir())) == 1


def test_former_conversions_serve_their_readers_for_a_day(ratings: Path) -> None:
    first, _ = read_quietly(ratings)
    replace_by(ratings, LINES + "d,x,1\n")
    read_quietly(ratings)
    assert first.read().n_edges == 5, "a count that began before"
    long_ago = time.time() - 2 * 86_400
    os.utime(Path(first.path).parent, (long_ago, long_ago))
    replace_by(ratings, LINES + "d,y,1\n")
    read_quietly(ratings)
    with pytest.raises(StoreError, match="does not exist"):
        open_store(first.path)
    assert [each.state for each in papilio.list_conversions()] == ["changed", "valid"]


def test_an_input_that_is_no_edge_list_leaves_nothing(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "notes.txt").write_text("buy milk\nand eggs and bread\n", "utf-8")
    with pytest.raises(papilio.PapilioError, match=r"notes.txt"):
        papilio.count(tmp_path / "notes.txt", "butterfly")
    assert not list(cache.iterdir())


def test_stores_are_opened_as_they_are(ratings: Path, cache: Path) -> None:
    store = papilio.convert(ratings, ratings.parent / "store")
    assert papilio.read(store.path).hash == store.hash
    with pytest.raises(InputError, match=r"is a graph store; positive_from would change how a file is"):
        papilio.read(store.path, positive_from=4)
    with pytest.raises(StoreError, match="does not exist"):
        papilio.read(ratings.parent / "nothing.csv")
    assert not cache.exists()


# Listing and clearing


def test_the_cache_is_listed_and_cleared(ratings: Path, cache: Path, run: Run) -> None:
    assert run("cache").stdout == ""
    for name in ("b.csv", "c.csv", "d.csv"):
        ratings.with_name(name).write_text(LINES, "utf-8")
        read_quietly(ratings.with_name(name))
    read_quietly(ratings, kind="unipartite")
    ratings.with_name("b.csv").unlink()
    ratings.with_name("c.csv").write_text(LINES, "utf-8")
    code, out, err = run("cache")
    assert run("cache", "list") == (code, out, err)
    assert (code, str(cache) in err) == (0, True)
    assert [line.split()[5:] for line in out.splitlines()[1:]] == [
        ["gone", "bipartite", str(ratings.with_name("b.csv"))],
        ["changed", "bipartite", str(ratings.with_name("c.csv"))],
        ["valid", "bipartite", str(ratings.with_name("d.csv"))],
        ["valid", "unipartite", str(ratings)],
    ]
    listed = json.loads(run("cache", "--json").stdout)
    assert [each["state"] for each in listed["conversions"]] == ["gone", "changed", "valid", "valid"]
    for words in ((), ("--all", "--stale"), ("--all", "*")):
        assert run("cache", "clear", *words).exit_code == 2
    assert len(papilio.list_conversions()) == 4
    assert run("cache", "clear", "--stale", "c*").stdout.count("\n") == 2
    assert [each.state for each in papilio.clear_conversions(stale=True)] == ["gone"]
    assert len(papilio.clear_conversions(str(ratings))) == 1
    assert not read_quietly(ratings)[1]
    assert len(json.loads(run("cache", "clear", "--all", "--json").stdout)["conversions"]) == 2
    assert not list(cache.iterdir())
    assert ratings.read_text("utf-8") == LINES


def test_leftovers_of_killed_processes_are_cleared(ratings: Path, cache: Path) -> None:
    read_quietly(ratings)
    for name, age_s in ((".old-left", 2 * 86_400), (".at-work", 0)):
        (cache / name / "graph").mkdir(parents=True)
        os.utime(cache / name, (time.time() - age_s, time.time() - age_s))
    assert papilio.clear_conversions(stale=True) == ()
    assert {path.name for path in cache.iterdir() if path.name.startswith(".")} == {".at-work"}


# What is said

VERBS: dict[str, Callable[[Path], Any]] = {
    "read": papilio.read,
    "count": lambda path: papilio.count(path, "butterfly"),
    "count text": lambda path: papilio.count(str(path), papilio.Biclique(2, 2), per="vertex"),
    "plan": lambda path: papilio.plan(path, "butterfly"),
    "enumerate": lambda path: papilio.enumerate(path, papilio.Biclique(2, 2), output=path.with_name("out"), limit=None),
    "plan_listing": lambda path: papilio.plan_listing(path, papilio.Biclique(2, 2)),
    "decompose": lambda path: papilio.decompose(path, "wing"),
    "latapy": papilio.latapy_clustering,
    "local": papilio.local_clustering,
    "cohesion": papilio.cohesion_profile,
    "top": papilio.top_butterflies,
    "bicliques": papilio.top_bicliques,
    "robins": papilio.robins_alexander,
}

COMMANDS = (
    "count butterfly FILE", "count biclique FILE -p 2 -q 2 --json", "plan butterfly FILE",
    "enumerate biclique FILE -p 2 -q 2 --output OUT", "decompose wing FILE", "measure latapy FILE",
    "measure cohesion FILE", "measure top FILE", "info FILE",
)  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_warns_of_how_a_file_was_read(ratings: Path, verb: str) -> None:
    VERBS[verb](ratings)  # nothing in doubt: no warning, which would be an error here
    ratings.write_text("Kunde Ware\nmeier brot\nmeier milch\nhuber brot\nhuber milch\n", "utf-8")
    shutil.rmtree(ratings.with_name("out"), ignore_errors=True)
    with pytest.warns(InputWarning, match=r"ratings.csv: read as edges, U is column 1, V is column 2") as found:
        VERBS[verb](ratings)
    assert [each.filename for each in found] == [__file__], "the line of the caller"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_repeats_doubts(ratings: Path, verb: str) -> None:
    ratings.write_text("Kunde Ware\nmeier brot\nmeier milch\nhuber brot\nhuber milch\n", "utf-8")
    for again in ("dropped: nothing;", r"dropped: nothing \(converted before\);"):
        expected = f"ratings.csv: read as edges, .*no line of names; {again} line 1 read as an edge: Kunde Ware; use"
        with pytest.warns(InputWarning, match=expected):
            VERBS[verb](ratings)
        shutil.rmtree(ratings.with_name("out"), ignore_errors=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_how_a_file_was_read(ratings: Path, tmp_path: Path, command: str, run: Run) -> None:
    ratings.write_text("Kunde Ware\nmeier brot\nmeier milch\nhuber brot\nhuber milch\n", "utf-8")
    words = command.replace("FILE", str(ratings)).replace("OUT", "OUT{}").split()
    answers = set()
    for at, quiet in enumerate(((), (), ("--quiet",))):
        code, out, err = run(*(word.replace("OUT{}", str(tmp_path / f"out{at}")) for word in words), *quiet)
        assert code == 0
        assert "read as edges" not in out
        if quiet:
            assert err == ""
            continue
        lines = err.splitlines()
        assert lines[0].startswith(f"{ratings}: read as edges, U is column 1, V is column 2, no line of names; dropped")
        assert lines[0].endswith("(converted before)") == (at > 0)
        assert lines[1] == "note: line 1 read as an edge: Kunde Ware; use --header if it contains names"
        assert lines[2].startswith("to read it differently: flags such as --u")
        answers.add(out.splitlines()[0] if "--json" not in words else json.loads(out)["count"])
    assert len(answers) == 1 or "OUT" in command


def test_readings_without_doubt_are_one_line(ratings: Path, run: Run) -> None:
    ratings.write_text("user,film\na,x\na,x\nb,x\n", "utf-8")
    for before in ("", " (converted before)"):
        err = run("count", "butterfly", ratings).stderr
        said = [line for line in err.splitlines() if "ratings.csv" in line or line.startswith("note")]
        assert said == [
            f"{ratings}: read as csv, U is user (column 1), V is film (column 2); dropped: 1 duplicates{before}"
        ]


def test_another_reading_is_an_option_away(ratings: Path) -> None:
    ratings.write_text("Kunde,Ware\nmeier,brot\nmeier,milch\nhuber,brot\nhuber,milch\n", "utf-8")
    store, _ = read_quietly(ratings)
    assert store.n_edges == 4
    assert store.manifest.provenance["notes"] == ["line of names: line 1 (Kunde, Ware); --no-header if it is an edge"]
    store, _ = read_quietly(ratings, header=True)
    assert (store.n_edges, store.manifest.provenance["notes"]) == (4, [])
    store, _ = read_quietly(ratings, header=False)
    assert (store.n_edges, store.manifest.provenance["notes"]) == (5, [])


HEADERS = [
    ("Kunde,Ware\n{}", ",", ["Kunde", "Ware"]),
    ("Kunde;Ware\n{}", ";", ["Kunde", "Ware"]),
    ("Kunde\tWare\n{}", "\t", ["Kunde", "Ware"]),
    ("Kunde Ware\n{}", " ", None),
    ("# a comment\nKunde,Ware\n{}", ",", ["Kunde", "Ware"]),
    ("user,item\n{}", ",", ["user", "item"]),
    ("\ufeffKunde,Ware\n{}", ",", ["Kunde", "Ware"]),
    ("{}", ",", None),
    ("{}", "\t", None),
]


@pytest.mark.parametrize(("form", "mark", "names"), HEADERS)
def test_a_first_line_of_text_is_read_as_names_or_said_to_be_an_edge(
    ratings: Path, form: str, mark: str, names: list[str] | None
) -> None:
    rows = [("meier", "brot"), ("meier", "milch"), ("huber", "brot"), ("huber", "milch")]
    ratings.write_text(form.format("".join(f"{u}{mark}{v}\n" for u, v in rows)), "utf-8")
    store, _ = read_quietly(ratings)
    found = reading.describe_reading(store.manifest)
    is_data = form == "{}"
    assert store.n_edges == 4 + (names is None and not is_data)
    assert found["header"] == names
    said = any("read as an edge: Kunde Ware; use --header" in note for note in found["notes"])
    assert said == (names is None and not is_data)


def test_results_hold_how_the_graph_was_read(ratings: Path, run: Run, tmp_path: Path) -> None:
    ratings.write_text("user,film\na,x\na,x\nb,x\n", "utf-8")
    expected = {
        "source": str(ratings),
        "format": "csv",
        "columns": {"u": "user (column 1)", "v": "film (column 2)"},
        "header": ["user", "film"],
        "dropped": {"comments": 0, "duplicates": 1, "malformed": 0, "self_loops": 0},
        "notes": ["repeated edges, read once each: 1"],
        "layers": {"u": "user", "v": "film"},
    }
    made = run("count", "butterfly", ratings, "--json", "--job", tmp_path / "job")
    assert json.loads(made.stdout)["graph"]["provenance"] == expected
    assert json.loads((tmp_path / "job" / "result.json").read_text())["result"]["graph"]["provenance"] == expected
    again = papilio.count(ratings, "butterfly", job=tmp_path / "job")
    assert again.reused
    assert again.graph["provenance"] == expected
    assert papilio.decompose(ratings, "wing").graph["provenance"] == expected
    frame = pd.DataFrame({"user": ["a", "a", "b"], "film": ["x", "x", "x"]})
    assert papilio.count(frame, "butterfly").graph["provenance"] == {
        "source": "data frame",
        "dropped": {"duplicates": 1},
        "notes": expected["notes"],
        "layers": {"u": "user", "v": "film"},
    }


# Graphs that look of the other kind


def one_set(seed: int, form: str) -> list[tuple[Any, Any]]:
    """Edges of one random set of vertices."""
    chance = np.random.default_rng(seed)
    ends = chance.integers(0, 200, (600, 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    if form == "gaps":
        names = np.sort(chance.choice(100_000, 200, replace=False))
        return [(int(names[a]), int(names[b])) for a, b in ends]
    if form == "both directions":
        ends = np.concatenate((ends, ends[:, ::-1]))
        return [(int(a), int(b)) for a, b in ends]
    if form == "smaller first":
        return [(int(a), int(b)) for a, b in np.sort(ends, axis=1)]
    return [(f"v{a}", f"v{b}") for a, b in ends]


def two_layers(seed: int, form: str) -> list[tuple[Any, Any]]:
    """Edges of two layers with labels of their own, which may look alike."""
    chance = np.random.default_rng(seed)
    ends = np.stack((chance.integers(0, 150, 900), chance.integers(0, 220, 900)), axis=1)
    if form == "gaps":
        u = np.sort(chance.choice(3000, 150, replace=False))
        v = np.sort(chance.choice(3000, 220, replace=False))
        return [(int(u[a]), int(v[b])) for a, b in ends]
    if form == "steps":
        return [(10 * int(a), 10 * int(b)) for a, b in ends]
    if form == "text":
        return [(f"u{a}", f"v{b}") for a, b in ends]
    return [(int(a) + 1, int(b) + 1) for a, b in ends]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("form", ["text", "gaps", "both directions", "smaller first"])
def test_one_set_read_as_two_layers_is_said(ratings: Path, run: Run, seed: int, form: str) -> None:
    ratings.write_text("".join(f"{a},{b}\n" for a, b in one_set(seed, form)), "utf-8")
    for _ in range(2):
        assert "looks unipartite" in (err := run("count", "butterfly", ratings).stderr)
        assert "--unipartite" in err
    with pytest.warns(InputWarning, match="looks unipartite .*kind='unipartite'"):
        papilio.count(ratings, "butterfly")
    notes = read_quietly(ratings, kind="unipartite")[0].manifest.provenance["notes"]
    assert not any("looks" in note for note in notes)
    assert papilio.count(ratings, papilio.Clique(3)).count >= 0
    pairs = one_set(seed, form)
    with pytest.warns(InputWarning, match="the graph looks unipartite"):
        found = papilio.count(pairs, "butterfly")
    assert "looks unipartite" in found.graph["provenance"]["notes"][0]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("form", ["dense", "text", "gaps", "steps"])
def test_two_layers_are_not_taken_for_one_set(ratings: Path, seed: int, form: str) -> None:
    pairs = two_layers(seed, form)
    ratings.write_text("".join(f"{a},{b}\n" for a, b in pairs), "utf-8")
    notes = read_quietly(ratings)[0].manifest.provenance["notes"]
    assert not any("looks" in note for note in notes)
    papilio.count(pairs, "butterfly")  # no warning


@pytest.mark.parametrize(
    "text",
    [
        "# Directed graph\n# FromNodeId\tToNodeId\n0\t1\n1\t2\n2\t0\n",
        "% sym\n1 2\n2 3\n3 1\n",
        "p edge 3 3\ne 1 2\ne 2 3\ne 1 3\n",
    ],
)
def test_headers_of_one_set_are_said(ratings: Path, text: str) -> None:
    ratings.write_text(text, "utf-8")
    for _ in range(2):
        with pytest.warns(InputWarning, match="--unipartite"):
            papilio.count(ratings, "butterfly")


def test_evidence_does_not_depend_on_the_size(tmp_path: Path) -> None:
    chance = np.random.default_rng(5)
    ends = chance.integers(0, 100_000, (400_000, 2))
    for each, expected in (
        (np.sort(ends, axis=1), True), (np.concatenate((ends, ends[:, ::-1])), True), (ends, False),
    ):  # fmt: skip
        each = each[each[:, 0] != each[:, 1]]
        for order in (np.lexsort(each.T[::-1]), chance.permutation(len(each))):
            np.save(tmp_path / "e.npy", each[order])
            notes = papilio.convert(tmp_path / "e.npy", tmp_path / "g", overwrite=True).manifest.provenance["notes"]
            assert any("looks unipartite" in note for note in notes) == expected


COLUMNS = {"user": ["a", "a", "b", "b"], "film": ["x", "y", "x", "y"]}
OVERLAPPING = {"userId": [1, 1, 2, 2], "movieId": [1, 2, 1, 2]}

OBJECTS: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "names of two kinds": lambda: pd.DataFrame(OVERLAPPING),
    "arrow": lambda: pa.table(COLUMNS),
    "arrow, names": lambda: pa.table(OVERLAPPING),
    "pairs": lambda: [*zip(*COLUMNS.values(), strict=True)],
    "numpy": lambda: np.array([*zip(*COLUMNS.values(), strict=True)]),
    "ids": lambda: np.array([[0, 2], [0, 3], [1, 2], [1, 3]]),
}


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("verb", ["count", "plan", "enumerate", "maximum"])
def test_objects_of_two_layers_have_no_cliques_unless_asked_for(name: str, verb: str, tmp_path: Path) -> None:
    verbs: dict[str, Callable[[Any], Any]] = {
        "count": lambda graph: papilio.count(graph, papilio.Clique(3)),
        "plan": lambda graph: papilio.plan(graph, papilio.MaximalClique()),
        "enumerate": lambda graph: papilio.enumerate(graph, papilio.Clique(3), output=tmp_path / "out", limit=None),
        "maximum": papilio.maximum_clique,
    }
    with pytest.raises(UnsupportedError, match=r"looks bipartite .*kind='unipartite'"):
        verbs[verb](OBJECTS[name]())
    verbs[verb](from_any(OBJECTS[name](), kind="unipartite"))
    papilio.count(OBJECTS[name](), "butterfly")


def test_networks_that_name_layers_have_no_cliques_unless_asked_for() -> None:
    import networkx as nx

    women = nx.davis_southern_women_graph()
    with pytest.raises(UnsupportedError, match="the attribute bipartite of its vertices defines two layers"):
        papilio.count(women, papilio.Clique(3))
    assert papilio.count(from_networkx(women, kind="unipartite"), papilio.Clique(3)).count == 0
    assert papilio.count(nx.karate_club_graph(), papilio.Clique(3)).count == 45
    assert papilio.count(nx.path_graph(4), papilio.Clique(3)).count == 0


def test_files_of_two_layers_have_no_cliques_unless_asked_for(ratings: Path, run: Run) -> None:
    code, out, err = run("count", "clique", ratings, "-k", 3)
    assert (code, out) == (4, "")
    assert "looks bipartite (user and film are names of two kinds of things)" in err
    assert "--unipartite" in err
    assert papilio.count(read_quietly(ratings, kind="unipartite")[0], papilio.Clique(3)).count == 0
    papilio.read(ratings, kind="unipartite")  # used again, as it was asked for: no warning
    assert run("convert", ratings, ratings.with_name("g"), "--unipartite").exit_code == 0
    assert run("count", "clique", ratings.with_name("g"), "-k", 3).stdout == "0\n"


def test_objects_are_read_as_what_the_motif_is_of() -> None:
    assert papilio.count([("a", "b"), ("b", "c"), ("c", "a")], papilio.Clique(3)).count == 1
    assert papilio.count([("hub", "a"), ("hub", "b")], papilio.Clique(3)).count == 0, "a star is no evidence"


# Missing values


@pytest.mark.parametrize("text", ["NaN", "nan", "NA", "None", "null", "<NA>", ""])
def test_text_that_looks_like_a_missing_value_is_a_label_if_asked_for(text: str) -> None:
    columns = {"u": ["a", text, text], "v": ["x", "y", "x"]}
    pairs = [*zip(*columns.values(), strict=True)]
    for graph in (pd.DataFrame(columns), pd.DataFrame(columns, dtype="string"), pa.table(columns), pairs):
        if text:
            with pytest.raises(GraphError, match=r"'u' has 2 words for missing values, the first, .*in row 1"):
                papilio.read(graph)
        read = papilio.read(graph, missing="label")
        top = papilio.count(read, papilio.Biclique(1, 2), per="vertex").top()[0]
        assert (top.labels, top.count) == ((text,), 1)
        assert papilio.read(graph, missing="drop").n_edges == 1


MISSING = [None, float("nan"), np.float64("nan"), pd.NA, pd.NaT, np.datetime64("NaT", "ns")]


@pytest.mark.parametrize("missing", MISSING, ids=repr)
@pytest.mark.parametrize("kind", ["bipartite", "unipartite"])
@pytest.mark.parametrize("place", ["u", "v"])
def test_a_missing_value_is_an_error_that_names_the_row(missing: Any, kind: Any, place: str) -> None:
    good, bad = ["a", "b", "c", "d"], ["x", "y", missing, "z"]
    columns = {"u": bad, "v": good} if place == "u" else {"u": good, "v": bad}
    pairs = [*zip(*columns.values(), strict=True)]
    given: list[Any] = [pd.DataFrame(columns, dtype=object), pairs, np.array(pairs, dtype=object)]
    if missing is None:
        given += [
            pa.table(columns),
            pd.DataFrame(columns, dtype="string"),
            pd.DataFrame(columns).astype("category"),
        ]
    for graph in given:
        with pytest.raises(GraphError, match=f"column '{place}' has a missing value in row 2"):
            from_any(graph, kind=kind)


@pytest.mark.parametrize("values", [[1.0, 2.0, float("nan")], [1, 2, None]])
def test_a_missing_number_is_an_error_that_names_the_row(values: list[Any]) -> None:
    columns = {"u": [1, 2, 3], "v": values}
    for graph in (pd.DataFrame(columns), pa.table(columns), pd.DataFrame(columns, dtype="Int64")):
        with pytest.raises(GraphError, match="column 'v' has a missing value in row 2"):
            from_any(graph)
    with pytest.raises(GraphError, match="column 'v' has a missing value in row 2"):
        from_any(np.array([*zip(*columns.values(), strict=True)], dtype=float), layout="edges")
    signed = pd.DataFrame({"u": [1, 2, 3], "v": [1, 2, 3], "sign": values})
    with pytest.raises(GraphError, match="column 'sign' has a missing value in row 2"):
        from_pandas(signed)


def test_vertices_have_names_that_are_none_missing() -> None:
    import networkx as nx

    graph = nx.Graph([("a", "b"), ("b", float("nan"))])
    with pytest.raises(GraphError, match=r"vertex 2 has the name nan, a missing value"):
        from_networkx(graph, kind="unipartite")


def test_warnings_can_be_turned_off(ratings: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        assert papilio.count(ratings, "butterfly").count == 1


def test_a_block_that_nobody_ended_is_closed_in_any_context() -> None:
    """The garbage collector may run in another one, as that of a thread."""
    block = readings_reported(print)
    copy_context().run(block.__enter__)
    copy_context().run(block.__exit__, None, None, None)
