"""How long leases should be: long enough that handing one out costs nothing, short enough to share the end."""

from __future__ import annotations

from dataclasses import dataclass

MIN_LEASE_S = 0.5
"""Least predicted time of a lease of a long job: scheduling one takes about 3 ms, 0.6 percent of this."""

SHORTEST_LEASE_S = 0.05
"""Least predicted time of a lease of a short job."""

FAIR_PARTS = 256
"""A lease may be as short as a worker's share of the job divided by this: the tail of a run is about as long as a
few of its shortest leases. With 64, a job of 10 min loses 3 points on 64 workers in the simulation."""

MAX_LEASE_S = 20.0
"""A lease aims no higher, so that progress moves and a lost worker costs little."""

KEPT_LEASE_S = 2.0
"""The same where finished leases are kept: what the ledger does not hold yet is lost with the process."""

KEPT_SHARE_S = 0.01
"""A kept lease aims no lower than this times the workers: registering one takes the client some 5 ms, half of this."""

KEPT_SLOWDOWN = 0.01
"""Largest share of the time that the vectors of these shorter leases may cost in addition."""

LATE = 1.5
"""A kept lease that takes this many times what it aims at, for its worker is slower than predicted, is cut."""

FIRST_LIMIT_S = 1.0
"""Kept leases without vectors are cut after this time until the first one has answered: a session that is killed soon
after it began has counted something by then, and knows how fast its workers are."""

TRIAL_PARTS = 64
"""Until a lease of a search has answered, none is more than a worker's share of the job divided by this: predicted work
leaves out how deep the search goes, so that what is predicted to be a single short lease can take hours."""

VECTOR_OVERHEAD = 0.1
"""Largest share of a lease that its vector may cost, as long as every worker gets a lease."""

TAIL_VECTOR_OVERHEAD = 1.0
"""The same for what is left when workers wait for it."""


@dataclass(frozen=True)
class LeaseLengths:
    """Bounds on the predicted time of a lease."""

    min_s: float
    max_s: float
    reason: str  # why not shorter
    # seconds after which the lease is cut, however much was predicted; None for never
    limit_s: float | None = None
    alone: bool = False  # whether the worker takes as much as it can, for nobody waits for a rest


def choose_lengths(
    fair_s: float,
    vector_s: float,
    *,
    tail: bool = False,
    kept_by: int = 0,
    first: bool = False,
    alone: bool = False,
) -> LeaseLengths:
    """Bound the time of the leases of a job, which is predicted to take ``fair_s`` on all its workers.

    ``vector_s`` is what the vector of one lease costs by itself; 0 when it has none. ``tail`` says whether what is left
    is less than the shortest lease for every worker. ``kept_by`` are the workers whose finished leases outlast the run,
    so that short ones keep what was counted; 0 where none do. ``first`` says whether no lease has answered yet since
    the count began or was resumed. ``alone`` says whether a single GPU searches, which waits for its last sub-trees at
    the end of each lease: then leases are long, unless they are kept.
    """
    min_s = min(MIN_LEASE_S, max(SHORTEST_LEASE_S, fair_s / FAIR_PARTS))
    reason = f"scheduling a lease costs about 3 ms, so none is below {min_s:.3g} s"
    if vector_s > 0:
        overhead = TAIL_VECTOR_OVERHEAD if tail else VECTOR_OVERHEAD
        min_s = max(min_s, min(vector_s / overhead, fair_s / (1 + 1 / 64)))
        reason = f"every lease gives a vector of all counts, which alone costs about {vector_s:.3g} s"
    if not kept_by and alone:
        max_s = max(MAX_LEASE_S, min_s)
        return LeaseLengths(
            max_s, max_s, "one GPU searches, which few sub-trees keep busy at the end", alone=True
        )
    if not kept_by:
        return LeaseLengths(min_s, max(MAX_LEASE_S, min_s), reason)
    # So long that its vector costs KEPT_SLOWDOWN more of the time than it does in a lease of MAX_LEASE_S.
    for_vector_s = vector_s / (KEPT_SLOWDOWN + vector_s / MAX_LEASE_S)
    kept_s = min(MAX_LEASE_S, max(KEPT_LEASE_S, KEPT_SHARE_S * kept_by, for_vector_s))
    max_s = max(kept_s, min_s)
    limit_s = LATE * max_s
    return LeaseLengths(
        min_s, max_s, reason, min(FIRST_LIMIT_S, limit_s) if first and not vector_s else limit_s
    )
