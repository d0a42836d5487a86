"""Answers as text: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Any

import click

from papilio.arguments import plural, show_bytes, visible
from papilio.cluster.progress import ProgressBar
from papilio.motifs import Cell, CensusClass, rows_by_class

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from papilio.api.estimate import Estimate
    from papilio.partitioning.partition import PartitionManifest
    from papilio.storage.reading import Conversion, Reading
    from papilio.storage.store import GraphStore
    from papilio.tasks.plan import CountPlan
    from papilio.tasks.result import CountResult, ListingResult
    from papilio.tasks.significance import SignificanceResult
    from papilio.tasks.significances import SignificanceResults

MATRIX_WIDTH = 120
"""Maximum width, in columns of text, of a table of counts written as a matrix."""


AT_LEAST = 9
"""Exit code of an estimate that few probes carry."""

QUIET, VERBOSE = "papilio.quiet", "papilio.verbose"
"""Keys in the context of a command that prints only the answer and errors, or everything."""


def _is(key: str) -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and key in context.meta


def say(text: str) -> None:
    """Write a line on standard error, unless the command is quiet."""
    if not _is(QUIET):
        click.echo(visible(text), err=True)


def put(value: Any, end: str = "\n") -> None:
    """Write a value on standard output, unchanged except on a terminal."""
    text = f"{value}{end}"
    click.echo(visible(text) if sys.stdout.isatty() else text, nl=False, color=True)


def show_progress() -> ProgressBar:
    """Return the progress bar of the command."""
    return ProgressBar(quiet=_is(QUIET), verbose=_is(VERBOSE))


def print_json(data: dict[str, Any]) -> None:
    """Write one JSON object on standard output; integers in full."""
    put(json.dumps(data, ensure_ascii=False))


def answer(result: Any, as_json: bool, write: Callable[[Any], None]) -> None:
    """Write a result as one JSON object, or by ``write`` as text."""
    if as_json:
        print_json(result.to_dict())
    else:
        write(result)


def say_seconds(seconds: Mapping[str, float]) -> None:
    """Print the duration of each phase."""
    say("seconds: " + ", ".join(f"{phase} {value:.3f}" for phase, value in seconds.items()))


def names_in(graph: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of the layers of the graph of an answer, if known."""
    found: dict[str, str] = graph.get("provenance", {}).get("layers", {})
    return found


def _vertices(kind: str, n_u: int, n_v: int, names: Mapping[str, str] | None = None) -> str:
    from papilio.storage.layers import show_sizes

    return f"{n_u:,} vertices" if kind == "unipartite" else show_sizes(n_u, n_v, names or {})


def report_result(result: CountResult | SignificanceResults) -> None:
    """Write a count, a listing or a comparison, and the part of it that the job directory already held."""
    from papilio.tasks.result import ListingResult
    from papilio.tasks.significance import SignificanceResult
    from papilio.tasks.significances import SignificanceResults

    if isinstance(result, SignificanceResults):
        _report_each(result)
        return
    done = "counted"
    if isinstance(result, ListingResult):
        _report_listing(result)
        done = "listed"
    elif isinstance(result, SignificanceResult):
        _report_significance(result)
    else:
        _report_count(result)
    if result.reused:
        say(f"job {result.job_directory}: was already finished; nothing was {done} now")
    elif result.leases_before:
        say(f"job {result.job_directory}: resumed; {result.leases_before} leases were {done} before")
    elif result.job_directory is not None:
        say(f"job {result.job_directory}: finished")


def _report_count(result: CountResult) -> None:
    from papilio.registry import motif_row

    if not result.motif.is_table:
        put(result.count)
    elif (row := motif_row(result.motif)).classes:
        put("\n".join(class_lines(row.classes, result.table)))
    elif result.output is None:
        put("\n".join(table_lines(result.table, row.key)))
    if result.output is None:
        for entry in result.largest:
            labels = "\t".join(str(label) for label in entry.labels)
            put(f"{entry.place}\t{labels}\t{entry.count}")
    graph = result.graph
    vertices = _vertices(graph["kind"], graph["n_u"], graph["n_v"], names_in(graph))
    say(f"{result.motif.title}: {result.count:,} in {vertices}, {plural(graph['n_edges'], 'edge')}")
    _say_run(result, "counted")
    if result.output is not None:
        what = "table" if result.motif.is_table else "row" if result.per == "total" else f"counts per {result.per}"
        say(f"{what}: {result.output}")


def _report_listing(result: ListingResult) -> None:
    put(result.output)
    listed = f"{result.rows:,} listed" if result.left is None else f"{result.rows:,} kept of {result.count:,}"
    checked = ", confirmed by a count" if result.checked and result.left is None else ""
    say(f"{result.motif.title}: {listed} in {plural(result.files, 'file')}{checked}")
    if result.limit_reached:
        name, *flags = result.motif.words
        say(
            f"the limit of {result.listing.limit:,} was reached; there may be more. To count them: "
            f"papilio count "
            f"{name} {result.graph['path'] or 'STORE'} {' '.join(flags)}"
        )
    _say_run(result, "listed")


def _report_significance(result: SignificanceResult) -> None:
    if result.per == "vertex" and result.output is None:
        for each in result.top():
            put("\t".join(map(str, (each.place, *each.labels, f"{each.value:.6g}"))))
    if result.per == "total":
        _write_comparisons(result.rows())
    say(result.headline)
    if result.warning:
        say(f"warning: {result.warning}")
    _say_run(result, "counted")
    if result.output is not None:
        what = "samples" if result.per == "total" and not result.cells else "z"
        say(f"{what}: {result.output}")


def _report_each(result: SignificanceResults) -> None:
    if all(each.per == "total" for each in result.values()):
        _write_comparisons(result.rows())
    elif result.output is None:
        for name, each in result.items():
            for entry in each.top():
                put("\t".join(map(str, (name, entry.place, *entry.labels, f"{entry.value:.6g}"))))
    say(result.headline)
    for name, warning in result.warnings.items():
        say(f"warning: {name}: {warning}")
    if result.output is not None:
        say(f"z: {result.output}")


def _write_comparisons(rows: list[dict[str, Any]]) -> None:
    if rows:
        put("\n".join(align([[*rows[0]], *([show_number(value) for value in row.values()] for row in rows)])))


def show_number(value: Any) -> str:
    """Return a value as text: an integer with all digits, a float with six, and a dash if it is undefined."""
    return "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _say_run(result: CountResult, done: str) -> None:
    say(
        f"engine {result.engine}, {plural(len(result.workers), 'worker')} ({result.cluster}), "
        f"{plural(result.items, 'work item')} in {plural(result.leases, 'lease')}, each {done} once"
    )
    rate, now = result.work_per_second, result.work - result.work_before
    counted = "" if rate is None or not result.work_before else f", {now:,} of them now"
    per_second = "" if rate is None else f": {rate:,.0f} per second of the phase run"
    say(f"{result.work:,} {result.work_unit}{counted}{per_second}")
    say_seconds(result.seconds)


def table_lines(table: Mapping[Cell, int], key: Sequence[str] = ("p", "q")) -> list[str]:
    """Return a table of counts by size: a matrix if there are two sizes and it fits on a line, else a line for each
    cell.

    All digits are written. Cells that are 0 are left out; in a matrix they are ``0``.
    """
    rows, columns = sorted({cell[0] for cell in table}), sorted({cell[-1] for cell in table})
    if len(key) == 2 and len(rows) > 1 and 2 <= len(columns) <= MATRIX_WIDTH // 3:
        lines = _set_flush(
            [[" \\ ".join(key), *map(str, columns)]]
            + [[str(p), *(str(table.get((p, q), 0)) for q in columns)] for p in rows]
        )
        if len(lines[0]) <= min(MATRIX_WIDTH, _terminal_width()):
            return lines
    sides = _set_flush([[*key], *([str(size) for size in cell] for cell in sorted(table))])
    counts = ["count", *(str(table[cell]) for cell in sorted(table))]
    return [f"{side}  {count}" for side, count in zip(sides, counts, strict=True)]


def class_lines(classes: tuple[CensusClass, ...], table: Mapping[Cell, int]) -> list[str]:
    """Return the counts and shares of the classes, then of the groups, one per line."""
    rows = rows_by_class(classes, table)
    groups = {each.group: (0, 0.0) for each, _, _ in rows}
    for each, count, share in rows:
        groups[each.group] = (groups[each.group][0] + count, groups[each.group][1] + share)
    lines = [[each.group, each.name, str(count), f"{share:.2%}"] for each, count, share in rows]
    lines += [[group, "all", str(count), f"{share:.2%}"] for group, (count, share) in groups.items()]
    return align([["group", "class", "count", "share"], *lines])


def align(rows: list[list[str]], *, left: bool = False) -> list[str]:
    """Return rows of cells as lines, with each column set flush right, or ``left``; the first row has the names.

    Where these lines do not fit in the terminal, each cell has a line of its own, after its name.
    """
    lines = _set_flush(rows, left=left)
    if max(map(len, lines), default=0) <= _terminal_width():
        return lines
    names, *rest = rows
    indent = max(map(len, names))
    blocks = [[f"{name:<{indent}}  {cell}" for name, cell in zip(names, row, strict=True)] for row in rest]
    return [line for block in blocks for line in (*block, "")][:-1]


def _set_flush(rows: list[list[str]], *, left: bool = False) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    set_in = str.ljust if left else str.rjust
    return ["  ".join(map(set_in, row, widths)).rstrip() for row in rows]


def _terminal_width() -> float:
    """Return the columns of the terminal that shows the answer; infinite for a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else inf


def report_estimate(result: Estimate) -> None:
    """Write an estimate with its interval, its lower end alone, or the count if the search ran in full."""
    where = f"engine {result.engine} ({result.cluster})"
    low, high = result.interval
    if result.exact is not None:
        put(result.exact)
        say(f"{result.sentence}; {where}")
    else:
        put(f"{result.count:.6g}\t{low:.6g}\t{high:.6g}" if result.is_reliable else f">= {low:.6g}")
        say(result.sentence)
        say(
            f"{plural(result.probes, 'probe')}, equivalent to {result.effective_probes:,.0f} of equal weight; the "
            f"heaviest is {result.largest_share:.2%} of the estimate, {result.count:.4g}; seed {result.seed}, {where}"
        )
    if result.warning:
        say(f"warning: {result.warning}")
    say_seconds(result.seconds)


def report_plan(made: CountPlan) -> None:
    """Write a plan."""
    put("\n".join(plan_lines(made)))


def plan_lines(made: CountPlan) -> list[str]:
    """Return the lines of a plan, one per subject."""
    job, memory = made.job, made.memory
    work = [lease.work for lease in made.leases]
    return [
        f"plan        {made.key}",
        f"question    {job.title}" + "".join(f", {name} {value}" for name, value in job.options),
        f"graph       {job.source}: {_vertices(job.kind, job.n_u, job.n_v)}, {plural(job.n_edges, 'edge')}",
        f"tasks       {plural(len(made.leases), 'lease')} for {plural(made.n_workers, 'worker')}, engine {made.engine}",
        f"work        {plural(made.n_items, 'item')}, {made.total_work:,} {made.work_unit}",
        f"time        {_time_of(made)}",
        *_rows_of(made),
        f"leases      {max(work, default=0) / 1e9:.3g} to {min(work, default=0) / 1e9:.3g} s each",
        f"memory      about {show_bytes(memory.host_bytes)} on a worker, {show_bytes(memory.device_bytes)} on its "
        f"device, {show_bytes(memory.client_bytes)} here",
        "decisions",
        *(f"  {decision.number}. {decision.what}: {decision.reason}" for decision in made.decisions),
    ]


def _time_of(made: CountPlan) -> str:
    """Return the predicted time of the run, on one worker and on all."""
    run_s = made.run_s
    if run_s is None:
        return f"not predicted; {made.predicted_run_s:.3g} s at the rate of the engine"
    alone = "" if made.n_workers == 1 else f", {run_s.scaled(made.n_workers).show('s')} on one worker"
    return f"about {run_s.show('s')}{alone}"


def _rows_of(made: CountPlan) -> list[str]:
    """Return the predicted size of a listing; empty if there is no prediction."""
    rows, n_bytes = made.listing_rows, made.listing_bytes
    if rows is None or n_bytes is None:
        return []
    value, low, high = (show_bytes(round(each)) for each in (n_bytes.value, n_bytes.low, n_bytes.high))
    return [f"rows        about {rows.show()}, {value} of files ({low} to {high})"]


def partition_lines(manifest: PartitionManifest) -> list[str]:
    """Return the description of a partition, one line per subject."""
    parts = manifest.parts
    lines = [
        f"{plural(len(parts), 'part')} by {manifest.strategy} of a graph of {plural(manifest.n_edges, 'edge')}, "
        f"hash {manifest.hash}",
        f"replication {manifest.replication:.3f}: {sum(part.sizes.edges for part in parts):,} edges are read, "
        f"{manifest.stored_edges:,} are stored",
    ]
    if parts:
        worst = max(parts, key=lambda part: part.nbytes)
        lines.append(
            f"largest part {worst.index}: {plural(worst.n_items, 'item')}, {plural(worst.sizes.edges, 'edge')}, "
            f"{show_bytes(worst.nbytes)} to read; limit of a running part {show_bytes(manifest.part_bytes_limit)}"
        )
    lines += [f"{what}: {reason}" for what, reason in manifest.decisions]
    spent = ", ".join(f"{step} {seconds:.3f}" for step, seconds in manifest.seconds.items())
    return [*lines, f"seconds: {spent}; peak memory {show_bytes(manifest.peak_bytes)}"]


def report_store(store: GraphStore, as_json: bool) -> None:
    """Write the path of a new store, then a description and the dropped input; or its manifest as JSON."""
    from papilio.storage.reading import first_line, show_dropped

    manifest = store.manifest
    if as_json:
        print_json({"path": store.path, **json.loads(manifest.to_json())})
        return
    put(store.path)
    provenance = manifest.provenance
    if "format" in provenance:
        how = "forced" if provenance.get("format_forced") else "detected"
        files = provenance.get("source_files", 1)
        several = "" if files == 1 else f"{files:,} files "
        say(f"{several}read as {provenance['format']} ({how}), compression {provenance.get('compression') or 'none'}")
    read = provenance.get("layout", {}).get("read", {})
    if read:
        roles = {"u": "U", "v": "V"}
        columns = [f"{roles.get(role, role)} is {column}" for role, column in read.items()]
        say("columns: " + ", ".join(filter(None, [*columns, first_line(manifest)])))
    for note in provenance.get("notes", ()):
        say(f"note: {note}")
    say(
        f"{manifest.kind} graph, {store.n_u:,} x {store.n_v:,} vertices, {plural(store.n_edges, 'edge')}, "
        f"hash {store.hash}"
    )
    if lines := _lines_of(provenance):
        say(f"lines: {lines}")
    say(f"dropped: {show_dropped(manifest)}")


def say_reading(reading: Reading) -> None:
    """Write how a file of edges was read: one line, then notes; only doubts if a cached conversion is used."""
    say(reading.line)
    provenance, doubts = reading.store.manifest.provenance, reading.doubts
    for note in doubts if reading.reused else provenance.get("notes", ()):
        say(f"note: {note}")
    if doubts:
        say("to read it differently: flags such as --u, --v and --header; see papilio convert --help")


def conversion_lines(conversions: Sequence[Conversion], now_s: float) -> list[str]:
    """Return a header line, and a line for each conversion in the cache."""
    rows = [["bytes", "last used", "state", "read as", "source"]]
    for each in conversions:
        options = [f"{name}={value}" for name, value in each.options.items()]
        how = " ".join([each.kind or "unknown", *options])
        age = f"{max(0.0, now_s - each.used_s) / 86_400:.1f} days ago"
        rows.append([show_bytes(each.n_bytes), age, each.state, how, each.source or each.path])
    return align(rows, left=True)


_LINE_KINDS = ("records", "continuation", "blank", "comments", "header", "malformed")


def _lines_of(provenance: Mapping[str, Any]) -> str:
    """Return the lines of a text input by kind, ``2,001 = 2,000 records + 1 header``; empty for other inputs."""
    lines = provenance.get("lines") or {}
    physical = lines.get("physical", 0)
    parts = [f"{lines[kind]:,} {kind}" for kind in _LINE_KINDS if lines.get(kind)]
    return f"{physical:,} = {' + '.join(parts)}" if physical else ""


def info_lines(described: dict[str, Any]) -> list[str]:
    """Return the description of a store, one line per subject."""
    density, signs = described["density"], described["signs"]
    lines = [
        f"path        {described['path']}",
        f"kind        {described['kind']}, {'signed' if described['signed'] else 'unsigned'}",
        f"vertices    {described['n_u']:,}" + (f" x {described['n_v']:,}" if described["kind"] == "bipartite" else ""),
        f"edges       {described['n_edges']:,}",
        f"density     {'none' if density is None else format(density, '.6g')}",
    ]
    for layer, degrees in described["degrees"].items():
        quantiles = ", ".join(f"{float(q):.0%} {value:,}" for q, value in degrees["quantiles"].items())
        lines.append(
            f"degrees {layer}   max {degrees['max']:,}, mean {degrees['mean']:.3f}, {quantiles}, "
            f"isolated {degrees['isolated']:,}"
        )
    if signs is not None:
        lines.append(f"signs       {signs['positive']:,} positive, {signs['negative']:,} negative")
    dropped = ", ".join(f"{number:,} {reason}" for reason, number in described["dropped"].items() if number)
    if kinds := _lines_of(described["provenance"]):
        lines.append(f"lines       {kinds}")
    lines += [
        f"labels      {', '.join(described['labels']) or 'none (the ids)'}",
        f"dropped     {dropped or 'nothing'}",
        f"stored      {described['stored_bytes']:,} bytes, {plural(described['edge_files'], 'edge file')}, "
        f"{plural(described['row_groups'], 'row group')}, format version {described['format_version']}",
        f"hash        {described['hash']}",
        f"provenance  {json.dumps(described['provenance'], ensure_ascii=False)}",
    ]
    return lines
