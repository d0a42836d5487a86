"""One question about many graphs, each compared with its random graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from papilio import charts
from papilio.arguments import plural
from papilio.registry import motif_row
from papilio.storage import answers
from papilio.tasks.significance import CORRECTIONS, SignificanceResult

if TYPE_CHECKING:
    from papilio.storage.foreign import ArrowTable


@dataclass(frozen=True, eq=False, repr=False)
class SignificanceResults(answers.Answer, Mapping[Any, SignificanceResult]):
    """Counts compared with the counts of random graphs, by the names of the graphs; of at least one graph."""

    results: Mapping[Any, SignificanceResult]
    seconds: float  # of the whole call
    output: str | None = None

    def __getitem__(self, name: Any) -> SignificanceResult:
        return self.results[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    @property
    def _first(self) -> SignificanceResult:
        return next(iter(self.results.values()))

    @property
    def headline(self) -> str:
        first = self._first
        return (
            f"{first.motif.title} in {plural(len(self), 'graph')}, each compared with {first.ensemble.samples:,} "
            f"random graphs of null model {first.null} ({self.seconds:.2f} s)"
        )

    @property
    def warnings(self) -> dict[Any, str]:
        """What to doubt, by the name of the graph; graphs without a warning are left out."""
        return {name: each.warning for name, each in self.items() if each.warning}

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of each graph (:meth:`SignificanceResult.rows`), which begin with its name."""
        return [{"graph": name, **row} for name, each in self.items() for row in each.rows()]

    def to_arrow(self) -> ArrowTable:
        """Return :meth:`rows` as a ``pyarrow.Table``; per vertex, the tables of all graphs.

        The first column, graph, has the names. Labels are text if the graphs have labels of several types.
        """
        first = self._first
        if first.per == "vertex":
            return answers.stack_tables("graph", {name: each.to_arrow() for name, each in self.items()})
        names = ("graph", *motif_row(first.motif).key, *first.total.row, *CORRECTIONS)
        return answers.rows_table(self.rows(), names)

    def _preview(self) -> answers.Preview:
        rows = self.rows()
        return answers.preview(list(rows[0]), [list(row.values()) for row in rows]) if rows else answers.Preview()

    def _draw(self, axes: Any) -> None:
        """Draw the z of each graph; of a table, that of all sizes together."""
        charts.draw_scores(axes, {str(name): each.z for name, each in self.items()})

    def to_dict(self) -> dict[str, Any]:
        """Return the objects of all graphs by name, as one JSON object."""
        return {
            "graphs": {str(name): each.to_dict() for name, each in self.items()},
            "output": self.output,
            "seconds": self.seconds,
        }
