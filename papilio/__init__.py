"""Papilio: exact counting of dense motifs in large graphs.

    >>> import papilio
    >>> papilio.count("graph/", papilio.Butterfly()).count

Importing the package loads no engine, no Dask and no Arrow: the names below are resolved when first used.
"""

from __future__ import annotations

import sys
from importlib import import_module

from papilio.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from papilio.api.count import CensusResult, census, count, open_cluster, open_graph, plan
    from papilio.api.decompose import DecompositionResult, decompose
    from papilio.api.jobs import list_jobs, open_job, resume_job, submit, verify_job
    from papilio.api.listing import enumerate_motifs, plan_listing
    from papilio.api.partition import partition
    from papilio.errors import PapilioError
    from papilio.graph import BipartiteGraph, UnipartiteGraph
    from papilio.measures.bipartite import (
        cohesion_profile,
        latapy_clustering,
        local_clustering,
        robins_alexander,
        top_butterflies,
    )
    from papilio.measures.census_pairs import (
        CensusPair,
        CensusPairs,
        CensusVertices,
        census_pairs,
        census_vertices,
    )
    from papilio.measures.largest import maximum_clique, top_bicliques
    from papilio.measures.values import (
        CohesionProfile,
        LatapyClustering,
        LocalClustering,
        MaximumClique,
        RobinsAlexander,
    )
    from papilio.motifs import (
        BalancedBiclique,
        BalancedButterfly,
        Biclique,
        Butterfly,
        Census,
        Clique,
        MaximalBiclique,
        MaximalClique,
    )
    from papilio.partitioning.store import Partition, open_partition
    from papilio.storage.convert import convert
    from papilio.storage.generate import generate
    from papilio.storage.reading import clear_conversions, list_conversions, read
    from papilio.storage.store import GraphStore
    from papilio.tasks.directory import JobDirectory
    from papilio.tasks.job_remote import cancel_job, read_job_log, wait_job
    from papilio.tasks.plan import CountPlan
    from papilio.tasks.result import CountResult, ListingResult

if sys.get_int_max_str_digits() == sys.int_info.default_max_str_digits:
    # Counts may have more digits; a limit that somebody chose stays.
    sys.set_int_max_str_digits(0)

__all__ = [
    "BalancedBiclique",
    "BalancedButterfly",
    "Biclique",
    "BipartiteGraph",
    "Butterfly",
    "Census",
    "CensusPair",
    "CensusPairs",
    "CensusResult",
    "CensusVertices",
    "Clique",
    "CohesionProfile",
    "CountPlan",
    "CountResult",
    "DecompositionResult",
    "GraphStore",
    "JobDirectory",
    "LatapyClustering",
    "ListingResult",
    "LocalClustering",
    "MaximalBiclique",
    "MaximalClique",
    "MaximumClique",
    "PapilioError",
    "Partition",
    "RobinsAlexander",
    "UnipartiteGraph",
    "__version__",
    "cancel_job",
    "census",
    "census_pairs",
    "census_vertices",
    "clear_conversions",
    "cohesion_profile",
    "convert",
    "count",
    "decompose",
    "enumerate_motifs",
    "generate",
    "latapy_clustering",
    "list_conversions",
    "list_jobs",
    "local_clustering",
    "maximum_clique",
    "open_cluster",
    "open_graph",
    "open_job",
    "open_partition",
    "partition",
    "plan",
    "plan_listing",
    "read",
    "read_job_log",
    "resume_job",
    "robins_alexander",
    "submit",
    "top_bicliques",
    "top_butterflies",
    "verify_job",
    "wait_job",
]

_NAMES = {
    "papilio.api.count": "CensusResult census count open_cluster open_graph plan",
    "papilio.api.decompose": "DecompositionResult decompose",
    "papilio.api.jobs": "list_jobs open_job resume_job submit verify_job",
    "papilio.api.listing": "enumerate_motifs plan_listing",
    "papilio.api.partition": "partition",
    "papilio.errors": "PapilioError",
    "papilio.graph": "BipartiteGraph UnipartiteGraph",
    "papilio.measures.bipartite": "cohesion_profile latapy_clustering "
    "local_clustering robins_alexander top_butterflies",
    "papilio.measures.census_pairs": "CensusPair CensusPairs CensusVertices census_pairs census_vertices",
    "papilio.measures.largest": "maximum_clique top_bicliques",
    "papilio.measures.values": "CohesionProfile LatapyClustering "
    "LocalClustering MaximumClique RobinsAlexander",
    "papilio.motifs": "BalancedBiclique BalancedButterfly Biclique Butterfly "
    "Census Clique MaximalBiclique MaximalClique",
    "papilio.partitioning.store": "Partition open_partition",
    "papilio.storage.convert": "convert",
    "papilio.storage.generate": "generate",
    "papilio.storage.reading": "clear_conversions list_conversions read",
    "papilio.storage.store": "GraphStore",
    "papilio.tasks.directory": "JobDirectory",
    "papilio.tasks.job_remote": "cancel_job read_job_log wait_job",
    "papilio.tasks.plan": "CountPlan",
    "papilio.tasks.result": "CountResult ListingResult",
}
"""What each module gives."""

_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'papilio' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
