"""SQL queries: as Arrow tables, by ranges of a key, in parallel and out of one snapshot.

With `partition`, the rows are numbered in the order of that column. One counting query finds a key every few hundred rows
and how many rows come before it, so that any run of rows is one ordered query over a range of keys; these keys and counts are
the fingerprint by which a saved state knows the data again. Without, the result is drawn once and kept for this process.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.errors import DataError, PlanError, SourceError
from penstock.format.column_digest import add_column
from penstock.format.manifest import Manifest, StatedManifest
from penstock.format.protocol import Options
from penstock.format.spool import Spool, own_spool
from penstock.format.sql_dialect import Dialect, Place, quoted
from penstock.format.sql_server import Fetch, Server
from penstock.format.table import TableColumn, choose_columns, columns_of
from penstock.spec import Columns, Ids, Spec

#: Bytes that make a block, rows at most, and rows that are looked at to learn types and sizes.
_BLOCK_BYTES, _BLOCK_ROWS, _LOOK_AT = 1 << 20, 1 << 16, 1000
#: Keys that are known in every block: a query skips less than an eighth of one.
_KEYS_PER_BLOCK = 8
#: Rows that share one key at most, since they are read together.
_MOST_TIES = 1 << 16


@dataclass(frozen=True, eq=False)
class SqlManifest(StatedManifest):
    """A manifest that knows a row's place in the query's order."""

    described: str = ""

    def place(self, sample: int) -> str:
        """Where a row is, for messages."""
        return f"{self.described}, row {sample:,}"


@dataclass(frozen=True)
class Query:
    """A query by ranges of its key. names: all columns of its result; ties: whether keys may repeat."""

    text: str
    key: str
    names: tuple[str, ...]
    ties: bool

    @property
    def keys(self) -> str:
        """The keys, with each one's number in their order and the number of smaller ones."""
        return (
            f"SELECT k, row_number() OVER (ORDER BY k) - 1 AS n, rank() OVER (ORDER BY k) - 1 AS before "
            f"FROM (SELECT {quoted(self.key)} AS k FROM {inner(self.text)}) AS keyed"
        )

    @property
    def order(self) -> str:
        """The columns that decide the order: equal keys are told apart by all the other columns."""
        rest = [name for name in self.names if name != self.key] if self.ties else []
        return ", ".join(map(quoted, [self.key, *rest]))


def inner(text: str) -> str:
    """A user's query as a table of another one."""
    return f"(\n{text.strip().rstrip(';')}\n) AS q"


@dataclass(frozen=True, eq=False)
class Ranges:
    """The fingerprint: every `step`-th key, how many rows come before it, the number of rows, and the last key."""

    keys: pa.Array
    before: Ids
    rows: int
    last: str

    @property
    def digest(self) -> str:
        """32 hex digits."""
        state = hashlib.blake2b(f"{self.rows} {self.last}".encode(), digest_size=16)
        state.update("\0".join(map(str, self.keys)).encode())
        state.update(self.before.tobytes())
        return state.hexdigest()


@dataclass(frozen=True, eq=False)
class SqlSource:
    """Rows of a query, by ranges of a key."""

    manifest: Manifest
    columns: tuple[TableColumn, ...]
    block_rows: int
    server: Server = field(repr=False)
    query: Query
    ranges: Ranges = field(repr=False)
    schema: pa.Schema = field(repr=False)

    @property
    def spec(self) -> Spec:
        """The columns that were asked for."""
        return {column.name: column.field for column in self.columns}

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


def range_query(query: Query, ranges: Ranges, names: Sequence[str], dialect: Dialect, first: int, rows: int) -> str:
    """The query for rows [first, first + rows): from the known key before them to the known key after them."""
    at = int(np.searchsorted(ranges.before, first, side="right")) - 1
    after = int(np.searchsorted(ranges.before, first + rows, side="left"))
    key, skip = quoted(query.key), first - int(ranges.before[at])
    where = f"{key} >= {dialect.literal(ranges.keys[at].as_py())}"
    exact = after == len(ranges.before) and first + rows == ranges.rows
    if after < len(ranges.before):
        where += f" AND {key} < {dialect.literal(ranges.keys[after].as_py())}"
        exact = int(ranges.before[after]) == first + rows
    cut = "" if exact and not skip else f" LIMIT {rows + exact} OFFSET {skip}"  # one more would come if there were one
    return f"SELECT {', '.join(map(quoted, names))} FROM {inner(query.text)} WHERE {where} ORDER BY {query.order}{cut}"


def as_opened(table: pa.Table, schema: pa.Schema, place: str) -> pa.Table:
    """A table in the types that the first rows had; DataError if its values do not fit them."""
    made = []
    for wanted in schema:
        column = _plain(table.column(wanted.name))
        try:
            made.append(column if column.type == wanted.type else column.cast(wanted.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(
                f"{place}: column {wanted.name!r} came as {column.type}, the first rows had {wanted.type}: {error}; CAST it in the "
                f"query"
            ) from None
    return pa.table(made, schema=schema)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Without a type of Arrow's extensions: UUIDs are 16 bytes, JSON and NUMERIC are text."""
    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    return pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)


# Opening


def read_sql(
    uri: str, text: str, *, partition: str | None, options: Options, ties: bool, checksum: bool, connections: int
) -> SqlSource | Spool:
    """Connects and opens a query; PlanError for a query that the server refuses, SourceError where there is none."""
    if connections < 1:
        raise PlanError(f"read_sql: connections={connections}; at least one must ask")
    place = Place(uri)
    server = Server(place, connections)
    order = f" ORDER BY {quoted(partition)}" if partition is not None and _has(server, text, partition, place) else ""
    start = server.ask(f"SELECT * FROM {inner(text)}{order} LIMIT {_LOOK_AT}")
    if start.num_rows == 0:
        raise SourceError(f"{place}: the query gives no row")
    start = pa.table([_plain(column) for column in start.columns], names=start.column_names)
    columns = choose_columns(start.schema, options, str(place))
    block_rows = max(1, min(_BLOCK_ROWS, _BLOCK_BYTES * start.num_rows // max(1, start.nbytes)))
    schema = pa.schema([start.schema.field(name) for name in dict.fromkeys(column.path[0] for column in columns)])
    if partition is None:
        return _drawn(server, text, schema, columns, block_rows, options)
    _check_key(start.schema.field(partition).type, partition, place)
    query = Query(text, partition, tuple(start.schema.names), ties)
    ranges = find_ranges(server.ask, query, max(1, block_rows // _KEYS_PER_BLOCK), place)
    server.recheck = _Unchanged(query, max(1, block_rows // _KEYS_PER_BLOCK), place, ranges.digest)
    told = f"{' '.join(text.split())} {partition} {ties} {[(c.name, c.feature, str(c.field)) for c in columns]} {ranges.digest}"
    source = SqlSource(_manifest(told, ranges.rows, start, place), columns, block_rows, server, query, ranges, schema)
    if checksum:
        told += _content(source)
        source = SqlSource(
            _manifest(told, ranges.rows, start, place), columns, block_rows, server, query, ranges, schema
        )
    return source


def _manifest(told: str, rows: int, start: pa.Table, place: Place) -> SqlManifest:
    found = SqlManifest.of("sql", rows, "", rows * max(1, start.nbytes // start.num_rows))
    digest = hashlib.blake2b(told.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return SqlManifest(
        found.format,
        found.shards,
        found.first_sample,
        stated_digest=digest,
        stated_bytes=found.size_bytes,
        described=str(place),
    )


def _has(server: Server, text: str, partition: str, place: Place) -> bool:
    """PlanError if the query has no such column; asked first, since some databases take unknown names for text."""
    names = server.ask(f"SELECT * FROM {inner(text)} LIMIT 1").column_names
    if partition not in names:
        close = difflib.get_close_matches(partition, names, n=1)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        raise PlanError(f"{place}: no column {partition!r} to partition by; the query gives {', '.join(names)}{meant}")
    return True


def _check_key(kind: pa.DataType, partition: str, place: Place) -> None:
    whole = pa.types.is_integer(kind) or pa.types.is_date32(kind)
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    time = pa.types.is_timestamp(kind) and kind.unit != "ns"
    if not (whole or text or time):
        raise PlanError(
            f"{place}: partition={partition!r} is {kind}; partition by a column of integers, text, dates or timestamps, or CAST "
            f"it in the query"
        )


def find_ranges(ask: Fetch, query: Query, step: int, place: Place) -> Ranges:
    """Counts the keys. PlanError for nulls among them, and for keys that repeat where they must not."""
    total = ask(
        f"SELECT count(*) AS n, count(k) AS keyed, max(k) AS last, sum(CASE WHEN n <> before THEN 1 ELSE 0 END) AS ties, "
        f"max(n - before) AS longest FROM ({query.keys}) AS numbered"
    )
    rows, keyed, last, ties, longest = (column[0].as_py() for column in total.columns)
    if nulls := int(rows) - int(keyed):
        raise PlanError(
            f"{place}: {nulls:,} of {rows:,} rows have no {query.key!r}, so that they have no place in its order; add "
            f"WHERE {quoted(query.key)} IS NOT NULL to the query"
        )
    if int(ties) and not query.ties:
        raise PlanError(
            f"{place}: {int(ties):,} of {rows:,} rows repeat a value of {query.key!r}, so that it does not tell their order; "
            f"partition by a unique column, or pass ties=True to order equal ones by all other columns"
        )
    if int(longest) >= _MOST_TIES:
        raise PlanError(
            f"{place}: {int(longest) + 1:,} rows share one value of {query.key!r}; partition by a finer column"
        )
    found = ask(
        f"SELECT k, before FROM ({query.keys}) AS numbered WHERE n % {step} = 0 GROUP BY k, before ORDER BY before"
    )
    return Ranges(
        _plain(found.column(0)).combine_chunks(), found.column(1).to_numpy().astype(np.int64), int(rows), str(last)
    )


@dataclass(frozen=True)
class _Unchanged:
    """Raises if the query does not have the fingerprint any more that it had."""

    query: Query
    step: int
    place: Place
    digest: str

    def __call__(self, fetch: Fetch) -> None:
        """Counts again."""
        if find_ranges(fetch, self.query, self.step, self.place).digest != self.digest:
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


def _drawn(
    server: Server, text: str, schema: pa.Schema, columns: tuple[TableColumn, ...], block_rows: int, options: Options
) -> Spool:
    names = ", ".join(map(quoted, schema.names))
    batches = server.stream(f"SELECT {names} FROM {inner(text)}")
    tables = (as_opened(table, schema, str(server.place)) for table in _regrouped(batches, block_rows))
    blocks = (columns_of(table, columns) for table in tables)
    spec = {column.name: column.field for column in columns}
    return own_spool(spec, block_rows, blocks, options.limits, options.progress)


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
