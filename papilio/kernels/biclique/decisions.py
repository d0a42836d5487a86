"""What the engines of (p,q)-bicliques decided as they prepared a graph, for people: it goes into the plan."""

from __future__ import annotations

from papilio.kernels.biclique.items import SizeRange
from papilio.motifs import Biclique, Granularity

Choice = tuple[str, str]
"""What was decided, and why."""


def explain_choices(
    motif: Biclique,
    per: Granularity,
    sizes: SizeRange,
    swapped: bool,
    asked: tuple[str, str],
    algorithm: str,
) -> tuple[Choice, ...]:
    """Return the anchored layer and the algorithm with their reasons.

    ``asked`` are the anchor (of a part: ``part``) and the algorithm that were asked for; ``algorithm`` is what runs.
    """
    if sizes.is_empty:
        return (("no search", "every size that is asked for has a closed form or does not occur"),)
    layer = f"layer {'V' if swapped else 'U'} anchored"
    if asked[0] == "part":
        reason = "the roots of the part are of it"
    elif asked[0] != "auto":
        reason = "asked for"
    elif sizes.most_left == 2 != sizes.most_right:
        reason = "only two of its vertices are taken"
    elif (motif.p is None) != (motif.q is None):
        is_given = swapped == (motif.p is None)
        reason = (
            "its side has a given size" if is_given else "pairs of the other layer have many times the wedges"
        )
    else:
        reason = "pairs of its vertices have no more wedges than those of the other layer"
    return (layer, reason), _explain_algorithm(per, sizes, asked[1], algorithm)


def _explain_algorithm(per: Granularity, sizes: SizeRange, asked: str, algorithm: str) -> Choice:
    if sizes.most_left == 2 and per == "total" and algorithm != "pivot":
        return "pairs counted by their wedges", "pairs of its vertices are all that is asked for"
    name = "algorithms enumerate and pivot race" if algorithm == "auto" else f"algorithm {algorithm}"
    if asked != "auto":
        return name, "asked for"
    if per == "vertex":
        return name, "it knows the vertices of what it counts"
    if algorithm == "pivot":
        return name, "it counts many sizes in one search"
    if algorithm == "enumerate":
        deep = "one level" if sizes.most_left <= 3 else "a few levels"
        return name, f"below a pair the search is {deep} deep"
    return name, "neither is always the faster"
