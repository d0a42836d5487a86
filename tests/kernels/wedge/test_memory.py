"""Memory of parts is predicted from above, and not from far above."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from papilio.graph import array_bytes
from papilio.kernels.memory import WEDGES
from papilio.kernels.wedge.part import index_wedge_part
from papilio.motifs import GRANULARITIES, Butterfly, Granularity
from papilio.parts import PartBytes
from tests.conftest import ROOT
from tests.tools.wedge_parts import drawn_part

SIZES = (250_000, 200_000, 150_000, 10)

_MEASURE = """
import sys

from papilio.kernels.wedge.cpu import ButterflyCpu
from papilio.motifs import Butterfly
from tests.tools.wedge_parts import drawn_part


def figure(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(name))


per, threads, *sizes = sys.argv[1], *map(int, sys.argv[2:])
engine = ButterflyCpu(threads)
for size in ((30, 20, 20, 10), sizes):
    part = drawn_part(1, *size, per)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = figure("VmRSS")
    prepared = engine.prepare(part, Butterfly(), per)
    partial = engine.run(prepared, 0, prepared.n_items)
print(figure("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are measured on Linux")
@pytest.mark.parametrize(
    ("per", "threads"),
    [("total", 1), *(pytest.param(per, 2, marks=pytest.mark.slow) for per in ("vertex", "edge"))],
)
def test_cpu_parts_stay_below_what_is_predicted(per: Granularity, threads: int) -> None:
    arguments = [per, str(threads), *map(str, SIZES)]
    root = ROOT
    # What an array took goes back to the system at once, so that nothing hides in what was freed before.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    command = [sys.executable, "-c", _MEASURE, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, env=environment, check=True)
    measured = int(done.stdout)
    host, device = WEDGES.predict_part(Butterfly(), "cpu", per, threads)
    predicted = host.of(drawn_part(1, *SIZES, per).sizes)
    assert measured <= predicted <= 2.5 * measured
    assert device == PartBytes(0, 0, 0, 0, 0)


@pytest.mark.parametrize("per", GRANULARITIES)
def test_bytes_of_a_raw_part_are_exact_but_for_its_ends(per: Granularity) -> None:
    part = drawn_part(3, 50, 40, 30, 5, per)
    assert WEDGES.raw(per).of(part.sizes) == part.nbytes + 8 * part.ends.rank.size


@pytest.mark.parametrize("threads", [1, 4, 5, 64])
def test_vectors_and_tables_of_all_threads_are_predicted(threads: int) -> None:
    part = drawn_part(3, 3000, 2000, 2500, 9, "vertex")
    index = index_wedge_part(part, 1)
    vectors = min(threads, index.most_vectors) + 1
    needed = array_bytes(index) - part.ends.ends.nbytes + 8 * index.n_rows * vectors + 5 * threads * index.n_ends
    assert needed < WEDGES.predict_part(Butterfly(), "cpu", "vertex", threads)[0].of(part.sizes)
    assert 2 < index.most_vectors < 64


def test_a_staged_part_takes_what_kernels_read() -> None:
    part = drawn_part(3, 50, 40, 30, 5, "edge")
    read = (
        part.starts.rank,
        part.starts.indptr,
        part.starts.middles,
        part.ends.rank,
        part.ends.middle_rank,
        part.ends.indptr,
        part.ends.ends,
    )
    least, predicted = sum(array.nbytes for array in read), WEDGES.staged.of(part.sizes)
    assert least <= predicted <= least + 7 * 512 + 8 * part.sizes.vertices
