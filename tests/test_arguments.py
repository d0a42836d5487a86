"""Arguments of every public function: whatever is given, an answer or an error of Papilio's that says what is taken."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import chdir
from fractions import Fraction
from io import StringIO
from pathlib import Path
from shutil import rmtree
from types import FunctionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import papilio
from papilio.arguments import Between, Bytes, parse_size, read_argument, read_bytes, show_bytes
from papilio.cluster import existing
from papilio.cluster import progress as progress_module
from papilio.errors import GraphError, InputError, PapilioError
from papilio.motifs import Listing, SizeOptions
from papilio.storage import interop
from papilio.storage.graph_models import Complete, Planted, PowerLaw, Rmat
from papilio.storage.reading import GraphOptions
from papilio.storage.store import write_store

HERE: dict[str, Any] = {"cluster": "inline", "engine": "cpu"}

GRAPH = papilio.BipartiteGraph.from_edges([0, 0, 1, 1], [0, 1, 0, 1], sign=[1, 1, 1, -1])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a graph, a job, a partition and an edge list, in which the calls run."""
    folder = tmp_path_factory.mktemp("arguments")
    with chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr(existing, "WRITE_S", 0.0)  # many files that are given are no scheduler files
        write_store("graph", GRAPH, provenance={})
        papilio.count("graph", papilio.Butterfly(), job="job", **HERE)
        papilio.partition("graph", "parts", papilio.Butterfly(), host_memory="2GiB")
        Path("edges.txt").write_text("0 0\n0 1\n1 0\n1 1\n")
        yield folder


BASE: dict[str, dict[str, Any]] = {
    "cancel_job": {"path": "job"},
    "census": {"graph": "graph", "pair_side": "u", **HERE},
    "census_pairs": {"graph": "graph", "pair_side": "u", "by": "coherent", "threads": 1, **HERE},
    "census_vertices": {"graph": "graph", "pair_side": "u", "threads": 1, **HERE},
    "citation": {},
    "clear_conversions": {},
    "cohesion_profile": {"graph": "graph", **HERE},
    "communities": {"graph": "graph", "motif": papilio.Biclique(2, 2), "threads": 1},
    "convert": {"input": "edges.txt", "output": "nothing"},
    "cooccurrence": {"graph": "graph", "layer": "u", **HERE},
    "core": {"graph": "graph", "alpha": 1, "beta": 1, "engine": "cpu"},
    "core_table": {"graph": "graph", "engine": "cpu", "threads": 1},
    "count": {"graph": "graph", "motif": "butterfly", **HERE},
    "decompose": {"graph": "graph", "kind": "wing", "engine": "cpu"},
    "enumerate": {
        "graph": "graph", "motif": papilio.Biclique(2, 2), "output": "bicliques", "limit": 9, **HERE,
    },
    "estimate": {"graph": "graph", "motif": "butterfly", **HERE},
    "example": {"name": "southern-women"},
    "generate": {"model": Complete(2, 2), "path": "nothing"},
    "latapy_clustering": {"graph": "graph", "threads": 1},
    "list_conversions": {},
    "list_jobs": {"root": "."},
    "local_clustering": {"graph": "graph", **HERE},
    "maximum_clique": {"graph": papilio.UnipartiteGraph.from_edges([0], [1]), "threads": 1},
    "nestedness": {"graph": "graph", "samples": 5, "threads": 1},
    "open_cluster": {},
    "open_job": {"path": "job"},
    "open_partition": {"path": "parts"},
    "partition": {"graph": "graph", "output": "nothing", "motif": "butterfly", "host_memory": "2GiB"},
    "plan": {"graph": "graph", "motif": "butterfly", **HERE},
    "plan_listing": {"graph": "graph", "motif": papilio.Biclique(2, 2), **HERE},
    "project": {"graph": "graph", "layer": "u", "output": "pairs", **HERE},
    "randomize": {"graph": "graph"},
    "read": {"source": "graph"},
    "read_job_log": {"path": "job"},
    "resume_job": {"path": "job"},
    "robins_alexander": {"graph": "graph", **HERE},
    "show_versions": {},
    "significance": {"graph": "graph", "motif": "butterfly", "samples": 5, **HERE},
    "submit": {"graph": "graph", "motif": "butterfly", "cluster": "local", "job": "new job"},
    "top_bicliques": {"graph": "graph", "threads": 1},
    "top_butterflies": {"graph": "graph", **HERE},
    "verify_job": {"path": "job", "engine": "cpu"},
    "wait_job": {"path": "job"},
}  # fmt: skip
"""What every public function can be called with."""

WRONG: list[Any] = [
    None, True, -1, 0, 2.5, float("nan"), float("inf"), 10**20, -(10**20), 10**400, "", "no such", "a\0b", "\ud800",
    "x" * 300, "no/such/x.csv", b"x", [], [None], {}, {"x": 1}, {1: "x"}, object(), print, Ellipsis, 1j, Fraction(1, 3),
    papilio.Butterfly, papilio.Butterfly(), papilio.Biclique, papilio.BipartiteGraph, papilio.PapilioError, GRAPH,
    np.float64(0.5), np.int64(-2), np.uint64(2**64 - 1), np.bool_(True), np.array([1]), np.array([["a"]]),
    Path("no such"), pd.DataFrame({"u": [1]}), pd.NA, pd.NaT,
]  # fmt: skip


def public_functions() -> dict[str, FunctionType]:
    found = {name: getattr(papilio, name) for name in papilio.__all__}
    return {name: each for name, each in found.items() if isinstance(each, FunctionType)}


def parameters_of(function: Callable[..., Any]) -> list[str]:
    """The arguments of a function, and those that its keyword arguments may have."""
    return [*inspect.signature(function).parameters]


SHARED = {*GraphOptions.__annotations__, *SizeOptions.__annotations__}
"""How a graph is read and a motif is sized: one mechanism reads them for all functions, and a few stand for all."""

CASES = [
    (name, parameter)
    for name, each in public_functions().items()
    for parameter in parameters_of(each)
    if parameter not in SHARED or name in ("read", "convert", "count", "decompose", "generate", "project")
]


def test_every_public_function_is_in_the_table() -> None:
    assert public_functions().keys() == BASE.keys()


@pytest.mark.parametrize(("name", "parameter"), CASES)
def test_whatever_is_given_is_taken_or_refused_in_words(name: str, parameter: str, place: Path) -> None:
    function = public_functions()[name]
    refused = 0
    for wrong in WRONG:
        try:
            function(**{**BASE[name], parameter: wrong})
        except PapilioError as error:
            refused += 0 < len(str(error)) < 1000
    assert refused > len(WRONG) // 3 or parameter == "graph" or (name, parameter) == ("resume_job", "cluster")


@pytest.mark.parametrize("name", sorted(BASE))
def test_missing_and_unknown_arguments(name: str, place: Path) -> None:
    function: Any = public_functions()[name]
    with pytest.raises(TypeError, match=r"nonsense.*its arguments are ") as caught:
        function(**BASE[name], nonsense=1)
    assert set(parameters_of(function)) == set(filter(None, str(caught.value).split("arguments are ")[1].split(", ")))
    parameters = inspect.signature(function).parameters.values()
    for needed in (p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD):
        with pytest.raises(TypeError, match=f"{name}: missing .*{needed}"):
            function(**{key: value for key, value in BASE[name].items() if key != needed})


READS = ("graph", "source", "input", "parts", "path", "root")
"""Arguments that are paths to read."""


@pytest.mark.parametrize(
    ("name", "parameter"),
    [(name, each) for name in sorted(BASE) for each in READS if each in BASE[name] and name != "generate"],
)
def test_a_path_that_does_not_exist_is_a_file_not_found(name: str, parameter: str, place: Path, tmp_path: Path) -> None:
    given = BASE[name] | ({"output": tmp_path / "new"} if "output" in BASE[name] else {})
    for path in ("nowhere", Path("no", "such.csv"), "memory://papilio-test/nowhere"):
        if not (parameter in ("path", "root") and name != "open_partition" and "://" in str(path)):
            rmtree("nothing", ignore_errors=True)  # of a call that took what it was given
            with pytest.raises(FileNotFoundError, match=re.escape(str(path))) as caught:
                public_functions()[name](**{**given, parameter: path})
            assert isinstance(caught.value, PapilioError)


@pytest.mark.parametrize("name", sorted(BASE))
def test_a_mistyped_argument_names_the_right_one_first(name: str) -> None:
    function: Any = public_functions()[name]
    for parameter in parameters_of(function):
        if len(parameter) > 4:
            mistyped = f"{parameter[:2]}{parameter[3:]}"
            with pytest.raises(TypeError, match=f"{name}: .*{mistyped}'; did you mean '{parameter}'.*its arguments"):
                function(**{mistyped: 1})


WITH_BARS = sorted(
    name for name, each in public_functions().items() if "progress" in parameters_of(each) and name != "submit"
)


@pytest.mark.parametrize("name", WITH_BARS)
def test_progress_true_is_a_bar_where_it_can_be_seen(
    name: str, tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    function: Any = public_functions()[name]
    made = tmp_path / "new"
    given = {**BASE[name]} | {each: made for each in ("output", "path") if each in BASE[name] and name != "resume_job"}

    def make_console() -> Any:
        return Console(file=written, force_terminal=True, width=100)

    monkeypatch.setattr(progress_module, "_make_console", make_console)
    for can_draw, progress in ((False, True), (True, False), (True, None), (True, True)):
        written = StringIO()
        monkeypatch.setattr(progress_module, "can_draw", lambda: can_draw)  # noqa: B023
        function(**given, progress=progress)
        assert bool(written.getvalue()) == (can_draw and progress is True)
        if made.exists():
            rmtree(made)


def test_a_function_that_hears_of_progress_is_called_as_before(place: Path) -> None:
    events: list[Any] = []
    papilio.count("graph", "butterfly", progress=events.append, **HERE)
    assert {"start", "run"} <= {each.name for each in events if hasattr(each, "name")}
    shares: list[float] = []
    phases: list[tuple[str, int, int]] = []
    papilio.decompose("graph", "wing", engine="cpu", progress=lambda *each: phases.append(each))
    papilio.partition(**{**BASE["partition"], "output": "heard"}, progress=shares.append)
    assert phases[0][0] == "read"
    assert shares[-1] == 1.0


def choices_of(hint: Any) -> tuple[str, ...]:
    """The texts of a closed set of values, of which an argument takes one."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(each for inner in get_args(hint) for each in choices_of(inner))


def closed_arguments() -> Iterator[tuple[str, str]]:
    """Every public function with each of its arguments that takes one of a few texts."""
    for name in papilio.__all__:
        owner = getattr(papilio, name)
        if name in BASE:
            signature = inspect.signature(inspect.unwrap(owner), eval_str=True)
            for argument, parameter in signature.parameters.items():
                hint = parameter.annotation
                if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                    inner = get_type_hints(get_args(hint)[0], include_extras=True)
                    yield from ((name, each) for each, kind in inner.items() if choices_of(kind))
                elif choices_of(hint):
                    yield name, argument


CLOSED = [*closed_arguments()]


def test_closed_sets_are_found() -> None:
    assert {("count", "per"), ("count", "engine"), ("decompose", "kind"), ("top_bicliques", "by")} <= set(CLOSED)
    assert {("partition", "strategy"), ("convert", "duplicates"), ("cohesion_profile", "engine")} <= set(CLOSED)


@pytest.mark.parametrize(("name", "argument"), CLOSED)
def test_a_value_outside_of_a_closed_set_is_a_value_error_that_names_the_set(
    name: str, argument: str, place: Path
) -> None:
    with pytest.raises(ValueError, match=f"{argument} is 'sideways'; expected ") as caught:
        public_functions()[name](**{**BASE[name], argument: "sideways"})
    assert isinstance(caught.value, InputError)


@pytest.mark.parametrize("name", [name for name in papilio.__all__ if isinstance(getattr(papilio, name), type)])
def test_classes_take_no_unknown_keyword(name: str) -> None:
    with pytest.raises(TypeError):
        getattr(papilio, name)(nonsense=1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: papilio.count(GRAPH, "butterfly", options={"anchor": "u"}), "butterfly has no option 'anchor'"),
        (
            lambda: papilio.count(GRAPH, papilio.Biclique(2, 2), options={"anchor": "w"}),
            "anchor is 'w'; expected one of auto, u, v",
        ),
        (lambda: papilio.count(GRAPH, papilio.Butterfly), "it is a class; use an instance, such as Butterfly"),
        (lambda: papilio.count(GRAPH, "biclique"), "which needs p and q, with None for every size, as"),
        (lambda: papilio.count(GRAPH, "btterfly"), "motif is 'btterfly'; did you mean 'butterfly'"),
        (lambda: papilio.count(GRAPH, "triangle"), r"did you mean 'clique' with k = 3\?; known"),
        (lambda: papilio.count(GRAPH, "clique", max_q=3), r"has only k, max_k; did you mean 'max_k'\?"),
        (lambda: papilio.count(GRAPH, papilio.Biclique(2, 2), options={"anchr": "u"}), "did you mean 'anchor'"),
        (lambda: papilio.count(GRAPH, 5), "motif is 5; expected a Motif or a text"),
        (lambda: papilio.count(GRAPH, "butterfly", progress=1), "progress is 1; expected a function, True or False or"),
        (lambda: papilio.count(GRAPH, "butterfly", per="vertices"), "expected total, vertex or edge"),
        (lambda: papilio.count(GRAPH, "butterfly", workers=True), "workers is True; expected an integer or None"),
        (lambda: papilio.count(GRAPH, "butterfly", workers=0), "workers is 0; the minimum is 1"),
        (lambda: papilio.count(GRAPH, "butterfly", device_memory="8GiX"), "'8GiX' is not a size; use bytes, or"),
        (lambda: papilio.count(GRAPH, "butterfly", host_memory=2**63), "host_memory in bytes is 92.*; the maximum is"),
        (lambda: papilio.count(GRAPH, "butterfly", cluster=5), "cluster is a int; expected a name, an address"),
        (lambda: papilio.count(GRAPH, "butterfly", options="pivot"), "expected a dictionary from a text"),
        (lambda: papilio.count(GRAPH, "butterfly", output=b"x"), "output is b'x'; expected a path or None"),
        (lambda: papilio.count(None, "butterfly"), "cannot read a graph from builtins.NoneType"),
        (lambda: papilio.plan_listing("g", papilio.Biclique(2, 2), with_u="Eve"), r"use a list: \['Eve'\]"),
        (lambda: papilio.top_butterflies(GRAPH, per="vertex", n=2.0), "n is 2.0; expected an integer"),
        (lambda: papilio.Biclique(2.5, 2), "p of a biclique is 2.5; expected an integer"),
        (lambda: papilio.Biclique("2", 2), "p of a biclique is '2'; expected an integer"),
        (lambda: papilio.Biclique(2, 10**20), "the maximum is 2147483647: a layer has no more"),
        (lambda: papilio.BalancedButterfly(True), "k of a balanced butterfly is True; expected an integer"),
        (lambda: papilio.BalancedButterfly(10**10), "the maximum is 2147483647"),
        (lambda: papilio.BalancedButterfly(pair_side="w"), "pair_side of a balanced butterfly is 'w'; expected u or v"),
        (lambda: papilio.Census("w"), "pair_side of a census is 'w'; expected u or v"),
        (lambda: Listing(0), "limit is 0; the minimum is 1"),
        (lambda: Rmat(4, 4, "9"), "edges is '9'; expected an integer"),
        (lambda: Rmat(4, 4, 9, a="x"), "a is 'x'; expected a number"),
        (lambda: PowerLaw(9, 9, exponent_u=None), "exponent_u is None; expected a number"),
        (lambda: Planted(9, "9", 1, 2, 2), "n_v is '9'; expected an integer or None"),
        (lambda: Complete(2.5, 2), "n_u is 2.5; expected an integer"),
        (lambda: papilio.BipartiteGraph(2, 2, [0], [0]), "u is a list; expected an array of int32"),
        (lambda: papilio.BipartiteGraph.from_edges([[0], [0, 1]], [0, 1]), "u is not an array of integers"),
        (lambda: papilio.BipartiteGraph.from_edges(["a"], [0]), "u has dtype <U1; expected integers"),
        (lambda: papilio.BipartiteGraph.from_edges([0], [0], n_u="x"), "n_u is 'x'; expected an integer or None"),
        (lambda: papilio.BipartiteGraph.from_edges([0], [0], sign=[257]), r"sign contains values other than \+1"),
        (lambda: papilio.BipartiteGraph.from_edges([0], [0], sign=[-1.7]), "sign contains values other than"),
        (lambda: papilio.UnipartiteGraph.from_edges([0], [1], n=2.5), "n is 2.5; expected an integer"),
        (lambda: interop.from_numpy([[1], [1, 2]]), "edges are not an array"),
        (lambda: interop.from_numpy(np.array([[0, 1]]), n_u="9"), "n_u is '9'; expected an integer or None"),
        (lambda: interop.from_pandas(pd.DataFrame({"u": [1], "v": [2]}), kind="tripartite"), "kind is 'tripartite'"),
    ],
)  # fmt: skip
def test_messages_say_what_is_taken(call: Callable[[], Any], message: str) -> None:
    with pytest.raises((InputError, GraphError), match=message):
        call()


def test_what_is_plainly_meant_is_taken(place: Path) -> None:
    right = papilio.count("graph", papilio.Butterfly(), **HERE).count
    for motif in ("butterfly", papilio.Butterfly(), papilio.Biclique(np.int64(2), np.uint8(2))):
        assert papilio.count("graph", motif, workers=np.int32(1), host_memory="4GiB", **HERE).count == right
    assert papilio.count("graph", "balanced-butterfly", **HERE).count == 0
    assert papilio.Biclique(np.int64(3), np.uint8(4)) == papilio.Biclique(3, 4)
    assert type(papilio.Biclique(np.int64(3), 4).p) is int
    assert Complete(np.int64(3), np.int8(4)).to_dict() == {"model": "complete", "n_u": 3, "n_v": 4}
    assert papilio.top_butterflies("graph", n=np.int64(1), **HERE).top()[0].count == 1
    largest = 2**31 - 1
    for motif in (
        papilio.Biclique(largest, largest),
        papilio.Biclique(largest, 1),
        papilio.Biclique(1, largest),
    ):
        assert papilio.count("graph", motif, **HERE).count == 0
    assert papilio.count("graph", papilio.Biclique(max_p=largest, max_q=largest), **HERE).count == 9
    assert papilio.count("graph", papilio.BalancedButterfly(largest), **HERE).count == 0


def test_sizes_are_exact_and_bounded() -> None:
    assert parse_size("9007199254740993") == 2**53 + 1
    assert parse_size("0.1KiB") == 102
    assert read_bytes("memory", "1.5GiB") == 3 * 2**29
    for size in (0, "0", -1, 2**63, "99999999999TiB"):
        with pytest.raises(InputError, match="memory in bytes is"):
            read_bytes("memory", size)


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (0, "0 bytes"), (1023, "1,023 bytes"), (1024, "1.00 KiB"), (2**20 - 1, "1024.00 KiB"), (2**20, "1.00 MiB"),
        (3 * 2**29, "1.50 GiB"), (2**40, "1.00 TiB"), (2**60, "1048576.00 TiB"),
    ],
)  # fmt: skip
def test_bytes_are_shown_in_the_unit_that_fits(n_bytes: int, text: str) -> None:
    assert show_bytes(n_bytes) == text


def test_annotations_are_the_contract() -> None:
    assert read_argument("x", np.float32(0.5), float) == 0.5
    assert read_argument("x", np.bool_(False), bool) is False
    assert read_argument("x", ["a", 1], list) == ["a", 1]
    assert read_argument("x", "8GiB", Bytes) == "8GiB"
    with pytest.raises(InputError, match=r"x is 7; the maximum is 5: so"):
        Between(1, 5, "so").check("x", 7)
