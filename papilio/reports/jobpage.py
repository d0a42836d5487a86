"""The page of one job, and the sections that it shares with the page of an experiment."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import numpy as np

from papilio.errors import StoreError
from papilio.motifs import Listing, motif_from_json
from papilio.reports.figures import Figure, draw_timeline
from papilio.reports.jobs import JobFacts, SessionTimeline
from papilio.reports.page import (
    Html,
    command_block,
    definitions,
    figure_grid,
    note,
    render_page,
    section,
    table,
    tiles,
)
from papilio.reports.timeline import TimelineMeasures
from papilio.storage.names import read_names
from papilio.storage.store import open_store
from papilio.tasks.plan import Decision
from papilio.tasks.worker import WorkerInfo

__all__ = [
    "at",
    "decisions_section",
    "draw_job",
    "graph_pairs",
    "loads_table",
    "machines_section",
    "mib",
    "percent",
    "plural",
    "reproduce_section",
    "seconds",
    "show_job",
]

_MAX_TIMELINES = 8
"""Sessions drawn; the last ones of a job that was resumed more often."""

_MAX_ROWS = 64
"""Workers listed one by one."""


def seconds(value: float) -> str:
    """Return a duration with three digits at least."""
    return f"{value:,.3f} s" if value < 10 else f"{value:,.1f} s"


def percent(value: float) -> str:
    """Return a share in percent."""
    return f"{100 * value:.1f} %"


def mib(n_bytes: int) -> str:
    """Return a size."""
    return f"{n_bytes / 2**30:.2f} GiB" if n_bytes >= 2**30 else f"{n_bytes / 2**20:,.0f} MiB"


def at(time: float) -> str:
    """Return a moment, in one line."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d\u00a0%H:%M:%S\u00a0UTC")


def plural(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def graph_pairs(path: str | None, n_u: int, n_v: int, n_edges: int, graph_hash: str) -> list[tuple[str, str]]:
    """Return the facts of a graph."""
    return [
        ("graph", path or "in memory"),
        ("vertices", f"{n_u:,} x {n_v:,}"),
        ("edges", f"{n_edges:,}"),
        ("content hash", graph_hash),
    ]


def machines_section(workers: Sequence[WorkerInfo]) -> Html:
    """Return the hosts of the workers and what they offer."""
    groups: dict[tuple[Any, ...], int] = {}
    for worker in workers:
        gpu = "none" if worker.gpu is None else f"{worker.gpu}, {mib(worker.gpu_memory_bytes)}"
        key = (worker.host, worker.threads, mib(worker.memory_bytes), gpu, worker.version)
        groups[key] = groups.get(key, 0) + 1
    rows = [
        (host, number, threads, memory, gpu, version)
        for (host, threads, memory, gpu, version), number in groups.items()
    ]
    columns = ("host", "workers", "threads each", "memory each", "GPU", "papilio")
    return section("Machines", table(columns, rows))


def loads_table(measures: TimelineMeasures) -> Html:
    """Return what each worker did: the busiest first where there are many."""
    loads = sorted(measures.loads, key=lambda load: load.worker)
    parts = []
    numbers = {load.worker: number for number, load in enumerate(loads, start=1)}
    if len(loads) > _MAX_ROWS:
        loads = sorted(loads, key=lambda load: -load.busy_s)[:_MAX_ROWS]
        parts.append(note(f"The {_MAX_ROWS} busiest of {len(measures.loads)} workers."))
    rows = [
        (
            f"{numbers[load.worker]}: {load.worker}", f"{load.leases:,}", seconds(load.busy_s),
            percent(load.busy_s / measures.wall_s) if measures.wall_s > 0 else "",
            f"{load.work:,}", mib(load.peak_bytes), mib(load.device_peak_bytes),
        )
        for load in loads
    ]  # fmt: skip
    columns = ("worker", "leases", "busy", "of the run", "work", "peak memory", "peak device memory")
    idle = measures.n_workers - len(measures.loads)
    if idle:
        parts.append(note(f"{plural(idle, 'worker')} finished no lease."))
    return Html("\n".join([table(columns, rows), *parts]))


def decisions_section(decisions: Iterable[Decision]) -> Html:
    """Return the decisions of the plan with their reasons."""
    rows = [(f"{each.number}. {each.what}", each.reason) for each in decisions]
    return section("Decisions of the plan", table(("decision", "reason"), rows, text_columns=2))


def reproduce_section(command: str, versions: Mapping[str, str]) -> Html:
    """Return the command that measures the same again, and the versions that ran."""
    text = ", ".join(f"{name} {version}" for name, version in versions.items())
    return section("To reproduce", command_block(command), note(f"Versions: {text}"))


def draw_job(facts: JobFacts) -> list[Figure]:
    """Return one timeline for each of the last sessions that finished leases."""
    drawn = [each for each in facts.timelines if each.spans][-_MAX_TIMELINES:]
    return [
        draw_timeline(
            f"leases-{each.session.number}",
            f"Leases of session {each.session.number}, by worker: "
            f"{plural(len(each.spans), 'lease')} on {plural(each.session.workers, 'worker')}.",
            each.spans,
            each.session.workers,
        )
        for each in drawn
    ]


def show_job(facts: JobFacts, figures: Sequence[Figure]) -> str:
    """Return the page of a job.

    Parameters
    ----------
    facts : JobFacts
    figures : sequence of Figure
        Of :func:`draw_job`; without them the page says that they were left out.
    """
    status, result, plan = facts.status, facts.result, facts.plan
    name = status.motif["name"]
    parts = [_summary(facts)]
    if status.state != "finished":
        parts.insert(
            0,
            note(f"This job is {status.state}: what follows is what its ledger holds so far.", warning=True),
        )
    job = None if plan is None else plan.job
    pairs: list[tuple[str, object]] = [("motif", motif_from_json(status.motif).title)]
    pairs.append(("per", status.per) if status.listing is None else ("asked", status.title))
    if job is not None:
        pairs += graph_pairs(status.source, job.n_u, job.n_v, job.n_edges, status.graph_hash)
    pairs += [("plan", status.plan_key or "not yet made"), ("directory", status.path)]
    done = "count" if status.listing is None else "listing"
    question = "What was counted" if status.listing is None else "What was listed"
    sections = [section("Summary", *parts), section(question, definitions(pairs))]
    if result is not None:
        rows = [(phase, seconds(value)) for phase, value in result.seconds.items()]
        sections.append(
            section("Seconds of the session that finished the job", table(("phase", "time"), rows))
        )
    last = next((each for each in reversed(facts.timelines) if each.spans), None)
    if last is not None:
        drawn = [figure_grid(figures, wide=True)] if figures else [note("The figures were left out.")]
        sections.append(section("Leases", *drawn))
        sections.append(section(f"Workers of session {last.session.number}", loads_table(last.measures)))
    sections.append(_sessions_section(facts.timelines))
    sections += _failures(facts)
    if result is not None:
        sections.append(machines_section(result.workers))
    if plan is not None:
        sections.append(decisions_section(plan.decisions))
    sections.append(reproduce_section(_command(facts), {"papilio": facts.version}))
    title = (
        f"{name.capitalize()} {done}"
        if status.per == "total"
        else f"{name.capitalize()} count per {status.per}"
    )
    subtitle = f"{status.source or 'a graph in memory'}, begun {at(status.created_at)}"
    return render_page(title, status.state, subtitle, sections)


def _summary(facts: JobFacts) -> Html:
    status, result = facts.status, facts.result
    pairs: list[tuple[str, object]] = []
    if result is not None:
        pairs += [
            ("count" if status.listing is None else "rows", f"{result.count:,}"),
            ("seconds in all", seconds(result.seconds["total"])),
            (f"{result.work_unit} per second", f"{result.work_per_second:,.0f}"),
        ]
    else:
        share = "not yet known" if not status.items else percent(min(status.share, 0.999))
        pairs.append(("done", share))
    pairs.append(("leases", f"{status.leases:,}"))
    last = next((each for each in reversed(facts.timelines) if each.spans), None)
    if last is not None:
        pairs += [("workers", last.session.workers), ("lease overhead", percent(last.measures.overhead))]
        pairs += [("tail", seconds(last.measures.tail_s)), ("balance", f"{last.measures.balance:.2f}")]
        peak = max(load.peak_bytes for load in last.measures.loads)
        pairs.append(("peak memory of a worker", mib(peak if result is None else result.peak_memory_bytes)))
        device_peak = max(load.device_peak_bytes for load in last.measures.loads)
        if device_peak:
            pairs.append(("peak device memory of a worker", mib(device_peak)))
    return tiles(pairs)


def _sessions_section(timelines: Sequence[SessionTimeline]) -> Html:
    rows = []
    for each in timelines:
        session, measures = each.session, each.measures
        rows.append(
            (
                session.number, session.host, session.outcome or "running or killed", at(session.began_at),
                session.workers, f"{session.leases:,}", seconds(measures.wall_s), percent(measures.overhead),
                seconds(measures.tail_s), f"{measures.balance:.2f}",
            )
        )  # fmt: skip
    columns = (
        "session",
        "host",
        "outcome",
        "began",
        "workers",
        "leases",
        "run",
        "overhead",
        "tail",
        "balance",
    )
    if not rows:
        return section("Sessions", note("No session has handed out leases yet."))
    return section("Sessions", table(columns, rows, text_columns=4))


def _failures(facts: JobFacts) -> list[Html]:
    """Return a section of the sessions that did not finish, if there are any."""
    rows = []
    for each in facts.timelines:
        session = each.session
        last = session is facts.timelines[-1].session
        if session.outcome == "finished" or (last and facts.status.state == "running"):
            continue
        rows.append((session.number, session.outcome or "killed, or lost with its machine"))
    return [section("Failures", table(("session", "what ended it"), rows, text_columns=2))] if rows else []


def _command(facts: JobFacts) -> str:
    """Return the command that asks the same question."""
    status = facts.status
    motif, *flags = motif_from_json(status.motif).words
    if status.listing is None:
        words = ["papilio", "count", motif, status.source or "GRAPH", *flags, "--per", status.per]
    else:
        words = ["papilio", "enumerate", motif, status.source or "GRAPH", *flags, *_listing_words(facts)]
    if facts.timelines:
        session = facts.timelines[-1].session
        words += ["--engine", session.engine, "--workers", str(session.workers)]
        if session.cluster in ("inline", "local", "cuda"):
            words += ["--cluster", session.cluster]
    return shlex.join(words)


def _listing_words(facts: JobFacts) -> list[str]:
    """Return the flags of a listing, with the labels of the vertices that were asked for where they can be read."""
    listing = Listing(**(facts.status.listing or {}))
    held: tuple[list[Any], list[Any]] = list(listing.with_u), list(listing.with_v)
    if facts.status.source is not None and (listing.with_u or listing.with_v):
        with suppress(StoreError):
            store = open_store(facts.status.source)
            names = read_names(store, *(np.array(ids, np.int32) for ids in held))
            held = names.u.to_pylist(), names.v.to_pylist()
    words = ["--no-limit"] if listing.limit is None else ["--limit", str(listing.limit)]
    for flag, labels in zip(("--with-u", "--with-v"), held, strict=True):
        words += [word for label in labels for word in (flag, str(label))]
    output = facts.result.output if facts.result is not None else None
    return [*words, "--output", output or "DIR"]
