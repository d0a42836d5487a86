"""Every error says whether the lease that raised it is to blame."""

from __future__ import annotations

import errno

import pytest

from papilio import errors
from papilio.errors import FAULTS, ExecutionError, LeaseTooLargeError, PapilioError, fault_of


def kinds_below(kind: type[PapilioError]) -> set[type[PapilioError]]:
    return {kind}.union(*(kinds_below(each) for each in kind.__subclasses__()))


def test_each_class_is_classified_and_drawn() -> None:
    kinds = {kind for kind in kinds_below(PapilioError) if kind.__module__ == errors.__name__}
    assert {kind for kind in FAULTS if issubclass(kind, PapilioError)} == kinds
    assert errors.__doc__ is not None
    assert all(f" {kind.__name__} " in errors.__doc__ for kind in kinds - {PapilioError})


def test_only_in_doubt_is_the_lease_held_to_be_the_cause() -> None:
    assert {kind for kind, fault in FAULTS.items() if fault == "lease"} == {ExecutionError, Exception}
    assert {kind for kind, fault in FAULTS.items() if fault == "size"} == {LeaseTooLargeError}


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (ValueError("a bug"), "lease"),
        (OSError(errno.EMFILE, "too many open files"), "worker"),
        (FileNotFoundError("gone"), "worker"),
        (MemoryError(), "run"),
    ],
)
def test_errors_of_others_are_classified_by_their_nearest_class(error: Exception, fault: str) -> None:
    assert fault_of(error) == fault
