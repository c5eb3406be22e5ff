"""Runs of a query's rows as ranges of its key: what is asked of the server, and the fingerprint of what was counted."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import PlanError
from penstock.format.sql_dialect import Dialect, Place, quoted
from penstock.format.sql_server import Fetch
from penstock.spec import Ids

#: Rows that share one key at most, since they are read together.
_MOST_TIES = 1 << 16


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
        plain(found.column(0)).combine_chunks(), found.column(1).to_numpy().astype(np.int64), int(rows), str(last)
    )


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Without a type of Arrow's extensions: UUIDs are 16 bytes, JSON and NUMERIC are text."""
    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    return pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
