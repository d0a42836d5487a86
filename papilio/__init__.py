"""Papilio: exact counting of dense motifs in large graphs.

    >>> import papilio
    >>> papilio.count("graph/", papilio.Butterfly()).count

Importing the package loads no engine, no Dask and no Arrow: the names in ``__init__.pyi`` are resolved when first used.
"""

from __future__ import annotations

import sys
from importlib import import_module

if sys.get_int_max_str_digits() == sys.int_info.default_max_str_digits:
    # Counts may have more digits; a limit that somebody chose stays.
    sys.set_int_max_str_digits(0)

with open(f"{__path__[0]}/__init__.pyi", encoding="utf-8") as _stub:
    _HOMES = {line.split()[3]: line.split()[1] for line in _stub if line.startswith("from ")}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        from papilio.arguments import did_you_mean

        # ``obj`` alone: given a name, too, Python 3.11 and later would append a suggestion of their own.
        message = f"module 'papilio' has no attribute {name!r}{did_you_mean(name, _HOMES)}"
        raise AttributeError(message, obj=sys.modules[__name__])
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
