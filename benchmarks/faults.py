"""Counts on a cluster of several hosts, while links, processes, disks and clocks fail.

    python -m benchmarks.faults --tries 2
    python -m benchmarks.faults --scenario cut stop
    python -m benchmarks.faults --soak 1200

Needs root: each host is a network namespace of this machine, see ``tests/faults``. Every try has a fresh cluster and a
new job directory, and counts (5,5)-bicliques of a random graph, for some 9 s of one processor. The table
has, for every fault, how many tries ended with the exact count and a job that ``papilio verify`` accepts (or were
rejected, where they must be), the median of the seconds to the end beside those of a count without a fault, and the
last line that the user saw. The exit status is 1 if a try ended otherwise.

``--soak`` asks all verbs again and again for so many seconds, on one cluster, and kills a worker or the client with
SIGKILL every 10 to 20 s. The command of a killed client is repeated, which resumes its job. Ctrl-C ends it earlier.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from statistics import median
from time import monotonic

import papilio
from benchmarks.harness import describe_machine
from tests.faults.laboratory import Laboratory, write_dense
from tests.faults.network import missing_for_network
from tests.faults.scenarios import SCENARIOS, Outcome, Scenario, observe
from tests.faults.soak import Soak, make_questions

N_U, P = 240, 5
MOTIF = ("biclique", "-p", str(P), "-q", str(P))


def try_scenario(scenario: Scenario, graph: Path) -> Outcome:
    """Run a scenario in a laboratory of its own; one that hangs has no count."""
    with tempfile.TemporaryDirectory() as folder, Laboratory(Path(folder), graph, MOTIF) as lab:
        began = monotonic()
        try:
            return observe(lab, scenario)
        except AssertionError as error:
            return Outcome(-1, None, False, monotonic() - began, [" ".join(str(error).split())])


def is_right(outcome: Outcome, scenario: Scenario, wanted: int) -> bool:
    """Return whether the count is exact and its job accepted; or whether there is none where it must be rejected."""
    if scenario.is_rejected:
        return outcome.count is None and outcome.exit_code != 0
    return outcome.count == wanted and outcome.is_sealed and outcome.exit_code == 0


def show_row(scenario: Scenario, outcomes: list[Outcome], wanted: int, undisturbed_s: float) -> str:
    """Return a row of the table."""
    n_right = sum(is_right(each, scenario, wanted) for each in outcomes)
    seconds = median(each.seconds for each in outcomes)
    messages = " / ".join(outcomes[-1].messages).replace("|", "\\|")
    verdict = "rejected" if scenario.is_rejected else "exact"
    cells = [
        scenario.fault,
        str(len(outcomes)),
        f"{n_right} {verdict}",
        f"{seconds:.0f} ({seconds - undisturbed_s:+.0f})",
        messages or "nothing",
    ]
    return f"| {' | '.join(cells)} |"


def soak(seconds: float, seed: int) -> int:
    """Print the table of a soak, and return how many answers differ from those without kills."""
    with tempfile.TemporaryDirectory() as folder:
        questions = make_questions(Path(folder))
        with Laboratory(Path(folder), Path(folder) / "dense", MOTIF) as lab:
            run = Soak(lab, questions, seed)
            with suppress(KeyboardInterrupt):
                run.run(seconds)
    print("\n| command | asked | exact | median seconds | workers killed | clients killed | repeated after an error |")
    print("| --- " * 7 + "|")
    for question, tally in run.tallies.items():
        numbers = [tally.asked, tally.exact, f"{median(tally.seconds or [0.0]):.0f}", tally.worker_kills,
                   tally.client_kills, tally.repeated]  # fmt: skip
        print(f"| `papilio {question}` | {' | '.join(map(str, numbers))} |")
    tallies = run.tallies.values()
    print(f"| all | {sum(each.asked for each in tallies)} | {sum(each.exact for each in tallies)} | | "
          f"{sum(each.worker_kills for each in tallies)} | {sum(each.client_kills for each in tallies)} | "
          f"{sum(each.repeated for each in tallies)} |\n")  # fmt: skip
    for message in sorted({message for each in tallies for message in each.messages}):
        print(f"* {message}")
    return sum(each.asked - each.exact for each in tallies)


def main() -> int:
    """Run the scenarios and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", nargs="+", choices=SCENARIOS, default=list(SCENARIOS), metavar="NAME")
    parser.add_argument("--tries", type=int, default=1)
    parser.add_argument("--soak", type=float, metavar="SECONDS", help="run a soak for this time, not the scenarios")
    parser.add_argument("--seed", type=int, default=1, help="of the kills of the soak")
    options = parser.parse_args()
    missing = missing_for_network()
    if missing is not None:
        print(f"no network of hosts here: {missing}", file=sys.stderr)
        return 2
    for name, value in describe_machine("cpu").items():
        print(f"- {name}: {value}")
    if options.soak is not None:
        return int(soak(options.soak, options.seed) > 0)
    print(
        "\n| fault | tries | ended | seconds | last line that the user saw |\n| --- | --- | --- | --- | --- |",
        flush=True,
    )
    n_wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        graph = Path(folder) / "graph"
        write_dense(graph, N_U)
        wanted = papilio.count(graph, papilio.Biclique(p=P, q=P), cluster="inline", engine="cpu").count
        undisturbed_s = 0.0
        for name in dict.fromkeys(["undisturbed", *options.scenario]):
            scenario = SCENARIOS[name]
            outcomes = [try_scenario(scenario, graph) for _ in range(options.tries)]
            if name == "undisturbed":
                undisturbed_s = median(each.seconds for each in outcomes)
            print(show_row(scenario, outcomes, wanted, undisturbed_s), flush=True)
            n_wrong += sum(not is_right(each, scenario, wanted) for each in outcomes)
    return int(n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
