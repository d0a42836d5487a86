"""The engine contract: partials fold exactly, engines load by name."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from papilio.errors import EngineUnavailableError, InputError, UnsupportedError
from papilio.kernels.engine import Partial, fold_partials
from papilio.motifs import Butterfly, Motif
from papilio.registry import load_engine

totals = st.integers(0, 2**200)
vectors = st.lists(st.integers(0, 2**60), min_size=3, max_size=3)


def partial(total: int, work: int, counts: list[int]) -> Partial:
    """Make a partial with one vector."""
    return Partial(1, total, work, {"edge": np.array(counts, np.uint64)})


def content(of: Partial) -> tuple[int, int, dict[str, list[int]]]:
    """Return what a partial holds, as comparable Python values."""
    return of.total, of.work, {name: vector.tolist() for name, vector in of.vectors.items()}


def test_totals_fold_beyond_64_bits() -> None:
    folded = Partial(0, 0, 0)
    for _ in range(5):
        folded = fold_partials(folded, Partial(7, 2**64 - 1, 2**63))
    assert folded.total == 5 * (2**64 - 1)
    assert folded.work == 5 * 2**63
    assert folded.n_items == 35


@given(st.lists(st.builds(partial, totals, totals, vectors), min_size=3, max_size=3))
def test_folding_is_associative_and_commutative(parts: list[Partial]) -> None:
    a, b, c = parts
    whole = content(fold_partials(fold_partials(a, b), c))
    assert whole == content(fold_partials(a, fold_partials(b, c)))
    assert whole == content(fold_partials(fold_partials(c, a), b))
    assert whole[0] == a.total + b.total + c.total
    assert whole[2]["edge"] == [sum(entry) for entry in zip(*(p.vectors["edge"].tolist() for p in parts), strict=True)]


def test_folding_leaves_its_arguments_alone() -> None:
    a, b = partial(1, 2, [1, 2, 3]), partial(3, 4, [10, 20, 2**63])
    folded = fold_partials(a, b)
    assert content(folded) == (4, 6, {"edge": [11, 22, 2**63 + 3]})
    assert content(a) == (1, 2, {"edge": [1, 2, 3]})
    assert content(b) == (3, 4, {"edge": [10, 20, 2**63]})


def test_partials_of_different_granularities_do_not_fold() -> None:
    with pytest.raises(UnsupportedError, match="edge"):
        fold_partials(Partial(1, 1, 1), partial(1, 1, [0, 0, 0]))


cells = st.dictionaries(st.tuples(st.integers(1, 3), st.integers(1, 3)), st.integers(1, 2**200))


@given(st.lists(cells, min_size=3, max_size=3))
def test_cells_fold_by_size_of_both_sides(tables: list[dict[tuple[int, int], int]]) -> None:
    a, b, c = (Partial(1, sum(table.values()), 1, {}, table) for table in tables)
    folded = fold_partials(fold_partials(a, b), c)
    assert folded.cells == fold_partials(a, fold_partials(c, b)).cells
    assert folded.cells == {cell: sum(table.get(cell, 0) for table in tables) for cell in set().union(*tables)}
    assert folded.total == sum(folded.cells.values())
    assert [a.cells, b.cells, c.cells] == tables


def test_engines_load_by_name() -> None:
    assert load_engine(Butterfly(), "cpu").name == "cpu"
    with pytest.raises(UnsupportedError, match="tpu"):
        load_engine(Butterfly(), "tpu")  # type: ignore[arg-type]

    class Triangle(Motif):
        name = "triangle"

    with pytest.raises(UnsupportedError, match="triangle"):
        load_engine(Triangle(), "cpu")
    with pytest.raises(InputError, match="butterfly has no option 'anchor'"):
        load_engine(Butterfly(), "cpu", anchor="u")


def test_the_gpu_engine_without_cupy_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "cupy" or name == "papilio.kernels.device.cuda"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(EngineUnavailableError, match=r"papilio\[cuda13\]"):
        load_engine(Butterfly(), "gpu")


def test_the_contract_itself_needs_neither_numba_nor_cupy() -> None:
    code = "import sys, papilio.kernels.engine; print(sorted({'numba', 'cupy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
