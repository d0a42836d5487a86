"""Count the butterflies of the U.S. Senate's votes: in all, per senator, and per bill.

A butterfly is a pair of senators and a pair of bills on which both of them voted.

    python examples/count_butterflies.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import papilio

VOTES = Path(__file__).parent / "data" / "senate-votes.txt.gz"


def main() -> None:
    """Convert the bundled text file into a graph store, then count."""
    with tempfile.TemporaryDirectory() as directory:
        store = papilio.convert(VOTES, Path(directory) / "senate", sign=3)
        print(f"{store.n_u} senators, {store.n_v} bills, {store.n_edges:,} votes")

        result = papilio.count(store, papilio.Butterfly(), per="vertex")
        print(f"{result.count:,} butterflies, from {result.work:,} {result.work_unit} ({result.engine})")

        for place, name in (("u", "senator"), ("v", "bill")):
            leaders = [entry for entry in result.top() if entry.place == place]
            for entry in leaders[:3]:
                print(f"{name} {entry.labels[0]} is in {entry.count:,} of them")


if __name__ == "__main__":
    main()
