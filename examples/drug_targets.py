"""Which drugs act alike on the targets that they share, and which against each other?

Two drugs and two targets that both act on make a butterfly. It is coherent where the drugs have the same effect on each
target (both activate it, or both inhibit it), incoherent where they have opposite effects on each, and mixed, or
conflicting, where they agree on one target alone: the census that the G-BBC++ paper takes of a drug-target network.

Without arguments a small network is generated: families of targets, agonists that activate one family, antagonists that
inhibit it, modulators that do either, and side effects in other families. A file of your own has a line
``drug,target,effect`` for each interaction, with a line of names before them, and the effects ``activates`` and
``inhibits``:

    python examples/drug_targets.py
    python examples/drug_targets.py interactions.csv
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import papilio
from papilio.measures.census_pairs import PairOrder

MOTIF_ROWS = ("adrenergic", "dopamine", "histamine", "opioid", "serotonin")
KINDS = {"agonist": 0.96, "antagonist": 0.04, "modulator": 0.5}
"""What a drug does to its own family: the share of targets that it activates."""


def write_network(path: Path, seed: int) -> None:
    """Write a generated network: 75 drugs on 60 targets."""
    random = np.random.default_rng(seed)
    lines = ["drug,target,effect"]
    for family in MOTIF_ROWS:
        for kind, activates in KINDS.items():
            for number in range(1, 6):
                for other in MOTIF_ROWS:
                    reached, share = (0.6, activates) if other == family else (0.08, 0.3)
                    for target in np.flatnonzero(random.random(12) < reached) + 1:
                        effect = "activates" if random.random() < share else "inhibits"
                        lines.append(f"{family} {kind} {number},{other} receptor {target},{effect}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def show_pairs(store: papilio.GraphStore, by: PairOrder) -> None:
    """Print the pairs of drugs with the most butterflies of a group."""
    print(f"\nmost {by} pairs of drugs:")
    for pair in papilio.census_pairs(store, "u", by=by, n=3).pairs:
        one, other = pair.labels
        print(
            f"  {one} and {other}: both activate {pair.both_positive} targets, both inhibit {pair.both_negative}, "
            f"differ on {pair.different}; {', '.join(f'{name} {number}' for name, number in pair.groups.items())}"
        )


def main() -> None:
    """Take the census of a network, then of its pairs of drugs, then of each drug."""
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "network.csv"
        if len(sys.argv) > 1:
            source = Path(sys.argv[1])
        else:
            write_network(source, seed=1)
        store = papilio.convert(
            source,
            Path(directory) / "network",
            sign_values="activates:inhibits",
            labels="text",
            header=True,
        )
        print(f"{store.n_u} drugs, {store.n_v} targets, {store.n_edges:,} interactions")

        found = papilio.census_vertices(store, "u")
        print(f"{found.census.butterflies:,} butterflies, {found.census.balanced:,} balanced")
        for each, count, share in found.census.rows:
            print(f"  {each.group:<10}  {each.name}  {count:>7,}  {share:6.1%}")

        show_pairs(store, "coherent")
        show_pairs(store, "incoherent")
        show_pairs(store, "conflicting")

        print("\ndrugs by the share of their butterflies that is conflicting:")
        groups = found.groups
        butterflies = np.sum(list(groups.values()), axis=0)
        shares = groups["mixed"] / np.maximum(butterflies, 1)
        names = store.labels("u")
        assert names is not None, "the file has names"
        for drug in np.argsort(-shares, kind="stable")[:3]:
            print(f"  {names[drug]}: {shares[drug]:.1%} of {butterflies[drug]:,}")


if __name__ == "__main__":
    main()
