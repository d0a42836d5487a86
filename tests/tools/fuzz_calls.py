"""Random calls of all public functions and commands, with odd arguments: each ends in an answer or an error of Papilio.

    python -m tests.tools.fuzz_calls --seconds 300 --seed 1

Arguments are drawn from annotations and options: mostly right ones for tiny graphs, otherwise wrong types, huge and
negative numbers, empty and strange texts, odd paths. A function may raise a PapilioError, or a TypeError if the call
does not match its signature; a command ends with a documented exit code and without a traceback. A table counts the
ends of the calls, and each fault is printed with its call and seed.
"""

from __future__ import annotations

import argparse
import inspect
import io
import os
import random
import resource
import signal
import socket
import sys
import time
import traceback
import typing
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from itertools import count as count_up
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import click
import numpy as np

import papilio
from papilio.arguments import _hints_of
from papilio.cli import main as run_command_line
from papilio.cli.app import EXIT_CODES, INTERRUPTED, PIPE_CLOSED, TERMINATED, cli
from papilio.cli.report import AT_LEAST
from papilio.errors import PapilioError
from papilio.motifs import MOTIFS

CODES = {0, AT_LEAST, INTERRUPTED, PIPE_CLOSED, TERMINATED, *(code for _, code, _ in EXIT_CODES)}

PROCESSOR_S, WAIT_S = 10.0, 60.0
"""Limits of a call: of processor time, after which it only counts as long, and of time, after which it is a fault."""

FILE_BYTES = 64 << 20
"""Maximum size of a file: a call with huge sizes ends when it has written as much."""

ODD_SHARES, OPTION_SHARES, BREAK_SHARE = (0.0, 0.1, 0.3), (0.0, 0.02, 0.05, 0.2), 0.03
"""Shares of odd arguments and of options, one of each for a call; share of calls that do not match the signature."""

NUMBERS = (0, 1, 2, 3, -1, 7, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, 2**63, 2**64, -(2**63), 10**30)
FLOATS = (0.0, 0.5, 1.0, -1.0, 1e-300, 1e300, float("nan"), float("inf"), -0.0)
TEXTS = (
    "", " ", "x", "u", "0", "-1", "1e9", "nan", "a,b", "a=b", "=", "--", "-", "é\u202e", "\udcff", "\x00", "a\nb",
    "%s{}", "x" * 5000, "../..", "~", "*", "[", "a>=1", "8GiB", "-1B", "tcp://", "None", "true", "1:2", "<b>", "'; --",
)  # fmt: skip
OTHERS: tuple[Any, ...] = (
    None, True, False, b"x", [], [1], [[1, 2]], [(0, 1), (1, 0)], {}, {"a": 1}, (), {1}, object(), int, len, range(3),
    np.int64(2), np.float32(0.5), np.bool_(True), np.zeros(0), np.ones((2, 2)), np.array([[0, 1], [1, 1]]), ...,
    ValueError("x"), 1j, Path("edges.txt"), Path("nowhere/x"), slice(1),
)  # fmt: skip
PATHS = (
    "edges.txt", "friends.txt", "signed.csv", "graph", "graph-u", "graph-s", "job", "rows", "empty", "junk", "folder",
    "nowhere/x", "socket", "link", "/dev/null", "/dev/full", "/dev/zero", "/proc/version", "new", "new.csv",
    "new.parquet", "new.json", "new.txt", ".", "..", "*.txt", "a\udcff", "s3://", "file://", "zip://::x", "://", "-",
    "edges.txt/", "edges.txt/x", "n" * 300, "x\x00", "",
)  # fmt: skip
GRAPHS = ("edges.txt", "friends.txt", "signed.csv", "graph", "graph-u", "graph-s")
OUTPUTS = ("new", "new.csv", "new.parquet", "new.json", "newer", "newer.jsonl", "folder/new", "graph")

# What would start many processes, wait for a network or take long by design is drawn from a list of its own.
TAMED: dict[str, tuple[Any, ...]] = {
    "workers": (1, 0, -1, 2**63, "x", None, 1.5), "cluster": ("inline", "nonsense", "", None, 5, "cuda:x", "slurm:x=1"),
    "samples": (2, 3, 0, -1, 10**9, "x"), "seconds": (0.01, 0.0, -1.0, float("nan"), "x"), "probes": (2, 10, 0, -1),
    "timeout_s": (0, 0.01, -1, float("nan"), "x"), "timeout": ("0", "0.01", "-1", "nan"), "threads": (1, 0, -1, 2**40),
    "draws": (2, 0, -1), "steps": (1, 2, 0, -1), "chains": (1, 2, 0), "engine": ("cpu", "auto", "x", 1, None),
    "scale": (2, 3, 0, -1, 99), "edge_factor": (1, 2, 0, -1), "follow": (False,), "warm": (False,),
    "array": ("1", "0", "x"),
    "repeat": (1, 0, -1), "repetitions": (1, 0, -1), "limit": (1, 3, 0, -1, 2**63, "x"), "address": ("", "nonsense"),
}  # fmt: skip

LEFT_OUT = {"open_cluster", "list_machines"}
"""Functions that start a cluster."""


MOTIF_SHARE = 0.1
"""Share of the calls that only make a motif."""


class _TooLongError(BaseException):
    """A call used its processor time."""


class _WaitsError(BaseException):
    """A call took too long without using the processor."""


@dataclass(frozen=True)
class Fault:
    """A call that ended badly."""

    name: str
    call: str
    end: str  # last lines of the traceback, or the output of the command


@dataclass
class Report:
    """The ends of all calls."""

    ends: dict[str, Counter[str]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    @property
    def n_calls(self) -> int:
        return sum(each.total() for each in self.ends.values())

    def note(self, name: str, end: str) -> None:
        self.ends.setdefault(name, Counter())[end] += 1

    def lines(self) -> Iterator[str]:
        """Yield a table of the calls by function or command, and the faults."""
        columns = ("answer", "refused", "signature", "long", "fault")
        yield f"{'':32}" + "".join(f"{each:>10}" for each in columns)
        for name, ends in sorted(self.ends.items()):
            yield f"{name:32}" + "".join(f"{ends[each] or '':>10}" for each in columns)
        total = Counter[str]()
        for ends in self.ends.values():
            total += ends
        yield f"{'all':32}" + "".join(f"{total[each] or '':>10}" for each in columns)
        for fault in self.faults:
            yield f"\n{fault.call}\n{fault.end}"


class Fuzzer:
    """Draws calls with a seed, and makes them in a folder of small files."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.report = Report()
        self._odd_share, self._option_share = 0.0, 0.0  # of the next call

    def run(self, seconds: float, most: int = 2**31) -> Report:
        """Make calls until they have used some seconds of processor time, at most a number of them."""
        commands = list(leaf_commands())
        motifs, functions = _divide(public_functions(), lambda each: isinstance(each[1], type))
        with self._prepared():
            began = time.process_time()
            for number in count_up():
                if number >= most or time.process_time() - began >= seconds:
                    break
                if number % 50 == 0:
                    _write_inputs()
                self._odd_share = self._random.choice(ODD_SHARES)
                self._option_share = self._random.choice(OPTION_SHARES)
                if number % 2:
                    self._call(*self._random.choice(motifs if self._random.random() < MOTIF_SHARE else functions))
                else:
                    self._command(*self._random.choice(commands))
        return self.report

    @contextmanager
    def _prepared(self) -> Iterator[None]:
        """Work in a folder, with limits and without messages."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        before = {each: signal.getsignal(each) for each in (signal.SIGPROF, signal.SIGALRM)}
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="papilio-fuzz-")))
            stack.enter_context(chdir(folder))
            stack.enter_context(patch.dict(os.environ, PAPILIO_CACHE=str(folder / "cache"), TMPDIR=str(folder)))
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            _make_inputs()
            for signum, error in ((signal.SIGPROF, _TooLongError), (signal.SIGALRM, _WaitsError)):
                signal.signal(signum, _raiser(error))
            resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, hard))
            try:
                yield
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
                for each, handler in before.items():
                    signal.signal(each, handler)

    # calls of functions

    def _call(self, name: str, function: Callable[..., Any]) -> None:
        args, named = self._arguments(function)
        shown = f"{name}({', '.join([*map(repr, args), *(f'{key}={value!r}' for key, value in named.items())])})"[:600]
        try:
            with _limits(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), _no_input():
                answer = function(*args, **named)
                repr(answer)
                if isinstance(answer, Iterator):
                    next(answer, None)
        except PapilioError:
            self.report.note(name, "refused")
        except _TooLongError:
            self.report.note(name, "long")
        except TypeError as error:
            if _fits(function, args, named):
                self._fault(name, shown, error)
            else:
                self.report.note(name, "signature")
        except BaseException as error:
            self._fault(name, shown, error)
        else:
            self.report.note(name, "answer")

    def _arguments(self, function: Callable[..., Any]) -> tuple[list[Any], dict[str, Any]]:
        named: dict[str, Any] = {}
        for name, (hint, required) in parameters_of(function).items():
            if required or self._random.random() < self._option_share:
                named[name] = self._value(name, hint)
        if self._random.random() < BREAK_SHARE:
            named[self._random.choice(("nonsense", "self", "args"))] = self._odd()
        if named and self._random.random() < BREAK_SHARE:
            del named[self._random.choice(list(named))]
        return [], named

    def _value(self, name: str, hint: Any) -> Any:
        if name in TAMED:
            return self._random.choice(TAMED[name])
        return self._odd() if self._random.random() < self._odd_share else self._right(name, hint)

    def _odd(self) -> Any:
        return self._random.choice(self._random.choice((NUMBERS, FLOATS, TEXTS, OTHERS, PATHS)))

    def _right(self, name: str, hint: Any) -> Any:
        """Return a value that the annotation allows, small where it is a number."""
        draw = self._random
        if name in ("graph", "store", "source", "input"):
            return draw.choice(GRAPHS)
        if name in ("output", "job", "path") and draw.random() < 0.8:
            return draw.choice((*OUTPUTS, "job"))
        if name == "motif":
            return draw.choice([*MOTIFS, *_motifs()])
        origin, inner = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Literal:
            return draw.choice(inner)
        if origin is typing.Annotated:
            return self._right("", inner[0])
        if hint is bool:
            return draw.random() < 0.5
        if hint is int:
            return draw.choice((1, 2, 3, 4))
        if hint is float:
            return draw.choice((0.1, 0.5, 1.0, 2.0))
        if hint is str:
            return draw.choice(TEXTS)
        if inner and origin is not None and (origin is typing.Union or "UnionType" in str(origin)):
            return self._right(name, draw.choice(inner))
        if origin is not None and isinstance(origin, type) and issubclass(origin, Sequence):
            return [self._right(name, inner[0]) for _ in range(draw.randrange(3))]
        if origin is os.PathLike:
            return Path(draw.choice(PATHS[:-1]))
        return draw.choice((None, *PATHS, "u", "v"))

    def _fault(self, name: str, shown: str, error: BaseException) -> None:
        self.report.note(name, "fault")
        lines = traceback.format_exception(type(error), error, error.__traceback__, limit=-5)
        self.report.faults.append(Fault(name, shown, "".join(lines)[-1800:]))

    # commands

    def _command(self, words: tuple[str, ...], command: click.Command) -> None:
        given = [*words, *(word.replace("\0", "") for word in self._words(command))]  # no command line has a null
        name, shown = " ".join(("papilio", *words)), repr(given)[:600]
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", write_through=True) for _ in range(2))
        code: Any = None
        try:
            with _limits(), redirect_stdout(out), redirect_stderr(err), _no_input():
                run_command_line(given)
        except SystemExit as ended:
            code = ended.code
        except _TooLongError:
            self.report.note(name, "long")
            return
        except BaseException as error:
            self._fault(name, shown, error)
            return
        said = err.buffer.getvalue().decode()  # type: ignore[attr-defined]
        if code not in CODES or "Traceback" in said:
            self.report.note(name, "fault")
            self.report.faults.append(Fault(name, shown, f"exit code {code}\n{said[-1800:]}"))
        else:
            self.report.note(name, "answer" if code in (0, AT_LEAST) else "refused")

    def _words(self, command: click.Command) -> Iterator[str]:
        for each in command.params:
            name = each.name or ""
            if isinstance(each, click.Argument):
                graph = name in ("store", "graph", "source", "input", "inputs")
                odd = self._random.random() < self._odd_share
                yield self._random.choice(PATHS if odd else GRAPHS if graph else (*OUTPUTS, "job"))
            elif isinstance(each, click.Option) and (each.required or self._random.random() < self._option_share):
                if name in ("help", "follow", "warm"):
                    continue
                yield self._random.choice(each.opts)
                if not each.is_flag:
                    yield self._word(name, each.type)
        if self._random.random() < BREAK_SHARE:
            yield self._random.choice(("--nonsense", "extra", "--", "-x"))

    def _word(self, name: str, kind: click.ParamType) -> str:
        if name in TAMED:
            return str(self._random.choice(TAMED[name]))
        if self._random.random() < self._odd_share:
            return str(self._random.choice(self._random.choice((NUMBERS, FLOATS, TEXTS, PATHS))))
        choices = getattr(kind, "choices", None)
        if choices:
            return str(self._random.choice(list(choices)))
        if isinstance(kind, click.types.IntParamType | click.types.FloatParamType):
            return str(self._random.choice((1, 2, 3, 4)))
        if name in ("output", "job"):
            return self._random.choice((*OUTPUTS, "job"))
        if isinstance(kind, click.Path):
            return self._random.choice(PATHS)
        return str(self._random.choice(("1", "2", "u", "v", "1GiB", "a>=1", *TEXTS)))


def _divide(items: Iterator[Any], is_first: Callable[[Any], bool]) -> tuple[list[Any], list[Any]]:
    found: tuple[list[Any], list[Any]] = ([], [])
    for each in items:
        found[not is_first(each)].append(each)
    return found


def _raiser(error: type[BaseException]) -> Callable[..., None]:
    def handle(*_: object) -> None:
        raise error

    return handle


@contextmanager
def _limits() -> Iterator[None]:
    signal.setitimer(signal.ITIMER_PROF, PROCESSOR_S)
    signal.setitimer(signal.ITIMER_REAL, WAIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def _no_input() -> Iterator[None]:
    """Let standard input be empty."""
    with patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO())):
        yield


def _fits(function: Callable[..., Any], args: list[Any], named: Mapping[str, Any]) -> bool:
    """Return whether arguments match a signature and the keys of its TypedDict."""
    try:
        inspect.signature(function).bind(*args, **named)
    except TypeError:
        return False
    return named.keys() <= parameters_of(function).keys()


@cache
def parameters_of(function: Callable[..., Any]) -> dict[str, tuple[Any, bool]]:
    """Return annotation and necessity of each parameter; keys of a TypedDict are parameters as others."""
    hints, found = _hints_of(function), {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            inner = typing.get_args(hints.get(name))
            found |= {key: (hint, False) for key, hint in (_hints_of(inner[0]) if inner else {}).items()}
        elif parameter.kind is not inspect.Parameter.VAR_POSITIONAL:
            found[name] = (hints.get(name, Any), parameter.default is inspect.Parameter.empty)
    return found


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the functions of the package and the classes of motifs, by name."""
    for name in sorted(papilio.__all__):
        found = getattr(papilio, name)
        if name in LEFT_OUT or not callable(found):
            continue
        if not isinstance(found, type) or found in MOTIFS.values():
            yield name, found


def leaf_commands(command: click.Command = cli, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the words of each command that does something, and the command."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from leaf_commands(inner, (*words, name))
    else:
        yield words, command


@cache
def _motifs() -> tuple[Any, ...]:
    return (
        papilio.Butterfly(), papilio.Biclique(2, 2), papilio.Biclique(), papilio.Clique(3), papilio.Clique(),
        papilio.FourCycle(), papilio.MaximalBiclique(), papilio.MaximalClique(), papilio.Census("u"),
        papilio.BalancedButterfly(), papilio.BalancedBiclique(2, 2),
    )  # fmt: skip


def _write_inputs() -> None:
    """Write the files that calls may have replaced."""
    for name, text in (
        ("edges.txt", "1 1\n1 2\n2 1\n2 2\n3 1\n"), ("friends.txt", "1 2\n2 3\n1 3\n3 4\n"),
        ("signed.csv", "u,v,sign\n1,1,1\n1,2,-1\n2,1,1\n2,2,1\n"), ("empty", ""), ("junk", "\x00\x01PAR1{[\n"),
    ):  # fmt: skip
        Path(name).write_text(text)


def _make_inputs() -> None:
    _write_inputs()
    papilio.convert("edges.txt", "graph")
    papilio.convert("friends.txt", "graph-u", kind="unipartite")
    papilio.convert("signed.csv", "graph-s", sign="sign")
    papilio.count("graph", papilio.Butterfly(), engine="cpu", job="job")
    papilio.enumerate("graph", papilio.Biclique(2, 2), limit=None, output="rows")
    Path("folder").mkdir()
    Path("link").symlink_to("nowhere")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")


def main() -> None:
    """Run the calls, and print the table; the exit code is 1 after a fault."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300.0, help="processor time of the calls")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    report = Fuzzer(options.seed).run(options.seconds)
    print("\n".join(report.lines()))
    print(f"\n{report.n_calls} calls, {len(report.faults)} faults, seed {options.seed}")
    sys.exit(bool(report.faults))


if __name__ == "__main__":
    main()
