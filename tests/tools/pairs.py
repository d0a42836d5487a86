"""Tests of every pair of two lists of parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["all_pairs"]


def all_pairs(first: Iterable[Any], second: Iterable[Any], share: int = 3) -> list[Any]:
    """Return all pairs as parameters of a test, of which one in ``share`` is fast and the others are slow.

    The fast ones lie on diagonals: every value is in one of them if both lists have ``share`` values or more.
    """
    others = list(second)
    return [
        pytest.param(one, other, marks=() if (i + j) % share == 0 else pytest.mark.slow)
        for i, one in enumerate(first)
        for j, other in enumerate(others)
    ]
