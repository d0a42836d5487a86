"""What is compiled ahead is all that later runs need."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from numba.core import event

import papilio
from papilio.graph import BipartiteGraph
from papilio.kernels.null.cpu import make_randomizer
from papilio.kernels.null.models import NULL_NAMES, NullModel
from papilio.registry import MOTIF_ROWS
from papilio.tasks import warming
from papilio.tasks.worker_state import complete_graph, forget_graphs, warm_engine
from tests.tools.commands import Run


@pytest.fixture
def compilations() -> Iterator[list[str]]:
    """The functions that are compiled meanwhile."""
    names: list[str] = []

    class Compilations(event.Listener):  # type: ignore[misc]
        def on_start(self, event: event.Event) -> None:
            names.append(event.data["dispatcher"].py_func.__name__)

        def on_end(self, event: event.Event) -> None: ...

    listener = Compilations()
    event.register("numba:compile", listener)
    yield names
    event.unregister("numba:compile", listener)


@pytest.mark.parametrize("engine", ["cpu", "gpu"])
def test_the_questions_are_of_all_families(engine: str) -> None:
    asked = list(warming.list_questions(engine))  # type: ignore[arg-type]
    assert {each.motif.name for each in asked if each.listing is None} == {
        name for name, family in MOTIF_ROWS.items() if engine in family.engines
    }
    for each in asked:
        family = each.row
        assert engine in (family.engines if each.listing is None or family.listed is None else family.listed.engines)
    assert {each.per for each in asked if each.motif.name == "butterfly"} == {"total", "vertex", "edge"}
    assert len(set(asked)) == len(asked)


def test_what_is_compiled_ahead_is_not_compiled_again(compilations: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "MOTIF_ROWS", {"butterfly": MOTIF_ROWS["butterfly"]})
    monkeypatch.setattr(warming, "decompose_graph", lambda *args, **settings: None)
    monkeypatch.setattr(warming, "list_cores", lambda *args, **settings: None)
    warm_engine.cache_clear()
    told: list[str] = []
    assert warming.warm_everything(("cpu",), lambda what, seconds: told.append(what)) == 17
    assert told == [
        *(f"butterfly per {per} (cpu)" for per in ("total", "vertex", "edge")),
        "wing numbers (cpu)", "tip numbers (cpu)", "core numbers (cpu)", "sizes of all cores (cpu)",
        "rows of projections that a GPU finds (cpu)",
        "rows that probes read from a GPU, bicliques (cpu)",
        "rows that probes read from a GPU, maximal bicliques (cpu)",
        *(f"samples of the null model {name}, bipartite (cpu)" for name in NULL_NAMES),
        *(f"samples of the null model {name}, unipartite (cpu)" for name in NULL_NAMES if name != "signs"),
    ]  # fmt: skip
    compilations.clear()
    forget_graphs()
    graph = complete_graph("bipartite", 30)
    for per in ("total", "vertex", "edge"):
        assert papilio.count(graph, "butterfly", per=per, engine="cpu").count == 435**2  # type: ignore[arg-type]
    few = BipartiteGraph.from_edges([0, 1, 2, 3, 3], [0, 0, 1, 1, 2], sign=[1, 1, -1, 1, 1])
    for name in NULL_NAMES:
        assert make_randomizer(few, NullModel(name)).sample(0, 0).n_u == 4
    assert compilations == []


@pytest.mark.slow
def test_everything_is_compiled_ahead() -> None:
    told: list[str] = []
    assert warming.warm_everything(("cpu",), lambda what, seconds: told.append(what)) == len(told) > 30


def test_the_command_says_what_it_compiles(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def warm(engines: tuple[str, ...], tell: warming.Tell) -> int:
        assert engines[0] == "cpu"
        tell("butterfly per total (cpu)", 1.25)
        return 1

    monkeypatch.setattr(warming, "warm_everything", warm)
    result = run("doctor", "--warm", "--json")
    assert "compiled in 1.2 s: butterfly per total (cpu)" in result.stderr
    (found,) = (each for each in json.loads(result.stdout)["checks"] if each["name"] == "compiled kernels")
    assert found["found"].startswith("for 1 questions, in ")
