"""The census of a signed graph: its butterflies by the signs of a pair of vertices at both neighbours."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from papilio.api.count import count
from papilio.arguments import Workers, checked
from papilio.census_motif import CENSUS_CLASSES, Census, CensusClass, rows_by_class
from papilio.cluster.events import Listener
from papilio.families import EngineChoice
from papilio.motifs import PairSide
from papilio.tasks.result import CountResult


@dataclass(frozen=True, eq=False)
class CensusResult:
    """Butterflies by class."""

    counted: CountResult  # the count, with its proof of work
    # the six classes, each with its butterflies and their share of all
    rows: tuple[tuple[CensusClass, int, float], ...]

    @property
    def classes(self) -> dict[str, int]:
        """Butterflies by name of the class, such as ``++/+-``."""
        return {each.name: number for each, number, _ in self.rows}

    @property
    def groups(self) -> dict[str, int]:
        """Coherent, incoherent and mixed butterflies."""
        sums: dict[str, int] = {}
        for each, number, _ in self.rows:
            sums[each.group] = sums.get(each.group, 0) + number
        return sums

    @property
    def balanced(self) -> int:
        """Balanced butterflies: coherent and incoherent ones."""
        return self.counted.count - self.groups["mixed"]

    @property
    def butterflies(self) -> int:
        """All of them."""
        return self.counted.count

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of the count, and the census; integers in full."""
        return {
            **self.counted.to_json(),
            "classes": [
                {"class": each.name, "group": each.group, "count": number, "share": share}
                for each, number, share in self.rows
            ],
            "groups": self.groups,
            "balanced": self.balanced,
        }


@checked
def census(
    graph: Any,
    pair_side: PairSide,
    *,
    cluster: Any = None,
    engine: EngineChoice = "auto",
    output: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    workers: Workers | None = None,
    progress: Listener | None = None,
    job: str | os.PathLike[str] | None = None,
) -> CensusResult:
    """Count the butterflies of a signed graph by class.

    Parameters
    ----------
    graph
        As for :func:`papilio.count`; signed.
    pair_side : {"u", "v"}
        Layer of the pair whose signs make the class: ``++/--`` and ``+-/+-`` depend on it.
    cluster, engine, workers, progress, job
        As for :func:`papilio.count`.
    output : path-like, optional
        File for the classes: Parquet, CSV or JSON, as its suffix says.
    overwrite : bool
        As for :func:`papilio.count`.

    Raises
    ------
    PapilioError
        As :func:`papilio.count`; UnsupportedError for a graph without signs.
    """
    motif = Census(pair_side)
    counted = count(
        graph,
        motif,
        cluster=cluster,
        engine=engine,
        output=output,
        overwrite=overwrite,
        workers=workers,
        progress=progress,
        job=job,
    )
    return CensusResult(counted, rows_by_class(CENSUS_CLASSES, counted.table))
