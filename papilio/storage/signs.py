"""The sign of an edge, as it follows from a column of the input.

Three rules: above zero (``sign_column``), from a threshold on (``positive_from``), and by words
(``sign_values``). A rule gives +1 or -1 or says that a value has no sign, which makes the line malformed.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from papilio.errors import InputError

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")


@dataclass(frozen=True)
class SignRule:
    """A rule that turns values into signs: by the words for either sign, or, without them, by a threshold."""

    threshold: float | None = None  # values of at least this are positive; None for values above zero
    positive: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()

    def problem(self, text: str) -> str | None:
        """Return why ``text`` has no sign, to follow the name of its column, or None when it has."""
        if self.positive:
            if text in self.positive or text in self.negative:
                return None
            known = ", ".join(map(repr, self.positive + self.negative))
            return f"is {text!r}; the sign values are {known}"
        if _NUMBER.match(text):
            return None if math.isfinite(float(text)) else f"is {text!r}, beyond the range of numbers"
        hint = "name the words with sign_values" if text else "it is empty"
        return f"is {text!r}, not a number; {hint}"

    def sign_of(self, text: str) -> int:
        """Return the sign of a value that has one."""
        if self.positive:
            return 1 if text in self.positive else -1
        number = float(text)
        return 1 if (number > 0 if self.threshold is None else number >= self.threshold) else -1

    def apply(self, values: pa.Array) -> NDArray[np.int8] | None:
        """Return the signs of a column of strings, int8 of shape (k,), or None when some value may have no sign.

        Blanks and tabs around a value are not part of it.
        """
        values = pc.utf8_trim(values, " \t")
        if self.positive:
            index = pc.index_in(values, pa.array(self.positive + self.negative))
            if index.null_count:
                return None
            return np.where(index.to_numpy() < len(self.positive), np.int8(1), np.int8(-1))
        if not len(values):
            return np.empty(0, np.int8)
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
        """Return the signs of numbers, shape (k,), or None when some are not finite or words are asked for."""
        if self.positive or not bool(np.isfinite(numbers).all()):
            return None
        above = numbers > 0 if self.threshold is None else numbers >= self.threshold
        return np.where(above, np.int8(1), np.int8(-1))

    def describe(self) -> str:
        """Return the rule in words, for the provenance."""
        if self.positive:
            return f"{', '.join(self.positive)} positive; {', '.join(self.negative)} negative"
        return "positive above 0" if self.threshold is None else f"positive from {self.threshold:g} on"


def sign_rule(asked: bool, positive_from: float | None, sign_values: str | None) -> SignRule | None:
    """Make the rule that the options ask for, or None when they ask for an unsigned graph.

    ``asked`` says that a column of values is named, so that there is a rule without the others: positive above 0.
    ``sign_values`` is ``POSITIVE:NEGATIVE``, each a word or several separated by commas: ``+:-``, ``yea,aye:nay,no``.
    InputError for options that contradict each other or make no rule.
    """
    if not asked and positive_from is None and sign_values is None:
        return None
    if positive_from is not None and sign_values is not None:
        raise InputError("positive_from and sign_values exclude each other; give one of them")
    if positive_from is not None and not math.isfinite(positive_from):
        raise InputError(f"positive_from is {positive_from}; expected a finite number")
    if sign_values is None:
        return SignRule(positive_from)
    sides = sign_values.split(":")
    words = [tuple(word.strip() for word in side.split(",") if word.strip()) for side in sides]
    if len(words) != 2 or not all(words) or set(words[0]) & set(words[1]):
        raise InputError(
            f"sign_values is {sign_values!r}; expected POSITIVE:NEGATIVE without a common word, "
            "such as +:- or yea:nay"
        )
    return SignRule(None, words[0], words[1])
