"""Answers as rows: on standard output for other programs, or in a file whose format is not that of its suffix."""

from __future__ import annotations

import io
import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from papilio.arguments import TABLE_FORMATS, TABLE_SUFFIXES, TableFormat, visible
from papilio.cli.options import Decorator, with_options
from papilio.cli.report import print_json, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

STANDARD_OUTPUT = "-"

_BINARY = ("parquet", "arrow")

FORMAT_FLAG = click.option(
    "--format", "row_format", type=click.Choice(TABLE_FORMATS),
    help="Write rows in this format, to --output or to standard output.",
)  # fmt: skip


def with_rows(holds: str) -> Decorator:
    """Return a decorator that adds the flags of rows: ``--output``, ``--format`` and ``--overwrite``."""
    return with_options(
        click.option(
            "--output", type=click.Path(allow_dash=True), metavar="FILE",
            help=f"File for {holds}, or - for standard output (as TSV by default). The suffix of a "
            "file is its format: .parquet, .csv, .tsv, .json, .jsonl, .arrow.",
        ),
        FORMAT_FLAG,
        click.option(
            "--overwrite", is_flag=True, help="Replace an existing file, which is otherwise an error."
        ),
    )  # fmt: skip


class _Terminal(io.BufferedIOBase):
    """A stream of rows as text to a terminal, on which control characters are visible."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        # Writers pass whole rows, so that no character is cut.
        return self._stream.write(visible(bytes(data).decode()).encode())

    def flush(self) -> None:
        self._stream.flush()


@dataclass(frozen=True)
class RowTarget:
    """Where a command writes rows."""

    path: Path | None  # None is standard output
    format: TableFormat
    overwrite: bool

    @classmethod
    def standard_output(cls, format: TableFormat | None, as_json: bool) -> RowTarget:
        """Return standard output, TSV by default; UsageError with ``--json``, or for binary rows on a terminal."""
        target = cls(None, format or "tsv", False)
        if as_json:
            raise click.UsageError(
                "the rows and --json both need standard output: use --format jsonl for rows as JSON, or --output FILE"
            )
        if target.format in _BINARY and sys.stdout.isatty():
            raise click.UsageError(f"{target.format} cannot be shown in a terminal; redirect it, or use --output FILE")
        return target

    def write(self, table: Any) -> None:
        """Write a ``pyarrow.Table``; errors as :func:`papilio.storage.tables.write_batches`."""
        self.write_batches(table.schema, [table])

    def write_batches(self, schema: Any, batches: Iterable[Any]) -> None:
        """Write Arrow batches as they come; errors as :func:`papilio.storage.tables.write_batches`."""
        from papilio.storage.tables import write_batches

        target: Any = self.path
        if target is None:
            target = _Terminal(sys.stdout.buffer) if sys.stdout.isatty() else sys.stdout.buffer
        write_batches(target, schema, batches, self.format, overwrite=self.overwrite)

    def write_rows(self, rows: list[dict[str, Any]], names: Sequence[str]) -> None:
        """Write rows that have the keys ``names``."""
        from papilio.storage.answers import rows_table

        self.write(rows_table(rows, names))


def take_target(
    options: dict[str, Any], as_json: bool, *, writes_files: bool = True, makes_directories: bool = False
) -> RowTarget | None:
    """Take ``--output`` and ``--format`` from the options if the command writes the rows itself; else return None.

    Parameters
    ----------
    options : dict
        Values of flags; ``output`` becomes None if a target is returned.
    writes_files : bool
        Whether the called function takes ``output`` and ``overwrite``, and writes files by their suffix.
    makes_directories : bool
        Whether an ``output`` without the suffix of a table is a directory, which that function creates.

    Raises
    ------
    UsageError
        For rows and ``--json``, or binary rows for a terminal.
    InputError, StoreError
        For a file that cannot be written.
    """
    format: TableFormat | None = options.pop("row_format", None)
    output: str | None = options["output"]
    overwrite: bool = options["overwrite"]
    said = None if output is None else TABLE_SUFFIXES.get(Path(output).suffix.lower())
    target = None
    if output == STANDARD_OUTPUT or (output is None and format is not None):
        target = RowTarget.standard_output(format, as_json)
    elif output is not None:
        is_ours = (said is not None or format is not None) if makes_directories else not writes_files
        if is_ours or (format is not None and format != said):
            from papilio.storage.tables import check_table_file, format_of

            path = check_table_file(output, overwrite, format)
            target = RowTarget(path, format or format_of(path), overwrite)
    if target is not None:
        options["output"] = None
    if not writes_files:
        del options["output"]
        if not makes_directories:
            del options["overwrite"]
    return target


def answer_rows(
    result: Any,
    as_json: bool,
    write: Callable[[Any], None],
    target: RowTarget | None,
    to_arrow: Callable[[Any], Any] | None = None,
) -> None:
    """Write a result: its rows if there is a target, then one JSON object, or text for people by ``write``.

    With rows on standard output, only the part of the text for standard error is written. ``to_arrow`` makes the table;
    by default the result does.
    """
    silent = False
    if target is not None:
        target.write(result.to_arrow() if to_arrow is None else to_arrow(result))
        silent = target.path is None
        if target.path is not None and is_dataclass(result) and hasattr(result, "output"):
            result = replace(result, output=str(target.path))  # type: ignore[type-var]
        elif target.path is not None:
            say(f"rows: {target.path}")
    if as_json:
        print_json(result.to_dict())
        return
    with redirect_stdout(io.StringIO()) if silent else nullcontext():
        write(result)
