"""Reading back JSON: what fits the annotations comes back as it was, anything else is named with its field."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from papilio.errors import InputError, StoreError
from papilio.motifs import BalancedButterfly, Biclique, Butterfly, Motif, motif_to_json
from papilio.storage.records import Digits, SignedDigits, SignedInt, parse_json, read_json, read_record, write_record


@dataclass(frozen=True)
class Inner:
    """A nested record."""

    name: str
    pair: tuple[int, float] = (0, 0.0)

    def __post_init__(self) -> None:
        if self.name == "forbidden":
            raise InputError("the name is 'forbidden'; give another one")


@dataclass(frozen=True)
class Outer:
    """One field of each kind that files have."""

    size: int
    shift: SignedInt
    total: Digits
    part: SignedDigits
    share: float
    flag: bool
    side: Literal["u", "v"]
    limit: int | None
    label: str | SignedInt
    inner: Inner
    each: tuple[Inner, ...]
    steps: list[int]
    seconds: dict[str, float]
    cells: dict[tuple[int, int], int]
    motif: Motif
    free: Any = None
    more: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Growing:
    """A record to which newer versions may add keys."""

    may_grow: ClassVar[bool] = True

    size: int


GOOD: dict[str, Any] = {
    "size": 2**200,
    "shift": -3,
    "total": str(10**100),
    "part": str(-(10**100)),
    "share": 1,
    "flag": True,
    "side": "v",
    "limit": None,
    "label": -7,
    "inner": {"name": "a", "pair": [1, 2.5]},
    "each": [{"name": "b"}],
    "steps": [1, 2],
    "seconds": {"run": 0.5},
    "cells": [[1, 2, "3"], [2, 2, str(2**100)]],
    "motif": {"name": "biclique", "p": 3, "q": None},
}


def read(data: Any, kind: type = Outer) -> Any:
    return read_record(kind, json.loads(json.dumps(data)), "x.json", "write it again")


def test_what_fits_comes_back_exactly() -> None:
    found = read({**GOOD, "free": [1, {"a": None}]})
    assert found == Outer(
        2**200, -3, 10**100, -(10**100), 1.0, True, "v", None, -7, Inner("a", (1, 2.5)), (Inner("b"),), [1, 2],
        {"run": 0.5}, {(1, 2): 3, (2, 2): 2**100}, Biclique(3), [1, {"a": None}],
    )  # fmt: skip
    assert type(found.share) is float
    written = json.loads(json.dumps(write_record(found)))
    assert (written["total"], written["part"], written["cells"], written["motif"]) == (
        GOOD["total"],
        GOOD["part"],
        GOOD["cells"],
        motif_to_json(Biclique(3)),
    )
    assert read(written) == found
    assert write_record(Outer(**{**vars(found), "cells": {}}))["cells"] == []
    assert read(asdict(Growing(3)) | {"added": 1}, Growing) == Growing(3)


@pytest.mark.parametrize("motif", [Butterfly(), Biclique(2, max_q=4), BalancedButterfly(None, 7, "v")])
def test_motifs_come_back(motif: Motif) -> None:
    assert read(motif_to_json(motif), Motif) == motif


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "boolean": ({"size": True}, r"x.json: size is True; expected an integer from 0 on; write it again"),
    "whole float": ({"size": 2.0}, r"size is 2\.0; expected an integer"),
    "negative": ({"size": -1}, r"size is -1; expected an integer from 0 on"),
    "null": ({"size": None}, r"size is None; expected an integer"),
    "word": ({"shift": "3"}, r"shift is '3'; expected an integer"),
    "number for digits": ({"total": 3}, r"total is 3; expected the digits of an integer, in quotes"),
    "negative digits": ({"total": "-3"}, r"total is '-3'; expected the digits"),
    "two signs": ({"part": "--3"}, r"part is '--3'; expected the digits"),
    "a sign alone": ({"part": "-"}, r"part is '-'; expected the digits"),
    "other digits": ({"total": "٣"}, r"total is '٣'; expected the digits"),
    "spaces": ({"total": " 3"}, "expected the digits"),
    "underscore": ({"total": "1_0"}, "expected the digits"),
    "no digits": ({"total": ""}, "expected the digits"),
    "huge float": ({"share": 10**400}, r"share is 1000.*; expected a finite number"),
    "flag": ({"flag": 1}, r"flag is 1; expected true or false"),
    "literal": ({"side": "w"}, r"side is 'w'; expected one of u, v"),
    "optional": ({"limit": "all"}, r"limit is 'all'; expected an integer from 0 on"),
    "either": ({"label": 1.5}, r"label is 1\.5; expected an integer"),
    "surrogate": ({"label": "\ud800"}, r"label is"),
    "deep": ({"inner": {"name": "a", "pair": [1, "2"]}}, r"inner\.pair\[1\] is '2'; expected a finite number"),
    "short": ({"inner": {"name": "a", "pair": [1]}}, r"inner\.pair is \[1\]; expected a list of 2"),
    "unknown": ({"inner": {"name": "a", "nmae": "b"}}, r"inner has the unknown key 'nmae'; expected name, pair"),
    "missing": ({"each": [{"name": "a"}, {}]}, r"each\[1\] lacks name"),
    "refused": ({"inner": {"name": "forbidden"}}, r"inner cannot be: the name is 'forbidden'"),
    "text for list": ({"steps": "12"}, r"steps is '12'; expected a list"),
    "list for object": ({"seconds": []}, r"seconds is \[\]; expected an object"),
    "value of object": ({"seconds": {"run": "fast"}}, r"seconds\.run is 'fast'; expected a finite number"),
    "row": ({"cells": [[1, "2", "3"]]}, r"cells\[0\]\[1\] is '2'; expected an integer"),
    "row twice": ({"cells": [[1, 2, "3"], [1, 2, "3"]]}, r"cells has two rows for one key"),
    "motif": ({"motif": {"name": "star"}}, r"motif\.name is 'star'; expected one of balanced-biclique"),
    "motif without a name": ({"motif": {"name": ["star"]}}, r"motif\.name is \['star'\]"),
    "parameter": ({"motif": {"name": "butterfly", "p": 1}}, r"motif has the unknown key 'p'"),
    "value": ({"motif": {"name": "biclique", "p": 0}}, r"motif cannot be: p of a biclique is 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_named(name: str) -> None:
    change, message = WRONG[name]
    with pytest.raises(StoreError, match=message):
        read({**GOOD, **change})


@pytest.mark.parametrize("key", [key for key in GOOD if key not in ("free", "more")])
def test_every_key_is_needed_unless_it_has_a_default(key: str) -> None:
    with pytest.raises(StoreError, match=f"x.json lacks {key}"):
        read({name: value for name, value in GOOD.items() if name != key})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"\xff", "not valid JSON .*utf-8"),
        ("\ufeff{}".encode(), "not valid JSON"),
        ("{}".encode("utf-16"), "not valid JSON"),
        (b'{"a": 1, "b": 2, "a": 1}', "the key 'a' is given twice"),
        (b'{"a": NaN}', "NaN is no number"),
        (b'{"a": -Infinity}', "-Infinity is no number"),
        (b"[" * 100_000, "not valid JSON"),
    ],
)
def test_what_is_no_json_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(StoreError, match=f"x.json is {message}|x.json is not valid JSON .*{message}"):
        parse_json(text, "x.json", "write it again")


def test_what_is_no_regular_file_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none", "")
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("d", "pipe", "loop"):
        with pytest.raises(StoreError, match=rf"{name} cannot be read \(.*\); .*write it again"):
            read_json(tmp_path / name, "write it again")
    with pytest.raises(StoreError, match="/dev/zero cannot be read"):
        read_json(Path("/dev/zero"), "write it again")
