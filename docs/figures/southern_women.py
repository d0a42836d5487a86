"""Draw ``southern-women.svg``: how many bicliques of each size the attendances of the Southern Women hold.

python docs/figures/southern_women.py
"""

from __future__ import annotations

from math import log10
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np

import papilio

HERE = Path(__file__).resolve().parent


def main() -> None:
    table = papilio.count(papilio.example("southern-women"), papilio.Biclique(None, None)).table
    width, height = max(q for _, q in table), max(p for p, _ in table)
    shades = np.full((height, width), np.nan)
    for (p, q), count in table.items():
        shades[p - 1, q - 1] = log10(count)
    plt.rcParams.update({"svg.hashsalt": "papilio", "font.size": 8, "svg.fonttype": "none"})
    figure, axes = plt.subplots(figsize=(7.2, 5.0), layout="constrained")
    axes.imshow(shades, cmap="YlGnBu", vmin=-0.5, vmax=4.5, aspect="auto")
    for (p, q), count in table.items():
        axes.text(q - 1, p - 1, f"{count:,}", ha="center", va="center", size=6,
                  color="white" if count > 1_000 else "black")  # fmt: skip
    axes.set_xticks(range(width), [str(q + 1) for q in range(width)])
    axes.set_yticks(range(height), [str(p + 1) for p in range(height)])
    axes.set_xlabel("events that all of them attended")
    axes.set_ylabel("women")
    axes.set_title("18 women, 14 events: groups of women who met at the same events")
    axes.spines[:].set_visible(False)
    figure.savefig(HERE / "southern-women.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
