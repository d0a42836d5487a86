"""Graphs that grow with the workers: one model, from which every point of a weak scaling generates its own."""

from __future__ import annotations

from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

from papilio.errors import InputError, StoreError
from papilio.storage.generate import Model, generate
from papilio.storage.generators.models import Complete, Planted, PowerLaw, Rmat
from papilio.storage.store import GraphStore, open_store

_MODELS: dict[str, type[Model]] = {model.name: model for model in (Rmat, PowerLaw, Planted, Complete)}


_GROWN: dict[type[Model], tuple[str, ...]] = {
    PowerLaw: ("n_u", "n_v"), Planted: ("n_u", "n_v", "count", "noise"), Complete: ("n_u",)
}  # fmt: skip
"""What is multiplied where a graph grows."""


def parse_model(text: str) -> Model:
    """Return the model of a specification such as ``power-law:n_u=100000,n_v=20000,exponent_v=2.2``.

    An InputError names an unknown model or parameter, and one that is missing or no number.
    """
    name, _, rest = text.partition(":")
    if name not in _MODELS:
        raise InputError(f"model is {name!r}; known: {', '.join(_MODELS)}")
    known = {item.name: item for item in fields(_MODELS[name])}
    values: dict[str, Any] = {
        key: None
        for key, item in known.items()
        if item.default is MISSING and str(item.type).endswith("| None")
    }
    for word in filter(None, rest.split(",")):
        key, equals, value = word.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or key not in known:
            raise InputError(f"{word!r} is no parameter of the model {name}; known: {', '.join(known)}")
        values[key] = _number(key, value.strip(), str(known[key].type))
    missing = [key for key, item in known.items() if item.default is MISSING and key not in values]
    if missing:
        raise InputError(f"the model {name} needs {missing[0]}; write {name}:{missing[0]}=...")
    return _MODELS[name](**values)


def _number(key: str, text: str, kind: str) -> Any:
    kind = kind.removesuffix(" | None")
    try:
        if kind == "bool":
            return {"true": True, "false": False, "1": True, "0": False}[text.lower()]
        value = float(text)
        if kind == "float":
            return value
        if value != int(value):
            raise ValueError
    except (ValueError, OverflowError, KeyError) as error:
        raise InputError(f"{key} is {text!r}; expected {kind}") from error
    return int(value)


def grow_model(model: Model, factor: int) -> Model:
    """Return the model of a graph ``factor`` times as large.

    Vertices of the first layer, planted motifs and noise of the bipartite models are multiplied, so that work grows
    about as they do; in R-MAT graphs draws are, and the scale rises with them, whose work grows faster. InputError for
    an R-MAT graph and a factor that is no power of two. CapacityError when the graph would pass the limits of its
    model.
    """
    if isinstance(model, Rmat):
        if factor & (factor - 1):
            raise InputError(
                f"an R-MAT graph cannot grow {factor} times: its layers are powers of two; "
                "choose numbers of workers that are powers of two times the smallest"
            )
        return replace(model, scale_u=model.scale_u + factor.bit_length() - 1, edges=model.edges * factor)
    sizes = {name: getattr(model, name) for name in _GROWN[type(model)]}
    return replace(model, **{name: size * factor for name, size in sizes.items() if size is not None})


def open_or_generate(path: Path, model: Model, seed: int) -> GraphStore:
    """Return the store at ``path``, generated there if there is none; a StoreError if another graph is there."""
    if not path.exists():
        return generate(model, path, seed=seed)
    store = open_store(path)
    provenance = store.manifest.provenance
    expected = {**model.to_json(), "seed": seed}
    if {name: provenance.get(name) for name in expected} != expected:
        raise StoreError(f"{path} holds another graph than the {model.name} model asked for; remove it")
    return store
