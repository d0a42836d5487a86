"""Draw ``way-of-data.svg``: the packages, and what passes between them. Run it after a change: it needs matplotlib.

python docs/figures/way_of_data.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

ROOMS = {
    "files": (0.1, 4.2, "edge lists", "text, Parquet, NumPy"),
    "storage": (2.9, 4.2, "storage", "formats, graph store,\nlabels, result files"),
    "partitioning": (5.7, 4.2, "partitioning", "parts of graphs\nbeyond memory"),
    "cli": (0.1, 2.2, "cli", "a subcommand per motif"),
    "api": (2.9, 2.2, "api", "count, listing, decompose,\ncensus, partition, jobs"),
    "tasks": (5.7, 2.2, "tasks", "plan, leases, ledger,\none task's run, fold"),
    "cluster": (8.5, 2.2, "cluster", "inline, local, cuda,\nexisting, slurm"),
    "registry": (2.9, 0.2, "registry", "one row per motif"),
    "kernels": (5.7, 0.2, "kernels", "wedge, biclique, clique, peel;\nCPU and CUDA twins"),
    "reports": (8.5, 0.2, "measures, reports", "clustering, pairs; scaling,\npages"),
}
WIDTH, HEIGHT = 2.0, 1.1
WAYS = [
    ("files", "storage", "convert"), ("storage", "partitioning", "rows"), ("cli", "api", "question"),
    ("api", "tasks", "job"), ("tasks", "cluster", "leases"), ("cluster", "tasks", "partials"),
    ("storage", "tasks", "graph"), ("partitioning", "tasks", "parts"), ("tasks", "kernels", "items"),
    ("registry", "tasks", "row"), ("registry", "kernels", ""), ("tasks", "api", "result"),
]  # fmt: skip


def edge_of(room: str, other: str) -> tuple[float, float]:
    """Return the middle of the side of a room that faces another one."""
    x, y, *_ = ROOMS[room]
    to_x, to_y, *_ = ROOMS[other]
    if abs(to_y - y) < 0.1:
        return (x + WIDTH if to_x > x else x), y + HEIGHT / 2
    return x + WIDTH / 2, (y + HEIGHT if to_y > y else y)


def draw() -> plt.Figure:
    """Draw the figure."""
    figure, axes = plt.subplots(figsize=(10.6, 5.6))
    axes.set_xlim(0, 10.6)
    axes.set_ylim(0, 5.6)
    axes.axis("off")
    for x, y, name, text in ROOMS.values():
        axes.add_patch(FancyBboxPatch((x, y), WIDTH, HEIGHT, boxstyle="round,pad=0.04", fc="#eef3fa", ec="#33557f"))
        axes.text(x + WIDTH / 2, y + HEIGHT - 0.2, name, ha="center", va="center", weight="bold", fontsize=10)
        axes.text(x + WIDTH / 2, y + 0.4, text, ha="center", va="center", fontsize=8)
    for start, end, what in WAYS:
        both = (end, start) in {(a, b) for a, b, _ in WAYS}
        shift = 0.14 if both and start < end else -0.14 if both else 0.0
        (x, y), (to_x, to_y) = edge_of(start, end), edge_of(end, start)
        axes.add_patch(
            FancyArrowPatch((x, y + shift), (to_x, to_y + shift), arrowstyle="-|>", mutation_scale=10, color="#555555")
        )
        axes.text((x + to_x) / 2, (y + to_y) / 2 + shift + 0.1, what, ha="center", fontsize=7, color="#333333")
    return figure


if __name__ == "__main__":
    mpl.rcParams.update({"svg.hashsalt": "papilio", "svg.fonttype": "none"})
    draw().savefig(Path(__file__).with_name("way-of-data.svg"), metadata={"Date": None}, bbox_inches="tight")
