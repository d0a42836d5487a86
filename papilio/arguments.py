"""Arguments of public functions, checked by their annotations: one mechanism, and errors with the expected value.

An annotation is the whole contract of an argument. NumPy numbers are accepted as Python numbers; True is not an
integer, a string not a list, a class not an instance. Limits are part of the annotation, ``Annotated[int, Between(1,
9)]``.
"""

from __future__ import annotations

import collections.abc
import inspect
import numbers
import os
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from fractions import Fraction
from functools import cache, partial, wraps
from reprlib import Repr
from typing import Annotated, Any, Literal, ParamSpec, TypeVar

from papilio.errors import InputError

P = ParamSpec("P")
R = TypeVar("R")

_MAX_NAME_BYTES, _MAX_PATH_BYTES = 255, 4095
"""Limits of file systems."""

_SHOWN = Repr()
_SHOWN.maxstring = _SHOWN.maxother = 60


@dataclass(frozen=True)
class Between:
    """Minimum and maximum of a number, both inclusive, and the reason."""

    low: float
    high: float
    why: str = ""

    def check(self, name: str, value: float) -> None:
        """Raise InputError for a number outside the limits."""
        if not value >= self.low:
            raise InputError(f"{name} is {value}; the minimum is {self.low}")
        if value > self.high:
            raise InputError(f"{name} is {value}; the maximum is {self.high}{self.why and f': {self.why}'}")


Count = Annotated[int, Between(1, 2**63 - 1, "counts have 64 bits")]
"""A requested number, at least 1."""

MAX_WORKERS, MAX_THREADS = 2**16, 2**12

Workers = Annotated[int, Between(1, MAX_WORKERS)]

Threads = Annotated[int, Between(1, MAX_THREADS)]

MAX_SAMPLES = 1_000_000
"""Random graphs of a question, at most: the answer holds the count of each, and sums of their squares are exact."""

Samples = Annotated[int, Between(2, MAX_SAMPLES)]

Seed = Annotated[int, Between(0, 2**63 - 1)]

Share = Annotated[float, Between(0, 1)]

Number = Annotated[int, Between(0, 2**63 - 1)]
"""A number, at least 0."""

TableFormat = Literal["csv", "tsv", "json", "jsonl", "parquet", "arrow"]

TABLE_FORMATS: tuple[TableFormat, ...] = typing.get_args(TableFormat)

TABLE_SUFFIXES: dict[str, TableFormat] = {
    ".parquet": "parquet", ".csv": "csv", ".tsv": "tsv", ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".arrow": "arrow", ".feather": "arrow",
}  # fmt: skip
"""Format of a table by the suffix of its file."""

_OTHER_FILES = (".txt", ".dat", ".pq", ".npy", ".html", ".xlsx", ".gz", ".bz2", ".xz", ".zst", ".zip")
"""Suffixes of files that cannot be written, and of no directory."""

Bytes = int | str
"""Bytes, or text such as ``8GiB``; :func:`read_bytes` reads it."""


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with its arguments checked, and converted if lossless.

    Its signature has the keys of a TypedDict of keyword arguments by name, so that Tab completes them. The returned
    function raises InputError for a value outside the annotation, and TypeError for a missing or unknown argument.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            _require_known(function, signature, kwargs)
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(
                f"{function.__name__}: {error}; its arguments are {', '.join(_names_of(function, signature))}"
            ) from None
        hints = _hints_of(function)
        for name, value in bound.arguments.items():
            hint = hints.get(name, Any)
            if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                options = _hints_of(typing.get_args(hint)[0])
                bound.arguments[name] = {each: read_argument(each, of, options[each]) for each, of in value.items()}
            else:
                bound.arguments[name] = read_argument(name, value, hint)
        return function(*bound.args, **bound.kwargs)

    call.__signature__ = _signature_by_name(function, signature)  # type: ignore[attr-defined]
    return call


def _signature_by_name(function: Callable[..., Any], signature: inspect.Signature) -> inspect.Signature:
    """Return the signature with a keyword for each key of a TypedDict of keyword arguments."""
    shown: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            shown.append(parameter)
            continue
        one = types.SimpleNamespace(__annotations__={name: parameter.annotation})
        described = typing.get_args(typing.get_type_hints(one, globalns=vars(inspect.getmodule(function)))[name])[0]
        for key, hint in described.__annotations__.items():
            words = getattr(hint, "__forward_arg__", hint)
            shown.append(inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=words))
    return signature.replace(parameters=shown)


def check_fields(instance: Any, of: str = "") -> None:
    """Check the fields of a frozen dataclass by their annotations, and convert them if lossless.

    Raises InputError for the first wrong field.

    Parameters
    ----------
    instance : dataclass
    of : str
        Owner of the fields, in messages: `` of a biclique``.
    """
    kind: Any = type(instance)
    hints = _hints_of(kind)
    for field in fields(instance):
        value = read_argument(field.name + of, getattr(instance, field.name), hints[field.name])
        object.__setattr__(instance, field.name, value)


def read_argument(name: str, value: Any, hint: Any) -> Any:
    """Return a value converted to its annotation. InputError if that is impossible."""
    convert, words = _reader(hint)
    try:
        return convert(name, value)
    except _MismatchError as mismatch:
        text = str(mismatch) or f"expected {words}"
        raise InputError(f"{name} is {_SHOWN.repr(value)}; {text}") from None


def read_path(name: str, path: Any) -> str | os.PathLike[str]:
    """Return a valid path. InputError if no file system can have it."""
    found: str | os.PathLike[str] = read_argument(name, path, str | os.PathLike[str])
    return found


_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?\s*", re.IGNORECASE | re.ASCII)


def parse_size(text: str) -> int:
    """Return the bytes that ``8GiB``, ``2GB``, ``500M`` or ``1048576`` mean. InputError if the text is not a size."""
    match = _SIZE.fullmatch(text)
    if match is None or (match[3] and not match[2]):
        raise InputError(
            f"{_SHOWN.repr(text)} is not a size; use bytes, or a number with KB, MB, GB, TB, KiB, MiB, GiB or TiB"
        )
    unit = (2**10 if match[3] else 10**3) ** " KMGT".index(match[2].upper() or " ")
    return int(Fraction(match[1]) * unit)


def read_bytes(name: str, size: Bytes | None) -> int | None:
    """Return a number of bytes, given as a number or as text such as ``8GiB``.

    Raises InputError for text that is not a size, or a number outside 1 to 2^63 - 1.
    """
    if size is None:
        return None
    n_bytes = parse_size(size) if isinstance(size, str) else size
    Between(1, 2**63 - 1, "sizes are 64-bit numbers").check(f"{name} in bytes", n_bytes)
    return n_bytes


class _MismatchError(Exception):
    """A value that does not match its annotation; the text gives the reason if the expected kind does not."""


@cache
def _hints_of(owner: Any) -> dict[str, Any]:
    """Return the annotations of a function or a class; annotations only for type checkers accept anything."""
    module = inspect.getmodule(owner)
    names = {**vars(module)} if module is not None else {}
    hints: dict[str, Any] = {}
    for base in reversed(owner.__mro__) if isinstance(owner, type) else (owner,):
        for name, text in inspect.get_annotations(base).items():
            one = types.SimpleNamespace(__annotations__={name: text})
            try:
                hints |= typing.get_type_hints(one, globalns=names, include_extras=True)
            except (NameError, TypeError):
                hints[name] = Any
    return hints


def _names_of(function: Any, signature: inspect.Signature) -> Iterator[str]:
    """Yield the arguments of a function, and the keys of a TypedDict."""
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            yield from _hints_of(typing.get_args(_hints_of(function)[name])[0])
        else:
            yield name


def _require_known(function: Any, signature: inspect.Signature, given: Iterable[str]) -> None:
    """Raise TypeError for an unknown keyword argument, with the most similar one."""
    known = [*_names_of(function, signature)]
    for name in given:
        if name not in known:
            raise TypeError(f"got an unexpected keyword argument {name!r}{did_you_mean(name, known)}")


_Convert = Callable[[str, Any], Any]


@cache
def _reader(hint: Any) -> tuple[_Convert, str]:
    """Return the conversion for an annotation, a function of name and value, and its description in messages."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if origin is Annotated:
        convert, words = _reader(inner[0])
        limits = [each for each in inner[1:] if isinstance(each, Between)]
        words = next((each for each in inner[1:] if isinstance(each, str)), words)
        return partial(_convert_within, convert, limits), words
    if origin in (typing.Union, types.UnionType):
        is_path = any(typing.get_origin(kind) is os.PathLike for kind in inner)
        readers = [_reader(kind) for kind in inner if not (is_path and kind is str)]
        converts = [convert for convert, _ in readers]
        return partial(_convert_any_of, converts), _either(words for _, words in readers)
    if origin is Literal:
        return partial(_convert_choice, inner), _either(map(str, inner))
    if origin is os.PathLike:
        return _convert_path, "a path"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        (key, keys), (item, items) = map(_reader, inner)
        return partial(_convert_mapping, key, item), f"a dictionary from {keys} to {items}"
    if origin is collections.abc.Callable:
        return _convert_function, "a function"
    if origin in _LISTS:
        item, words = _reader(inner[0])
        return partial(_convert_items, item), f"a list, each {words}"
    words = f"a {getattr(hint, '__name__', hint)}"
    return (partial(_convert_instance, hint) if isinstance(hint, type) else _take), words


def _either(words: Iterable[str]) -> str:
    *names, last = dict.fromkeys(words)
    return f"{', '.join(names)} or {last}" if names else last


def _take(name: str, value: Any) -> Any:
    return value


def _convert_within(convert: _Convert, limits: list[Between], name: str, value: Any) -> Any:
    converted = convert(name, value)
    for limit in limits:
        if converted is not None:
            limit.check(name, converted)
    return converted


def _convert_any_of(converts: list[_Convert], name: str, value: Any) -> Any:
    if _take in converts:
        return value
    reason = ""
    for convert in converts:
        try:
            return convert(name, value)
        except _MismatchError as mismatch:
            reason = reason or str(mismatch)
    raise _MismatchError(reason)


def _convert_choice(choices: tuple[Any, ...], name: str, value: Any) -> str:
    if not isinstance(value, str) or value not in choices:
        raise _MismatchError
    return str(value)


def _convert_path(name: str, value: Any) -> Any:
    try:
        text = os.fspath(value)
    except TypeError:
        raise _MismatchError from None
    if not isinstance(text, str):
        raise _MismatchError
    try:
        encoded = os.fsencode(text)
    except UnicodeEncodeError:
        raise _MismatchError("it contains characters that file names cannot have") from None
    if b"\0" in encoded:
        raise _MismatchError("it contains a null character, which file names cannot have")
    if len(encoded) > _MAX_PATH_BYTES or any(len(part) > _MAX_NAME_BYTES for part in encoded.split(b"/")):
        raise _MismatchError(f"a path has at most {_MAX_PATH_BYTES} bytes, and each name in it {_MAX_NAME_BYTES}")
    return value


def _convert_text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _MismatchError
    return str(value)


def _convert_integer(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise _MismatchError
    return int(value)


def _convert_float(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise _MismatchError
    try:
        number = float(value)
    except OverflowError:
        raise _MismatchError("it is not a 64-bit number") from None
    if number != number:
        raise _MismatchError
    return number


def _convert_bool(name: str, value: Any) -> bool:
    kind = type(value)
    if kind is not bool and (kind.__module__, kind.__name__) not in (("numpy", "bool"), ("numpy", "bool_")):
        raise _MismatchError
    return bool(value)


def _convert_none(name: str, value: Any) -> None:
    if value is not None:
        raise _MismatchError


_SIMPLE: dict[Any, tuple[_Convert, str]] = {
    Any: (_take, "anything"),
    type(None): (_convert_none, "None"),
    bool: (_convert_bool, "True or False"),
    int: (_convert_integer, "an integer"),
    float: (_convert_float, "a number"),
    str: (_convert_text, "a text"),
}

_LISTS = (collections.abc.Iterable, collections.abc.Collection, collections.abc.Sequence)


def _convert_mapping(key: _Convert, item: _Convert, name: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise _MismatchError
    return {key(name, each): item(name, of) for each, of in value.items()}


def _convert_items(item: _Convert, name: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        raise _MismatchError(f"it is a string; use a list: [{_SHOWN.repr(value)}]")
    if isinstance(value, bytes | Mapping) or not isinstance(value, collections.abc.Iterable):
        raise _MismatchError
    try:
        items = tuple(value)
    except TypeError:  # such as a sparse matrix
        raise _MismatchError("its items cannot be listed") from None
    return tuple(item(name, each) for each in items)


def _convert_function(name: str, value: Any) -> Any:
    if not callable(value) or isinstance(value, type):
        raise _MismatchError
    return value


def _convert_instance(kind: type[Any], name: str, value: Any) -> Any:
    if isinstance(value, type) and issubclass(value, kind):
        raise _MismatchError(f"it is a class; use an instance, such as {value.__name__}(...)")
    if not isinstance(value, kind):
        raise _MismatchError
    return value


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'census'?`` for the most similar known word; empty if no word is similar."""
    near = get_close_matches(word, [*known], 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def names_table(output: str | os.PathLike[str]) -> bool:
    """Return whether an output that can be a file or a directory is a file; InputError for a file of another format."""
    suffix = os.path.splitext(output)[1].lower()
    if suffix in _OTHER_FILES:
        raise InputError(
            f"output {os.fspath(output)} is neither a directory nor a table; end the name in "
            f"{', '.join(TABLE_SUFFIXES)}, or choose the name of a directory"
        )
    return suffix in TABLE_SUFFIXES


def plural(number: int, noun: str) -> str:
    """Return a number with its noun, as ``1,056 edges``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def show_share(share: float) -> str:
    """Return a share of 0 to 1 in percent, rounded down, so that only a complete share is ``100.0%``."""
    return f"{int(min(max(share, 0.0), 1.0) * 1000 + 1e-6) / 10:.1f}%"


def show_mebibytes(n_bytes: int) -> str:
    """Return a number of bytes in whole MiB, rounded up, as in flags of sizes: ``402MiB``."""
    return f"{-(-n_bytes // 2**20)}MiB"


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def visible(text: str) -> str:
    """Return text for a terminal: control characters as ``\\x1b``, so that no label can move the cursor."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def show_bytes(n_bytes: int) -> str:
    """Return a number of bytes in the largest suitable unit, as ``8.00 GiB``."""
    power = max(0, min(4, (n_bytes.bit_length() - 1) // 10))
    return f"{n_bytes / 2 ** (10 * power):.2f} {'KMGT'[power - 1]}iB" if power else plural(n_bytes, "byte")
