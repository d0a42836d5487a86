"""A worker that the scheduler no longer hears, while it hears others, is silent, and no longer than that."""

from __future__ import annotations

import logging
from threading import Event

import pytest

from papilio.cluster import silence
from papilio.cluster.silence import MOST_LOOK_S, NONE_HEARD, SILENCE_S, Silences, waiting_named


class Clock:
    """A clock that the test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def look(silences: Silences, clock: Clock, seconds: float, **heard_at: float) -> set[str]:
    """Look once a second for some time, and return what the last look finds; without a time, a heartbeat is new."""
    found: set[str] = set()
    for _ in range(round(seconds)):
        clock.now += 1.0
        found = silences.look({name: time if time >= 0 else clock.now for name, time in heard_at.items()})
    return found


NOW = -1.0
"""A heartbeat at each look."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def silences(clock: Clock) -> Silences:
    return Silences(clock)


def test_a_worker_is_silent_after_the_limit_until_it_is_heard(
    clock: Clock, silences: Silences, caplog: pytest.LogCaptureFixture
) -> None:
    assert look(silences, clock, SILENCE_S, heard=NOW, stopped=0.0) == set()
    assert look(silences, clock, 1, heard=NOW, stopped=0.0) == {"stopped"}
    assert look(silences, clock, 60, heard=NOW, stopped=0.0) == {"stopped"}
    assert look(silences, clock, 1, heard=NOW, stopped=NOW) == set()
    assert [record.getMessage() for record in caplog.records] == [
        "papilio: worker stopped has not answered for 10 s; the others do its work until it does",
        "papilio: worker stopped answers again",
    ]


@pytest.mark.parametrize("shift_s", [-86400.0, 86400.0])
def test_clocks_need_not_agree(clock: Clock, silences: Silences, shift_s: float) -> None:
    for _ in range(60):
        clock.now += 1.0
        assert not silences.look({"heard": clock.now + shift_s, "late": clock.now - shift_s})


def test_nobody_is_silent_where_nobody_is_heard(
    clock: Clock, silences: Silences, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning says what the run waits for, another one that this is over; who was silent before still is."""
    assert look(silences, clock, 20, early=0.0, late=NOW) == {"early"}
    caplog.clear()
    assert look(silences, clock, 60, early=0.0, late=0.0) == set()
    assert look(silences, clock, 1, early=0.0, late=NOW) == {"early"}
    assert look(silences, clock, 1, early=NOW, late=NOW) == set()
    assert look(silences, clock, 1) == set()
    assert [record.getMessage() for record in caplog.records] == [
        NONE_HEARD % SILENCE_S,
        "papilio: a worker answers again",
        "papilio: worker early answers again",
    ]


def test_a_pause_of_this_process_makes_nobody_silent(clock: Clock, silences: Silences) -> None:
    look(silences, clock, 2, one=NOW, other=NOW)
    seen = clock.now
    clock.now += 3600.0
    assert silences.look({"one": clock.now, "other": seen}) == set()
    assert MOST_LOOK_S < SILENCE_S


def test_large_clusters_have_rarer_heartbeats(clock: Clock, silences: Silences) -> None:
    others = {f"w{number}": NOW for number in range(1000)}
    assert look(silences, clock, 60, stopped=0.0, **others) == set()
    assert look(silences, clock, 2, stopped=0.0, **others) == {"stopped"}


def test_a_scheduler_that_does_not_answer_is_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with waiting_named():
        pass
    assert not caplog.records
    monkeypatch.setattr(silence, "SILENCE_S", 0.0)
    said, messages = Event(), list[str]()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())
            said.set()

    listener = Listener()
    logging.getLogger("papilio").addHandler(listener)
    try:
        with waiting_named():
            assert said.wait(300)
    finally:
        logging.getLogger("papilio").removeHandler(listener)
    assert messages == ["papilio: the scheduler has not answered for 0 s; waiting for it"]
