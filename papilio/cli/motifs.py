"""The flags that say which motif is counted, and how its engines compute it: one set for every command."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from papilio.errors import InputError, UnsupportedError
from papilio.motifs import (
    MAX_SIDE,
    BalancedBiclique,
    BalancedButterfly,
    Biclique,
    Census,
    Motif,
    PairSide,
    motif_from_json,
)

__all__ = ["PAIR_SIDE", "listed_motif_options", "motif_options", "read_motif"]

_SIZE = click.IntRange(1, MAX_SIDE)

PAIR_SIDE = click.Choice(["u", "v"])

_FLAGS: dict[str, Callable[..., Any]] = {
    "p": click.option("-p", type=_SIZE, metavar="P", help="Bicliques: vertices of U."),
    "q": click.option("-q", type=_SIZE, metavar="Q", help="Bicliques: vertices of V."),
    "all_p": click.option(
        "--all-p", is_flag=True, help="Bicliques: every p, in one run; the answer is a table."
    ),
    "all_q": click.option(
        "--all-q", is_flag=True, help="Bicliques: every q, in one run; the answer is a table."
    ),
    "all_sizes": click.option(
        "--all", "all_sizes", is_flag=True, help="Bicliques: every (p, q), in one run."
    ),
    "max_p": click.option(
        "--max-p", type=_SIZE, metavar="P", help="With --all-p or --all: the largest p counted."
    ),
    "max_q": click.option(
        "--max-q", type=_SIZE, metavar="Q", help="With --all-q or --all: the largest q counted."
    ),
    "algorithm": click.option(
        "--algorithm", type=click.Choice(Biclique.choices["algorithm"]),
        help="Bicliques: enumerate grows one side vertex by vertex, pivot covers many sizes at once; auto, the "
        "default, takes pivot for tables over both sizes and decides by cost otherwise.",
    ),
    "anchor": click.option(
        "--anchor", type=click.Choice(Biclique.choices["anchor"]),
        help="Bicliques: the layer whose vertices the search takes one after the other; auto by estimate.",
    ),
    "k": click.option(
        "-k", type=click.IntRange(2, MAX_SIDE), metavar="K",
        help="Balanced-butterfly: vertices of the side that is no pair; 2, the butterfly, by default.",
    ),
    "all_k": click.option(
        "--all-k", is_flag=True, help="Balanced-butterfly: every k, in one run; the answer is a table."
    ),
    "max_k": click.option(
        "--max-k", type=click.IntRange(2, MAX_SIDE), metavar="K", help="With --all-k: the largest k counted."
    ),
    "pair_side": click.option(
        "--pair-side", type=PAIR_SIDE,
        help="Balanced-butterfly with another k than 2, census: the layer of which pairs of vertices are taken.",
    ),
}  # fmt: skip

_OWN = {
    Biclique.name: ("p", "q", "all_p", "all_q", "all_sizes", "max_p", "max_q"),
    BalancedBiclique.name: ("p", "q", "all_p", "all_q", "all_sizes", "max_p", "max_q"),
    BalancedButterfly.name: ("k", "all_k", "max_k", "pair_side"),
    Census.name: ("pair_side",),
}
"""The flags of each motif that has any; in the order in which a motif is named that a wrong flag belongs to."""

_BICLIQUES: dict[str, type[Biclique]] = {each.name: each for each in (Biclique, BalancedBiclique)}
"""Motifs with two sizes, and with options of their engines."""

_LISTED = ("p", "q", "anchor")
"""The flags of what can be listed: one p and one q."""


def _add_flags(
    command: Callable[..., None], names: tuple[str, ...], read: Callable[..., tuple[Motif, dict[str, str]]]
) -> Callable[..., None]:
    @functools.wraps(command)
    def call(*args: Any, motif: str, **given: Any) -> None:
        flags = {name: given.pop(name) for name in names}
        asked, options = read(motif, **flags)
        command(*args, motif=asked, engine_options=options, **given)

    for name in reversed(names):
        call = _FLAGS[name](call)
    return call


def motif_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags of motifs; the command gets ``motif`` as a Motif, and ``options`` for its engines.

    The command has an argument MOTIF, the name.
    """
    return _add_flags(command, tuple(_FLAGS), read_motif)


def listed_motif_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags of motifs that are listed, as :func:`motif_options` does."""
    return _add_flags(command, _LISTED, _read_listed)


def _read_listed(name: str, p: int | None, q: int | None, anchor: str | None) -> tuple[Motif, dict[str, str]]:
    """Return the motif and the options of its engine.

    Raises
    ------
    UnsupportedError
        For a motif that cannot be listed.
    InputError
        When a size is missing.
    """
    if name != Biclique.name:
        motif = motif_from_json({"name": name})
        raise UnsupportedError(f"{motif.title} cannot be listed; biclique with -p and -q can")
    if p is None or q is None:
        missing = " and ".join(f"-{side}" for side, size in (("p", p), ("q", q)) if size is None)
        raise InputError(f"a listing needs {missing} with a number: it has bicliques of one size")
    return Biclique(p, q), {} if anchor is None else {"anchor": anchor}


def read_motif(
    name: str, *, algorithm: str | None, anchor: str | None, **sizes: Any
) -> tuple[Motif, dict[str, str]]:
    """Return the motif and the options of its engines that a command line asks for.

    Raises
    ------
    UnsupportedError
        For an unknown motif.
    InputError
        For flags that the motif does not take, and for sizes that are missing or contradict each other.
    """
    given = {"algorithm": algorithm, "anchor": anchor}
    options = {option: value for option, value in given.items() if value is not None}
    own = _OWN.get(name, ())
    wrong = [size for size, value in sizes.items() if value and size not in own]
    wrong += [] if name in _BICLIQUES else list(options)
    asked = {size: sizes[size] for size in own}
    if name not in _OWN:
        motif_from_json({"name": name})
    if wrong:
        owner = next((each for each, flags in _OWN.items() if wrong[0] in flags), Biclique.name)
        raise InputError(f"{name} does not take {_flag(wrong[0])}, which belongs to {owner}")
    if name in _BICLIQUES:
        return _read_biclique(_BICLIQUES[name], **asked), options
    if name == BalancedButterfly.name:
        return _read_balanced(**asked), options
    if name == Census.name:
        return Census(_require_pair_side(f"a {name}", **asked)), options
    return motif_from_json({"name": name}), options


def _read_balanced(
    k: int | None, all_k: bool, max_k: int | None, pair_side: PairSide | None
) -> BalancedButterfly:
    if all_k and k is not None:
        raise InputError(f"-k {k} and --all-k contradict each other; give one of them")
    if max_k is not None and not all_k:
        raise InputError(f"--max-k {max_k} bounds the sizes of --all-k, which is not given")
    size = None if all_k else k or 2
    if size == 2:
        return BalancedButterfly()
    return BalancedButterfly(size, max_k, _require_pair_side("another k than 2", pair_side))


def _require_pair_side(what: str, pair_side: PairSide | None) -> PairSide:
    if pair_side is None:
        raise InputError(f"{what} needs --pair-side u or v: the answer depends on it")
    return pair_side


def _read_biclique(
    motif: type[Biclique],
    p: int | None,
    q: int | None,
    all_p: bool,
    all_q: bool,
    all_sizes: bool,
    max_p: int | None,
    max_q: int | None,
) -> Biclique:
    for side, size, every, largest in (("p", p, all_p, max_p), ("q", q, all_q, max_q)):
        wanted = f"--all-{side}" if every else "--all"
        if size is not None and (every or all_sizes):
            raise InputError(f"-{side} {size} and {wanted} contradict each other; give one of them")
        if size is None and not (every or all_sizes):
            hint = f", not --max-{side} alone" if largest is not None else ""
            raise InputError(
                f"a biclique needs -{side} with a number, or --all-{side}{hint}; --all counts every (p, q)"
            )
    return motif(p, q, max_p, max_q)


def _flag(name: str) -> str:
    if name == "all_sizes":
        return "--all"
    return f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}"
