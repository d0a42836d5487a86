"""The layers of a graph whose vertices come in one list: of NetworkX, igraph, graph-tool, and of graph files.

The caller names the vertices of U, or an attribute and its value for U. Otherwise an attribute decides: ``bipartite``
or ``type`` with 0 and 1, or any attribute with two values of which every edge has both. Directed edges that all lead
from some vertices to others define the layers, too. Otherwise, each component is coloured, which determines its two
sides, but not which of them is U: U gets the first vertex of the component. A connected graph then has the layers of
``networkx.bipartite.sets``; in any other graph, only answers that do not depend on this choice are given.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papilio.errors import GraphError, InputError
from papilio.storage.two_colours import ONE_SET, colour

Bools = NDArray[np.bool_]
Attributes = Mapping[str, Sequence[Any]]
"""Values of the vertices by the name of the attribute; None where a vertex has no value."""

_DEFINING = ("bipartite", "type")
"""Attributes whose values 0 and 1 define the layers, as in NetworkX and igraph."""

_USUAL = (*_DEFINING, "layer", "mode", "side", "part", "partition", "set", "kind", "class")
"""Usual names of attributes that contain the layer, the most usual first."""

_ZEROS = ("0", "0.0", "false", "u", "top")
_ONES = ("1", "1.0", "true", "v", "bottom")
"""Values of layer U and of layer V, in lower case."""

_MAX_CHOICES = 6
"""Number of attributes listed in a message."""


@dataclass(frozen=True)
class Layers:
    """How the two layers of a graph were found."""

    names: tuple[str, str] | None = None  # of U and V, if the values of the attribute are words
    said: str = ""  # for the user
    n_free: int = 0  # components of which either side could be U; 0 or 1 if the layers are known
    choices: tuple[str, ...] = ()  # values of ``u`` that would determine the layers

    @property
    def are_open(self) -> bool:
        """Whether an answer may depend on the choice of U in each component."""
        return self.n_free > 1

    @property
    def note(self) -> str:
        """A remark for the user if the layers were chosen by Papilio, else empty."""
        return self.said if self.n_free else ""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; the inverse of :meth:`from_dict`."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Layers:
        names = data.get("names")
        return cls(
            None if names is None else (str(names[0]), str(names[1])),
            str(data.get("said", "")),
            int(data.get("n_free", 0)),
            tuple(map(str, data.get("choices", ()))),
        )

    def require(self, what: str) -> None:
        """Raise InputError if an answer that depends on the layers is requested and they are unknown."""
        if self.are_open:
            raise InputError(
                f"{what} depends on which vertices are layer U, and the graph does not say so: either side of each of "
                f"its {self.n_free:,} components could be U. {_advice(self.choices)}. Counts of motifs that treat both "
                "layers alike, such as butterflies, need no layers"
            )


def _advice(choices: Sequence[str]) -> str:
    if not choices:
        return "Pass the list of the nodes of layer U as u, or give the nodes an attribute bipartite (0 for U, 1 for V)"
    shown = " or ".join(f"u={each!r}" for each in choices[:_MAX_CHOICES])
    return f"Set {shown} (--u on the command line), or pass the list of the nodes of layer U as u"


def find_layers(
    names: Sequence[Any],
    ends: NDArray[np.int64],
    attributes: Attributes,
    u: str | Collection[Hashable] | None = None,
    *,
    directed: bool = False,
) -> tuple[Bools, Layers]:
    """Return which vertices are in V, shape (n,), and how that was found.

    Parameters
    ----------
    names : sequence
        Labels of the vertices, all different.
    ends : array of int64, shape (k, 2)
        Both ends of the edges, as positions in ``names``.
    attributes : mapping of str to sequence
        Values of the vertices by attribute.
    u : str or collection, optional
        ``ATTRIBUTE=VALUE`` of the vertices of U, or their labels.
    directed : bool
        Whether the order of both ends means something.

    Raises
    ------
    GraphError
        For a graph that is not bipartite, an edge within a layer, or a label that is not in the graph.
    InputError
        For an attribute or a value that no vertex has.
    """
    if isinstance(u, str):
        in_v, layers = _by_text(attributes, u)
        _require_across(names, ends, in_v)
        return in_v, layers
    if u is not None:
        in_v = _by_labels(names, u)
        _require_across(names, ends, in_v)
        return in_v, Layers(said="layer U has the given nodes")
    for attribute in _DEFINING:
        if attribute in attributes:
            found = _by_defining(names, ends, attribute, attributes[attribute])
            if found is not None:
                return found
    proper = _proper_attributes(ends, attributes)
    chosen = _choose(proper)
    if chosen is not None:
        return _sided(chosen, attributes[chosen])
    if directed and (found := _by_direction(len(names), ends)) is not None:
        return found
    in_v, component = _colour(names, ends)
    n_components = int(component.max(initial=-1)) + 1
    choices = tuple(f"{each}={attributes[each][0]}" for each in proper)
    said = "the nodes have no attribute for their layers: U has the first node"
    if n_components > 1:
        said += f" of each of {n_components:,} components, and sizes of both layers have the smaller one first"
    return in_v, Layers(said=said, n_free=n_components, choices=choices)


def show_layer(layer: str, names: Mapping[str, str]) -> str:
    """Return ``U``, or ``U (plant)`` if the layer has a name."""
    name = names.get(layer, "")
    return f"{layer.upper()} ({name})" if name and name != layer else layer.upper()


def show_sizes(n_u: int, n_v: int, names: Mapping[str, str]) -> str:
    """Return the sizes of both layers, ``18 x 14 vertices``, or ``18 woman x 14 event vertices`` with their names."""
    sizes = []
    for layer, size in (("u", n_u), ("v", n_v)):
        name = names.get(layer, "")
        sizes.append(f"{size:,} {name}" if name and name != layer else f"{size:,}")
    return f"{' x '.join(sizes)} vertices"


def defining_attribute(ends: NDArray[np.int64], attributes: Attributes) -> str | None:
    """Return the usual attribute that defines two layers with all edges between them, or None."""
    if not len(ends):
        return None
    proper = _proper_attributes(ends, {each: attributes[each] for each in _USUAL if each in attributes})
    return next(iter(proper), None)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # an array
        return False


def _flag(value: Any) -> int | None:
    """Return 0 or 1 for a value that means U or V, else None."""
    if isinstance(value, str):
        word = value.strip().lower()
        return 0 if word in _ZEROS else 1 if word in _ONES else None
    if isinstance(value, bool | int | float | np.integer | np.floating | np.bool_) and value in (0, 1):
        return int(value)
    return None


def _by_labels(names: Sequence[Any], u: Collection[Hashable]) -> Bools:
    layer = set(u)
    in_v = np.array([name not in layer for name in names], dtype=bool)
    if int(np.count_nonzero(~in_v)) < len(layer):
        known = set(names)
        strange = next(node for node in u if node not in known)
        raise GraphError(f"u holds {strange!r}, which is not a node of the graph")
    return in_v


def _by_text(attributes: Attributes, u: str) -> tuple[Bools, Layers]:
    """Return the layers by ``ATTRIBUTE=VALUE``; the attribute is the longest that fits."""
    fitting = [each for each in attributes if u == each or u.startswith(f"{each}=")]
    if not fitting:
        known = ", ".join(map(repr, attributes)) or "none"
        raise InputError(
            f"u is {u!r}; expected ATTRIBUTE=VALUE of the nodes of layer U, or a list of these nodes; the nodes have "
            f"the attributes: {known}"
        )
    attribute = max(fitting, key=len)
    values = [None if _is_missing(value) else str(value) for value in attributes[attribute]]
    present = sorted({value for value in values if value is not None})
    shown = ", ".join(f"{attribute}={value}" for value in present[:_MAX_CHOICES])
    shown += ", ..." if len(present) > _MAX_CHOICES else ""
    if u == attribute:
        raise InputError(f"u is {u!r}, an attribute without its value for layer U; choose one of {shown}")
    asked = u[len(attribute) + 1 :]
    flags = {value: _flag(value) for value in present}
    if asked not in flags:
        same = [value for value, flag in flags.items() if flag is not None and flag == _flag(asked)]
        if len(same) != 1:
            raise InputError(f"u is {u!r}, but no node has this value; choose one of {shown}")
        asked = same[0]
    in_v = np.array([value != asked for value in values], dtype=bool)
    others = [value for value in present if value != asked]
    named = len(others) == 1 and None not in values and _flag(asked) is None
    return in_v, Layers((asked, others[0]) if named else None, f"layer U has the nodes whose {attribute} is {asked}")


def _by_defining(
    names: Sequence[Any], ends: NDArray[np.int64], attribute: str, values: Sequence[Any]
) -> tuple[Bools, Layers] | None:
    """Return the layers by an attribute of 0 and 1; None if it has other values, which may be about something else.

    Vertices without a value follow from their neighbours. Raises GraphError if the attribute contradicts the edges.
    """
    flags = [None if _is_missing(value) else _flag(value) for value in values]
    strange = next((at for at, flag in enumerate(flags) if flag is None and not _is_missing(values[at])), None)
    if strange is not None:
        if attribute == "bipartite" and not _has_two_values(values):
            raise GraphError(
                f"the node {names[strange]!r} has bipartite={values[strange]!r}; expected 0 (layer U) or 1 (layer V); "
                "or pass the nodes of layer U as u"
            )
        return None
    said = f"the layers are the attribute {attribute} of the nodes"
    if None not in flags:
        in_v = np.array(flags, dtype=bool)
        _require_across(names, ends, in_v)
        return in_v, Layers(said=said)
    return _completed(names, ends, flags, said)


def _completed(
    names: Sequence[Any], ends: NDArray[np.int64], flags: list[int | None], said: str
) -> tuple[Bools, Layers] | None:
    """Return the layers that follow from the vertices of known layer; None if no vertex has one."""
    known = np.array([flag is not None for flag in flags], dtype=bool)
    if not bool(known.any()):
        return None
    in_v, component = _colour(names, ends)
    wanted = np.array([bool(flag) for flag in flags], dtype=bool)
    first = np.full(int(component.max()) + 1, -1)
    first[component[known][::-1]] = np.flatnonzero(known)[::-1]
    turned = np.zeros(first.size, bool)
    turned[first >= 0] = in_v[first[first >= 0]] != wanted[first[first >= 0]]
    in_v ^= turned[component]
    _require_across(names, ends, np.where(known, wanted, in_v))
    if bool((in_v[known] != wanted[known]).any()):
        at = int(np.flatnonzero(known & (in_v != wanted))[0])
        raise GraphError(
            f"the layer of the node {names[at]!r} contradicts the layers of other nodes and the edges; correct the "
            "attribute, or pass the nodes of layer U as u"
        )
    n_free = int(np.count_nonzero(first < 0))
    rest = f"{int(np.count_nonzero(~known)):,} nodes without it follow from their neighbours"
    return in_v, Layers(said=f"{said}; {rest}", n_free=n_free + 1 if n_free else 0)


def _has_two_values(values: Sequence[Any]) -> bool:
    try:
        return not any(_is_missing(value) for value in values) and len(set(values)) == 2
    except (TypeError, ValueError):  # values that are not hashable, or arrays
        return False


def _proper_attributes(ends: NDArray[np.int64], attributes: Attributes) -> dict[str, Bools]:
    """Return the vertices unlike the first, by attribute with two values of which every edge has both; usual first."""
    proper: dict[str, Bools] = {}
    for attribute in sorted(attributes, key=lambda each: _USUAL.index(each) if each in _USUAL else len(_USUAL)):
        values = attributes[attribute]
        if _has_two_values(values):
            unlike = np.array([value != values[0] for value in values], dtype=bool)
            if bool((unlike[ends[:, 0]] != unlike[ends[:, 1]]).all()):
                proper[attribute] = unlike
    return proper


def _choose(proper: Mapping[str, Bools]) -> str | None:
    """Return the first attribute if all of them make the same layers, or the only one with a usual name."""
    if not proper:
        return None
    first, *others = proper
    if all(np.array_equal(proper[each], proper[first]) for each in others):
        return first
    usual = [each for each in proper if each in _USUAL]
    return usual[0] if len(usual) == 1 else None


def _sided(attribute: str, values: Sequence[Any]) -> tuple[Bools, Layers]:
    """Return the layers by an attribute of two values: U is 0, else the value of the first vertex."""
    first = values[0]
    second = next(value for value in values if value != first)
    flags = _flag(first), _flag(second)
    if flags == (1, 0):
        first, second = second, first
    in_v = np.array([value != first for value in values], dtype=bool)
    said = f"layer U has the nodes whose {attribute} is {first}, layer V those whose {attribute} is {second}"
    return in_v, Layers(None if None not in flags else (str(first), str(second)), said)


def _by_direction(n: int, ends: NDArray[np.int64]) -> tuple[Bools, Layers] | None:
    """Return the layers of a graph whose edges all lead from one set of vertices to another, or None."""
    starts, stops = np.zeros(n, bool), np.zeros(n, bool)
    starts[ends[:, 0]], stops[ends[:, 1]] = True, True
    if not len(ends) or bool((starts & stops).any()):
        return None
    said = "layer U has the nodes where edges start, layer V those where edges end"
    alone = int(np.count_nonzero(~(starts | stops)))
    return stops, Layers(said=said, n_free=1 + alone if alone else 0)


def _require_across(names: Sequence[Any], ends: NDArray[np.int64], in_v: Bools) -> None:
    """Raise GraphError for an edge within a layer."""
    inside = in_v[ends[:, 0]] == in_v[ends[:, 1]]
    if bool(inside.any()):
        a, b = ends[int(np.argmax(inside))]
        raise GraphError(
            f"the edge ({names[a]!r}, {names[b]!r}) joins two nodes of layer {'V' if in_v[a] else 'U'}; the graph is "
            "not bipartite with these layers: choose others by u, or read it as one set of vertices with "
            "kind='unipartite' (--unipartite)"
        )


def _colour(names: Sequence[Any], ends: NDArray[np.int64]) -> tuple[Bools, NDArray[np.int64]]:
    """Return the colours and components of :func:`colour`; raise GraphError if the graph is not bipartite."""
    in_v, component, odd = colour(len(names), ends)
    if odd is not None:
        raise GraphError(
            f"the graph is not bipartite: the edge ({names[odd[0]]!r}, {names[odd[1]]!r}) closes a cycle of an odd "
            f"number of edges; {ONE_SET}"
        )
    return in_v, component
