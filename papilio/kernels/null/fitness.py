"""Random graphs with given expected degrees: the graph of maximum entropy, whose edges are independent.

An edge between vertices with fitnesses x and y exists with probability xy / (1 + xy): the bipartite configuration model
(Saracco, Di Clemente, Gabrielli and Squartini, Scientific Reports 2015) and its unipartite twin (Squartini and
Garlaschelli, New Journal of Physics 2011). Vertices of one layer with the same degree have the same fitness, so that
all work is on classes of degrees.

Results are the same on every machine: sums have a fixed order, no function of the C library is called, and edges are
drawn with integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papilio.errors import CapacityError, ExecutionError
from papilio.graph import BipartiteGraph
from papilio.kernels.jit import Index, Ints, compiled
from papilio.kernels.null.loops import Vertices, draw_at
from papilio.kernels.null.models import MAX_CLASSES, Graph
from papilio.kernels.search.bits import Words
from papilio.kernels.search.probe_loops import Floats

_TOLERANCE = 1e-9
"""Largest difference between a degree and the expected one."""

_MAX_STEPS = 200
_MAX_HALVINGS = 50
_MAX_SKIP_BITS = 50
_FRACTION_BITS = 256


@dataclass(frozen=True, eq=False)
class LinkChances:
    """Probabilities of edges between classes of vertices: one layer and one degree each, U first.

    ``members`` are the vertices, ids of their layer, of class c from ``offsets[c]`` on. ``chances`` of shape
    (n_classes, n_classes) are symmetric, and 0 between classes that cannot be linked.
    """

    members: Vertices
    offsets: Ints
    degrees: Ints  # of each class
    chances: Floats
    n_u_classes: int  # all for unipartite graphs
    is_bipartite: bool

    def expect_degrees(self) -> Floats:
        """Return the expected degree of a vertex of each class, shape (n_classes,)."""
        weights = _count_partners(np.diff(self.offsets), self.n_u_classes, self.is_bipartite)
        expected: Floats = (weights * self.chances).sum(axis=1)
        return expected

    def expect_edges(self) -> float:
        """Return the expected number of edges."""
        return float(self.expect_degrees() @ np.diff(self.offsets)) / 2

    @property
    def is_certain(self) -> bool:
        """Whether every edge has probability 0 or 1."""
        return bool(((self.chances == 0.0) | (self.chances == 1.0)).all())


def _count_partners(sizes: Ints, n_u_classes: int, is_bipartite: bool) -> Floats:
    """Return the vertices of each class that a vertex of a class can be linked to, shape (n_classes, n_classes)."""
    partners = np.tile(sizes.astype(np.float64), (sizes.size, 1))
    if is_bipartite:
        partners[:n_u_classes, :n_u_classes] = partners[n_u_classes:, n_u_classes:] = 0.0
    else:
        partners -= np.eye(sizes.size)
    return partners


def solve_chances(graph: Graph) -> LinkChances:
    """Return the probabilities with which every vertex has its degree in expectation, to 1e-9.

    Newton's method on the logarithms of the fitnesses, in which the likelihood is concave, with conjugate gradients for
    each step: O(n_classes^2) per iteration. Before that, vertices that have none or all of their possible edges are
    removed, repeatedly.

    Raises
    ------
    CapacityError
        For more than :data:`MAX_CLASSES` different degrees.
    ExecutionError
        If the method does not converge.
    """
    is_bipartite = isinstance(graph, BipartiteGraph)
    layers = [graph.degree_u, graph.degree_v] if isinstance(graph, BipartiteGraph) else [graph.degree]
    found = [np.unique(layer, return_counts=True) for layer in layers]
    degrees = np.concatenate([one for one, _ in found]).astype(np.int64)
    sizes = np.concatenate([one for _, one in found]).astype(np.int64)
    if degrees.size > MAX_CLASSES:
        raise CapacityError(
            f"the graph has {degrees.size} different degrees; expected degrees are solved for at most {MAX_CLASSES}: "
            "use the null model 'degrees'"
        )
    members = np.concatenate([np.argsort(layer, kind="stable") for layer in layers]).astype(np.int32)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    partners = _count_partners(sizes, found[0][0].size, is_bipartite)
    chances = np.zeros_like(partners)
    left, is_free = _set_apart(degrees, sizes, partners, chances)
    free = np.flatnonzero(is_free)
    if free.size:
        chances[np.ix_(free, free)] = _solve(
            left[free].astype(np.float64), sizes[free].astype(np.float64), partners[np.ix_(free, free)].copy()
        )
    return LinkChances(members, offsets, degrees, chances, found[0][0].size, is_bipartite)


def _set_apart(degrees: Ints, sizes: Ints, partners: Floats, chances: Floats) -> tuple[Ints, NDArray[np.bool_]]:
    """Set chances that are certain to 1; return the degrees that are left and which classes are."""
    left, is_free = degrees.copy(), np.ones(degrees.size, bool)
    room = partners.sum(axis=1).astype(np.int64)
    while True:
        settled = np.flatnonzero(is_free & ((left == 0) | (left == room)))
        if not settled.size:
            return left, is_free
        one = settled[0]
        others = is_free & (partners[one] > 0)
        if left[one]:
            chances[one, others] = chances[others, one] = 1.0
            left[others] -= sizes[one]
        room[others] -= sizes[one]
        is_free[one] = False


def _solve(degrees: Floats, sizes: Floats, partners: Floats) -> Floats:
    n = degrees.size
    room = _SolverRoom(np.empty((n, n)), *np.empty((7, n)))
    fitness = degrees / np.sqrt((degrees * sizes).sum() / 2)
    for _ in range(_MAX_STEPS):
        if _take_step(fitness, degrees, sizes, partners, room) <= _TOLERANCE:
            chances = np.outer(fitness, fitness, out=room.slopes)
            chances /= 1.0 + chances
            chances[partners == 0] = 0.0
            return chances
    raise ExecutionError(f"expected degrees did not converge in {_MAX_STEPS} steps: use the null model 'degrees'")


class _SolverRoom(NamedTuple):
    slopes: Floats  # (n, n); the others have shape (n,)
    gradient: Floats
    step: Floats
    residual: Floats
    preconditioned: Floats
    direction: Floats
    product: Floats
    trial: Floats


@compiled
def _find_gradient(fitness: Floats, degrees: Floats, sizes: Floats, partners: Floats, gradient: Floats) -> float:
    """Fill the gradient of the negative likelihood; return the largest difference between degrees."""
    worst = 0.0
    for a in range(len(fitness)):
        expected = 0.0
        for b in range(len(fitness)):
            product = fitness[a] * fitness[b]
            expected += partners[a, b] * (product / (1.0 + product))
        gradient[a] = sizes[a] * (expected - degrees[a])
        worst = max(worst, abs(expected - degrees[a]))
    return worst


@compiled
def _dot(left: Floats, right: Floats) -> float:
    total = 0.0
    for a in range(len(left)):
        total += left[a] * right[a]
    return total


@compiled
def _find_step(fitness: Floats, sizes: Floats, partners: Floats, room: _SolverRoom) -> None:
    """Solve for Newton's step by conjugate gradients, with the diagonal as the preconditioner."""
    n, slopes, step, residual = len(fitness), room.slopes, room.step, room.residual
    direction, product, preconditioned = room.direction, room.product, room.preconditioned
    for a in range(n):
        total = 0.0
        for b in range(n):
            odds = fitness[a] * fitness[b]
            slopes[a, b] = sizes[a] * partners[a, b] * (odds / ((1.0 + odds) * (1.0 + odds)))
            total += slopes[a, b]
        slopes[a, a] += total
        step[a], residual[a] = 0.0, -room.gradient[a]
        preconditioned[a] = residual[a] / slopes[a, a]
        direction[a] = preconditioned[a]
    power = _dot(residual, preconditioned)
    goal = 1e-20 * power
    for _ in range(4 * n + 20):
        if not power > goal:
            break
        for a in range(n):
            total = 0.0
            for b in range(n):
                total += slopes[a, b] * direction[b]
            product[a] = total
        bend = _dot(direction, product)
        if not bend > 0.0:
            break
        for a in range(n):
            step[a] += power / bend * direction[a]
            residual[a] -= power / bend * product[a]
            preconditioned[a] = residual[a] / slopes[a, a]
        before, power = power, _dot(residual, preconditioned)
        for a in range(n):
            direction[a] = preconditioned[a] + power / before * direction[a]


@compiled
def _take_step(fitness: Floats, degrees: Floats, sizes: Floats, partners: Floats, room: _SolverRoom) -> float:
    """Improve the fitnesses by one step; return the largest difference between degrees before it."""
    worst = _find_gradient(fitness, degrees, sizes, partners, room.gradient)
    if worst <= _TOLERANCE:
        return worst
    _find_step(fitness, sizes, partners, room)
    falling = -_dot(room.gradient, room.step)
    size = 1.0
    for a in range(len(fitness)):
        if abs(room.step[a]) > 2.0 / size:
            size = 2.0 / abs(room.step[a])
    for _ in range(_MAX_HALVINGS):
        for a in range(len(fitness)):  # about exp(step); any positive factor with its first terms would do
            by = size * room.step[a]
            room.trial[a] = fitness[a] * ((12.0 + 6.0 * by + by * by) / (12.0 - 6.0 * by + by * by))
        _find_gradient(room.trial, degrees, sizes, partners, room.residual)
        if _dot(room.residual, room.step) <= 0.5 * falling:
            break
        size *= 0.5
    for a in range(len(fitness)):
        fitness[a] = room.trial[a]
    return worst


@cache
def make_skips() -> Words:
    """Return by bits and shifts how often each bit of a skip is set, in units of 2^-64; shape (shifts, bits).

    A skip is the number of failures before a success of probability 2^-shift. Its binary digits are independent: digit
    b is 1 with probability t / (1 + t), where t = (1 - 2^-shift)^(2^b).
    """
    one = 1 << _FRACTION_BITS
    thresholds = np.zeros((_MAX_SKIP_BITS + 1, _MAX_SKIP_BITS + 8), np.uint64)
    for shift in range(1, _MAX_SKIP_BITS + 1):
        power = one - (one >> shift)
        for bit in range(shift + 7):
            thresholds[shift, bit] = (power << 64) // (one + power)
            power = power * power >> _FRACTION_BITS
    return thresholds


@compiled
def draw_independent(
    key: np.uint64, members: Vertices, offsets: Ints, n_u_classes: int, is_bipartite: bool, chances: Floats,
    skips: Words, us: Vertices, vs: Vertices,
) -> int:  # fmt: skip
    """Draw every edge by itself, in any order; return how many there are, of which those with room are written.

    The cells of two classes are gone through by skips of a probability 2^-shift that is at most twice theirs, and each
    cell so found is taken with the probability that is left.
    """
    n_found = number = 0
    for one in range(n_u_classes):
        for other in range(n_u_classes if is_bipartite else one, len(offsets) - 1):
            chance, shift = chances[one, other], 0
            if chance == 0.0:
                continue
            while chance <= 0.5 and shift < _MAX_SKIP_BITS:
                chance *= 2.0
                shift += 1
            taken = np.uint64(chance * 9007199254740992.0)
            width = offsets[other + 1] - offsets[other]
            n_cells = (offsets[one + 1] - offsets[one]) * width
            cell: Index = -1
            while True:
                cell += 1
                for bit in range(shift + 7 if shift else 0):
                    cell += np.int64(draw_at(key, number) < skips[shift, bit]) << bit
                    number += 1
                if cell >= n_cells:
                    break
                is_taken = draw_at(key, number) >> np.uint64(11) < taken
                number += 1
                row, column = cell // width, cell % width
                if not is_taken or (one == other and row >= column):
                    continue
                if n_found < len(us):
                    us[n_found], vs[n_found] = members[offsets[one] + row], members[offsets[other] + column]
                n_found += 1
    return n_found
