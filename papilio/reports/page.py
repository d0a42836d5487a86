"""Write the report of a job or of an experiment: its page, its figures, and its data as Parquet and JSON.

A page is one file that is HTML and well-formed XML alike: all text in it is escaped, figures are data URIs, the style
is inline, and its content security policy forbids every request.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from papilio.arguments import plural, show_bytes, show_share
from papilio.charts import require_matplotlib
from papilio.errors import StoreError
from papilio.motifs import Listing, motif_from_json
from papilio.registry import motif_row
from papilio.reports.experiment import EXPERIMENT_FILE, ExperimentDirectory, Mode, RunRecord, absolute
from papilio.reports.figures import Figure, draw_efficiency, draw_speedup, draw_timeline, draw_times
from papilio.reports.measure import (
    SHORT_S,
    Point,
    counting_s,
    gather_points,
    read_run,
    read_timeline,
    rows_of,
)
from papilio.reports.timeline import LEASE_COLUMNS, JobFacts, lease_rows, read_job
from papilio.storage.answers import ColumnType, write_rows
from papilio.storage.files import atomic_file, check_replaceable, local_path
from papilio.storage.ledger import write_durably
from papilio.storage.records import write_record
from papilio.storage.store import open_store
from papilio.storage.vertex_names import read_names
from papilio.system_errors import explain
from papilio.tasks.job import LeaseResult
from papilio.tasks.machine import WorkerInfo

_MAX_ROWS = 64
"""Largest number of workers listed one by one."""

_NOT_XML = re.compile("[^\\t\\n\\r\\u0020-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
"""Characters that XML documents cannot contain."""


def _machines(workers: Iterable[WorkerInfo]) -> list[tuple[Any, ...]]:
    found = Counter(
        (
            worker.host,
            worker.threads,
            show_bytes(worker.memory_bytes),
            "none" if worker.gpu is None else f"{worker.gpu}, {show_bytes(worker.gpu_memory_bytes)}",
            worker.version,
        )
        for worker in workers
    )
    return [(host, number, *offer) for (host, *offer), number in found.items()]


def show_moment(time: float) -> str:
    """Return a moment, given in seconds since 1970, in one line."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d\u00a0%H:%M:%S\u00a0UTC")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("papilio.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"MAX_ROWS": _MAX_ROWS, "SHORT_S": SHORT_S}
    environment.filters |= {
        "base64": lambda content: b64encode(content).decode(),
        "counting": counting_s,
        "machines": _machines,
        "median": median,
        "show_bytes": show_bytes,
        "moment": show_moment,
        "number": "{:,}".format,
        "percent": lambda share: f"{100 * share:.1f} %",
        "plural": plural,
        "share": show_share,
        "seconds": lambda value: f"{value:,.3f} s" if value < 10 else f"{value:,.1f} s",
    }
    return environment


def render_page(template: str, *, title: str, state: str, subtitle: str, **facts: Any) -> str:
    """Return the page of a template that extends ``page.html``, which shows ``facts``.

    Any state but ``finished`` is marked. Control characters, which are invalid in XML, become U+FFFD.
    """
    page = _environment().get_template(template)
    return _NOT_XML.sub("\ufffd", page.render(title=title, state=state, subtitle=subtitle, **facts))


_MAX_TIMELINES = 8
"""Largest number of sessions drawn, the last ones."""


def draw_job(facts: JobFacts) -> list[Figure]:
    """Return one timeline for each of the last sessions that finished leases."""
    drawn = [each for each in facts.timelines if each.leases][-_MAX_TIMELINES:]
    return [
        draw_timeline(
            f"leases-{each.session.number}",
            f"Leases of session {each.session.number}, by worker: "
            f"{plural(len(each.leases), 'lease')} on {plural(each.session.workers, 'worker')}.",
            each.leases,
            each.session.workers,
        )
        for each in drawn
    ]


def show_job(facts: JobFacts, figures: Sequence[Figure]) -> str:
    """Return the page of a job; without the figures of :func:`draw_job` it notes that they were left out."""
    status, name = facts.status, facts.status.motif["name"].capitalize()
    if status.listing is not None:
        title = f"{name} listing"
    elif status.ensemble is not None:
        title = f"{name} count compared with random graphs"
    else:
        title = f"{name} count" if status.per == "total" else f"{name} count per {status.per}"
    return render_page(
        "job.html",
        title=title,
        state=status.state,
        subtitle=f"{status.source or 'a graph in memory'}, started {show_moment(status.created_at)}",
        status=status,
        motif=motif_from_json(status.motif).title,
        plan=facts.plan,
        result=facts.result,
        timelines=facts.timelines,
        last=next((each for each in reversed(facts.timelines) if each.leases), None),
        failures=facts.failures,
        figures=figures,
        command=_command(facts),
        version=facts.version,
    )


def _command(facts: JobFacts) -> str:
    """Return the command for the same question, with a job directory next to this one."""
    status, verb = facts.status, "count" if facts.status.listing is None else "enumerate"
    ensemble = {} if status.ensemble is None else status.ensemble
    if ensemble:
        verb = "significance"
    motif, *flags = motif_from_json(status.motif).words
    words = ["papilio", verb, motif, "GRAPH" if status.source is None else absolute(status.source), *flags]
    words += ["--per", status.per] if status.listing is None else _listing_words(facts)
    for name in ("null", "samples", "seed", "steps"):
        if ensemble.get(name):
            words += [f"--{name}", str(ensemble[name])]
    if facts.plan is not None:
        words += [word for name, value in facts.plan.job.options for word in (f"--{name}", value)]
    if facts.timelines:
        session = facts.timelines[-1].session
        words += ["--engine", session.engine, "--workers", str(session.workers)]
        if session.cluster in ("inline", "local", "cuda"):
            words += ["--cluster", session.cluster]
    return shlex.join([*words, "--job", f"{os.path.abspath(status.path)}-again"])


def _listing_words(facts: JobFacts) -> list[str]:
    """Return the flags of a listing, with the labels of the requested vertices if they can be read."""
    listing = Listing(**(facts.status.listing or {}))
    held: tuple[list[Any], list[Any]] = list(listing.with_u), list(listing.with_v)
    if facts.status.source is not None and (listing.with_u or listing.with_v):
        with suppress(StoreError):
            store = open_store(facts.status.source)
            ids = {layer: np.array(ids, np.int32) for layer, ids in zip(("u", "v"), held, strict=True)}
            names = read_names(store, ids)
            held = names["u"].to_pylist(), names["v"].to_pylist()
    words = [] if listing.limit is None else ["--limit", str(listing.limit)]
    kind = motif_row(motif_from_json(facts.status.motif)).graph_kind
    flags = ("--with-u", "--with-v") if kind == "bipartite" else ("--containing",) * 2
    for flag, labels in zip(flags, held, strict=True):
        words += [word for label in labels for word in (flag, str(label))]
    output = facts.result.output if facts.result is not None else None
    return [*words, "--output", f"{os.path.abspath(output)}-again" if output else "DIR"]


def draw_scaling(points: Sequence[Point], mode: Mode, timelines: Mapping[int, Sequence[LeaseResult]]) -> list[Figure]:
    """Return speed-up, efficiency, times, and the timeline of the middle run of every point."""
    if not points:
        return []
    figures = [draw_speedup(points), draw_efficiency(points), draw_times(points, mode)]
    for point in points:
        caption = (
            f"Leases by worker with {plural(point.workers, 'worker')}: {plural(point.middle.leases, 'lease')} in the "
            f"run of median time (repetition {point.middle.repeat})."
        )
        leases = timelines[point.workers]
        figures.append(draw_timeline(f"leases-w{point.workers}", caption, leases, point.workers))
    return figures


_PAGE = "report.html"

_RUN_COLUMNS: dict[str, ColumnType] = {
    "workers": "int", "repeat": "int", "count": "text",
    **{f"seconds_{phase}": "float" for phase in
       ("start", "plan", "read", "prepare", "run", "fold", "write", "total", "counting")},
    "work": "int", "work_unit": "text", "work_per_second": "float", "speedup": "float", "efficiency": "float",
    "leases": "int", "lease_overhead": "float", "tail_s": "float", "balance": "float", "busy_s": "float",
    "run_wall_s": "float", "peak_memory_bytes": "int", "engine": "text", "cluster": "text", "hosts": "text",
    "graph_hash": "text", "n_edges": "int", "began_at": "float", "versions": "text", "job": "text",
}  # fmt: skip


def write_report(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    overwrite: bool = False,
    figures: bool = True,
) -> Path:
    """Write the report of a job directory or of a scaling experiment, finished or not; return its page.

    The report is written to the directory ``output``, which is made if its parent exists, by default to ``report`` in
    ``path``, which is overwritten. Figures need matplotlib. EngineUnavailableError if figures are requested without
    matplotlib. ExecutionError if runs of an experiment on the same graph have different counts. StoreError if the
    directory is neither or is damaged, or the report cannot be written.
    """
    root = local_path(path)
    if figures:
        require_matplotlib()
    if (root / EXPERIMENT_FILE).is_file():
        directory = ExperimentDirectory(root)
        return _write_scaling(directory, _output_directory(root, output, overwrite), figures)
    if not (root / "job.json").is_file():
        raise StoreError(f"{root} is neither a job directory nor a scaling experiment")
    return _write_job(root, _output_directory(root, output, overwrite), figures)


def _output_directory(root: Path, output: str | os.PathLike[str] | None, overwrite: bool) -> Path:
    target = root / "report"
    if output is not None:
        target = local_path(output)
        check_replaceable(target, overwrite, _PAGE)
    try:
        target.mkdir(exist_ok=True)
    except OSError as error:
        raise StoreError(f"{target}: cannot be created {explain(error, 'or choose another output')}") from error
    return target


def _write_scaling(directory: ExperimentDirectory, target: Path, figures: bool) -> Path:
    """Write the report of an experiment, and repeat if runs finish meanwhile: other jobs may write it, too."""
    while True:
        records = directory.finished_runs()
        page = _write_scaling_once(directory, records, target, figures)
        if directory.finished_runs() == records:
            return page


def _write_scaling_once(
    directory: ExperimentDirectory, records: Sequence[RunRecord], target: Path, figures: bool
) -> Path:
    experiment, failed = directory.experiment, directory.failed_runs()
    runs = [read_run(directory, record) for record in records]
    points, n_runs = gather_points(runs), len(experiment.graphs) * experiment.repeat
    timelines = {run.job: read_timeline(directory, run) for run in runs}
    middle = {point.workers: timelines[point.middle.job] for point in points}
    drawn = draw_scaling(points, experiment.mode, middle) if figures else []
    rows, state = (
        rows_of(points),
        "finished" if len(runs) == n_runs else f"{len(runs)} of {n_runs} runs finished",
    )
    write_rows(target / "runs.parquet", _RUN_COLUMNS, rows)
    leases = (row for run in runs for row in lease_rows(timelines[run.job], workers=run.workers, repeat=run.repeat))
    write_rows(target / "leases.parquet", {"workers": "int", "repeat": "int", **LEASE_COLUMNS}, leases)
    results = {
        "experiment": write_record(experiment),
        "state": state,
        "points": [point.to_dict() for point in points],
        "runs": rows,
        "failures": [asdict(record) for record in failed],
    }
    paths = list(dict.fromkeys(graph.path for graph in experiment.graphs))
    graphs = paths[0] if len(paths) == 1 else f"{len(paths)} graphs, {paths[0]} to {paths[-1]}"
    page = render_page(
        "scaling.html",
        title=f"{experiment.mode.capitalize()} scaling of the {experiment.motif.name} count",
        state=state,
        subtitle=f"{graphs}; begun {show_moment(directory.created_at)}",
        experiment=experiment,
        points=points,
        largest=read_job(directory.root / points[-1].middle.job) if points else None,
        failed=failed,
        figures=drawn,
    )
    return _write_files(target, results, drawn, page)


def _write_job(root: Path, target: Path, figures: bool) -> Path:
    facts = read_job(root)
    drawn = draw_job(facts) if figures else []
    rows = (row for each in facts.timelines for row in lease_rows(each.leases, session=each.session.number))
    write_rows(target / "leases.parquet", {"session": "int", **LEASE_COLUMNS}, rows)
    results = {
        "job": facts.status.to_dict(),
        "result": None if facts.result is None else facts.result.to_dict(),
        "sessions": [{**asdict(each.session), **asdict(each.measures)} for each in facts.timelines],
    }
    return _write_files(target, results, drawn, show_job(facts, drawn))


def _write_files(target: Path, results: Mapping[str, Any], figures: Sequence[Figure], page: str) -> Path:
    """Write the data, the figures and the page, which comes last; remove figures of an earlier report."""
    write_durably(target / "results.json", json.dumps(results, indent=2, ensure_ascii=False) + "\n")
    folder = target / "figures"
    names = {f"{figure.name}.{kind}" for figure in figures for kind in ("svg", "png")}
    try:
        folder.mkdir(exist_ok=True)
        for path in folder.iterdir():
            if path.name not in names:
                path.unlink(missing_ok=True)
        for figure in figures:
            for kind, content in (("svg", figure.svg), ("png", figure.png)):
                with atomic_file(folder / f"{figure.name}.{kind}") as scratch:
                    scratch.write_bytes(content)
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written {explain(error)}") from error
    path = target / _PAGE
    write_durably(path, page)
    return path
