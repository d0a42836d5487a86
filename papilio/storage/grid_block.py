"""Parsing the lines of matrices, adjacencies and groups into edges; see :mod:`papilio.storage.layout`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from papilio.errors import InputError
from papilio.graph import MAX_VERTICES
from papilio.storage.column_choice import Decimal, plain_name
from papilio.storage.evidence import TOTALS, entry_of, has_value
from papilio.storage.formats import (
    BLANKS,
    Declared,
    LineCounts,
    ReadOptions,
    SourceInfo,
    TextLayout,
    cell_of,
    fields_of,
    has_leading_zero,
    is_integer,
)
from papilio.storage.quotes import BROKEN_QUOTES, Block
from papilio.storage.text_block import Malformed, ParsedBlock, Problem, decoded, records_of
from papilio.storage.two_colours import two_colours

_VALUED, _ENTRY, _EMPTY, _MISSING, _WORD = 2, 1, 0, -1, -2


def _state_of(text: bytes, decimal: Decimal) -> int:
    """Return whether a cell is an entry, with a value or without, empty, missing, or a word that means neither."""
    cell = cell_of(text, decimal)
    if cell is None:
        return _MISSING
    entry = entry_of(cell)
    return _WORD if entry is None else _EMPTY if not entry else _VALUED if has_value(cell) else _ENTRY


class GridParser:
    """Turns a block of lines into edges; stateless, so threads share it. Rows without names have their place there."""

    def __init__(self, layout: TextLayout, options: ReadOptions, schema: pa.Schema) -> None:
        self._layout = layout
        self._plan = layout.plan
        self._options = options
        self._schema = _schema_of_rows(layout, schema)
        self._states: dict[bytes, int] = {}

    def parse(self, block: Block) -> ParsedBlock:
        """Parse a block line by line; unless malformed lines are skipped, stop at the first one."""
        parsed = ParsedBlock(LineCounts())
        counts, broken = parsed.lines, dict(block.broken)
        rows: list[tuple[Any, ...]] = []
        row_names: list[Any] = []
        take = self._entries if self._layout.plan.values else self._members
        for line, record in records_of(self._layout, block.text):
            n_lines = record.count(b"\n") + 1
            counts.physical += n_lines
            counts.continuation += n_lines - 1
            if line not in broken and not record.strip(BLANKS):
                counts.blank += 1
                continue
            try:
                if line in broken:
                    raise Malformed(BROKEN_QUOTES)
                fields = fields_of(self._layout, record)
                name = self._row_name(fields, len(row_names))
                found = list(take(name, fields, parsed, line))
            except Malformed as malformed:
                counts.malformed += 1
                if parsed.problem is None:
                    parsed.problem = Problem(line, broken.get(line, record), str(malformed))
                if not self._options.skip_malformed:
                    return parsed
                continue
            counts.records += 1
            row_names.append(name)
            rows += found
        columns = list(zip(*rows, strict=True)) or [()] * len(self._schema)
        arrays = [pa.array(column, kind.type) for column, kind in zip(columns, self._schema, strict=True)]
        parsed.batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        parsed.row_names = row_names
        return parsed

    def _row_name(self, fields: list[bytes], place: int) -> Any:
        plan = self._plan
        if plan.key is None:
            return place
        if len(fields) <= plan.key:
            raise Malformed(f"{len(fields)} fields; the name of the row is field {plan.key + 1}")
        return _label(fields[plan.key], self._schema.field("u").type)

    def _entries(self, name: Any, fields: list[bytes], parsed: ParsedBlock, line: int) -> Iterator[tuple[Any, ...]]:
        """Yield the entries of a row of a matrix."""
        layout, states = self._layout, self._states
        if len(fields) != layout.n_columns:
            raise Malformed(f"{len(fields)} fields; expected {layout.n_columns}")
        rule = self._options.sign
        for at in self._plan.values:
            text = fields[at]
            state = states.get(text)
            if state is None:
                state = states[text] = _state_of(text, layout.point)
            if state == _WORD:
                raise Malformed(f"{text.decode(errors='replace')!r} is no entry of a matrix")
            if state == _MISSING and not (self._plan.blanks and not text):
                parsed.add_missing(line)
            if state not in (_ENTRY, _VALUED):
                continue
            if rule is None:
                parsed.valued += state == _VALUED
                yield name, self._column_label(at)
                continue
            problem = rule.problem(text.decode(errors="replace"))
            if problem:
                raise Malformed(f"the entry {problem}")
            yield name, self._column_label(at), rule.sign_of(text.decode(errors="replace"))

    def _column_label(self, at: int) -> Any:
        layout = self._layout
        return layout.names[at] if layout.labels[1] == "text" else self._plan.values.index(at) + 1

    def _members(self, name: Any, fields: list[bytes], parsed: ParsedBlock, line: int) -> Iterator[tuple[Any, ...]]:
        """Yield the members of a group, or the neighbours of a vertex."""
        start = 0 if self._plan.key is None else self._plan.key + 1 + self._plan.skipped
        kind = self._schema.field("v").type
        for text in fields[start:]:
            if not text:
                continue
            if cell_of(text) is None and self._options.missing != "label":
                parsed.add_missing(line)
                continue
            yield name, _label(text, kind)


def _schema_of_rows(layout: TextLayout, schema: pa.Schema) -> pa.Schema:
    """Return the schema of edges whose rows have no names, but places."""
    return schema if layout.plan.key is not None else schema.set(0, pa.field("u", pa.int64()))


def _label(text: bytes, kind: pa.DataType) -> Any:
    """Return a field as a label; raise Malformed if it is none."""
    if kind == pa.string():
        if not text or b"\n" in text:
            raise Malformed("a label is empty" if not text else "a label contains a line end")
        return decoded(text, "a label is not UTF-8")
    if not is_integer(text) or has_leading_zero(text):
        raise Malformed(f"{text.decode(errors='replace')!r} is not a 64-bit integer (set labels to text)")
    return int(text)


class GridRows:
    """What the blocks of a matrix, an adjacency or groups add up to: places of rows, names, edges of an adjacency."""

    def __init__(self, name: str, layout: TextLayout, options: ReadOptions, schema: pa.Schema) -> None:
        self._name, self._layout, self._options, self._schema = name, layout, options, schema
        self._rows = 0
        self._names: dict[Any, int] = {}
        self._held: list[pa.RecordBatch] = []
        self._members: set[Any] = set()  # of named groups, of which the first lines showed no name among the members
        # Sums of hashes of the entries and of the turned ones, and the entries on the diagonal, of a long matrix.
        self._sums = [0, 0, 0]
        plan = layout.plan
        self._is_watched = plan.is_sample and not plan.is_asked and options.bipartite
        self._is_adjacency = layout.plan.layout == "adjacency"
        _refuse_totals(name, [layout.names[at] for at in layout.plan.values] if layout.names else [])

    def place(self, parsed: ParsedBlock) -> pa.RecordBatch | None:
        """Return the edges of the next block, with their rows numbered from 1; None if they wait for the end."""
        batch = parsed.batch
        if batch is None:
            return None
        plan = self._layout.plan
        if plan.key is None:
            places = batch.column("u").to_numpy(zero_copy_only=False).astype(np.int64) + self._rows + 1
            batch = batch.set_column(0, "u", pa.array(places, pa.int64()))
        else:
            for name in parsed.row_names:
                self._rows += 1
                first = self._names.setdefault(name, self._rows)
                if first != self._rows and plan.values:
                    raise InputError(
                        f"{self._name}: the rows {first:,} and {self._rows:,} of the matrix have the same name "
                        f"{name!r}; make the names of rows distinct, or use another layout (--layout)"
                    )
                if first != self._rows and self._is_watched:
                    raise InputError(
                        f"{self._name}: the lines {first:,} and {self._rows:,} of data begin with {name!r}, although "
                        f"the first lines all begin with another word, as with names of groups; {_AS_GROUPS}"
                    )
            _refuse_totals(self._name, parsed.row_names if plan.values else ())
            self._rows -= len(parsed.row_names)
        self._rows += len(parsed.row_names)
        if self._is_watched:
            self._watch(batch)
        if not self._is_adjacency:
            return batch
        self._held.append(batch)
        return None

    def _watch(self, batch: pa.RecordBatch) -> None:
        """Keep what tells at the end whether the first lines showed the layout of all."""
        if not self._layout.plan.values:
            self._members.update(batch.column("v").unique().to_pylist())
            return
        for u, v in zip(batch.column("u").to_pylist(), batch.column("v").to_pylist(), strict=True):
            self._sums[0] += hash((str(u), str(v)))
            self._sums[1] += hash((str(v), str(u)))
            self._sums[2] += str(u) == str(v)

    def _check_watched(self) -> None:
        """Raise InputError if the lines after the first ones show another layout."""
        shared = self._members & set(self._names)
        if shared:
            raise InputError(
                f"{self._name}: {min(map(str, shared))!r} is the first word of a line and a later word of another, so "
                f"the lines may list neighbours; {_AS_GROUPS}, or layout='adjacency' (--layout adjacency)"
            )
        forward, backward, on_diagonal = self._sums
        if self._rows == len(self._layout.plan.values) and forward and forward == backward and not on_diagonal:
            raise InputError(
                f"{self._name} is a symmetric matrix of {self._rows:,} rows with an empty diagonal: choose "
                "layout='adjacency' (--layout adjacency) if rows and columns are the same vertices, layout='matrix' "
                "(--layout matrix) if they are two layers"
            )

    def finish(self, info: SourceInfo) -> Iterator[pa.RecordBatch]:
        """Yield the edges that waited for the end, and note what was read."""
        plan, layout = self._layout.plan, self._layout
        self._check_watched()
        info.notes.append(f"read as {_TITLES[plan.layout]}: {self._rows:,} rows")
        if self._is_adjacency:
            yield from self._adjacent(info)
        elif plan.values and plan.key is None and layout.labels == ("integer", "integer"):
            sizes = self._rows, len(plan.values)
            if 0 < max(sizes) <= MAX_VERTICES and self._options.bipartite:
                info.declared = Declared(*sizes, None, (1,), binding=False)

    def _adjacent(self, info: SourceInfo) -> Iterator[pa.RecordBatch]:
        batch = pa.Table.from_batches(self._held, _schema_of_rows(self._layout, self._schema)).combine_chunks()
        u, v = (batch.column(name).to_pylist() for name in ("u", "v"))
        if self._layout.plan.values:
            self._require_square()
            u = self._column_labels(u)
        if self._options.bipartite:
            turned = two_colours(self._name, u, v)
            u, v = ([b if turn else a for a, b, turn in zip(x, y, turned, strict=True)] for x, y in ((u, v), (v, u)))
        columns = [pa.array(each, self._schema.field(name).type) for each, name in ((u, "u"), (v, "v"))]
        others = [batch.column(name).combine_chunks() for name in self._schema.names[2:]]
        yield pa.RecordBatch.from_arrays([*columns, *others], schema=self._schema)

    def _require_square(self) -> None:
        n = len(self._layout.plan.values)
        if self._rows != n:
            raise InputError(f"{self._name}: an adjacency matrix is square; this one is {self._rows:,} x {n:,}")
        wanted = [self._layout.names[at] for at in self._layout.plan.values] if self._layout.names else []
        if self._names and wanted and list(map(str, self._names)) != wanted:
            raise InputError(
                f"{self._name}: the rows and columns of an adjacency matrix have the same names in the same order; "
                "use layout='matrix' (--layout matrix) if rows and columns are two layers"
            )

    def _column_labels(self, rows: list[Any]) -> list[Any]:
        """Return the labels of columns for rows, which stand for the same vertices."""
        layout = self._layout
        if layout.labels[1] != "text":
            return [self._names[row] for row in rows] if self._names else rows
        names = [layout.names[at] for at in layout.plan.values]
        return [names[(self._names[row] if self._names else row) - 1] for row in rows]


_AS_GROUPS = "choose layout='groups' (--layout groups)"
_TITLES = {"matrix": "a matrix", "adjacency": "an adjacency", "groups": "groups"}


def _refuse_totals(name: str, labels: Any) -> None:
    """Raise InputError if a row or column of a matrix is called a total."""
    for label in labels:
        if isinstance(label, str) and plain_name(label) in TOTALS:
            raise InputError(
                f"{name}: the row or column {label!r} of the matrix seems to hold totals, and is no vertex; leave it "
                "out (pandas.crosstab: margins=False), or give it another name"
            )
