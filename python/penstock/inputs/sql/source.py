"""SQL queries: as Arrow tables, by ranges of a key, in parallel and out of one snapshot.

With `partition`, the rows are numbered in the order of that column. Its keys are counted once: there is one every few hundred rows
of which is known how many rows come before it, so that any run of rows is one ordered query over a range of keys; these keys and counts are
the fingerprint by which a saved state knows the data again. Without, the result is drawn once and kept for this process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from penstock.core.columns.digest import add_column
from penstock.core.columns.spec import Columns, Spec, is_text
from penstock.core.errors import DataError, PlanError, RowError, SourceError
from penstock.core.verbs.options import Options
from penstock.inputs.spool import Spool, own_spool
from penstock.inputs.sql.dialect import DatabaseUri, quoted
from penstock.inputs.sql.key_ranges import KeyRanges, Query, find_ranges, inner, plain, range_query
from penstock.inputs.sql.server import AnswerMode, Server
from penstock.source.manifest import Manifest, StatedManifest, digest_of
from penstock.source.nulls import null_rows
from penstock.source.protocol import Access
from penstock.source.selection import no_column
from penstock.source.tables.table import TableColumn, choose_columns, columns_of, with_nulls

#: Bytes that make a block, rows at most, and rows that are looked at to learn types and sizes.
_BLOCK_BYTES, _BLOCK_ROWS, _LOOK_AT = 1 << 20, 1 << 16, 1000
#: Keys that are known in every block: a query skips less than an eighth of one.
_KEYS_PER_BLOCK = 8


@dataclass(frozen=True, eq=False)
class SqlManifest(StatedManifest):
    """A manifest that knows a row's place in the query's order."""

    described: str = ""

    def place(self, sample: int) -> str:
        """Where a row is, for messages."""
        return f"{self.described}, row {sample:,}"


@dataclass(frozen=True, eq=False)
class SqlSource:
    """Rows of a query, by ranges of a key."""

    manifest: Manifest
    columns: tuple[TableColumn, ...]
    block_rows: int
    server: Server = field(repr=False)
    query: Query
    ranges: KeyRanges = field(repr=False)
    schema: pa.Schema = field(repr=False)
    access: Access = Access.BLOCKS

    @property
    def spec(self) -> Spec:
        """The columns that were asked for."""
        return {column.name: column.field for column in self.columns}

    def only(self, names: Sequence[str]) -> SqlSource:
        """The same rows; nothing but these columns leaves the server."""
        known = {column.name: column for column in self.columns}
        columns = tuple(known[name] for name in names)
        stored = dict.fromkeys(column.path[0] for column in columns)
        return replace(self, columns=columns, schema=pa.schema([self.schema.field(name) for name in stored]))

    def seeing_nulls(self) -> SqlSource:
        """See `NullSource`."""
        return replace(self, columns=with_nulls(self.columns, lambda _: None))

    def load(self, first: int, rows: int) -> Columns:
        """Rows [first, first + rows) in the key's order; DataError where the database does not have them any more."""
        table = self.server.fetch(
            range_query(self.query, self.ranges, self.schema.names, self.server.dialect, first, rows)
        )
        if table.num_rows != rows:
            raise DataError(
                f"{self.manifest.place(first)}: {table.num_rows:,} rows came where there were {rows:,} when the query was "
                f"opened; the data was changed meanwhile"
            )
        return columns_of(as_opened(table, self.schema, self.manifest.place(first)), self.columns)


def as_opened(table: pa.Table, schema: pa.Schema, place: str) -> pa.Table:
    """A table in the types that the first rows had; DataError if its values do not fit them."""
    made = []
    for wanted in schema:
        column = plain(table.column(wanted.name))
        try:
            made.append(column if column.type == wanted.type else column.cast(wanted.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(
                f"{place}: column {wanted.name!r} came as {column.type}, the first rows had {wanted.type}: {error}; CAST it in the "
                f"query"
            ) from None
    return pa.table(made, schema=schema)


# Opening


def read_sql(
    uri: str, text: str, *, partition: str | None, options: Options, ties: bool, checksum: bool, connections: int
) -> SqlSource | Spool:
    """Connects and opens a query; PlanError for a query that the server refuses, SourceError where there is none."""
    if connections < 1:
        raise PlanError(f"read_sql: connections={connections}; at least one must ask")
    server = Server(DatabaseUri(uri), connections)
    try:
        if partition is not None:
            return _partitioned(server, text, partition, options, ties=ties, checksum=checksum)
        drawn = _drawn(server, text, options)
    except BaseException:
        server.close()
        raise
    server.close()
    return drawn


def _partitioned(
    server: Server, text: str, partition: str, options: Options, *, ties: bool, checksum: bool
) -> SqlSource:
    place = server.place
    _check_name(server, text, partition)
    start, columns, block_rows = _look(server, text, f" ORDER BY {quoted(partition)}", options)
    kind = start.schema.field(partition).type
    _check_key(kind, partition, place)
    query = Query(text, partition, tuple(start.schema.names), ties, collated=is_text(kind))
    step = max(1, block_rows // _KEYS_PER_BLOCK)
    ranges = find_ranges(AnswerMode(server.ask, server.stream), query, step, place)
    _check_key(ranges.keys.type, partition, place)
    server.recheck = partial(_check_unchanged, query, step, place, ranges.digest)
    shown = [(column.name, column.feature, str(column.field)) for column in columns]
    identity = f"{' '.join(text.split())} {partition} {ties} {shown} {ranges.digest}"
    manifest = _manifest(identity, ranges.rows, start, place)
    source = SqlSource(manifest, columns, block_rows, server, query, ranges, _schema(start, columns))
    if checksum:
        source = replace(source, manifest=_manifest(identity + _content(source), ranges.rows, start, place))
    return source


def _look(server: Server, text: str, order: str, options: Options) -> tuple[pa.Table, tuple[TableColumn, ...], int]:
    """The first rows, the columns that were asked for, and how many rows make a block."""
    start = server.ask(f"SELECT * FROM {inner(text)}{order} LIMIT {_LOOK_AT}")
    if start.num_rows == 0:
        raise SourceError(f"{server.place}: the query gives no row")
    start = pa.table([plain(column) for column in start.columns], names=start.column_names)
    block_rows = max(1, min(_BLOCK_ROWS, _BLOCK_BYTES * start.num_rows // max(1, start.nbytes)))
    columns = choose_columns(start.schema, options, str(server.place))
    return start, with_nulls(columns, _nulls_in(server, text, start, options)), block_rows


def _nulls_in(server: Server, text: str, start: pa.Table, options: Options) -> Callable[[TableColumn], bool]:
    """Whether a column has nulls: as the first rows have them, and where something is to become of them, as the database counts them."""
    found = {name for name in start.column_names if _has_nulls(start[name])}
    rest = [name for name in start.column_names if name not in found]
    if options.nulls != "error" and rest:
        counts = ", ".join(f"COUNT({quoted(name)}) AS c{number}" for number, name in enumerate(rest))
        counted = server.ask(f"SELECT COUNT(*) AS c, {counts} FROM {inner(text)}").to_pylist()[0]
        found |= {name for number, name in enumerate(rest) if counted[f"c{number}"] < counted["c"]}
    return lambda column: column.path[0] in found


def _has_nulls(column: pa.ChunkedArray) -> bool:
    return any(bool(null_rows(chunk).any()) for chunk in column.chunks)


def _schema(start: pa.Table, columns: tuple[TableColumn, ...]) -> pa.Schema:
    """What leaves the server: the columns that hold those that were asked for."""
    return pa.schema([start.schema.field(name) for name in dict.fromkeys(column.path[0] for column in columns)])


def _manifest(identity: str, rows: int, start: pa.Table, place: DatabaseUri) -> SqlManifest:
    size_bytes = rows * max(1, start.nbytes // start.num_rows)
    return SqlManifest.of("sql", rows, digest_of(identity), size_bytes, described=str(place))


def _check_name(server: Server, text: str, partition: str) -> None:
    """PlanError if the query has no such column; asked first, since some databases take unknown names for text."""
    names = server.ask(f"SELECT * FROM {inner(text)} LIMIT 1").column_names
    if partition not in names:
        raise no_column(f"{server.place}: partition", partition, names)


def _check_key(kind: pa.DataType, partition: str, place: DatabaseUri) -> None:
    whole = pa.types.is_integer(kind) or pa.types.is_date32(kind)
    time = pa.types.is_timestamp(kind) and kind.unit != "ns"
    if not (whole or is_text(kind) or time):
        raise PlanError(
            f"{place}: partition={partition!r} is {kind}; partition by a column of integers, text, dates or timestamps, or CAST "
            f"it in the query"
        )


def _check_unchanged(query: Query, step: int, place: DatabaseUri, digest: str, asked: AnswerMode) -> None:
    """DataError if the query does not have the fingerprint any more that it had."""
    if find_ranges(asked, query, step, place).digest != digest:
        raise DataError("the data was changed; open it again and start anew")


def _content(source: SqlSource) -> str:
    """A digest of all rows."""
    state = hashlib.blake2b(digest_size=16)
    for first in range(0, source.manifest.samples, source.block_rows):
        block = source.load(first, min(source.block_rows, source.manifest.samples - first))
        for name in source.spec:
            add_column(state, block[name])
    return state.hexdigest()


# Without a key


def _drawn(server: Server, text: str, options: Options) -> Spool:
    start, columns, block_rows = _look(server, text, "", options)
    schema = _schema(start, columns)
    batches = server.stream(f"SELECT {', '.join(map(quoted, schema.names))} FROM {inner(text)}")
    tables = (as_opened(table, schema, str(server.place)) for table in _regrouped(batches, block_rows))
    spec = {column.name: column.field for column in columns}
    blocks = _blocks(tables, columns, server.place)
    return own_spool(spec, block_rows, blocks, options.limits, options.progress)


def _blocks(tables: Iterator[pa.Table], columns: tuple[TableColumn, ...], place: DatabaseUri) -> Iterator[Columns]:
    """The columns of each table; DataError with its row for what cannot be held."""
    first = 0
    for table in tables:
        try:
            yield columns_of(table, columns)
        except RowError as error:
            raise DataError(f"{place}, row {first + error.row:,}: {error.found}; {error.do}") from None
        first += table.num_rows


def _regrouped(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """The same rows in tables of `rows` each, the last perhaps shorter."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        if count >= rows:
            table = pa.Table.from_batches(held)
            whole = count // rows * rows
            yield from (table.slice(first, rows) for first in range(0, whole, rows))
            held, count = table.slice(whole).to_batches(), count - whole
    if count:
        yield pa.Table.from_batches(held)
