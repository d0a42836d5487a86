"""Conditions on the rows of a source, such as ``stars >= 4``: the rows for which all of them hold are read.

A condition is a column (its name, or its number from 1 on), one of ``<  <=  >  >=  ==  !=``, and a value. With a
number, values are compared as numbers; with a word or a date (``time >= 2024-01-01``), as text. A missing value meets
no condition.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from papilio.errors import InputError
from papilio.storage.column_choice import Decimal, number_of
from papilio.storage.evidence import is_missing_word

_CONDITION = re.compile(r"\s*(?P<column>[^<>=!]+?)\s*(?P<sign><=|>=|==|!=|<|>|=)\s*(?P<value>.*?)\s*\Z", re.S)
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "=": operator.eq,
    "!=": operator.ne,
}  # fmt: skip


@dataclass(frozen=True)
class Condition:
    """A comparison of a column with a value."""

    column: int | str  # by number from 1 on, or by name
    sign: str
    value: float | str
    text: str
    decimal: Decimal = "."  # the decimal point of numbers in text

    def holds(self, text: str) -> bool | None:
        """Return whether a text meets the condition; None if it is no number and the value is one."""
        if is_missing_word(text):
            return False
        if isinstance(self.value, str):
            return bool(_COMPARE[self.sign](text, self.value))
        number = number_of(text, self.decimal)
        return None if number is None else bool(_COMPARE[self.sign](number, self.value))

    def mask(self, column: pa.Array) -> NDArray[np.bool_] | None:
        """Return which values of an Arrow column meet the condition; None if some are no numbers and the value is."""
        import pyarrow.compute as pc  # slow to import, and only needed for conditions

        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        column = column.cast(kind)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return self._mask_of_words(pc.utf8_trim(column, " \t"))
        if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
            if isinstance(self.value, str):
                return None
            numbers = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
            return np.asarray(_COMPARE[self.sign](numbers, self.value) & ~np.isnan(numbers))
        return self._mask_of_words(pa.array([None if each is None else str(each) for each in column.to_pylist()]))

    def _mask_of_words(self, words: pa.Array) -> NDArray[np.bool_] | None:
        encoded = words.dictionary_encode(null_encoding="encode")
        states = [self.holds(word or "") for word in encoded.dictionary.to_pylist()]
        if None in states:
            return None
        of_word = np.array(states, bool)
        return of_word[encoded.indices.to_numpy(zero_copy_only=False)] if len(words) else np.zeros(0, bool)


def arrow_column(values: Any) -> Any:
    """Return a column of any library as an Arrow array."""
    if isinstance(values, pa.ChunkedArray):
        joined = values.combine_chunks()
        return pa.concat_arrays(joined.chunks) if isinstance(joined, pa.ChunkedArray) else joined
    if hasattr(values, "to_arrow"):
        return values.to_arrow()
    try:
        found = pa.array(values, from_pandas=True)
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    except (pa.ArrowException, TypeError):
        return pa.array([None if each is None or each != each else str(each) for each in values])


def has_zero(column: pa.Array) -> bool:
    """Return whether a column of numbers, or of their text, holds a 0."""
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return bool(pc.any(pc.equal(column.cast(pa.float64(), safe=False), 0)).as_py())
    text = pc.utf8_trim(column.cast(pa.large_string()), " \t")
    return bool(pc.any(pc.match_substring_regex(text, r"^([+-]?(0+([.,]0*)?|[.,]0+)|(?i:false))$")).as_py())


def read_conditions(given: str | Sequence[str] | None, decimal: Decimal | None = None) -> tuple[Condition, ...]:
    """Return the conditions of ``where``; raise InputError for a text that is none."""
    several = () if given is None else (given,) if isinstance(given, str) else tuple(given)
    return tuple(_read(each, decimal or ".") for each in several)


def _read(text: str, decimal: Decimal) -> Condition:
    found = _CONDITION.match(text) if isinstance(text, str) else None
    if found is None or not found["value"]:
        raise InputError(
            f"where is {text!r}; expected a column, one of < <= > >= == !=, and a value, such as 'stars >= 4'"
        )
    value: float | str = found["value"]
    column: int | str = found["column"]
    for quote in "'\"":
        if isinstance(column, str) and len(column) > 1 and column[0] == column[-1] == quote:
            column = column[1:-1]
    column = int(column) if isinstance(column, str) and column.isdecimal() else column
    assert isinstance(value, str)
    number = number_of(value)
    if number is None and decimal == ",":
        number = number_of(value, ",")
    if number is None and number_of(value.replace(",", ".")) is not None and found["sign"] not in ("==", "=", "!="):
        raise InputError(f"where is {text!r}, whose value is no number: write {value.replace(',', '.')!r}")
    if number is not None:
        value = number
    elif len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    return Condition(column, found["sign"], value, text.strip(), decimal)
