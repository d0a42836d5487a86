"""The page of one job."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from papilio.errors import StoreError
from papilio.families import family_of
from papilio.questions import Listing, motif_from_json
from papilio.reports.figures import Figure, draw_timeline
from papilio.reports.jobs import JobFacts
from papilio.reports.page import render_page, show_moment
from papilio.storage.location import is_url
from papilio.storage.names import read_names
from papilio.storage.store import open_store
from papilio.wording import plural

_MAX_TIMELINES = 8
"""Sessions drawn; the last ones of a job that was resumed more often."""


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
    """Return the page of a job; without the figures of :func:`draw_job` it says that they were left out."""
    status, name = facts.status, facts.status.motif["name"].capitalize()
    if status.listing is not None:
        title = f"{name} listing"
    else:
        title = f"{name} count" if status.per == "total" else f"{name} count per {status.per}"
    return render_page(
        "job.html",
        title=title,
        state=status.state,
        subtitle=f"{status.source or 'a graph in memory'}, begun {show_moment(status.created_at)}",
        status=status,
        motif=motif_from_json(status.motif).title,
        plan=facts.plan,
        result=facts.result,
        timelines=facts.timelines,
        last=next((each for each in reversed(facts.timelines) if each.spans), None),
        failures=facts.failures,
        figures=figures,
        command=_command(facts),
        version=facts.version,
    )


def _command(facts: JobFacts) -> str:
    """Return the command that asks the same question, into a job directory beside this one."""
    status, verb = facts.status, "count" if facts.status.listing is None else "enumerate"
    motif, *flags = motif_from_json(status.motif).words
    words = ["papilio", verb, motif, _absolute(status.source or "GRAPH"), *flags]
    words += ["--per", status.per] if status.listing is None else _listing_words(facts)
    if facts.plan is not None:
        words += [word for name, value in facts.plan.job.options for word in (f"--{name}", value)]
    if facts.timelines:
        session = facts.timelines[-1].session
        words += ["--engine", session.engine, "--workers", str(session.workers)]
        if session.cluster in ("inline", "local", "cuda"):
            words += ["--cluster", session.cluster]
    return shlex.join([*words, "--job", f"{os.path.abspath(status.path)}-again"])


def _absolute(path: str) -> str:
    return path if is_url(path) or path == "GRAPH" else os.path.abspath(path)


def _listing_words(facts: JobFacts) -> list[str]:
    """Return the flags of a listing, with the labels of the vertices that were asked for where they can be read."""
    listing = Listing(**(facts.status.listing or {}))
    held: tuple[list[Any], list[Any]] = list(listing.with_u), list(listing.with_v)
    if facts.status.source is not None and (listing.with_u or listing.with_v):
        with suppress(StoreError):
            store = open_store(facts.status.source)
            ids = {layer: np.array(ids, np.int32) for layer, ids in zip(("u", "v"), held, strict=True)}
            names = read_names(store, ids)
            held = names["u"].to_pylist(), names["v"].to_pylist()
    words = ["--no-limit"] if listing.limit is None else ["--limit", str(listing.limit)]
    kind = family_of(motif_from_json(facts.status.motif)).graph_kind
    flags = ("--with-u", "--with-v") if kind == "bipartite" else ("--containing",) * 2
    for flag, labels in zip(flags, held, strict=True):
        words += [word for label in labels for word in (flag, str(label))]
    output = facts.result.output if facts.result is not None else None
    return [*words, "--output", f"{os.path.abspath(output)}-again" if output else "DIR"]
