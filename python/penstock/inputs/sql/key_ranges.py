"""Runs of a query's rows as ranges of its key: what is asked of the server, and the fingerprint of what was counted."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.columns.spec import Ids
from penstock.core.errors import PlanError
from penstock.inputs.sql.dialect import DatabaseUri, SqlDialect, quoted
from penstock.inputs.sql.server import AnswerMode, Fetch

#: Rows that share one key at most, since they are read together.
_MOST_TIES = 1 << 16


@dataclass(frozen=True)
class Query:
    """A query by ranges of its key.

    names: all columns of its result. ties: whether keys may repeat. collated: whether the database alone knows which keys are
    equal, as with text.
    """

    text: str
    key: str
    names: tuple[str, ...]
    ties: bool
    collated: bool

    @property
    def keys(self) -> str:
        """The keys, with each one's number in their order and the number of smaller ones."""
        return (
            f"SELECT k, row_number() OVER (ORDER BY k) - 1 AS n, rank() OVER (ORDER BY k) - 1 AS before "
            f"FROM (SELECT {quoted(self.key)} AS k FROM {inner(self.text)}) AS keyed"
        )

    @property
    def order(self) -> str:
        """The columns that decide the order: all the other columns order equal keys."""
        rest = [name for name in self.names if name != self.key] if self.ties else []
        return ", ".join(map(quoted, [self.key, *rest]))


def inner(text: str) -> str:
    """A user's query as a table of another one."""
    return f"(\n{text.strip().rstrip(';')}\n) AS q"


@dataclass(frozen=True, eq=False)
class KeyRanges:
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


def range_query(
    query: Query, ranges: KeyRanges, names: Sequence[str], dialect: SqlDialect, first: int, rows: int
) -> str:
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


@dataclass(frozen=True)
class KeyCounts:
    """What was counted: rows, those without a key, those whose key came before, and how many keys equal one before them at most."""

    rows: int = 0
    nulls: int = 0
    ties: int = 0
    longest: int = 0

    def check(self, query: Query, place: DatabaseUri) -> None:
        """PlanError for nulls, and for keys that repeat where they must not, or too often."""
        if self.nulls:
            raise PlanError(
                f"{place}: {self.nulls:,} of {self.rows:,} rows have no {query.key!r}, so that they have no place in its order; "
                f"add WHERE {quoted(query.key)} IS NOT NULL to the query"
            )
        if self.ties and not query.ties:
            raise PlanError(
                f"{place}: {self.ties:,} of {self.rows:,} rows repeat a value of {query.key!r}, so that it does not tell their "
                f"order; partition by a unique column, or pass ties=True to order equal ones by all other columns"
            )
        if self.longest >= _MOST_TIES:
            raise PlanError(
                f"{place}: {self.longest + 1:,} rows share one value of {query.key!r}; partition by a finer column"
            )


class Counter:
    """Counts keys that come in order, array after array, in little memory."""

    def __init__(self, step: int) -> None:
        self.told = KeyCounts()
        self._step = step
        self._last: pa.Scalar | None = None
        self._run = 0
        self._keys: list[pa.Array] = []
        self._before: list[Ids] = []

    def add(self, keys: pa.Array) -> None:
        """The next keys."""
        nulls, keys = keys.null_count, keys.drop_null()
        first, count = self.told.rows - self.told.nulls, len(keys)
        if count:
            new = np.ones(count, dtype=bool)
            new[1:] = pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
            new[0] = self._last is None or not keys[0].equals(self._last)
            number = np.arange(first, first + count)
            before = np.maximum.accumulate(np.where(new, number, self._run))
            known = np.flatnonzero((number % self._step == 0) & (before >= self._known_until()))
            known = known[np.append(True, np.diff(before[known]) > 0)[: len(known)]]
            self._keys.append(keys.take(pa.array(known)))
            self._before.append(before[known])
            self._last, self._run = keys[-1], int(before[-1])
        self.told = KeyCounts(
            self.told.rows + count + nulls,
            self.told.nulls + nulls,
            self.told.ties + (int((~new).sum()) if count else 0),
            max(self.told.longest, int((number - before).max()) if count else 0),
        )

    def _known_until(self) -> int:
        """Keys with fewer rows before them are known."""
        return next((int(before[-1]) + 1 for before in reversed(self._before) if len(before)), 0)

    def ranges(self) -> KeyRanges:
        """All that was counted."""
        assert self._last is not None
        keys = pa.concat_arrays(self._keys)
        return KeyRanges(keys, np.concatenate(self._before), self.told.rows, str(self._last))


def find_ranges(asked: AnswerMode, query: Query, step: int, place: DatabaseUri) -> KeyRanges:
    """Counts the keys. PlanError for nulls among them, and for keys that repeat where they must not.

    Numbers and times are drawn once, in order, and counted here; of text the database counts.
    """
    if query.collated:
        return _counted_there(asked.ask, query, step, place)
    counter = Counter(step)
    for batch in asked.stream(f"SELECT {quoted(query.key)} AS k FROM {inner(query.text)} ORDER BY k"):
        counter.add(plain(pa.chunked_array([batch.column(0)])).combine_chunks())
    counter.told.check(query, place)
    return counter.ranges()


def _counted_there(ask: Fetch, query: Query, step: int, place: DatabaseUri) -> KeyRanges:
    total = ask(
        f"SELECT count(*) AS n, count(k) AS keyed, max(k) AS last, sum(CASE WHEN n <> before THEN 1 ELSE 0 END) AS ties, "
        f"max(n - before) AS longest FROM ({query.keys}) AS numbered"
    )
    rows, keyed, last, ties, longest = (column[0].as_py() for column in total.columns)
    KeyCounts(int(rows), int(rows) - int(keyed), int(ties or 0), int(longest or 0)).check(query, place)
    found = ask(
        f"SELECT k, before FROM ({query.keys}) AS numbered WHERE n % {step} = 0 GROUP BY k, before ORDER BY before"
    )
    return KeyRanges(
        plain(found.column(0)).combine_chunks(), found.column(1).to_numpy().astype(np.int64), int(rows), str(last)
    )


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Without a type of Arrow's extensions: UUIDs are 16 bytes, JSON and NUMERIC are text."""
    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    return pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
