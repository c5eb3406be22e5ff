"""Rows that are held: which, where, and how they come back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core import kernels
from penstock.core.columns.rows import bytes_of, take_rows
from penstock.core.columns.spec import Columns, Field, Ids, Spec
from penstock.core.errors import DataError, PlanError
from penstock.core.messages import quoted
from penstock.core.warnings import warn
from penstock.derived.row_cache.columns import Held, fixed_bytes, held_of
from penstock.derived.row_cache.spaces import MemorySpace, Space
from penstock.derived.row_cache.table import Table
from penstock.derived.row_file import sums_of

#: Allocates the array of a column of one shape: (name, field, rows).
Allocate = Callable[[str, Field, int], Any]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What is open. seen: rows whose bytes this process has written, or compared with their checksums; None in memory. lease: kept as long as this is."""

    held: tuple[Held, ...]
    table: Table
    space: Space
    seen: npt.NDArray[np.uint8] | None = None
    lease: Any = None

    @property
    def row_bytes(self) -> int:
        """Bytes of a row's columns of one shape."""
        return sum(one.field.row_bytes for one in self.held if one.form == "fixed")

    @property
    def var(self) -> list[Held]:
        """The other columns."""
        return [one for one in self.held if one.form != "fixed"]


class RowCache:
    """Rows numbered 0 … rows - 1 in memory. For any number of threads. Each row's columns are those of the row that came first.

    limit_bytes: what is held at most; rows that have no room are not held.
    """

    where = "in memory"

    def __init__(self, rows: int, limit_bytes: int) -> None:
        self.rows, self.limit_bytes = rows, limit_bytes
        self._parts: Parts | None = None
        self._lock = threading.Lock()
        self._claimed = np.empty(0, dtype=np.uint8)  # rows that are being written
        self.is_full = False
        #: How many rows came from here, and how many were made.
        self.hits = self.made = 0

    # Which are there

    @property
    def parts(self) -> Parts | None:
        """What is open; None before the first row came."""
        return self._parts

    @property
    def spec(self) -> Spec:
        """The columns; none before the first row came."""
        return {} if self._parts is None else {one.name: one.field for one in self._parts.held}

    def has(self, rows: Ids, threads: int = 1) -> npt.NDArray[np.bool_]:
        """Which of the rows can be had."""
        parts = self.parts
        if parts is None:
            return np.zeros(len(rows), dtype=bool)
        return np.asarray(parts.table.present[rows] == 1)

    def bytes_of(self, rows: Ids) -> int:
        """Bytes of these rows' columns of no one shape."""
        parts = self._parts
        return 0 if parts is None else int(parts.table.length[rows].sum())

    def figures(self) -> dict[str, Any]:
        """Where rows are held, how many, their bytes, and the most that these may be; how many came from here, and how many were made."""
        parts = self._parts
        held = 0 if parts is None else int(np.count_nonzero(parts.table.present))
        sizes = {"size_bytes": self.size_bytes, "limit_bytes": self.limit_bytes}
        return {"where": self.where, "rows": held, **sizes, "hits": self.hits, "made": self.made}

    @property
    def size_bytes(self) -> int:
        """Bytes of what is held, with the table."""
        parts = self._parts
        return 0 if parts is None else parts.space.size_bytes + parts.table.nbytes

    # Out

    def get(self, rows: Ids, allocate: Allocate, threads: int = 1) -> Columns:
        """The columns of rows of which `has` said that they are there."""
        parts = self._parts
        assert parts is not None, "has() was asked before"
        columns, table, space, end = dict[str, Any](), parts.table, parts.space, 0
        fixed = [one for one in parts.held if one.form == "fixed"]
        if fixed:
            outs = {one.name: allocate(one.name, one.field, len(rows)) for one in fixed}
            if width := parts.row_bytes:
                place = table.start[rows, 0]
                end = int(place.max(initial=-width)) + width
                pieces, which, place = space.find(place)
                some = [one for one in fixed if one.field.row_bytes]
                widths = [one.field.row_bytes for one in some]
                kernels.unpack_rows(
                    pieces, widths, which, place // width, [bytes_of(outs[one.name]) for one in some], threads
                )
            columns |= {one.name: outs[one.name].view(np.dtype(one.dtype)) for one in fixed}
        for number, one in enumerate(parts.var):
            length, start = table.length[rows, number], table.start[rows, 1 + number]
            end = max(end, int((start + length).max(initial=0)))
            pieces, which, start = space.find(start)
            edges = np.zeros(len(rows) + 1, dtype=np.int64)
            np.cumsum(length, out=edges[1:])
            data = np.empty(int(edges[-1]), dtype=np.uint8)
            kernels.join_spans(list(pieces), which, start, length, data)
            columns[one.name] = one.decode(data, edges)
        if (
            not table.is_whole or space.is_lost or space.end < end
        ):  # the last pages of a file that ends before read as zeros
            raise DataError(f"the cache {self.where} was cut while it was read; begin anew, and it is made again")
        return {one.name: columns[one.name] for one in parts.held}

    # In

    def put(self, rows: Ids, columns: Columns, spec: Spec, threads: int = 1) -> None:
        """Holds rows, as far as there is room. PlanError for other columns than rows had before."""
        held = held_of(columns, spec)
        if isinstance(held, str):
            self.stop(f"column {quoted(held)} is of a type that cannot be kept")
            return
        if self.is_full or (parts := self._opened(held)) is None:
            self.check_alike(held)
            return
        self.check_alike(held)
        new = self._claim(parts, rows)
        if not len(new):
            return
        if not parts.table.writes:
            self.stop("it can be read, and not written")
            return
        if len(new) < len(rows):
            rows, columns = rows[new], {name: take_rows(column, new) for name, column in columns.items()}
        try:
            self._write(parts, rows, columns, threads)
        except (OSError, MemoryError) as error:
            self.stop(f"{getattr(error, 'strerror', None) or error}")
        finally:
            self._claimed[rows] = 0

    def _claim(self, parts: Parts, rows: Ids) -> Ids:
        """Which of the rows are to be written: those that are not there, each once, and that no other thread is writing."""
        with self._lock:
            if len(self._claimed) < self.rows:
                self._claimed = np.zeros(self.rows, dtype=np.uint8)
            new = np.flatnonzero((parts.table.present[rows] == 0) & (self._claimed[rows] == 0))
            _, first = np.unique(rows[new], return_index=True)
            new = np.sort(new[first])
            self._claimed[rows[new]] = 1
            return new

    def check_alike(self, held: tuple[Held, ...]) -> None:
        """PlanError unless rows that are held have these columns."""
        parts = self._parts
        if parts is None or parts.held == held:
            return
        for before, now in zip(parts.held, held, strict=False):
            if before != now:
                raise PlanError(
                    f"cache: column {quoted(before.name)} is {before} in rows that came before, and now comes {quoted(now.name)}, {now}; each row must be of "
                    f"the same columns and shapes whatever rows it comes with, so pad behind cache(). Rows {self.where} by an earlier version of a library are "
                    f"removed by `penstock cache rm`"
                )
        raise PlanError(
            f"cache: rows that came before have the columns {', '.join(one.name for one in parts.held)}, and now come {', '.join(one.name for one in held)}; "
            f"let functions return the same for all rows"
        )

    def stop(self, found: str) -> None:
        """Holds no more rows, and says why."""
        if not self.is_full:
            self.is_full = True
            warn(
                f"penstock: cache(): no more rows are kept {self.where}: {found}; training continues, and rows that are not there are made again in every epoch"
            )

    def room_bytes(self, wanted_bytes: int) -> int:
        """How many bytes may be appended now."""
        return self.limit_bytes - self.size_bytes

    def _opened(self, held: tuple[Held, ...]) -> Parts | None:
        """What is open; made for these columns if nothing is."""
        with self._lock:
            if self._parts is None:
                try:
                    self._parts = self._make(held)
                except (OSError, MemoryError) as error:
                    self.stop(f"{getattr(error, 'strerror', None) or error}")
            return self._parts

    def _make(self, held: tuple[Held, ...]) -> Parts | None:
        others = sum(one.form != "fixed" for one in held)
        return Parts(held=held, table=Table(self.rows, others), space=MemorySpace())

    def _write(self, parts: Parts, rows: Ids, columns: Columns, threads: int) -> None:
        table, width = parts.table, parts.row_bytes
        var = [one.encode(columns[one.name]) for one in parts.var]
        sizes = np.full(len(rows), width, dtype=np.int64)
        can = np.ones(len(rows), dtype=bool)
        for _, edges, is_there in var:
            sizes += np.diff(edges)
            can &= True if is_there is None else is_there
        total = np.cumsum(sizes)
        wanted = int(total[-1])
        if (room := self.room_bytes(wanted)) < wanted:
            self.is_full = True
            can &= total <= room
            some = int(np.searchsorted(total, room, side="right"))
        else:
            some = len(rows)
        if not some or not can.any():
            return
        rows, can, entries = rows[:some], can[:some], np.zeros(some, dtype=table.dtype)
        pieces = {1 + number: (data, edges) for number, (data, edges, _) in enumerate(var)}
        data = fixed_bytes(columns, parts.held, len(columns[parts.held[0].name]), threads)
        if data is not None:
            pieces[0] = data, np.arange(some + 1, dtype=np.int64) * width
        for number, (data, edges) in pieces.items():
            begin, length = edges[:some], np.diff(edges[: some + 1])
            place = parts.space.append(data[: int(edges[some])], 1 if number else width)
            entries["start"][:, number] = place + begin
            if number:
                entries["length"][:, number - 1] = length
            if parts.seen is not None:
                entries["sum"][:, number] = sums_of(data, begin, length, threads)
        if parts.seen is not None:
            parts.seen[rows[can]] = 1
        table.write(rows, entries, can)
