"""Archives with one file of data, as KONECT, SuiteSparse and others offer them, and hostile ones."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import papilio
from papilio.errors import CapacityError, InputError
from papilio.settings import MAX_UNPACKED

pytestmark = pytest.mark.filterwarnings("ignore::papilio.errors.InputWarning")

KONECT = b"% bip unweighted\n% 5 3 2\n1 1\n1 2\n2 1\n2 2\n3 2\n"
MATRIX = b"%%MatrixMarket matrix coordinate pattern general\n3 2 5\n1 1\n1 2\n2 1\n2 2\n3 2\n"
CSV = b"user,item\n1,1\n1,2\n2,1\n2,2\n3,2\n"


def tar(path: Path, members: dict[str, bytes | tarfile.TarInfo], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            if isinstance(data, tarfile.TarInfo):
                archive.addfile(data)
                continue
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2"])
@pytest.mark.parametrize(
    ("called", "members"),
    [
        ("trade.tar", {"trade/README.trade": b"x", "trade/out.trade": KONECT, "trade/meta.trade": b"y"}),
        (
            "trade.tar",
            {"trade/meta.trade": b"y", "trade/out.trade": KONECT, "trade/ent.trade.names": b"a\nb\n"},
        ),
        ("lp_x.tar", {"lp_x/lp_x.mtx": MATRIX, "lp_x/lp_x_b.mtx": MATRIX}),
        ("ratings.tgz", {"./README.md": b"x", "./._ratings.csv": b"x", "data/ratings.csv": CSV}),
        ("ratings.tgz", {"ratings.csv.gz": gzip.compress(CSV)}),
    ],
)
def test_the_file_of_data_in_a_tar_file_is_read(tmp_path: Path, mode: str, called: str, members: Any) -> None:
    path = tar(tmp_path / called, members, mode)
    graph = papilio.read(path)
    assert (graph.n_u, graph.n_v, graph.n_edges) == (3, 2, 5)
    assert papilio.count(path, "butterfly").count == 1
    store = papilio.convert(path, tmp_path / "store")
    assert store.manifest.provenance["member"] in members
    assert store.manifest.provenance["source"] == called


def test_the_file_of_data_in_a_zip_file_is_read(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {"a/README.txt": b"x", "a/ratings.csv": CSV, "__MACOSX/a/._ratings.csv": b"x"})
    assert papilio.count(path, "butterfly").count == 1
    store = papilio.convert(path, tmp_path / "store")
    assert store.manifest.provenance["member"] == "a/ratings.csv"
    graph = "graph [ node [ id 1 ] node [ id 2 ] edge [ source 1 target 2 ] ]"
    assert papilio.read(zipped(tmp_path / "karate.zip", {"karate.gml": graph.encode()})).n_edges == 1


def test_arrays_in_an_archive_are_read(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.array([[1, 1], [1, 2], [2, 1], [2, 2]]))
    for path in (
        tar(tmp_path / "a.tar.gz", {"edges.npy": buffer.getvalue()}, "w:gz"),
        zipped(tmp_path / "b.zip", {"edges.npy": buffer.getvalue(), "names.md": b""}),
    ):
        assert papilio.count(path, "butterfly").count == 1


@pytest.mark.parametrize("first", ["a.csv", "b.csv"])
def test_several_files_of_data_are_listed_and_one_is_chosen(tmp_path: Path, first: str) -> None:
    names = [first, "b.csv" if first == "a.csv" else "a.csv"]
    members = dict.fromkeys(names, CSV)
    for scheme, path in (
        ("tar", tar(tmp_path / "x.tar.gz", members, "w:gz")),
        ("zip", zipped(tmp_path / "x.zip", members)),
    ):
        with pytest.raises(InputError, match=rf"several files of data: .*; choose one, as in {scheme}://a.csv::.*x\."):
            papilio.read(path)
        assert papilio.count(f"{scheme}://b.csv::{path}", "butterfly").count == 1


def test_a_better_file_behind_the_first_one_is_no_other_number(tmp_path: Path) -> None:
    path = tar(tmp_path / "lp_x.tar", {"lp_x/a.mtx": MATRIX, "lp_x/lp_x.mtx": MATRIX})
    with pytest.raises(InputError, match=r"choose one, as in tar://lp_x/lp_x\.mtx::"):
        papilio.read(path)
    assert not list((tmp_path).glob("*store*"))


HOSTILE = {
    "symbolic link": special("out.x", tarfile.SYMTYPE, "/etc/passwd"),
    "hard link": special("out.x", tarfile.LNKTYPE, "../../etc/passwd"),
    "device": special("out.x", tarfile.CHRTYPE),
    "pipe": special("out.x", tarfile.FIFOTYPE),
    "directory": special("out.x", tarfile.DIRTYPE),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_links_and_devices_are_not_followed(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"holds no file of data \(links are not followed\)"):
        papilio.read(tar(tmp_path / "x.tar", {"out.x": HOSTILE[name]}))


@pytest.mark.parametrize("name", ["../../escaped.csv", "/escaped.csv", "a/../../escaped.csv"])
def test_nothing_is_written_under_the_names_in_an_archive(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    before = set(tmp_path.rglob("*"))
    for path in (tar(inside / "x.tar", {name: CSV}), zipped(inside / "x.zip", {name: CSV})):
        assert papilio.count(path, "butterfly").count == 1
        path.unlink()
    assert {path for path in tmp_path.rglob("*") if "conversions" not in str(path)} == before
    assert not os.path.exists("/escaped.csv")


def test_the_size_of_a_member_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = b"7 9\n" * 100_000
    paths = [
        tar(tmp_path / "x.tar.bz2", {"out.x": lines}, "w:bz2"),
        zipped(tmp_path / "x.zip", {"out.x": lines}),
    ]
    monkeypatch.setenv(MAX_UNPACKED.name, "100KiB")
    for path in paths:
        with pytest.raises(
            CapacityError, match=r"unpacks to 390.62 KiB or more; the limit is 100.00 KiB: set PAPILIO_"
        ):
            papilio.read(path)
    monkeypatch.setenv(MAX_UNPACKED.name, "1MiB")
    for path in paths:
        assert papilio.read(path).n_edges == 1
    monkeypatch.setenv(MAX_UNPACKED.name, "a lot")
    with pytest.raises(InputError, match="'a lot' is not a size"):
        papilio.convert(paths[0], tmp_path / "store")


def test_damaged_archives_are_named(tmp_path: Path) -> None:
    many = CSV + "".join(f"{at},{at * at % 9973}\n" for at in range(9000)).encode()
    whole = tar(tmp_path / "x.tar", {"out.x": many}).read_bytes()
    for called, data in (
        ("cut.tar", whole[:5000]),
        ("cut.tar.bz2", bz2.compress(whole)[:300]),
        ("cut.zip", zipped(tmp_path / "x.zip", {"out.x": many}).read_bytes()[:200]),
    ):
        path = tmp_path / called
        path.write_bytes(data)
        with pytest.raises(InputError, match=called):
            papilio.read(path)
    assert papilio.read(tmp_path / "x.zip").n_edges == 9004


def test_workbooks_and_arrays_name_the_way(tmp_path: Path) -> None:
    for called, data in (
        ("a.xlsx", zipped(tmp_path / "b", {"[Content_Types].xml": b"", "xl/workbook.xml": b""}).read_bytes()),
        ("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)),
        ("a.ods", zipped(tmp_path / "c", {"mimetype": b"", "content.xml": b""}).read_bytes()),
    ):
        path = tmp_path / called
        path.write_bytes(data)
        with pytest.raises(InputError, match=rf"{called} is a workbook.*save the sheet as CSV.*pandas\.read_excel"):
            papilio.read(path)
    arrays = zipped(tmp_path / "a.npz", {"data.npy": b"", "indices.npy": b""})
    with pytest.raises(InputError, match=r"scipy\.sparse\.load_npz"):
        papilio.read(arrays)
