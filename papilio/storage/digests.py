"""Digests of stored bytes: nothing that Papilio wrote is used before it was compared with one.

A digest is 32 hexadecimal digits of XXH3 (128 bits): it reveals damage and exchanged files, at 26 GB/s. It is no
signature: someone who can write a file can write its digest as well.

| file | its digest is in |
|---|---|
| edges and labels of a store, blocks of a partition | its manifest, see :mod:`papilio.storage.sealed` |
| vectors and rows of a lease | the ledger; for the answer, ``result.json`` or ``_listing.json`` |
| JSON files | the file itself, see :func:`papilio.storage.records.seal_json` |
| ledgers | each line, chained to the line before, see :mod:`papilio.storage.ledger` |
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import xxhash

from papilio.errors import StoreError


def digest_of(*parts: Any) -> str:
    """Return the digest of buffers, one after the other."""
    found = xxhash.xxh3_128()
    for part in parts:
        found.update(part)
    return found.hexdigest()


def digest_file(path: Path) -> str:
    """Return the digest of a whole file; OSError when it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()


def require_digest(found: str, expected: str, name: str, advice: str) -> None:
    """Check the digest of a file called ``name``; StoreError with the advice when it was changed."""
    if found != expected:
        raise StoreError(f"{name} has digest {found}; expected {expected}: it was changed, {advice}")
