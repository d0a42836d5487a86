"""Files of edges where a graph store goes: converted once, kept beside, made again when they change."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

import papilio
from papilio.errors import InputError, StoreError

LINES = "user,film,stars\na,x,5\na,y,4\nb,x,2\nb,y,5\nc,x,1\n"


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    path = tmp_path / "ratings.csv"
    path.write_text(LINES, "utf-8")
    os.utime(path, (1e9, 1e9))
    return path


def test_a_file_is_converted_once(ratings: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "papilio"):
        assert papilio.count(ratings, "butterfly").count == 1
        made = sorted(ratings.parent.iterdir())
        assert [path.name for path in made] == ["ratings.csv", "ratings.csv.papilio"]
        before = (made[1] / "graph.json").stat().st_mtime_ns
        assert papilio.count(str(ratings), papilio.Biclique(2, 2)).count == 1
    assert (made[1] / "graph.json").stat().st_mtime_ns == before
    assert len([each for each in caplog.messages if "is converted into" in each]) == 1


def test_a_file_that_changed_is_converted_again(ratings: Path) -> None:
    assert papilio.read(ratings).n_edges == 5
    ratings.write_text(LINES + "c,y,3\n", "utf-8")
    os.utime(ratings, (1e9, 1e9))
    assert papilio.count(ratings, "butterfly").count == 3  # of another size
    ratings.write_text(LINES + "c,z,3\n", "utf-8")
    made_s = (ratings.parent / "ratings.csv.papilio" / "graph.json").stat().st_mtime
    os.utime(ratings, (made_s + 5, made_s + 5))
    assert papilio.count(ratings, "butterfly").count == 1  # newer
    (ratings.parent / "ratings.csv.papilio" / "graph.json").write_text("{", "utf-8")
    assert papilio.count(ratings, "butterfly").count == 1  # a damaged store


def test_what_it_is_read_as_has_a_store_of_its_own(ratings: Path) -> None:
    (ratings.parent / "friends.txt").write_text("1 2\n2 3\n3 1\n3 3\n", "utf-8")
    assert papilio.count(ratings.parent / "friends.txt", papilio.Clique(3)).count == 1
    assert papilio.count(ratings.parent / "friends.txt", "butterfly").count == 0
    signed = papilio.read(ratings, sign_column="stars", positive_from=4)
    assert signed.signed
    assert not papilio.read(ratings).signed
    assert papilio.read(ratings, sign_column="stars", positive_from=5).hash != signed.hash
    names = {path.name for path in ratings.parent.iterdir() if path.is_dir()}
    assert {"friends.txt.papilio", "friends.txt.unipartite.papilio", "ratings.csv.papilio"} < names
    assert len(names) == 5


def test_stores_are_opened_as_they_are(ratings: Path) -> None:
    store = papilio.convert(ratings, ratings.parent / "store")
    assert papilio.read(store.path).hash == store.hash
    with pytest.raises(InputError, match=r"is a graph store; positive_from would change how a file is"):
        papilio.read(store.path, positive_from=4)
    with pytest.raises(StoreError, match="does not exist"):
        papilio.read(ratings.parent / "nothing.csv")


def test_where_nothing_can_be_kept_it_says_what_to_do(ratings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InputError, match=r"'papilio convert .*ratings.csv STORE' makes one elsewhere"):
        papilio.read(ratings)
    assert list(ratings.parent.iterdir()) == [ratings]


def test_a_file_that_is_no_edge_list_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("buy milk\nand eggs and bread\n", "utf-8")
    with pytest.raises(papilio.PapilioError, match=r"notes.txt"):
        papilio.count(tmp_path / "notes.txt", "butterfly")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_objects_are_read_as_what_the_motif_is_of() -> None:
    assert papilio.count([("a", "b"), ("b", "c"), ("c", "a")], papilio.Clique(3)).count == 1
