"""The choice of the columns of an input, and of signs: columns by the user's names, by usual names, else by place.

With a line of names (or a schema), the columns of U and V are the columns called ``u`` and ``v``; else the only two
columns besides index, times and values; else the two columns with usual names of endpoints. In these cases the first
of the two is U. Any other table is rejected: its first two columns need not be the endpoints.

The sign of an edge follows from a column of the input by one of three rules: above zero (``sign``), from a threshold on
(``positive_from``), and by words (``sign_values``). A rule returns +1 or -1, or reports that a value has no sign,
which makes the line malformed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from papilio.errors import InputError

Decimal = Literal[".", ","]
"""The decimal point of numbers."""

ColumnRef = int | str
"""A column chosen by a user: a number from 1 on, or a name."""

_THINGS = (
    {"user", "item", "movie", "film", "product", "customer", "client", "buyer", "reviewer", "rater", "author"}
    | {"paper", "artist", "track", "song", "book", "business", "group", "event", "actor", "person", "source"}
    | {"target", "fromnode", "tonode", "page", "member", "voter", "bill", "gene", "protein", "drug"}
    | {"disease"}
)
_ENDPOINTS = frozenset(
    {*_THINGS, *(f"{thing}id" for thing in _THINGS)}
    | {"uid", "iid", "username", "src", "dst", "destination", "from", "to", "fromid", "toid", "isbn", "asin"}
    | {"left", "right", "row", "col", "column", "node1", "node2", "id1", "id2"}
    | {"startid", "endid"}
)
_VALUES = frozenset(
    {"rating", "weight", "sign", "value", "score", "stars", "vote", "count"}
    | {"freq", "frequency", "abundance", "visit", "n"}
)
_TIMES = frozenset({"time", "timestamp", "date", "datetime"})
INDEXES = frozenset({"", "unnamed0", "indexlevel0", "rownames"})
"""Names of columns that number or name the rows."""
OTUS = frozenset({"otuid", "featureid", "asvid"})
"""Names of the first column of a matrix of samples, as programs for sequences write them."""
_SHOWN = 12
"""Number of columns listed in a message."""


@dataclass(frozen=True)
class Columns:
    """The columns to read, each 0-based."""

    u: int = 0
    v: int = 1
    sign: int | None = None  # column of the values that determine signs
    time: int | None = None  # column of the times that order equal edges


NO_NAME = "no name"
"""A column whose name is empty, in words."""

USUAL = Columns(0, 1, 2)
"""The columns by place: U, V, and the value that determines the sign."""


@dataclass(frozen=True)
class WantedColumns:
    """The user's choice of columns, by numbers from 1 on or by names; None to detect a column."""

    u: ColumnRef | None = None
    v: ColumnRef | None = None
    sign: ColumnRef | None = None
    time: ColumnRef | None = None
    signed: bool = False  # whether a sign rule needs a column of values

    def __post_init__(self) -> None:
        for role in ("u", "v", "sign", "time"):
            ref = getattr(self, role)
            if ref is None or (isinstance(ref, str) and ref):
                continue
            if not isinstance(ref, int) or isinstance(ref, bool) or ref < 1:
                raise InputError(f"{role} is {ref!r}; expected a column number from 1, or a name")


def plain_name(name: str) -> str:
    """Return a column name in normal form for comparison: without case, blanks, punctuation, or Neo4j's id spaces."""
    name = re.sub(r"(:(?:START|END)_ID)\(.*\)\Z", r"\1", name)
    return re.sub(r"[\W_]+", "", name.casefold())


def are_names(fields: Sequence[str]) -> bool:
    """Return whether the fields of a line are usual column names, two of them of endpoints."""
    names = [plain_name(field) for field in fields]
    if names[:2] == ["u", "v"]:
        return True
    ends = [name in _ENDPOINTS or name in ("id", "node") for name in names]
    if sum(ends) < 2:
        return False
    return all(ends[:2]) or all(end or is_extra(name) for end, name in zip(ends, names, strict=True))


_OF_ONE_SET = frozenset({"source", "target", "src", "dst", "from", "to", "fromnode", "tonode", "node", "person"})


def are_of_one_set(names: Sequence[str]) -> bool:
    """Return whether both endpoints are named as in SNAP files, which contain one set of vertices."""
    return [plain_name(name) for name in names[:2]] == ["fromnodeid", "tonodeid"]


def are_of_two_sets(names: Sequence[str]) -> bool:
    """Return whether the names of both endpoints are usual names of two different kinds, such as user and film."""
    things = {plain_name(name).removesuffix("id") for name in names[:2]}
    return len(things) == 2 and things <= _THINGS - _OF_ONE_SET


def is_known_name(name: str) -> bool:
    """Return whether a column name is a usual one of endpoints, ids, values or times."""
    plain = plain_name(name)
    return plain in _ENDPOINTS or plain in ("u", "v") or plain.endswith("id") or (plain != "" and is_extra(plain))


def are_named_ends(names: Sequence[str], ends: tuple[int, int] | None) -> bool:
    """Return whether both columns of the ends have usual names of endpoints or ids."""
    if ends is None or max(ends) >= len(names):
        return False
    return all(is_known_name(names[at]) and not is_extra(names[at]) for at in ends)


def _is_value(name: str) -> bool:
    return name in _VALUES or name.removesuffix("s") in _VALUES


def is_extra(name: str) -> bool:
    """Return whether a column name is a usual one of values, times or indexes."""
    name = plain_name(name)
    return name in _TIMES or name in INDEXES or _is_value(name)


def pick_ends(names: Sequence[str], excluded: Collection[int] = ()) -> tuple[int, int] | None:
    """Return which two of the named columns are U and V, 0-based, or None if ambiguous."""
    if {"u", "v"} <= set(names) and not {names.index("u"), names.index("v")} & set(excluded):
        return names.index("u"), names.index("v")
    plain = [plain_name(name) for name in names]
    left = [at for at in range(len(names)) if at not in excluded]
    if len(left) > 2:
        left = [at for at in left if not (is_extra(plain[at]) or (at == 0 and plain[at] == "index"))]
    if len(left) > 2:
        left = [at for at in left if plain[at] in _ENDPOINTS]
    return (left[0], left[1]) if len(left) == 2 else None


def show_column(names: Sequence[str], at: int) -> str:
    """Return a column in words, by its name if it has one."""
    if not names:
        return f"column {at + 1}"
    return f"{names[at] or NO_NAME} (column {at + 1})"


def choose_columns(
    source: str,
    names: Sequence[str],
    count: int,
    wanted: WantedColumns,
    *,
    usual: Columns = USUAL,
    unfit: Collection[int] = (),
) -> Columns:
    """Return which of ``count`` columns to read.

    ``names`` is empty if the columns have none; ``source`` names the input in messages. ``usual`` has the columns by
    place, for an input without names; its sign is the column of values if no name identifies one, its time None or the
    format's column. ``unfit`` columns have types that no endpoint has. Raises InputError if columns do not exist, are
    given twice, or cannot be told apart.
    """
    chooser = _Chooser(source, tuple(names), count, usual, frozenset(unfit))
    u, v = chooser.find(wanted.u, "u"), chooser.find(wanted.v, "v")
    sign = chooser.find(wanted.sign, "sign", "for signs")
    time = chooser.find(wanted.time, "time", "for times")
    others = frozenset(at for at in (sign, time) if at is not None)
    ends = chooser.ends(u, v, others)
    if wanted.signed and sign is None:
        sign, ends = chooser.values(u, v, others, ends)
    if ends is None:
        raise InputError(
            f"{source}: the two endpoint columns are not clear: {chooser.listed(range(count))}; name them by u and v "
            f"(--u and --v: names, or numbers from 1)"
        )
    if ends[0] == ends[1]:
        raise InputError(f"{source}: {show_column(names, ends[0])} cannot be both u and v")
    for at, option in ((sign, "sign"), (time, "time")):
        if at in ends:
            raise InputError(
                f"{source}: {option} is {show_column(names, at)}, but columns {ends[0] + 1} and {ends[1] + 1} are the "
                "endpoints; name another, or name the endpoints by u and v"
            )
    if time is None:
        time = chooser.time_column((*ends, sign))
    return Columns(*ends, sign, None if time == sign else time)


def find_column(source: str, names: Sequence[str], count: int, ref: ColumnRef, option: str) -> int:
    """Return the 0-based column of a reference; raise InputError if there is none."""
    found = _Chooser(source, tuple(names), count, USUAL, frozenset()).find(ref, option)
    assert found is not None
    return found


@dataclass(frozen=True)
class _Chooser:
    """The columns of one input, and the search for each role; see :func:`choose_columns`."""

    source: str
    names: tuple[str, ...]
    count: int
    usual: Columns
    unfit: frozenset[int]

    def find(self, ref: ColumnRef | None, option: str, purpose: str = "") -> int | None:
        """Return the 0-based column of a reference."""
        if ref is None:
            return None
        if isinstance(ref, int):
            if ref > self.count:
                raise InputError(
                    f"{self.source} has {self.count} columns; there is no column {ref} {purpose or f'for {option}'}"
                )
            return ref - 1
        if not self.names:
            raise InputError(
                f"{self.source} has no line of names, so {option} {ref!r} is not a column; use its number, from 1"
            )
        folded = [name.casefold() for name in self.names]
        for name, present in ((ref, self.names), (ref.casefold(), folded)):
            if present.count(name) == 1:
                return present.index(name)
        problem = f"several columns {ref!r}: use a number" if ref.casefold() in folded else f"no column {ref!r}"
        raise InputError(f"{self.source} has {problem} for {option}; it has {self.listed(range(self.count))}")

    def ends(self, u: int | None, v: int | None, others: frozenset[int]) -> tuple[int, int] | None:
        """Return the columns of U and V, given none, one or both; None if ambiguous."""
        if u is not None and v is not None:
            return u, v
        given = u if u is not None else v
        if given is None:
            if not self.names:
                return self.usual.u, self.usual.v
            excluded = others | self.unfit
            return pick_ends(self.names, excluded if self.count - len(excluded) >= 2 else others)
        left = [at for at in range(self.count) if at != given and at not in others]
        if len(left) > 1 and self.names:
            found = pick_ends(self.names, (others | self.unfit) - {given})
            left = [at for at in found if at != given] if found is not None and given in found else []
        if len(left) != 1:
            return None
        return (given, left[0]) if u is not None else (left[0], given)

    def values(
        self, u: int | None, v: int | None, others: frozenset[int], ends: tuple[int, int] | None
    ) -> tuple[int, tuple[int, int] | None]:
        """Return the column of values, by name, else by place; and the endpoints among the other columns."""
        plain = enumerate(map(plain_name, self.names))
        named = [at for at, name in plain if _is_value(name) and at not in {u, v, *others}]
        if len(named) > 1:
            raise InputError(f"{self.source} has several columns of values: {self.listed(named)}; name one as sign")
        if named:
            return named[0], self.ends(u, v, others | {named[0]})
        usual = self.usual.sign
        assert usual is not None
        if usual >= self.count:
            raise InputError(f"{self.source} has {self.count} columns; there is no column {usual + 1} for signs")
        if ends is None and u is None and v is None:
            ends = self.ends(u, v, others | {usual})
            ends = ends if ends == (self.usual.u, self.usual.v) else None
        if usual in {u, v, *others, *(ends or ())}:
            raise InputError(
                f"{self.source}: column {usual + 1} is an endpoint or the time; set sign to the column of values "
                f"that determine the signs"
            )
        return usual, ends

    def time_column(self, taken: Collection[int | None]) -> int | None:
        """Return the column of times: by name, else the format's column."""
        if self.names:
            plain = enumerate(map(plain_name, self.names))
            return next((at for at, name in plain if name in _TIMES and at not in taken), None)
        usual = self.usual.time
        return None if usual is None or usual >= self.count or usual in taken else usual

    def listed(self, columns: Collection[int]) -> str:
        """Return columns in words."""
        shown = ", ".join([show_column(self.names, at) for at in columns][:_SHOWN])
        return shown + (f" and {len(columns) - _SHOWN} more" if len(columns) > _SHOWN else "")


_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")


def number_of(text: str, decimal: Decimal = ".") -> float | None:
    """Return the number that a text is, with this decimal point, or None."""
    plain = text if decimal == "." else text.replace(".", "?").replace(",", ".")
    return float(plain) if _NUMBER.match(plain) else None


@dataclass(frozen=True)
class SignRule:
    """A rule that turns values into signs: by the words for either sign, or by a threshold."""

    threshold: float | None = None  # values of at least this are positive; None for values above zero
    positive: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    decimal: Decimal = "."  # the decimal point of numbers; the other mark is then no part of a number

    def problem(self, text: str) -> str | None:
        """Return the reason why ``text`` has no sign, to follow the name of its column, or None if it has one."""
        if self.positive:
            if text in self.positive or text in self.negative:
                return None
            known = ", ".join(map(repr, self.positive + self.negative))
            return f"is {text!r}; the sign values are {known}"
        number = number_of(text, self.decimal)
        if number is not None:
            return None if math.isfinite(number) else f"is {text!r}, outside the range of numbers"
        hint = "name the words with sign_values" if text else "it is empty"
        if self.decimal == "." and number_of(text, ",") is not None:
            hint = "set decimal to ',' (--decimal ,) if commas are decimal points"
        return f"is {text!r}, not a number; {hint}"

    def sign_of(self, text: str) -> int:
        """Return the sign of a value that has one."""
        if self.positive:
            return 1 if text in self.positive else -1
        number = number_of(text, self.decimal)
        assert number is not None
        return 1 if (number > 0 if self.threshold is None else number >= self.threshold) else -1

    def apply(self, values: pa.Array) -> NDArray[np.int8] | None:
        """Return the signs of a column of strings, int8 of shape (k,), or None if some value may have no sign.

        Blanks and tabs around a value are ignored.
        """
        import pyarrow.compute as pc  # takes a tenth of a second; counting does not need it

        values = pc.utf8_trim(values, " \t")
        if self.positive:
            index = pc.index_in(values, pa.array(self.positive + self.negative))
            if index.null_count:
                return None
            return np.where(index.to_numpy() < len(self.positive), np.int8(1), np.int8(-1))
        if not len(values):
            return np.empty(0, np.int8)
        if self.decimal == ",":
            values = pc.replace_substring(pc.replace_substring(values, ".", "?"), ",", ".")
        plus = pc.starts_with(values, "+")
        if pc.any(plus).as_py():
            if pc.any(pc.match_substring_regex(values, r"^\+[+-]")).as_py():
                return None
            values = pc.if_else(plus, pc.utf8_slice_codeunits(values, 1), values)
        try:
            numbers = values.cast(pa.float64()).to_numpy()
        except pa.ArrowInvalid:
            return None
        return self.from_numbers(numbers)

    def from_numbers(self, numbers: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.int8] | None:
        """Return the signs of numbers, shape (k,), or None if some are not finite or the rule uses words."""
        if self.positive or not bool(np.isfinite(numbers).all()):
            return None
        above = numbers > 0 if self.threshold is None else numbers >= self.threshold
        return np.where(above, np.int8(1), np.int8(-1))

    def describe(self) -> str:
        """Return the rule in words, for the provenance."""
        if self.positive:
            return f"{', '.join(self.positive)} positive; {', '.join(self.negative)} negative"
        return "positive above 0" if self.threshold is None else f"positive from {self.threshold:g} on"


def sign_rule(
    asked: bool, positive_from: float | None, sign_values: str | None, decimal: Decimal | None = None
) -> SignRule | None:
    """Make the rule specified by the options, or None for an unsigned graph.

    ``asked`` is true if a column of values is named; without the other options, values above 0 are then positive.
    ``sign_values`` is ``POSITIVE:NEGATIVE``, each a word or several separated by commas: ``+:-``, ``yea,aye:nay,no``.
    Raises InputError for options that contradict each other or make no rule.
    """
    if not asked and positive_from is None and sign_values is None:
        return None
    if positive_from is not None and sign_values is not None:
        raise InputError("positive_from and sign_values cannot be combined; use one of them")
    if positive_from is not None and not math.isfinite(positive_from):
        raise InputError(f"positive_from is {positive_from}; expected a finite number")
    if sign_values is None:
        return SignRule(positive_from, decimal=decimal or ".")
    sides = sign_values.split(":")
    words = [tuple(word.strip() for word in side.split(",") if word.strip()) for side in sides]
    if len(words) != 2 or not all(words) or set(words[0]) & set(words[1]):
        raise InputError(
            f"sign_values is {sign_values!r}; expected POSITIVE:NEGATIVE without a common word, such as +:- or yea:nay"
        )
    return SignRule(None, words[0], words[1])
