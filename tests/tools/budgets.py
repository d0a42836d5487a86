"""The budgets that errors name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from papilio.errors import CapacityError
from papilio.tasks.job import Budget

__all__ = ["named_budget"]


def named_budget(call: Callable[[], object], given: Budget) -> Budget:
    """Return the least budget that the refusal of a call names, with what it leaves of the ``given`` one."""
    with pytest.raises(CapacityError) as caught:
        call()
    named = re.findall(r"raise --(device|host)-memory to at least (\d+)MiB, \d+MiB of it for the", str(caught.value))
    assert named, caught.value
    return replace(given, **{f"{kind}_bytes": int(mebibytes) << 20 for kind, mebibytes in named})
