"""Graphs in memory: sorted, deduplicated edge arrays with CSR views.

Every engine starts from one of these two classes. Both hold the edges as two parallel arrays sorted by
(first, second) endpoint; the position of an edge in them is its *edge id*, the order of every per-edge
result. Vertex ids are dense ``int32`` per layer, edge offsets ``int64``.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from papilio.arguments import read_argument
from papilio.errors import CapacityError, GraphError

MAX_VERTICES = 2**31 - 1
"""Largest number of vertices of one layer: ids are ``int32``."""

GraphKind = Literal["bipartite", "unipartite"]
"""Two layers, each with its own ids, or one set of vertices."""

RowColumn = NDArray[Any] | tuple[NDArray[np.int64], NDArray[np.int32]]
"""Vertices of one layer in the rows of a listing: shape (n_rows, size) where every row has the same size, else offsets
of shape (n_rows + 1,) and values, row i being ``values[offsets[i] : offsets[i + 1]]``; or a number of each row, shape
(n_rows,)."""


_NO_SIGN = "sign contains values other than +1 and -1"


def array_bytes(record: Any) -> int:
    """Return the bytes of all arrays in a record, each once: those on a device if there are any, else on the host.

    Arrays of graphs do not count.
    """
    on_host: dict[int, int] = {}
    on_device: dict[int, int] = {}
    waiting = [record]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, tuple | list):
            waiting += value
        elif is_dataclass(value) and not isinstance(value, _EdgeArrays):
            waiting += vars(value).values()
        elif isinstance(value, np.ndarray):
            on_host[id(value)] = value.nbytes
        elif hasattr(value, "nbytes") and not isinstance(value, np.generic):
            on_device[id(value)] = int(value.nbytes)
    return sum((on_device or on_host).values())


def check_layer(name: str, size: int) -> None:
    """Check the size of a layer; GraphError below 0, CapacityError above the largest."""
    if size < 0:
        raise GraphError(f"{name} is {size}; expected at least 0 vertices")
    if size > MAX_VERTICES:
        raise CapacityError(f"{name} is {size}; at most {MAX_VERTICES} vertices per layer (ids are int32)")


def _as_array(name: str, values: ArrayLike) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise GraphError(f"{name} is not an array of integers ({error})") from error


def _as_integers(name: str, values: ArrayLike) -> NDArray[Any]:
    array = _as_array(name, values)
    if array.ndim != 1:
        raise GraphError(f"{name} has {array.ndim} dimensions; expected one")
    is_long = array.dtype.kind == "O" and all(type(value) is int for value in array)  # beyond any layer
    if array.size and array.dtype.kind not in "iu" and not is_long:
        raise GraphError(f"{name} has dtype {array.dtype}; expected integers")
    return array


def _require_arrays(**arrays: Any) -> None:
    """Check, in constant time, for arrays of integers, on the host or on a device."""
    for name, array in arrays.items():
        is_array = isinstance(array, np.ndarray) or hasattr(array, "__cuda_array_interface__")
        if not is_array or array.dtype.kind not in "iu":
            raise GraphError(
                f"{name} is a {type(array).__name__}; expected an array of int32; from_edges accepts any list"
            )


def _as_ids(name: str, values: ArrayLike, size: int) -> NDArray[np.int32]:
    array = _as_integers(name, values)
    if array.size and (int(array.min()) < 0 or int(array.max()) >= size):
        raise GraphError(f"{name} holds ids {array.min()} to {array.max()}; expected 0 to {size - 1}")
    return np.ascontiguousarray(array, dtype=np.int32)


def _indptr(rows: NDArray[np.int32], n_rows: int) -> NDArray[np.int64]:
    indptr = np.zeros(n_rows + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=n_rows), out=indptr[1:])
    return indptr


_SORTED_AT_ONCE = 1 << 17
"""Keys that are sorted by one thread, in some milliseconds."""


def _sort(keys: NDArray[Any]) -> None:
    """Sort integers in place; many of them by two threads, whose halves are merged in a tenth of the time."""
    if keys.size > _SORTED_AT_ONCE:
        half = keys.size // 2
        with ThreadPoolExecutor(1, thread_name_prefix="papilio-sort") as pool:
            other = pool.submit(keys[half:].sort)
            keys[:half].sort()
            other.result()
        keys.sort(kind="stable")  # finds two sorted runs, and merges them
    else:
        keys.sort()


def deduplicate(keys: NDArray[Any]) -> NDArray[Any]:
    """Sort integers in place and return them without repetition.

    ``np.unique`` in NumPy 2.3 and later hashes, and takes 20 times as long for millions of distinct keys.
    """
    _sort(keys)
    if keys.size < 2:
        return keys
    first = np.empty(keys.size, dtype=bool)
    first[0] = True
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    return keys if bool(first.all()) else keys[first]


def unique_edges(
    u: NDArray[Any], v: NDArray[Any], n_u: int, n_v: int, sign: NDArray[np.int8] | None = None
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int8] | None]:
    """Sort edges of ids within layers of these sizes; return u, v and sign without duplicates, the first of each."""
    if sign is None and 0 < n_u * n_v <= 1 << 32:  # keys of half the length sort in two thirds of the time
        width = np.uint32(n_v)
        small = u.astype(np.uint32)
        small *= width
        small += v.astype(np.uint32)
        small = deduplicate(small)
        rows = small // width
        small -= rows * width
        return rows.view(np.int32), small.view(np.int32), None
    keys = u.astype(np.int64)
    keys <<= 32
    keys |= v
    if sign is None:
        keys = deduplicate(keys)
    else:
        keys, first = np.unique(keys, return_index=True)
        sign = sign[first]
    return (keys >> 32).astype(np.int32), keys.astype(np.int32), sign


def _check_sorted(first: NDArray[np.int32], second: NDArray[np.int32]) -> None:
    if first.size < 2:
        return
    ahead = (first[1:] > first[:-1]) | ((first[1:] == first[:-1]) & (second[1:] > second[:-1]))
    if not bool(ahead.all()):
        at = int(np.argmin(ahead)) + 1
        raise GraphError(
            f"edges are not sorted by (u, v) without duplicates: edge {at} is ({first[at]}, {second[at]}) "
            f"after ({first[at - 1]}, {second[at - 1]}); use from_edges to sort and deduplicate"
        )


class _EdgeArrays:
    """The arrays of graphs of both kinds: parallel, with sorted edges."""

    u: NDArray[np.int32]
    v: NDArray[np.int32]
    sign: NDArray[np.int8] | None

    def __post_init__(self) -> None:
        _require_arrays(u=self.u, v=self.v, **({} if self.sign is None else {"sign": self.sign}))

    def _check_edges(self, n_u: int, n_v: int) -> None:
        if self.u.shape != self.v.shape:
            raise GraphError(f"u has shape {self.u.shape} and v has {self.v.shape}; expected the same")
        _as_ids("u", self.u, n_u)
        _as_ids("v", self.v, n_v)
        _check_sorted(self.u, self.v)
        if self.sign is not None and self.sign.size and not bool((np.abs(self.sign) == 1).all()):
            raise GraphError(_NO_SIGN)

    @property
    def n_edges(self) -> int:
        return int(self.u.size)

    @property
    def signed(self) -> bool:
        return self.sign is not None


@dataclass(frozen=True, eq=False)
class BipartiteGraph(_EdgeArrays):
    """A simple bipartite graph, optionally signed; its edges are sorted by (u, v), without duplicates."""

    kind: ClassVar[GraphKind] = "bipartite"
    n_u: int  # isolated vertices count
    n_v: int
    u: NDArray[np.int32]  # endpoints, int32, both of shape (n_edges,), host
    v: NDArray[np.int32]
    sign: NDArray[np.int8] | None = None  # +1 or -1, int8, shape (n_edges,), host; None for an unsigned graph

    @classmethod
    def from_edges(
        cls,
        u: ArrayLike,
        v: ArrayLike,
        n_u: int | None = None,
        n_v: int | None = None,
        sign: ArrayLike | None = None,
    ) -> BipartiteGraph:
        """Sort and deduplicate edges given in any order (of duplicates the first is kept).

        Parameters
        ----------
        u, v : array_like of int, shape (k,)
            Dense ids, 0-based per layer.
        n_u, n_v : int, optional
            Layer sizes; by default one more than the largest id.
        sign : array_like of int, shape (k,), optional
            +1 or -1 per edge.

        Raises
        ------
        GraphError
            For ids outside their layer, arrays of different lengths, or signs other than +1 and -1.
        CapacityError
            For a layer of more than 2^31 - 1 vertices.
        """
        first, second = _as_integers("u", u), _as_integers("v", v)
        n_u, n_v = (read_argument(name, size, int | None) for name, size in (("n_u", n_u), ("n_v", n_v)))
        size_u = int(first.max()) + 1 if n_u is None and first.size else int(n_u or 0)
        size_v = int(second.max()) + 1 if n_v is None and second.size else int(n_v or 0)
        check_layer("n_u", size_u)
        check_layer("n_v", size_v)
        ids_u, ids_v = _as_ids("u", first, size_u), _as_ids("v", second, size_v)
        if ids_u.size != ids_v.size:
            raise GraphError(f"u has {ids_u.size} entries and v has {ids_v.size}; expected the same number")
        signs = None
        if sign is not None:
            given = _as_array("sign", sign)
            if given.shape != ids_u.shape:
                raise GraphError(f"sign has shape {given.shape}; expected {ids_u.shape}")
            if not np.isin(given, (-1, 1)).all():
                raise GraphError(_NO_SIGN)
            signs = given.astype(np.int8)
        return cls(size_u, size_v, *unique_edges(ids_u, ids_v, size_u, size_v, signs))

    def validate(self) -> None:
        """Check every invariant of the class; O(n_edges). Errors name the first fault."""
        check_layer("n_u", self.n_u)
        check_layer("n_v", self.n_v)
        self._check_edges(self.n_u, self.n_v)

    @cached_property
    def indptr(self) -> NDArray[np.int64]:
        """CSR row offsets of layer U, shape (n_u + 1,); row i of the adjacency is ``v[indptr[i]:indptr[i+1]]``."""
        return _indptr(self.u, self.n_u)

    @cached_property
    def degree_u(self) -> NDArray[np.int64]:
        """Degrees of layer U, shape (n_u,)."""
        return np.diff(self.indptr)

    @cached_property
    def degree_v(self) -> NDArray[np.int64]:
        """Degrees of layer V, shape (n_v,)."""
        return np.bincount(self.v, minlength=self.n_v).astype(np.int64)

    def swap_layers(self) -> BipartiteGraph:
        """Return the same graph with U and V exchanged (edge ids change with the sort order)."""
        order = np.lexsort((self.u, self.v))
        sign = None if self.sign is None else self.sign[order]
        return BipartiteGraph(self.n_v, self.n_u, self.v[order], self.u[order], sign)

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, BipartiteGraph):
            return NotImplemented
        return (
            (self.n_u, self.n_v, self.signed) == (other.n_u, other.n_v, other.signed)
            and np.array_equal(self.u, other.u)
            and np.array_equal(self.v, other.v)
            and (self.sign is None or np.array_equal(self.sign, other.sign))  # type: ignore[arg-type]
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class UnipartiteGraph(_EdgeArrays):
    """A simple undirected graph: no self loops, each edge once as u < v, sorted by (u, v)."""

    kind: ClassVar[GraphKind] = "unipartite"
    n: int  # isolated vertices count
    u: NDArray[np.int32]  # endpoints, int32, both of shape (n_edges,), host
    v: NDArray[np.int32]
    sign: NDArray[np.int8] | None = None  # +1 or -1, int8, shape (n_edges,), host; None for an unsigned graph

    @classmethod
    def from_edges(cls, u: ArrayLike, v: ArrayLike, n: int | None = None) -> UnipartiteGraph:
        """Orient, sort and deduplicate edges given in any order; self loops are dropped.

        Raises
        ------
        GraphError, CapacityError
            For ids outside [0, n), arrays of different lengths, or more than 2^31 - 1 vertices.
        """
        first, second = _as_integers("u", u), _as_integers("v", v)
        n = read_argument("n", n, int | None)
        largest = max((int(a.max()) for a in (first, second) if a.size), default=-1)
        size = largest + 1 if n is None else int(n)
        check_layer("n", size)
        a, b = _as_ids("u", first, size), _as_ids("v", second, size)
        if a.size != b.size:
            raise GraphError(f"u has {a.size} entries and v has {b.size}; expected the same number")
        kept = a != b
        low, high = np.minimum(a, b)[kept], np.maximum(a, b)[kept]
        return cls(size, *unique_edges(low, high, size, size))

    def validate(self) -> None:
        """Check every invariant of the class; O(n_edges)."""
        check_layer("n", self.n)
        self._check_edges(self.n, self.n)
        if self.u.size and not bool((self.u < self.v).all()):
            raise GraphError("an edge has u >= v; each undirected edge is stored once with u < v")

    @cached_property
    def indptr(self) -> NDArray[np.int64]:
        """Row offsets of the neighbours with larger ids, shape (n + 1,); row i is ``v[indptr[i]:indptr[i+1]]``."""
        return _indptr(self.u, self.n)

    @property
    def n_u(self) -> int:
        """The number of vertices, for both ends of edges as in :class:`BipartiteGraph`."""
        return self.n

    n_v = n_u

    @cached_property
    def degree(self) -> NDArray[np.int64]:
        """Degrees, shape (n,)."""
        both = np.bincount(self.u, minlength=self.n) + np.bincount(self.v, minlength=self.n)
        return both.astype(np.int64)
