"""Draw ``motifs.svg``: what is counted, each in a small graph. Run it after a change: it needs matplotlib.

python docs/figures/motifs.py
"""

from __future__ import annotations

from math import cos, pi, sin
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

HERE = Path(__file__).resolve().parent
MARKED, PLAIN, NEGATIVE = "#1d6fa5", "#b8c4cc", "#c0392b"

Edge = tuple[int, int]


def complete(left: list[int], right: list[int]) -> list[Edge]:
    return [(u, v) for u in left for v in right]


# Title, vertices of U and V (or of one layer: V is 0), edges of the motif, other edges, negative edges.
PANELS: list[tuple[str, int, int, list[Edge], list[Edge], list[Edge]]] = [
    ("butterfly", 3, 3, complete([0, 1], [0, 1]), [(1, 2), (2, 1), (2, 2)], []),
    ("(3,2)-biclique", 4, 3, complete([0, 1, 2], [0, 1]), [(2, 2), (3, 2)], []),
    ("maximal biclique", 3, 4, complete([0, 1], [0, 1, 2]), [(2, 2), (2, 3), (1, 3)], []),
    ("balanced butterfly", 2, 2, [(0, 0), (1, 1)], [], [(0, 1), (1, 0)]),
    ("4-clique", 5, 0, [(a, b) for a in range(4) for b in range(a)], [(4, 0), (4, 3)], []),
    ("2-wing", 3, 4, complete([0, 1, 2], [0, 1]), [(2, 2), (1, 3)], []),
]


def main() -> None:
    plt.rcParams.update({"svg.hashsalt": "papilio", "font.size": 9, "svg.fonttype": "none"})
    figure, axes = plt.subplots(2, 3, figsize=(7.2, 4.2), layout="constrained")
    for panel, (title, n_u, n_v, marked, other, negative) in zip(axes.flat, PANELS, strict=True):
        if n_v:
            at = {("u", i): (i - (n_u - 1) / 2, 1.0) for i in range(n_u)}
            at |= {("v", i): (i - (n_v - 1) / 2, 0.0) for i in range(n_v)}
        else:
            at = {("u", i): (sin(2 * pi * i / n_u), 0.5 + 0.55 * cos(2 * pi * i / n_u)) for i in range(n_u)}
        end = "v" if n_v else "u"
        for edges, colour, width in ((other, PLAIN, 1.2), (marked, MARKED, 2.2), (negative, NEGATIVE, 2.2)):
            for a, b in edges:
                (x, y), (z, w) = at["u", a], at[end, b]
                panel.plot([x, z], [y, w], color=colour, linewidth=width, zorder=1)
        inside = {("u", a) for a, _ in marked + negative} | {(end, b) for _, b in marked + negative}
        for place, (x, y) in at.items():
            panel.scatter([x], [y], s=70, color=MARKED if place in inside else PLAIN, zorder=2)
        panel.set_title(title)
        panel.set_xlim(-2, 2)
        panel.set_ylim(-0.3, 1.3)
        panel.axis("off")
    figure.savefig(HERE / "motifs.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
