"""Count the butterflies of the U.S. Senate's votes: in all, per senator, and per bill.

A butterfly is a pair of senators and a pair of bills on which both of them voted.

    python examples/count_butterflies.py
"""

from __future__ import annotations

import papilio


def main() -> None:
    """Read a graph that the package contains, then count."""
    votes = papilio.example("senate-votes")
    print(f"{votes.n_u} senators, {votes.n_v} bills, {votes.n_edges:,} votes")

    result = papilio.count(votes, papilio.Butterfly(), per="vertex")
    print(f"{result.count:,} butterflies, from {result.work:,} {result.work_unit} ({result.engine})")

    for place, name in (("u", "senator"), ("v", "bill")):
        leaders = [entry for entry in result.top() if entry.place == place]
        for entry in leaders[:3]:
            print(f"{name} {entry.labels[0]} is in {entry.count:,} of them")


if __name__ == "__main__":
    main()
