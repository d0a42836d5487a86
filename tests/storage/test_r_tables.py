"""Tables as R writes them: with names of rows, with quotes, with blanks, tabs, commas or semicolons."""

from __future__ import annotations

from pathlib import Path

import pytest

import papilio
from papilio.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::papilio.errors.InputWarning")

EDGES = [
    ("Salvia alba", "Apis una"),
    ("Salvia alba", "Vespa, tres"),
    ("Rosa", "Apis una"),
    ("Rosa", "Vespa, tres"),
]


def rows(form: str) -> str:
    return "".join(form.format(at, u, v, at % 3 + 1) for at, (u, v) in enumerate(EDGES, 1))


TABLES = {
    "write.csv": '"","plant","pollinator","freq"\n' + rows('"{}","{}","{}",{}\n'),
    "write.csv2": '"";"plant";"pollinator";"freq"\n' + rows('"{}";"{}";"{}";{},5\n'),
    "write.table": '"plant" "pollinator"\n' + rows('"{}" "{}" "{}"\n'),
    "write.table with numbers": '"plant" "pollinator" "freq"\n' + rows('"{}" "{}" "{}" {}\n'),
    "named rows": '"plant" "pollinator"\n' + rows('"row {}" "{}" "{}"\n'),
    "sep tab": "plant\tpollinator\n" + rows("{}\t{}\t{}\n"),
    "no row names": '"plant" "pollinator"\n' + rows('"{1}" "{2}"\n'),
}


@pytest.mark.parametrize("name", TABLES)
def test_names_of_rows_are_no_column(tmp_path: Path, name: str) -> None:
    path = tmp_path / "table.txt"
    path.write_text(TABLES[name], "utf-8")
    graph = papilio.read(path, header=True if name == "no row names" else None)
    assert graph.layer_names == {"u": "plant", "v": "pollinator"}
    found = [(row["u"], row["v"]) for row in graph.to_arrow().to_pylist()]
    assert sorted(found) == sorted(EDGES)
    assert papilio.count(path, "butterfly", header=True if name == "no row names" else None).count == 1


@pytest.mark.parametrize(
    "text",
    [
        "user item\n1 2 5\n2 3 4\n3 1 2\n",
        "user\titem\n1\tf1\t5\n2\tf1\t3\n3\tf2\t1\n",
        "user\titem\nann\tf1\t5\nbob\tf1\t3\ncho\tf2\t1\n",
        "user item\n1 f1 a\n1 f2 b\n2 f1 c\n",
    ],
)
def test_a_line_of_names_that_may_lack_the_last_one_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "table.txt"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match=r"2 names .* for 3 columns"):
        papilio.read(path)


@pytest.mark.parametrize("header", ["", "plant;pollinator;score\n"])
def test_decimal_commas_of_signs(tmp_path: Path, header: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(header + "a;x;3,5\na;y;2,75\nb;x;-1,5\nb;y;4\n", "utf-8")
    graph = papilio.read(path, positive_from=3, decimal=",")
    assert graph.layer_names == ({"u": "plant", "v": "pollinator"} if header else {})
    assert [row["sign"] for row in graph.to_arrow().to_pylist()] == [1, -1, -1, 1]
    with pytest.raises(InputError, match=r"'3,5', not a number; set decimal to ',' \(--decimal ,\)"):
        papilio.read(path, positive_from=3)
    path.write_text(header + "a;x;2,75\na;y;1.003,5\n", "utf-8")
    with pytest.raises(InputError, match=r"'1\.003,5', not a number"):
        papilio.read(path, positive_from=3, decimal=",")


def test_quoted_words_of_a_sentence_are_no_table(tmp_path: Path) -> None:
    path = tmp_path / "table.txt"
    path.write_text('"ann" likes\n"bob" "rome"\n', "utf-8")
    with pytest.raises(InputError, match="quotes"):
        papilio.read(path)
