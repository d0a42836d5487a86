"""Write the report of a job or of an experiment: the page, its figures, and the data as Parquet and JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from papilio.charts import require_matplotlib
from papilio.errors import StoreError
from papilio.reports.experiment import EXPERIMENT_FILE, ExperimentDirectory, RunRecord
from papilio.reports.figures import Figure
from papilio.reports.jobpage import draw_job, show_job
from papilio.reports.jobs import read_job, read_run, read_spans, span_rows
from papilio.reports.scalepage import ScalingFacts, draw_scaling, show_scaling
from papilio.reports.scaling import gather_points, rows_of
from papilio.storage.ledger import write_durably
from papilio.storage.location import atomic_file, check_replaceable, local_path
from papilio.storage.records import write_record
from papilio.storage.tables import ColumnType, write_rows

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

_SPAN_COLUMNS: dict[str, ColumnType] = {
    "worker": "text", "partition": "int", "start": "int", "stop": "int", "began_at": "float",
    "ended_at": "float", "run_s": "float", "work": "int", "peak_bytes": "int",
    "device_peak_bytes": "int",
}  # fmt: skip


def write_report(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    overwrite: bool = False,
    figures: bool = True,
) -> Path:
    """Write the report of a job directory or of a scaling experiment, finished or not; return its page.

    It goes to the directory ``output``, which is made if its parent exists, by default to ``report`` in ``path``, which
    is written again. Figures need matplotlib. EngineUnavailableError when figures are asked for and matplotlib is not
    installed. ExecutionError when runs of an experiment on the same graph have different counts. StoreError when the
    directory is neither, or damaged, or the report cannot be written.
    """
    root = local_path(path)
    if figures:
        require_matplotlib()
    if (root / EXPERIMENT_FILE).is_file():
        directory = ExperimentDirectory(root)
        return _write_scaling(directory, _output_directory(root, output, overwrite), figures)
    if not (root / "job.json").is_file():
        raise StoreError(f"{root} is neither a job directory nor a scaling experiment; give one of the two")
    return _write_job(root, _output_directory(root, output, overwrite), figures)


def _output_directory(root: Path, output: str | os.PathLike[str] | None, overwrite: bool) -> Path:
    target = root / "report"
    if output is not None:
        target = local_path(output)
        check_replaceable(target, overwrite, _PAGE)
    try:
        target.mkdir(exist_ok=True)
    except OSError as error:
        raise StoreError(f"{target}: cannot be created ({error.strerror}); choose another output") from error
    return target


def _write_scaling(directory: ExperimentDirectory, target: Path, figures: bool) -> Path:
    """Write the report of an experiment, and again while runs finish: other jobs may write it at the same time."""
    while True:
        records = directory.finished_runs()
        page = _write_scaling_once(directory, records, target, figures)
        if directory.finished_runs() == records:
            return page


def _write_scaling_once(
    directory: ExperimentDirectory, records: Sequence[RunRecord], target: Path, figures: bool
) -> Path:
    runs = [read_run(directory, record) for record in records]
    points = gather_points(runs)
    middle = {point.workers: point.middle for point in points}
    facts = ScalingFacts(
        directory=directory,
        points=points,
        spans={workers: read_spans(directory, run) for workers, run in middle.items()},
        largest=read_job(directory.root / points[-1].middle.job) if points else None,
        n_finished=len(runs),
        failed=directory.failed_runs(),
    )
    drawn = draw_scaling(facts) if figures else []
    rows = rows_of(points)
    write_rows(target / "runs.parquet", _RUN_COLUMNS, rows)
    spans = (
        row
        for run in runs
        for row in span_rows(read_spans(directory, run), workers=run.workers, repeat=run.repeat)
    )
    write_rows(target / "leases.parquet", {"workers": "int", "repeat": "int", **_SPAN_COLUMNS}, spans)
    results = {
        "experiment": write_record(directory.experiment),
        "state": facts.state,
        "points": [point.to_json() for point in points],
        "runs": rows,
        "failures": [asdict(record) for record in facts.failed],
    }
    return _write_files(target, results, drawn, show_scaling(facts, drawn))


def _write_job(root: Path, target: Path, figures: bool) -> Path:
    facts = read_job(root)
    drawn = draw_job(facts) if figures else []
    spans = (row for each in facts.timelines for row in span_rows(each.spans, session=each.session.number))
    write_rows(target / "leases.parquet", {"session": "int", **_SPAN_COLUMNS}, spans)
    results = {
        "job": facts.status.to_json(),
        "result": None if facts.result is None else facts.result.to_json(),
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
        raise StoreError(f"{folder}: cannot be written ({error.strerror or error}); make room") from error
    path = target / _PAGE
    write_durably(path, page)
    return path
