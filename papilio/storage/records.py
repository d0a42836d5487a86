"""The JSON that Papilio keeps: the annotations of a frozen dataclass are the schema of its file, both ways.

A file is checked completely before use, for missing, unknown or repeated keys, values of another type (booleans and
floats are not integers), and NaN. The error names the file, the field, the value found and the expected value. The key
``digest`` of a file has the digest of all other keys; the file is used only if it matches.

| annotation | JSON |
|---|---|
| ``int``, ``SignedInt`` | an integer from 0 on, of any size; any integer |
| ``Digits``, ``SignedDigits`` | the same, in quotes: readers of JSON numbers may drop some of its digits |
| ``float`` | a finite number |
| ``tuple[X, ...]``, ``list[X]``, ``tuple[X, Y]`` | a list of them, of any length or of two |
| ``dict[str, X]`` | an object; ``dict[tuple[X, Y], int]`` a list of rows ``[x, y, Digits]``,
``dict[tuple[X, ...], int]`` of rows of any length |
| ``Literal``, ``X | Y``, ``None``, ``bool``, ``str``, ``Any`` | as usual |
| a dataclass | an object with its fields; fields with a default may be missing |
| ... with ``may_grow`` | the same; keys added by newer versions are ignored |
| ``Motif`` | an object with ``name`` and the fields of the motif of that name |

Every file written by Papilio is compared with a digest before use: 32 hexadecimal digits of XXH3 (128 bits), which
detect damage and exchanged files, at 26 GB/s. A digest is not a signature: anyone who can write a file can also write
its digest.

| file | its digest is in |
|---|---|
| edges and labels of a store, blocks of a partition | its manifest, see :mod:`papilio.storage.sealed` |
| vectors and rows of a lease | the ledger; for the answer, ``result.json`` or ``_listing.json`` |
| JSON files | the file itself, see :func:`seal_json` |
| ledgers | each line, chained to the line before, see :mod:`papilio.storage.ledger` |
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import reprlib
import stat
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import xxhash

from papilio.errors import PapilioError, StoreError
from papilio.motifs import MOTIFS, Motif, motif_to_json
from papilio.system_errors import explain


def digest_of(*parts: Any) -> str:
    """Return the digest of concatenated buffers."""
    found = xxhash.xxh3_128()
    for part in parts:
        found.update(part)
    return found.hexdigest()


def digest_file(path: Path) -> str:
    """Return the digest of a whole file; raise OSError if it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()


def require_digest(found: str, expected: str, name: str, advice: str) -> None:
    """Check the digest of a file called ``name``; raise StoreError with the advice if it was changed."""
    if found != expected:
        raise StoreError(f"{name} has digest {found}; expected {expected}: it was changed, {advice}")


SignedInt = Annotated[int, "signed"]
"""An integer that may be negative; all others are sizes, numbers or identities from 0 on."""

Digits = Annotated[int, "digits"]
"""An exact count, stored in quotes."""

SignedDigits = Annotated[int, "signed digits"]
"""A part of a sum that may be negative, stored in quotes."""

MAX_JSON_BYTES = 1 << 28
"""Size of the largest JSON file that is read. The manifest of a partition of 100,000 parts has a fifth of that."""

DIGEST_KEY = "digest"

_DIGITS = re.compile(r"[0-9]+", re.ASCII)

_Read = Callable[[Any], Any]

Record = TypeVar("Record")


class _Misfit(Exception):
    """A value that does not fit its annotation, and the path to it, from the inside out."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        self.path = ""

    def within(self, step: str) -> _Misfit:
        self.path = step + ("." if self.path[:1] not in ("", "[") else "") + self.path
        return self


def _unfit(value: Any, expected: str) -> _Misfit:
    return _Misfit(f" is {reprlib.repr(value)}; expected {expected}")


def _read_at(read: _Read, value: Any, step: str) -> Any:
    try:
        return read(value)
    except _Misfit as misfit:
        raise misfit.within(step) from None


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the key {reprlib.repr(name)} is given twice")
        found[name] = value
    return found


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def parse_json(text: str | bytes, name: str, advice: str) -> Any:
    """Return the value of a JSON text in UTF-8; ``name`` is its file and ``advice`` the remedy, for messages.

    Raises StoreError for invalid JSON, including repeated keys, NaN, infinities, and texts nested too deeply or too
    large.
    """
    require_size(len(text), name, advice)
    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        return json.loads(decoded, object_pairs_hook=_object_of, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{name} is not valid JSON ({error}); {advice}") from error


def require_size(n_bytes: int, name: str, advice: str) -> None:
    """Check the size of a JSON file; raise StoreError if it is larger than any that Papilio writes."""
    if n_bytes > MAX_JSON_BYTES:
        raise StoreError(f"{name} has {n_bytes} bytes; at most {MAX_JSON_BYTES} are read: {advice}")


def read_regular(path: Path, advice: str, *, any_size: bool = False) -> bytes:
    """Return the content of a file without waiting for a pipe or a device.

    Raises FileNotFoundError if there is no such file; StoreError for a directory, a pipe or a device, a file that
    cannot be read, or one larger than the limit for JSON files unless ``any_size``.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise StoreError(f"{path} cannot be read (not a regular file); {advice}")
        if not any_size:
            require_size(found.st_size, str(path), advice)
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(*error.args) from error
    except OSError as error:
        raise StoreError(f"{path} cannot be read {explain(error, advice)}") from error


def read_json(path: Path, advice: str) -> Any:
    """Return the value of a JSON file; raises as :func:`read_regular` and :func:`parse_json`."""
    return parse_json(read_regular(path, advice), str(path), advice)


def _digest_of_json(data: Mapping[str, Any]) -> str:
    kept = {key: value for key, value in data.items() if key != DIGEST_KEY}
    return digest_of(json.dumps(kept, sort_keys=True, separators=(",", ":")).encode())


def seal_json(data: Mapping[str, Any], *, indent: int | None = None, sort_keys: bool = False) -> str:
    """Return the text of a JSON file with these keys and their digest; the options are passed to ``json.dumps``."""
    plain = json.loads(json.dumps(data))
    sealed = plain | {DIGEST_KEY: _digest_of_json(plain)}
    return json.dumps(sealed, indent=indent, sort_keys=sort_keys) + "\n"


def unseal_json(data: Any, name: str, advice: str) -> dict[str, Any]:
    """Check the digest of an object of :func:`seal_json`; return its other keys.

    ``name`` is its file and ``advice`` the remedy, for messages. Raises StoreError if it is not an object or was
    changed.
    """
    if not isinstance(data, dict):
        raise StoreError(f"{name} is not a JSON object; {advice}")
    found = data.get(DIGEST_KEY)
    if type(found) is not str:
        raise StoreError(f"{name} has no {DIGEST_KEY}; {advice}")
    require_digest(_digest_of_json(data), found, name, advice)
    return {key: value for key, value in data.items() if key != DIGEST_KEY}


def read_sealed(path: Path, advice: str) -> dict[str, Any]:
    """Return the keys of a file of :func:`seal_json`; raises as :func:`read_json` and :func:`unseal_json`."""
    return unseal_json(read_json(path, advice), str(path), advice)


def require_format(
    data: Any, name: str, form: str, version: int, what: str, advice: str, oldest: int | None = None
) -> dict[str, Any]:
    """Return the keys of a sealed file after checking its format, version and digest.

    ``form`` is the value of ``format``, ``version`` the version that this code writes, ``oldest`` the first that it
    reads (``version``, by default), ``what`` the thing that such a file describes, ``advice`` the remedy if it is
    damaged or older. Raises StoreError for another kind of file, another version, or a changed file.
    """
    if not isinstance(data, dict) or data.get("format") != form:
        raise StoreError(f'{name} does not describe {what}: it has no "format": "{form}"')
    found = data.get("format_version")
    if type(found) is not int or found < 1:
        raise StoreError(f"{name} has format_version {found!r}; expected an integer from 1")
    if found > version:
        raise StoreError(
            f"{name} has format_version {found}; this version of Papilio reads up to {version}: upgrade it"
        )
    if found < (oldest or version):
        raise StoreError(
            f"{name} has format_version {found}, without digests to check it by; this version of Papilio reads "
            f"{oldest or version}: {advice}"
        )
    return unseal_json(data, name, advice)


def read_manifest(
    kind: type[Record],
    text: str | bytes,
    name: str,
    form: str,
    version: int,
    what: str,
    advice: str,
    oldest: int | None = None,
) -> tuple[Record, dict[str, Any]]:
    """Return the record of a manifest, which has all its fields, and its keys; parameters as :func:`require_format`.

    Raises StoreError if the text is not JSON, not such a manifest, of another version, was changed, or does not fit.
    """
    data = require_format(parse_json(text, name, advice), name, form, version, what, advice, oldest)
    missing = [each.name for each in fields(cast(Any, kind)) if each.name not in data]
    if missing:
        raise StoreError(f"{name} lacks {', '.join(missing)}; {advice}")
    kept = {key: value for key, value in data.items() if key != "format"}
    return read_record(kind, kept, name, advice), data


def read_record(kind: type[Record], value: Any, name: str, advice: str) -> Record:
    """Rebuild a dataclass, whose annotations are in the table above, from its JSON form.

    ``name`` is its file and ``advice`` the remedy if it is damaged. Raises StoreError, naming the field and the value
    that do not fit.
    """
    try:
        found: Record = _reader(kind)(value)
    except _Misfit as misfit:
        what = f": {misfit.path}" if misfit.path else ""
        raise StoreError(f"{name}{what}{misfit.problem}; {advice}") from misfit
    return found


def write_record(record: Any) -> dict[str, Any]:
    """Return the JSON form of a dataclass, which :func:`read_record` reads back."""
    kind: Any = type(record)
    hints = _hints(kind)
    return {each.name: _write(getattr(record, each.name), hints[each.name]) for each in fields(kind)}


def table_rows(table: Mapping[tuple[Any, ...], int]) -> list[list[Any]]:
    """Return the rows ``[*key, "count"]`` of a table, in ascending order of keys."""
    return [[*key, str(count)] for key, count in sorted(table.items())]


def _write(value: Any, kind: Any = Any) -> Any:
    if kind in (Digits, SignedDigits):
        return str(value)
    if isinstance(value, Motif):
        return motif_to_json(value)
    if is_dataclass(value):
        return write_record(value)
    if isinstance(value, Mapping):
        is_table = get_origin(kind) is dict and get_origin(get_args(kind)[0]) is tuple
        return table_rows(value) if is_table else {key: _write(each) for key, each in value.items()}
    return [_write(each) for each in value] if isinstance(value, list | tuple) else value


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _make_reader(kind: Any) -> _Read:
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _reader(args[0])
    if origin is Literal:
        return _literal(args)
    if origin in (Union, UnionType):
        return _union(args)
    if origin in (list, tuple):
        return _sequence(origin, args)
    if origin in (dict, Mapping):
        return _mapping(args) if get_origin(args[0]) is not tuple else _rows(*args)
    if kind is Motif:
        return _motif
    if is_dataclass(kind):
        return _record(kind)
    return _leaf("nothing: it is not stored in files", lambda value: False)


_reader: Callable[[Any], _Read] = cache(_make_reader)


def _leaf(expected: str, fits: Callable[[Any], bool], convert: _Read | None = None) -> _Read:
    def read(value: Any) -> Any:
        if not fits(value):
            raise _unfit(value, expected)
        return value if convert is None else convert(value)

    return read


def _is_finite(value: Any) -> bool:
    try:
        return type(value) in (int, float) and math.isfinite(value)
    except OverflowError:
        return False


def _is_text(value: Any) -> bool:
    try:
        return type(value) is str and value.encode("utf-8", "surrogateescape") is not None
    except UnicodeEncodeError:
        return False


_PLAIN: dict[Any, _Read] = {
    Any: lambda value: value,
    NoneType: _leaf("null", lambda value: value is None),
    bool: _leaf("true or false", lambda value: type(value) is bool),
    int: _leaf("an integer from 0 on", lambda value: type(value) is int and value >= 0),
    SignedInt: _leaf("an integer", lambda value: type(value) is int),
    Digits: _leaf(
        "the digits of an integer, in quotes",
        lambda value: type(value) is str and bool(_DIGITS.fullmatch(value)),
        int,
    ),
    SignedDigits: _leaf(
        "the digits of an integer, in quotes",
        lambda value: type(value) is str and bool(_DIGITS.fullmatch(value.removeprefix("-"))),
        int,
    ),
    float: _leaf("a finite number", _is_finite, float),
    str: _leaf("text", _is_text),
}


def _literal(allowed: tuple[Any, ...]) -> _Read:
    expected = f"one of {', '.join(map(str, allowed))}"
    return _leaf(expected, lambda value: any(type(value) is type(each) and value == each for each in allowed))


def _union(kinds: tuple[Any, ...]) -> _Read:
    readers = [_reader(kind) for kind in kinds if kind is not NoneType]
    nullable = len(readers) < len(kinds)

    def read(value: Any) -> Any:
        if value is None and nullable:
            return None
        for each in readers[:-1]:
            try:
                return each(value)
            except _Misfit:
                continue
        return readers[-1](value)

    return read


def _sequence(origin: type, kinds: tuple[Any, ...]) -> _Read:
    is_long = origin is list or kinds[-1] is ...
    readers = [_reader(kind) for kind in kinds if kind is not ...]

    def read(value: Any) -> Any:
        if type(value) not in (list, tuple) or not (is_long or len(value) == len(readers)):
            raise _unfit(value, "a list" if is_long else f"a list of {len(readers)}")
        return origin(_read_at(readers[0 if is_long else at], each, f"[{at}]") for at, each in enumerate(value))

    return read


def _mapping(kinds: tuple[Any, ...]) -> _Read:
    read_value = _reader(kinds[1])

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise _unfit(value, "an object")
        return {_read_at(_PLAIN[str], key, key): _read_at(read_value, each, key) for key, each in value.items()}

    return read


def _rows(key: Any, count: Any) -> _Read:
    kinds = get_args(key)
    read_row = _long_row(kinds[0]) if kinds[-1] is ... else _sequence(tuple, (*kinds, Digits))

    def read(value: Any) -> Any:
        if type(value) not in (list, tuple):
            raise _unfit(value, "a list")
        rows = [_read_at(read_row, row, f"[{at}]") for at, row in enumerate(value)]
        found = {tuple(row[:-1]): row[-1] for row in rows}
        if len(found) < len(rows):
            raise _Misfit(" has two rows for one key")
        return found

    return read


def _long_row(part: Any) -> _Read:

    def read(value: Any) -> Any:
        n_parts = len(value) - 1 if type(value) in (list, tuple) and value else 1
        return _sequence(tuple, (*[part] * n_parts, Digits))(value)

    return read


def _motif(value: Any) -> Motif:
    if type(value) is not dict:
        raise _unfit(value, "an object")
    name = value.get("name")
    if type(name) is not str or name not in MOTIFS:
        raise _unfit(name, f"one of {', '.join(sorted(MOTIFS))}").within("name")
    motif: Motif = _reader(MOTIFS[name])({key: each for key, each in value.items() if key != "name"})
    return motif


def _record(kind: Any) -> _Read:
    hints = _hints(kind)
    readers = {each.name: _reader(hints[each.name]) for each in fields(kind)}
    may_grow = getattr(kind, "may_grow", False)
    needed = {each.name for each in fields(kind) if each.default is each.default_factory is MISSING}

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise _unfit(value, "an object")
        if not (may_grow or value.keys() <= readers.keys()):
            unknown = next(key for key in value if key not in readers)
            raise _Misfit(f" has the unknown key {reprlib.repr(unknown)}; expected {', '.join(readers)}")
        if not needed <= value.keys():
            raise _Misfit(f" lacks {', '.join(sorted(needed - value.keys()))}")
        found = {key: _read_at(readers[key], value[key], key) for key in readers.keys() & value.keys()}
        try:
            return kind(**found)
        except (PapilioError, ValueError) as error:
            raise _Misfit(f" cannot be: {error}") from error

    return read
