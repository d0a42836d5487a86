"""Values of vertices and edges, by id, or in the names and the order of the object that their graph was read from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from papilio.errors import InputError
from papilio.storage.labelled import LabelledGraph

__all__ = ["Vectors"]

T = TypeVar("T")


class Vectors(Mapping[str, T]):
    """Values by place: of the vertices of layer ``u`` or ``v`` by id, or of every ``edge`` sorted by (u, v).

    A graph that was read from an object of another library (pandas, pyarrow, NumPy, SciPy, NetworkX) has edges in
    another order than that object, and may have labels in place of ids. Its values are not given by ``[place]``, which
    would invite to put them beside the wrong rows, but by :meth:`aligned` or, in full knowledge, by :meth:`by_id`.
    ``place`` says what all of them are values of, where their names do not.
    """

    def __init__(
        self,
        values: Mapping[str, T] | None = None,
        graph: LabelledGraph | None = None,
        place: str | None = None,
    ) -> None:
        self._values: dict[str, T] = dict(values or {})
        self._graph, self._place = graph, place

    def __getitem__(self, name: str) -> T:
        values = self._values[name]
        place = self._place or name
        if self._graph is not None and self._graph.is_renamed(place):
            assert self._graph.origin is not None
            origin = self._graph.origin
            given = f"the {origin.name} that was given"
            why = f"the edges are in another order than the {origin.rows} of {given}"
            if place != "edge":
                why = f"the vertices of layer {place.upper()} have labels in {given}, and no ids"
            raise InputError(
                f"{why}; use .aligned({name!r}) for values in its order and names, or .by_id({name!r}) for those in "
                "Papilio's own order"
            )
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __repr__(self) -> str:
        return f"Vectors({', '.join(map(repr, self._values))})"

    def like(self, values: Mapping[str, T]) -> Vectors[T]:
        """Return other values of the same graph and place."""
        return Vectors(values, self._graph, self._place)

    def by_id(self, name: str) -> T:
        """Return the values of vertices by id, or of the edges sorted by (u, v); InputError when this name has none."""
        if name not in self._values:
            known = (
                ", ".join(map(repr, self._values))
                or "none: what was asked for has no values per vertex or edge"
            )
            raise InputError(f"there are no values {name!r}; there are {known}")
        return self._values[name]

    def aligned(self, name: str) -> Any:
        """Return the values in the form, order and names of the object that the graph was read from.

        Of edges: a pandas Series with the index of the data frame, a pyarrow or NumPy array with an entry for each
        row, a dictionary by edge of a NetworkX graph, a SciPy sparse array of the same shape and format; equal rows
        have equal values. Of vertices with labels: a pandas Series by label, else a dictionary. Everything else,
        values of stored graphs too, is by id. Errors as :meth:`by_id`.
        """
        values: Any = self.by_id(name)
        if self._graph is None:
            return values
        place = self._place or name
        if isinstance(values, Mapping):
            return {each: self._graph.align(place, of) for each, of in values.items()}
        return self._graph.align(place, values)
