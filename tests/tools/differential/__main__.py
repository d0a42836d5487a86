"""Compare engines on drawn graphs for some seconds; see the package."""

from __future__ import annotations

import argparse
import faulthandler
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from numpy.random import default_rng

from papilio.errors import CapacityError, DeviceLostError, UnsupportedError
from tests.tools.differential.answers import Answer, Answerer, EngineAnswerer
from tests.tools.differential.cases import DRAWS, Case, Size, draw_case, draw_family
from tests.tools.differential.definition import OracleAnswerer
from tests.tools.differential.laws import LAWS, Asked, check_sums
from tests.tools.differential.shrink import shrink
from tests.tools.strategies import edge_list

ENGINES = ("cpu", "emulator", "gpu", "oracle")
MOST_EDGES = 300
"""Edges that are printed."""
MOST_FAILED = 5
"""Failures that end a run."""
HANG_S = 300
"""After so long a case ends the run, with the place where it hangs."""


@dataclass(frozen=True)
class Comparison:
    """Two engines, or one with what was recorded of another."""

    ours: Answerer
    theirs: Answerer | None
    recorded: Mapping[int, tuple[int | None, str]]
    law: str | None = None  # the one that is tried; without it one that is drawn

    def difference(self, case: Case) -> tuple[str, Answer | None]:
        """Say what is wrong of a case, if anything; the answer is None where an engine refuses."""
        ask = case.graph, case.question, case.tuning
        try:
            wanted = self.theirs(*ask) if self.theirs is not None else None
            known = self.recorded.get(case.number)
            items = wanted.items if wanted is not None else known[0] if known is not None else None
            answer = self.ours(*ask, items)
        except (CapacityError, UnsupportedError):
            return "", None
        if items is None and answer.items != answer.n_items:
            return "", None  # it took too long
        if wanted is not None and (wrong := answer.differs_from(wanted)):
            assert self.theirs is not None
            return f"{self.ours.name} and {self.theirs.name} differ: {wrong}", answer
        if known is not None and self.theirs is None and answer.digest != known[1]:
            return f"{self.ours.name} differs from what was recorded: total {answer.total}", answer
        return self._break_laws(case, answer), answer

    def _break_laws(self, case: Case, answer: Answer) -> str:
        random = default_rng([case.number, 1])
        asked = Asked(case, self.ours, answer, random)
        if wrong := check_sums(asked):
            return f"{self.ours.name}: {wrong}"
        name = self.law or str(random.choice(list(LAWS)))
        if answer.items != answer.n_items and name not in ("split", "memory"):
            return ""  # of the first items alone
        try:
            wrong = LAWS[name](asked)
        except (CapacityError, UnsupportedError):
            return ""
        return wrong and f"{self.ours.name} against the law of {name}: {wrong}"

    def examine(self, case: Case) -> tuple[str, Answer | None]:
        """As :meth:`difference`; what an engine raises is wrong, too."""
        try:
            return self.difference(case)
        except DeviceLostError:
            raise
        except Exception:
            return traceback.format_exc(limit=-3).strip(), None

    def explain(self, case: Case, wrong: str, size: Size, seconds: float) -> str:
        """Describe a failure by the smallest graph that has it."""
        small = case
        if not self.recorded:  # which tells of the whole graph alone
            small = shrink(case, lambda each: bool(self.examine(each)[0]), seconds)
        graph, edges = small.graph, edge_list(small.graph)[:MOST_EDGES]  # type: ignore[arg-type]
        sign = "" if graph.sign is None else f"\nsigns {graph.sign[:MOST_EDGES].tolist()}"
        against = "" if self.theirs is None else f" --against {self.theirs.name}"
        return (
            f"FAILED {case}\n{wrong}\nwith {small}: {self.examine(small)[0] or 'no longer wrong'}\n"
            f"edges {edges}{sign}\npython -m tests.tools.differential --engine {self.ours.name}{against} "
            f"--size {size} --case {case.number}"
        )


def make_answerer(name: str, seconds: float) -> Answerer:
    """Return an engine by its name."""
    if name == "oracle":
        return OracleAnswerer()
    device = None
    if name == "gpu":
        from papilio.kernels.device.cuda import CudaDevice

        device = CudaDevice()
    elif name == "emulator":
        from tests.emulator import EmulatorDevice

        device = EmulatorDevice(seed=1)
    return EngineAnswerer(name, device, seconds)


def number_cases(asked: argparse.Namespace) -> Iterator[int]:
    """Yield the numbers of cases, until the time is over."""
    if asked.case is not None:
        yield asked.case
        return
    if asked.recorded is not None:
        yield from read_recorded(asked.recorded)
        return
    end, number = monotonic() + asked.seconds, asked.seed * 1_000_000
    while monotonic() < end:
        if not asked.families or draw_family(number) in asked.families:
            yield number
        number += 1


def read_recorded(path: Path) -> Mapping[int, tuple[int | None, str]]:
    """Return the items and the digest of each answer, by the number of its case."""
    lines = [line.split() for line in path.read_text().splitlines()]
    return {int(number): (None if items == "None" else int(items), name) for number, items, name in lines}


def compare(asked: argparse.Namespace) -> int:
    """Examine case after case; return how many failed."""
    recorded = {} if asked.recorded is None else read_recorded(asked.recorded)
    theirs = None if asked.against is None else make_answerer(asked.against, asked.patience)
    comparison = Comparison(make_answerer(asked.engine, asked.patience), theirs, recorded, asked.law)
    found, failed, end = Counter[str](), 0, monotonic() + asked.seconds
    for number in number_cases(asked):
        if failed == MOST_FAILED or (monotonic() > end and asked.case is None):
            break
        case = draw_case(number, asked.size)
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        if asked.verbose:
            print(case, end="", file=sys.stderr, flush=True)
        began = monotonic()
        wrong, answer = comparison.examine(case)
        if asked.verbose:
            print(f": {monotonic() - began:.2f} s, {answer and answer.total}", file=sys.stderr, flush=True)
        found[f"{case.family}{'' if answer else ' refused'}"] += 1
        if wrong:
            failed += 1
            faulthandler.dump_traceback_later(HANG_S + asked.patience, exit=True)
            print(comparison.explain(case, wrong, asked.size, asked.shrink), flush=True)
        elif answer is not None and asked.record is not None:
            with asked.record.open("a") as file:
                print(number, answer.items, answer.digest, file=file)
    faulthandler.cancel_dump_traceback_later()
    print(f"{sum(found.values())} cases, {failed} failed: {dict(sorted(found.items()))}", flush=True)
    return failed


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.differential", description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, default="cpu", help="what is examined")
    parser.add_argument("--against", choices=ENGINES, help="what it is compared with; without it laws alone")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other cases")
    parser.add_argument("--case", type=int, help="examine this one alone")
    parser.add_argument("--size", choices=("tiny", "small", "large"), default="large", help="of the graphs")
    parser.add_argument("--families", nargs="+", choices=list(DRAWS), default=[], help="all by default")
    parser.add_argument("--law", choices=list(LAWS), help="this one alone")
    parser.add_argument("--record", type=Path, help="keep the answers in this file")
    parser.add_argument("--recorded", type=Path, help="compare with the answers in this file, and examine its cases")
    parser.add_argument("--patience", type=float, default=4.0, help="seconds of a run, which ends at an item then")
    parser.add_argument("--shrink", type=float, default=30.0, help="seconds for making a failed case smaller")
    parser.add_argument("--verbose", action="store_true", help="name each case before it runs")
    return 1 if compare(parser.parse_args()) else 0


if __name__ == "__main__":
    sys.exit(main())
