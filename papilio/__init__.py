"""Papilio: exact counting of dense motifs in large graphs.

    >>> import papilio
    >>> papilio.count("graph/", papilio.Butterfly()).count

Importing the package loads no engine, no Dask and no Arrow: the names below are resolved when first used.
"""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from papilio.api import (
        count,
        list_jobs,
        open_cluster,
        open_graph,
        open_job,
        plan,
        resume_job,
        submit,
        verify_job,
    )
    from papilio.decomposition import DecompositionResult, decompose
    from papilio.enumeration import enumerate_motifs, plan_listing
    from papilio.errors import PapilioError
    from papilio.graph import BipartiteGraph, UnipartiteGraph
    from papilio.measured import CohesionProfile, LatapyClustering, LocalClustering, RobinsAlexander
    from papilio.measures import (
        cohesion_profile,
        latapy_clustering,
        local_clustering,
        robins_alexander,
        top_butterflies,
    )
    from papilio.motifs import BalancedBiclique, BalancedButterfly, Biclique, Butterfly, Census
    from papilio.partitions import partition
    from papilio.signed import CensusResult, census
    from papilio.signed_pairs import (
        CensusPair,
        CensusPairs,
        CensusVertices,
        census_pairs,
        census_vertices,
    )
    from papilio.storage.convert import convert
    from papilio.storage.generate import generate
    from papilio.storage.partitions import Partition, open_partition
    from papilio.storage.store import GraphStore
    from papilio.tasks.jobdir import JobDirectory
    from papilio.tasks.jobremote import cancel_job, read_job_log, wait_job
    from papilio.tasks.plan import CountPlan
    from papilio.tasks.result import CountResult, ListingResult

if sys.get_int_max_str_digits() == sys.int_info.default_max_str_digits:
    # Counts may have more digits; a limit that somebody chose stays.
    sys.set_int_max_str_digits(0)

__version__ = "0.1.0"

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
    "CohesionProfile",
    "CountPlan",
    "CountResult",
    "DecompositionResult",
    "GraphStore",
    "JobDirectory",
    "LatapyClustering",
    "ListingResult",
    "LocalClustering",
    "PapilioError",
    "Partition",
    "RobinsAlexander",
    "UnipartiteGraph",
    "__version__",
    "cancel_job",
    "census",
    "census_pairs",
    "census_vertices",
    "cohesion_profile",
    "convert",
    "count",
    "decompose",
    "enumerate_motifs",
    "generate",
    "latapy_clustering",
    "list_jobs",
    "local_clustering",
    "open_cluster",
    "open_graph",
    "open_job",
    "open_partition",
    "partition",
    "plan",
    "plan_listing",
    "read_job_log",
    "resume_job",
    "robins_alexander",
    "submit",
    "top_butterflies",
    "verify_job",
    "wait_job",
]

_HOMES = {
    "BalancedBiclique": "papilio.motifs",
    "BalancedButterfly": "papilio.motifs",
    "Biclique": "papilio.motifs",
    "Butterfly": "papilio.motifs",
    "Census": "papilio.motifs",
    "PapilioError": "papilio.errors",
    "BipartiteGraph": "papilio.graph",
    "CensusPair": "papilio.signed_pairs",
    "CensusPairs": "papilio.signed_pairs",
    "CensusResult": "papilio.signed",
    "CensusVertices": "papilio.signed_pairs",
    "CohesionProfile": "papilio.measured",
    "CountPlan": "papilio.tasks.plan",
    "CountResult": "papilio.tasks.result",
    "DecompositionResult": "papilio.decomposition",
    "GraphStore": "papilio.storage.store",
    "JobDirectory": "papilio.tasks.jobdir",
    "LatapyClustering": "papilio.measured",
    "ListingResult": "papilio.tasks.result",
    "LocalClustering": "papilio.measured",
    "Partition": "papilio.storage.partitions",
    "RobinsAlexander": "papilio.measured",
    "UnipartiteGraph": "papilio.graph",
    "cancel_job": "papilio.tasks.jobremote",
    "census": "papilio.signed",
    "census_pairs": "papilio.signed_pairs",
    "census_vertices": "papilio.signed_pairs",
    "cohesion_profile": "papilio.measures",
    "convert": "papilio.storage.convert",
    "count": "papilio.api",
    "decompose": "papilio.decomposition",
    "enumerate_motifs": "papilio.enumeration",
    "generate": "papilio.storage.generate",
    "latapy_clustering": "papilio.measures",
    "list_jobs": "papilio.api",
    "local_clustering": "papilio.measures",
    "open_cluster": "papilio.api",
    "open_graph": "papilio.api",
    "open_job": "papilio.api",
    "open_partition": "papilio.storage.partitions",
    "partition": "papilio.partitions",
    "plan": "papilio.api",
    "plan_listing": "papilio.enumeration",
    "read_job_log": "papilio.tasks.jobremote",
    "resume_job": "papilio.api",
    "robins_alexander": "papilio.measures",
    "submit": "papilio.api",
    "top_butterflies": "papilio.measures",
    "verify_job": "papilio.api",
    "wait_job": "papilio.tasks.jobremote",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'papilio' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
