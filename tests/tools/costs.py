"""Processor time of every test file, printed at the end of a run: what the suite costs, and where.

A test is charged with the processor time of its process, of the child processes that ended, and of the process that
forks workers with those of them that ended, since the test before it. Clusters that a fixture keeps running are charged
to the tests beside them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import forkserver
from typing import Any, NamedTuple

import psutil
import pytest

__all__ = ["CostReport"]

FILES_SHOWN = 30
_PROPERTY = "cost"


class Cost(NamedTuple):
    """Seconds of processor time, and of it in child processes; seconds on the clock."""

    processor_s: float
    children_s: float
    wall_s: float

    def minus(self, other: Cost) -> Cost:
        """Return the cost since ``other``."""
        return Cost(*(now - then for now, then in zip(self, other, strict=True)))


def cost_so_far() -> Cost:
    """Return what this process and others that it began have used."""
    used = os.times()
    children = used.children_user + used.children_system
    server = getattr(forkserver._forkserver, "_forkserver_pid", None)
    if server is not None:
        with suppress(psutil.NoSuchProcess):
            children += sum(psutil.Process(server).cpu_times()[:4])
    return Cost(used.user + used.system + children, children, used.elapsed)


@dataclass
class Sum:
    """The costs of several tests."""

    tests: int = 0
    processor_s: float = 0.0
    children_s: float = 0.0
    wall_s: float = 0.0

    def add(self, cost: Cost, *, is_test: bool) -> None:
        self.tests += is_test
        self.processor_s += cost.processor_s
        self.children_s += cost.children_s
        self.wall_s += cost.wall_s

    def row(self, name: str) -> str:
        """Return a row of the table."""
        return f"{self.processor_s:9.1f} {self.children_s:9.1f} {self.wall_s:9.1f} {self.tests:6}  {name}"


@dataclass(eq=False)
class CostReport:
    """A pytest plugin: it measures in each process that runs tests, and reports where the results are collected."""

    last: Cost = field(default_factory=cost_so_far)
    by_file: dict[str, Sum] = field(default_factory=lambda: defaultdict(Sum))
    whole_s: list[float] = field(default_factory=list)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        """Charge a phase of a test with what was used since the phase before it."""
        report: Any = yield
        now = cost_so_far()
        report.user_properties = [*report.user_properties, (_PROPERTY, tuple(now.minus(self.last)))]
        self.last = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase to its file."""
        own = [cost for name, cost in report.user_properties if name == _PROPERTY]
        if own:
            file = report.nodeid.partition("::")[0]
            self.by_file[file].add(Cost(*own[-1]), is_test=report.when == "call")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Tell the collecting process what this one used in all."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["processor_s"] = cost_so_far().processor_s
        else:
            now = cost_so_far()  # the processes that ran the tests are its children
            self.whole_s.append(now.processor_s - (now.children_s if self.whole_s else 0.0))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a process used in all."""
        self.whole_s.append(getattr(node, "workeroutput", {}).get("processor_s", 0.0))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the costs by folder, then of the files that cost most."""
        if len(self.by_file) < 2:
            return
        by_folder: dict[str, Sum] = defaultdict(Sum)
        whole = Sum()
        for file, each in self.by_file.items():
            for target in (by_folder[file.rpartition("/")[0]], whole):
                target.tests += each.tests
                target.add(Cost(each.processor_s, each.children_s, each.wall_s), is_test=False)
        write = terminalreporter.write_line
        write("cpu s     children    wall s  tests  by folder, then the costliest files (children: in other processes)")
        for rows in (by_folder, self.by_file):
            for name, each in sorted(rows.items(), key=lambda row: -row[1].processor_s)[:FILES_SHOWN]:
                write(each.row(name))
        write(whole.row("all tests"))
        write(f"{sum(self.whole_s):9.1f} seconds of processor time with imports and collection")
