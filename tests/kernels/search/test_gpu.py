"""What all GPU engines of searches keep of the contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from papilio.errors import ExecutionError, LeaseTooLargeError
from papilio.kernels.biclique.gpu import BicliqueGpu
from papilio.kernels.clique.gpu import CliqueGpu
from papilio.kernels.device.protocol import Kernel, Module
from papilio.kernels.engine import Partial, fold_partials
from papilio.kernels.search import gpu as tree
from papilio.kernels.search.gpu import TreeEngine, TreeLauncher
from papilio.kernels.search.layout import explain_layout, join_classes, lay_out, make_classes
from papilio.kernels.tuning import TreeTuning
from papilio.motifs import Biclique, Clique, Granularity, MaximalBiclique, MaximalClique, Motif
from papilio.registry import MOTIF_ROWS, load_engine, motif_row
from tests.kernels.biclique.test_gpu_biclique import EAGER, GRAPHS
from tests.kernels.clique.test_clique import random_graph
from tests.tools.devices import emulator
from tests.tools.pairs import all_pairs
from tests.tools.strategies import planted_graph

QUESTIONS: list[tuple[Motif, Granularity]] = [
    (Biclique(3, 3), "total"),
    (Biclique(4, 3), "total"),
    (Biclique(3, 3), "vertex"),
    (Biclique(), "total"),
    (Clique(4), "total"),
    (Clique(4), "edge"),
    (Clique(), "total"),
    (MaximalBiclique(), "total"),
    (MaximalClique(), "total"),
]


def test_all_engines_of_searches_are_asked() -> None:
    found = {
        name
        for name, family in MOTIF_ROWS.items()
        if (path := family.engines.get("gpu")) and isinstance(made := path(), type) and issubclass(made, TreeEngine)
    }
    assert found == {motif.name for motif, _ in QUESTIONS} | {"balanced-biclique"}


class Listening:
    """A module that notes which sources were waited for, with their defines."""

    def __init__(self, module: Module, source: tuple[Any, ...], waited: set[tuple[Any, ...]]) -> None:
        self._module, self._source, self._waited = module, source, waited

    def get_function(self, name: str) -> Kernel:
        self._waited.add(self._source)
        return self._module.get_function(name)


BY_TITLE = {f"{motif.title} per {per}": (motif, per) for motif, per in QUESTIONS}

each_question = pytest.mark.parametrize(("motif", "per"), BY_TITLE.values(), ids=BY_TITLE)


@each_question
def test_a_run_waits_for_no_compiler(motif: Motif, per: Granularity, monkeypatch: pytest.MonkeyPatch) -> None:
    device, waited = emulator(3), set[tuple[Any, ...]]()
    load = device.load

    def listen(stem: str, defines: Mapping[str, int]) -> Module:
        return Listening(load(stem, defines), (stem, *sorted(defines.items())), waited)

    monkeypatch.setattr(device, "load", listen)
    engine: Any = motif_row(motif).engines["gpu"]()(device)
    kind = motif_row(motif).graph_kind
    graph = random_graph(3, 24, 0.5) if kind == "unipartite" else planted_graph(3, 12, 14, 2, 6, 30, 0.1)
    prepared = engine.prepare(graph, motif, per)
    ready = set(waited)
    assert engine.run(prepared, 0, prepared.n_items).total > 0
    assert waited == ready


Check = TypeVar("Check", bound="CutAfter")


class CutAfter:
    """A stop check that becomes true once a launch of an emulator has taken so many pieces."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, n_taken: int) -> None:
        self.n_taken, self.states = n_taken, list[Any]()
        make = TreeLauncher._make_launches

        def listen(launcher: TreeLauncher, chosen: Any) -> Any:
            launched = make(launcher, chosen)
            self.states += [each.state for each in launched]
            return launched

        monkeypatch.setattr(TreeLauncher, "_make_launches", listen)
        monkeypatch.setattr(tree, "_LOOK_S", 1e-5)

    def __call__(self) -> bool:
        return sum(int(state[0]) for state in self.states) >= self.n_taken > 0


class ShareAfter(CutAfter):
    """A stop check of a run of which half is wanted then."""

    left: int | None = None
    has_left = False
    asked = False

    def __call__(self) -> bool:
        return False

    def is_wanted(self) -> bool:
        return not self.asked and super().__call__()

    def is_worth(self, done: float, left: float) -> bool:
        assert done + left > 0
        return left > 0

    def times_of(self, start: int, stop: int) -> NDArray[np.float64]:
        return np.ones(stop - start)

    def leave(self, stop: int | None) -> None:
        self.asked, self.left, self.has_left = True, stop, stop is not None


def run_until(check: type[Check], n_taken: int, engine: Any, prepared: Any, start: int) -> tuple[Partial, Check]:
    """Run the items from ``start`` on under a stop check; return what was searched, and the check."""
    with pytest.MonkeyPatch.context() as patch:
        cut = check(patch, n_taken)
        return engine.run(prepared, start, prepared.n_items, cut=cut), cut


def ask(motif: Motif, per: Granularity, tuning: TreeTuning = EAGER) -> tuple[Any, Any]:
    """Return the engine of a question on an emulator, and a graph of a hundred items that is prepared."""
    engine: Any = motif_row(motif).engines["gpu"]()(emulator(3), tuning=tuning)
    kind = motif_row(motif).graph_kind
    graph = random_graph(5, 90, 0.3) if kind == "unipartite" else planted_graph(3, 60, 70, 4, 9, 400, 0.1)
    return engine, engine.prepare(graph, motif, per)


def assert_same(one: Partial, other: Partial) -> None:
    assert (one.n_items, one.total, one.cells, one.checksum) == (
        other.n_items,
        other.total,
        other.cells,
        other.checksum,
    )
    assert all(np.array_equal(one.vectors[name], other.vectors[name]) for name in other.vectors)


MIXED = replace(EAGER, far_words=tuple(1 << k for k in range(6, 14)), slab_fraction=2e-6)
"""Several launches, for there is no room for all blocks."""


TUNINGS = {"eager": EAGER, "mixed": MIXED, "alone": replace(EAGER, slots=0)}


@pytest.mark.parametrize(("question", "tuning"), all_pairs(BY_TITLE, TUNINGS))
def test_a_launch_that_is_ended_has_searched_the_first_items(question: str, tuning: str) -> None:
    engine, prepared = ask(*BY_TITLE[question], TUNINGS[tuning])
    whole = engine.run(prepared, 0, prepared.n_items)
    ended = []
    for n_taken in (1, 9, 40):
        first, _ = run_until(CutAfter, n_taken, engine, prepared, 2)
        ended.append(2 + first.n_items)
        assert 2 < ended[-1] <= prepared.n_items
        assert_same(first, engine.run(prepared, 2, ended[-1]))
    rest = engine.run(prepared, ended[-1], prepared.n_items)
    assert_same(fold_partials(fold_partials(engine.run(prepared, 0, 2), first), rest), whole)
    assert min(ended) < prepared.n_items


@pytest.mark.parametrize(("question", "tuning"), all_pairs(BY_TITLE, ["mixed", "eager"], share=2))
def test_half_of_a_launch_can_be_left_to_another_worker(question: str, tuning: str) -> None:
    engine, prepared = ask(*BY_TITLE[question], TUNINGS[tuning])
    whole = engine.run(prepared, 0, prepared.n_items)
    left = []
    for n_taken in (1, 9):
        first, cut = run_until(ShareAfter, n_taken, engine, prepared, 0)
        end = prepared.n_items if cut.left is None else cut.left
        assert first.n_items == end
        left.append(prepared.n_items - end)
        assert_same(fold_partials(first, engine.run(prepared, end, prepared.n_items)), whole)
    assert max(left) > 0


@each_question
def test_half_is_left_by_the_predicted_time_of_items_not_by_their_costs(motif: Motif, per: Granularity) -> None:
    class LateTimes(ShareAfter):
        """Nearly all time goes into the last tenth of the items, whose costs are the smallest."""

        def times_of(self, start: int, stop: int) -> NDArray[np.float64]:
            return np.where(np.arange(start, stop) >= 0.9 * stop, 1.0, 1e-6)

    engine, prepared = ask(motif, per)
    first, cut = run_until(LateTimes, 1, engine, prepared, 0)
    assert cut.left is not None
    assert 0.9 * prepared.n_items <= cut.left == first.n_items


def test_ctrl_c_ends_the_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing begins any more, and what has begun ends before the exception goes on."""
    device = emulator(3)
    engine = CliqueGpu(device)
    prepared = engine.prepare(random_graph(3, 24, 0.5), Clique(4), "total")
    written: list[int] = []

    def interrupt(mark: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(device, "wait", interrupt)
        patch.setattr(device, "write_beside", lambda array, value: written.append(value))
        with pytest.raises(KeyboardInterrupt):
            engine.run(prepared, 3, prepared.n_items, cut=lambda: False)
    assert written == [3]
    assert engine.run(prepared, 0, prepared.n_items, cut=lambda: False).total > 0


@pytest.mark.parametrize("share_cost", [1, 1 << 20], ids=["more blocks than items", "fewer"])
@pytest.mark.parametrize("motif", [Biclique(3, 3), Biclique(4, 3)])
def test_items_with_which_blocks_help_each_other_can_end_early(motif: Biclique, share_cost: int) -> None:
    """Each set is counted once, whoever helps with its item, and items are left whole to another worker."""
    engine, prepared = ask(motif, "total", replace(EAGER, share_cost=share_cost))
    anchored = BicliqueGpu(emulator(3), anchor="u", tuning=replace(EAGER, share_cost=share_cost))
    n_left = 300 if motif.p == 3 else 100
    graph = planted_graph(5, n_left, 9, 0, 0, 10 * n_left, 0.0)
    wide, right = anchored.prepare(graph, motif, "total"), load_engine(motif, "cpu")
    expected = right.prepare(graph, motif, "total")
    assert anchored.run(wide, 0, wide.n_items).total == right.run(expected, 0, expected.n_items).total
    anchored.run(wide, 0, 1)
    assert (np.count_nonzero(anchored.block_words) > 1) == (share_cost == 1), "others help with the only item"
    n, left = prepared.n_items, []
    for start, n_taken in ((0, 1), (0, 40), (n - 20, 1), (n - 2, 1), (n - 1, 1)):
        expected = engine.run(prepared, start, n)
        for check in (ShareAfter, CutAfter):
            first, cut = run_until(check, n_taken, engine, prepared, start)
            end = start + first.n_items
            if check is ShareAfter:
                assert end == (n if cut.left is None else cut.left)
            left.append(n - end)
            assert_same(fold_partials(first, engine.run(prepared, end, n)), expected)
    assert max(left) > 0


def test_a_run_that_may_not_begin_searches_an_item_all_the_same() -> None:
    engine, prepared = ask(Biclique(5, 4), "total")
    first = engine.run(prepared, 3, prepared.n_items, cut=lambda: True)
    assert_same(first, engine.run(prepared, 3, 4))


def test_pieces_searched_behind_what_was_left_end_the_run_in_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, prepared = ask(Biclique(5, 4), "total")
    monkeypatch.setattr(type(engine.device), "write_beside", lambda *arguments: None)
    with pytest.raises(ExecutionError, match="to another worker; the count would be wrong"):
        engine.run(prepared, 0, prepared.n_items, cut=ShareAfter(monkeypatch, 1))


HEAVY = make_classes(np.array([40, 10_000, 3_000, 9_998]), EAGER)
SHAPE = 0, 4
ROOM_STREAMS = 4 * 4 * 10_000 * 2 * 4
"""Bytes that must be free for two warps in each of four streams, with a quarter of the memory for their slabs."""


def test_items_are_classed_by_what_they_need() -> None:
    assert [one.items.tolist() for one in HEAVY] == [[0, 2], [1, 3]]
    assert [one.far_words(2) for one in HEAVY] == [3_000, 10_000]
    assert HEAVY[1].between(2, 4).items.tolist() == [3]
    assert HEAVY[1].between(2, 4).far_words(2) == 10_000
    assert HEAVY[0].between(0, 1).far_words(2) == 40
    assert HEAVY[1].between(2, 3).far_words(2) == 0


def test_what_a_block_holds_is_counted_once() -> None:
    """Classes and blocks go by a share of it for each of the block's warps, and all of it for a warp alone."""
    together = np.array([0, 16_000, 400, 16_002])
    classes = make_classes(np.array([40, 500, 3_000, 8]), EAGER, together)
    assert [one.items.tolist() for one in classes] == [[0, 2], [1, 3]]
    assert [[one.far_words(n) for one in classes] for n in (1, 2)] == [[3_400, 16_500], [3_200, 8_500]]
    assert classes[1].between(3, 4).far_words(2) == 8_012
    for free_bytes, n_warps in ((4 * 2 * 8_500 * 4 // 3 + 4, 2), (4 * 16_500 * 4 // 3 + 4, 1)):
        layout = lay_out(emulator(0, free_bytes=free_bytes), EAGER, classes, *SHAPE)
        assert (layout.n_streams, layout.n_warps) == (1, n_warps)
    joined, _ = join_classes(classes, lay_out(emulator(0, free_bytes=1 << 32), EAGER, classes, *SHAPE))
    assert np.array_equal([one.block_words for one in joined], [together])
    with pytest.raises(LeaseTooLargeError, match="needs 66000 bytes"):
        lay_out(emulator(0, free_bytes=4 * 16_500), EAGER, classes, *SHAPE)


@pytest.mark.parametrize(
    ("free_bytes", "said"),
    [
        (1 << 32, []),
        (
            ROOM_STREAMS,
            ["1 blocks at a time, not 8, for the heaviest work items", "queues of 4 sub-trees, not 8"],
        ),
        (ROOM_STREAMS - 1, ["launches follow each other in one stream"]),
        (
            54_000,
            [
                "launches follow each other in one stream",
                "blocks of one warp",
                "1 blocks at a time, not 16, for the heaviest work items",
                "no sub-trees are shared with waiting warps",
            ],
        ),
        (50_000, ["2 work items do not fit on the device"]),
    ],
)
def test_what_is_too_little_is_told(free_bytes: int, said: list[str]) -> None:
    told = explain_layout(emulator(0, free_bytes=free_bytes), EAGER, HEAVY, *SHAPE)
    assert [what for what, _ in told] == said
    assert all("bytes" in reason and str(free_bytes) in reason for what, reason in told if "fit" not in what)


@pytest.mark.parametrize(("free_bytes", "n_classes"), [(1 << 32, 1), (ROOM_STREAMS, 2), (54_000, 2)])
def test_classes_that_memory_does_not_bound_are_launched_together(free_bytes: int, n_classes: int) -> None:
    layout = lay_out(emulator(0, free_bytes=free_bytes), EAGER, HEAVY, *SHAPE)
    classes, joined = join_classes(HEAVY, layout)
    assert len(classes) == len(joined.blocks) == n_classes
    assert sorted(item for one in classes for item in one.items.tolist()) == [0, 1, 2, 3]
    assert all((np.diff(one.items) > 0).all() for one in classes)
    assert [one.far_words(2) for one in classes] == [3_000, 10_000][2 - n_classes :]
    assert joined.blocks == layout.blocks[2 - n_classes :]


@pytest.mark.parametrize("per", ["total", "vertex"])
def test_a_plan_says_so(per: Granularity) -> None:
    tight = replace(EAGER, slab_fraction=1e-6)
    for tuning, wanted in ((EAGER, False), (tight, True)):
        prepared = BicliqueGpu(emulator(0), tuning=tuning).prepare(GRAPHS["planted"](), Biclique(5, 5), per)
        told = [what for what, _ in prepared.decisions]
        assert ("launches follow each other in one stream" in told) == wanted
        assert ("no sub-trees are shared with waiting warps" in told) == (wanted and per == "total")


def test_what_is_told_is_what_is_done() -> None:
    for free_bytes in (1 << 32, 1 << 21, 1 << 20, 1 << 18, 1 << 17, 54_000):
        device = emulator(0, free_bytes=free_bytes)
        layout = lay_out(device, EAGER, HEAVY, *SHAPE)
        told = " ".join(what for what, _ in explain_layout(device, EAGER, HEAVY, *SHAPE))
        assert ("one stream" in told) == (layout.n_streams == 1)
        assert ("one warp" in told) == (layout.n_warps == 1)
        assert ("blocks at a time" in told) == (min(layout.blocks) < layout.resident)
        assert ("sub-trees" in told) == (layout.n_slots < EAGER.slots)
    with pytest.raises(LeaseTooLargeError):
        lay_out(emulator(0, free_bytes=50_000), EAGER, HEAVY, *SHAPE)
