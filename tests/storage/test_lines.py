"""Every line of a text is accounted for: CSV against a reading one character at a time, Arrow against one by one.

``PAPILIO_FUZZED`` says how many texts the long tests draw, ``PAPILIO_SEED`` which.
"""

from __future__ import annotations

import csv
import io
import os
import random
import re
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from papilio.errors import InputError, MalformedLineError, PapilioError
from papilio.storage import text as textlines
from papilio.storage.column_choice import SignRule, WantedColumns
from papilio.storage.convert import convert
from papilio.storage.formats import ReadOptions
from papilio.storage.inputs import InputFile, expand_inputs
from papilio.storage.text import TextSource
from papilio.storage.text_block import LineParser
from tests.storage import test_input_fuzz
from tests.storage.convert_helpers import labelled_edges, write_input

CASES = int(os.environ.get("PAPILIO_FUZZED", "20000"))
SEED = int(os.environ.get("PAPILIO_SEED", "1"))


# A reading by definition


@dataclass
class Reading:
    """What a CSV of labels and a third column holds, by definition."""

    edges: list[tuple[bytes, bytes]] = field(default_factory=list)
    malformed: list[int] = field(default_factory=list)  # numbers of their first lines, from 1 on
    physical: int = 0
    blank: int = 0
    continuation: int = 0


def _record(text: bytes, at: int, mark: int) -> tuple[list[bytes], int] | None:
    """Return the fields of the record that begins at ``at``, and where it ends; None where its quotes are wrong."""
    fields, state, now = [], "start", bytearray()
    while True:
        end = at == len(text)
        char = -1 if end else text[at]
        if state == "quoted":
            if end:
                return None
            if char == ord('"'):
                state = "closed"
            else:
                now.append(char)
        elif end or char in (mark, ord("\n")):
            fields.append(bytes(now))
            now.clear()
            state = "start"
            if end or char == ord("\n"):
                return fields, at
        elif char == ord('"'):
            if state == "plain":
                return None
            if state == "closed":
                now.append(char)
            state = "quoted"
        elif state == "closed":
            return None
        else:
            now.append(char)
            state = "plain"
        at += 1


def read_csv(data: bytes, mark: str, integers: bool, width: int = 3) -> Reading:
    """Read a CSV with a line of names: columns 1 and 2 are labels."""
    text = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    found, at, line = Reading(), text.find(b"\n") + 1, 2
    found.physical = text.count(b"\n") + (not text.endswith(b"\n"))
    while at < len(text):
        record = _record(text, at, ord(mark))
        if record is None:
            found.malformed.append(line)
            at, line = (text.find(b"\n", at) + 1) or len(text), line + 1
            continue
        fields, stop = record
        n_lines = text.count(b"\n", at, stop) + 1
        found.continuation += n_lines - 1
        labels = [each.strip(b" \t") for each in fields[:2]]
        if not text[at:stop].strip(b" \t"):
            found.blank += 1
        elif len(fields) != width or not all(map(_is_integer if integers else _is_word, labels)):
            found.malformed.append(line)
        else:
            found.edges.append((labels[0], labels[1]))
        at, line = stop + 1, line + n_lines
    return found


def _is_integer(label: bytes) -> bool:
    return re.fullmatch(rb"-?(0|[1-9][0-9]*)", label) is not None and -(2**63) <= int(label) < 2**63


def _is_word(label: bytes) -> bool:
    try:
        label.decode()
    except UnicodeDecodeError:
        return False
    return label != b"" and b"\n" not in label


# CSV in every dialect, whole and with one byte changed

TITLES = (
    "plain", "", '"', '""', 'He said "wow"', "two\nlines", "1{m}2\n3{m}4\n", '"\n"', "a\n\n\nb", "\n", 'x"{m}"y',
    " lead", "Crocodile's", "ende ", "é\u00a0", "\u3000", "back\\slash\\", '\\"', "tab\t", "{m}", "{m}{m}\n{m}{m}", "'",
    "a\r\nb", "0",
)  # fmt: skip
BYTES = (
    b'"',
    b'"',
    b'"',
    b"\n",
    b"\r",
    b"\\",
    b"x",
    b"7",
    b" ",
    b"\t",
    b"\x0b",
    b"\xff",
    b"\0",
    b"'",
    b'""',
    b"\n\n",
)


def draw_csv(rng: random.Random) -> tuple[str, str, bool]:
    """Return a CSV of 3 columns with its delimiter, and whether its labels are integers."""
    mark, integers = rng.choice(",;|\t"), rng.random() < 0.5
    escape = rng.random() < 0.1
    dialect: dict[str, Any] = {
        "delimiter": mark,
        "quoting": rng.choice((csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC)),
        "lineterminator": rng.choice(("\n", "\n", "\r\n")),
        "doublequote": not escape,
        "escapechar": "\\" if escape else None,
    }
    out = io.StringIO()
    writer = csv.writer(out, **dialect)
    writer.writerow(["user", "item", "title"])
    for _ in range(rng.randint(16, 60)):
        ends = [rng.randint(-3, 40) if integers else f"{side}ö{rng.randint(1, 20)}" for side in "uv"]
        writer.writerow([*ends, rng.choice(TITLES).replace("{m}", mark)])
        if rng.random() < 0.03:
            out.write(rng.choice(("\n", "  \n", "\t\n")))
    text = out.getvalue()
    return text.rstrip("\r\n") if rng.random() < 0.2 else text, mark, integers


def break_one(rng: random.Random, data: bytes, start: int) -> bytes:
    """Change, insert or remove one byte behind the line of names."""
    at = rng.randrange(start, len(data))
    new = rng.choice(BYTES)
    kind = rng.choice(("change", "insert", "remove", "quote"))
    if kind == "quote" and (places := [p for p in range(start, len(data)) if data[p] == ord('"')]):
        at, kind = rng.choice(places), "remove"
    return data[:at] + (b"" if kind == "remove" else new) + data[at + (kind != "insert") :]


@dataclass
class Outcome:
    """What the reader of text made of a file."""

    edges: list[tuple[Any, ...]]
    lines: dict[str, int]
    error: str = ""


def read_text(path: Path, options: ReadOptions) -> Outcome:
    edges: list[tuple[Any, ...]] = []
    try:
        with InputFile(expand_inputs(path)[0]) as file:
            source = TextSource(file, options, 1)
            for batch in source.batches():
                edges += zip(*(column.to_pylist() for column in batch.columns), strict=True)
            return Outcome(edges, asdict(source.info.lines))
    except PapilioError as error:
        return Outcome([], {}, str(error))


def with_small_blocks(monkeypatch: pytest.MonkeyPatch, rng: random.Random) -> None:
    block = rng.choice((64, 65, 100, 1000, 1 << 22))
    monkeypatch.setattr(textlines, "BLOCK_BYTES", block)
    monkeypatch.setattr(textlines, "_HEAD_BYTES", rng.choice((2000, 5000, 1 << 20)))


def check_csv(seed: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Compare one CSV with its reading by definition; return what came of it."""
    rng = random.Random(seed)
    text, mark, integers = draw_csv(rng)
    data = text.encode()
    for _ in range(rng.choice((0, 1, 1, 1, 2, 5))):
        data = break_one(rng, data, data.find(b"\n") + 1)
    expected = read_csv(data, mark, integers)
    encoding = rng.choice((None, None, "utf-16", "utf-8-sig", "latin-1"))
    try:
        stored = data if encoding is None else data.decode().encode(encoding)
    except UnicodeError:
        encoding, stored = None, data
    path.write_bytes(stored)
    with_small_blocks(monkeypatch, rng)
    labels: Any = "integer" if integers else "text"
    skip = rng.random() < 0.5
    options = ReadOptions(
        "tsv" if mark == "\t" else "csv", columns=WantedColumns(1, 2), labels=labels, header=True, quotes=True,
        skip_malformed=skip, max_malformed=1.0, layout="edges", encoding=None if encoding == "utf-8-sig" else encoding,
    )  # fmt: skip
    found = read_text(path, options)
    what = f"{seed!r} {data!r}"
    if expected.malformed and not skip:
        assert f"line {expected.malformed[0]}: " in found.error, f"{what}: {found}"
        return "named"
    assert not found.error, f"{what}: {found.error}"
    assert [tuple(str(end).encode() for end in edge) for edge in found.edges] == [
        tuple(str(int(end)).encode() if integers else end for end in edge) for edge in expected.edges
    ], what
    assert found.lines == {
        "physical": expected.physical,
        "records": len(expected.edges),
        "continuation": expected.continuation,
        "blank": expected.blank,
        "comments": 0,
        "header": 1,
        "malformed": len(expected.malformed),
        "missing": 0,
        "zeros": 0,
        "filtered": 0,
    }, what
    return "skipped" if expected.malformed else "whole"


def test_csv_in_every_dialect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    came = Counter(check_csv(f"{SEED} {at}", tmp_path / "in.csv", monkeypatch) for at in range(400))
    assert min(came[kind] for kind in ("named", "skipped", "whole")) > 50, came


@pytest.mark.slow
def test_csv_in_every_dialect_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(CASES):
        check_csv(f"long {SEED} {at}", tmp_path / "in.csv", monkeypatch)


# Arrow reads what is read one by one, in every format


def _outcomes(path: Path, options: ReadOptions, monkeypatch: pytest.MonkeyPatch) -> tuple[Outcome, Outcome]:
    fast = read_text(path, options)
    with monkeypatch.context() as patch:
        patch.setattr(LineParser, "_parse_fast", lambda self, block: None)
        return fast, read_text(path, options)


TEXTS = [name for name in test_input_fuzz.FORMATS if name not in ("npy", "parquet")]
ODD = (
    b"\x0b", b"\x0c", b"\x1f", b"\x1c", b"\x85", "\u00a0".encode(), "\u3000".encode(), b"\t", b" ", b"+", b"-", b"0",
    b"0x1",
    b".", b".0", b"e5", b"NaN", b"inf", b'"', b"'", b"\\", b"\0", b"\xff", b"99999999999999999999", b"0" * 30, b"::",
    b":",
    b",", b";", b"\n", b"\n\n", b"\r", b"\n \n", b"#", b"%", b"# ", b"c ", b"1e400", "\u0663".encode(), b"+-5", b"_",
)  # fmt: skip
SIGNS = (None, None, SignRule(), SignRule(3.0), SignRule(None, ("4", "5"), ("1", "x")))


def check_format(seed: str, name: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Read a text with odd bytes in it by Arrow and one by one; tell whether it could be read."""
    rng = random.Random(seed)
    write, may_have_words = test_input_fuzz.FORMATS[name]
    data = write(test_input_fuzz.draw_edges(rng, may_have_words and rng.random() < 0.5) * rng.choice((1, 1, 5)))
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(data))
        data = data[:at] + rng.choice(ODD) + data[at + rng.randint(0, 1) :]
    if rng.random() < 0.2 and (places := [found.start() for found in re.finditer(rb"::|,|;|\t| ", data)]):
        at = rng.choice(places)
        data = data[:at] + rng.choice((b"\t", b" ", b",", b"::")) + data[at + 1 + (data[at : at + 2] == b"::") :]
    path.write_bytes(data)
    with_small_blocks(monkeypatch, rng)
    sign = rng.choice(SIGNS) if name in ("movielens", "csv names") else None
    options = ReadOptions(
        sign=sign,
        columns=WantedColumns(signed=sign is not None),
        bipartite=rng.random() < 0.7,
        labels=rng.choice((None, None, "text", "integer")),
        skip_malformed=rng.random() < 0.6,
        quotes=rng.choice((None, None, False)) if name.startswith("csv") else None,
    )
    fast, slow = _outcomes(path, options, monkeypatch)
    what = f"{seed!r} {name} {options} {data!r}"
    assert fast == slow, what
    if fast.lines:
        text = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        assert fast.lines["physical"] == text.count(b"\n") + (not text.endswith(b"\n")), what
        assert sum(fast.lines.values()) == 2 * fast.lines["physical"], what
    return not fast.error


def test_arrow_reads_what_is_read_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = TEXTS * 40
    n_read = sum(check_format(f"{SEED} {at}", name, tmp_path / "in.txt", monkeypatch) for at, name in enumerate(names))
    assert len(names) // 4 < n_read < len(names)


@pytest.mark.slow
def test_arrow_reads_what_is_read_one_by_one_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(CASES):
        check_format(f"long {SEED} {at}", TEXTS[at % len(TEXTS)], tmp_path / "in.txt", monkeypatch)


# Cases that gave other graphs


def test_unbalanced_quotes_in_a_column_that_is_not_read(tmp_path: Path) -> None:
    lines = ["userId,movieId,rating,title", *(f"{at % 50},{at % 37},4,title {at}" for at in range(1, 2001))]
    lines[701] = '5,3,4,"Crocodile" Dundee'
    lines[901] = '6,4,4,"...And Justice'
    path = write_input(tmp_path, "\n".join(lines) + "\n", "ratings.csv")
    with pytest.raises(MalformedLineError, match=r"ratings\.csv, line 702: .*--no-quotes"):
        convert(path, tmp_path / "g")
    store = convert(path, tmp_path / "g", skip_malformed=True)
    assert store.manifest.dropped["malformed"] == 2
    assert store.manifest.provenance["lines"]["records"] == 1998
    whole = convert(path, tmp_path / "h", quotes=False)
    assert whole.manifest.provenance["edges_read"] == 2000
    assert whole.manifest.dropped["malformed"] == 0


def test_reviews_of_several_lines_in_many_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textlines, "BLOCK_BYTES", 5000)
    monkeypatch.setattr(textlines, "_HEAD_BYTES", 5000)
    rng = random.Random(1)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["user", "item", "review"])
    edges = [(rng.randrange(200), rng.randrange(200)) for _ in range(3000)]
    for u, v in edges:
        review = "\n".join(
            f"{rng.randrange(900, 999)},{rng.randrange(900, 999)},fine" for _ in range(rng.randint(1, 5))
        )
        writer.writerow([u, v, review])
    store = convert(write_input(tmp_path, out.getvalue(), "reviews.csv"), tmp_path / "g")
    assert labelled_edges(store) == sorted(set(edges))
    found = store.manifest.provenance["lines"]
    assert found["records"] == 3000
    assert found["continuation"] > 3000
    assert any("line ends; the longest record is lines" in note for note in store.manifest.provenance["notes"])


def test_a_quote_that_nothing_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the file is, its line is malformed and no other."""
    lines = ["u,v,title", *(f"{at % 50},{at % 37},x" for at in range(3000))]
    lines[100] = '1,2,"open'
    path = write_input(tmp_path, "\n".join(lines) + "\n")
    monkeypatch.setattr(textlines, "BLOCK_BYTES", 1000)
    for at, limit in enumerate((1 << 20, 4000)):
        monkeypatch.setattr(textlines, "_MAX_LINE_BYTES", limit)
        with pytest.raises(MalformedLineError, match=r"line 101: '1,2,\"open'"):
            convert(path, tmp_path / "g")
        store = convert(path, tmp_path / f"g{at}", skip_malformed=True)
        assert store.manifest.provenance["lines"]["records"] == 2999
        assert store.manifest.dropped["malformed"] == 1


def test_names_over_several_lines(tmp_path: Path) -> None:
    text = '"user\nid",item,"what\n\nthey, said"\n1,2,x\n3,4,"a\nb"\n'
    store = convert(write_input(tmp_path, text, "in.csv"), tmp_path / "g", u=1, v=2, header=True, format="csv")
    assert labelled_edges(store) == [(1, 2), (3, 4)]
    lines = store.manifest.provenance["lines"]
    assert (lines["physical"], lines["records"], lines["continuation"]) == (7, 2, 1)


def test_quotes_are_for_tables(tmp_path: Path) -> None:
    path = write_input(tmp_path, '"a b"\tc\n"d ""e"\tf\n', "in.tsv")
    store = convert(path, tmp_path / "g", format="tsv", quotes=True, header=False)
    assert labelled_edges(store) == [("a b", "c"), ('d "e', "f")]
    assert labelled_edges(convert(path, tmp_path / "h", format="tsv", header=False)) == [("a b", "c"), ('d "e', "f")]
    path = write_input(tmp_path, '"a b"\tc\n"d "e"\tf\n', "plain.tsv")
    store = convert(path, tmp_path / "k", format="tsv", header=False)
    assert labelled_edges(store) == [('"a b"', "c"), ('"d "e"', "f")]
    with pytest.raises(InputError, match="is for the formats csv and tsv"):
        convert(write_input(tmp_path, "1 2\n"), tmp_path / "i", quotes=True)


def test_lines_of_several_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    texts = ("u,v\n1,2\n\n3,4\n", "u,v\n", "\n\n", "u,v\n5,x\n6,7")
    for at, text in enumerate(texts):
        (tmp_path / "in" / f"part-{at}.csv").write_text(text)
    store = convert(tmp_path / "in", tmp_path / "g", skip_malformed=True)
    assert store.manifest.provenance["lines"] == {
        "physical": 10, "records": 3, "continuation": 0, "blank": 3, "comments": 0, "header": 3, "malformed": 1,
    }  # fmt: skip


@pytest.mark.parametrize("n_blank", [70_000, 200_000])
def test_a_file_that_begins_with_blank_lines_is_not_empty(tmp_path: Path, n_blank: int) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("1 2\n")
    (tmp_path / "in" / "b.txt").write_text("\n" * n_blank + "3 4\n")
    store = convert(tmp_path / "in", tmp_path / "g")
    assert labelled_edges(store) == [(1, 2), (3, 4)]
    assert store.manifest.provenance["lines"]["blank"] == n_blank
