"""The stages themselves: functions of neighbouring rows of a lane."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.batch.merge import copied_rows
from penstock.batch.pack import pack_window
from penstock.batch.stack import field_of, materialize
from penstock.core.columns.rows import join_columns
from penstock.core.columns.spec import Columns, Ids, Spec
from penstock.core.draw_keys import DrawKeys
from penstock.core.errors import PlanError
from penstock.core.functions.random_use import mentions_generators
from penstock.core.messages import quoted
from penstock.plan.nodes import FilterFunction, FlatMap, InLanes, Pack, SkipBad
from penstock.runtime.stage import LaneResult
from penstock.stages.call import MASK, FunctionCalls
from penstock.transform.function import name_of
from penstock.transform.repeat_check import copied

#: Where fewer than one of so many rows stays, these are copied out of the others.
_FEW = 4
#: A process gets no fewer rows of a predicate's at once.
_FEWEST_ROWS = 16


@dataclass(frozen=True, kw_only=True)
class FedRows:
    """Rows of one or several lanes, one group after the other, each of neighbouring rows of a lane.

    counts: rows of each group. ids: of the rows. keys: the numbers by which they draw random numbers; key: that of the stage. states: of each group, before its
    first row. at: where some rows are missing, the places of those that are there; only `RowsThere` is given such. is_last: of which groups no more rows
    come in their lane, so that nothing is kept back; None for none.
    """

    columns: Columns
    spec: Spec
    counts: Ids
    ids: Ids
    keys: Ids
    key: int
    states: Sequence[Any]
    at: Ids | None = None
    is_last: npt.NDArray[np.bool_] | None = None

    @property
    def edges(self) -> Ids:
        """Where each group begins, and the end of all."""
        return np.concatenate([[0], np.cumsum(self.counts)])


class LaneStage(Protocol):
    """A pure function of its state and rows; it keeps nothing itself, so that a lane can move to another rank.

    rows: how many rows make a group, so that what comes out does not depend on how they were read; None where each row is for itself. is_choice:
    whether what comes out are some of its rows. name: for messages.
    """

    rows: int | None
    is_choice: bool
    name: str

    def feed(self, fed: FedRows) -> LaneResult:
        """What comes of groups of rows."""


class FilterRows:
    """The rows for which a function says True."""

    rows: int | None = None
    is_choice = True

    def __init__(self, node: FilterFunction, call: FunctionCalls, pieces: int, threads: int) -> None:
        self._call, self._pieces, self._names, self._threads = call, pieces, node.columns, threads
        # One that draws from global generators is called for each row alone: which rows come together depends on timing.
        self._is_seeded = mentions_generators(node.function)
        self.name = f"filter({name_of(node.function)})"

    def feed(self, fed: FedRows) -> LaneResult:
        """The columns as they are, and the rows that stay; where these are few, in memory of their own."""
        columns, count, keys = self._given(fed.columns), len(fed.keys), DrawKeys(fed.keys, fed.key)
        pieces = count if self._is_seeded else max(1, min(self._pieces, count // _FEWEST_ROWS))
        edges = np.linspace(0, count, 1 + max(1, pieces)).astype(np.int64).tolist()
        made = self._call.many([(_rows(columns, low, high), keys.part(low, high)) for low, high in pairwise(edges)])
        mask = np.concatenate([one[MASK] for one in made])
        rows = np.flatnonzero(mask)
        counts, kept = np.diff(np.searchsorted(rows, fed.edges)), fed.columns
        if _FEW * len(rows) < count:
            kept, rows = copied_rows(kept, rows, fed.spec, threads=self._threads), np.arange(len(rows))
        return LaneResult(columns=kept, spec=fed.spec, rows=rows, counts=counts, used=fed.counts, states=fed.states)

    def _given(self, columns: Columns) -> Columns:
        """What the function gets, and may change as a function of `map` may: the rows that stay are as they were."""
        if self._names is None:
            return copied(materialize(columns))
        for name in self._names:
            if name not in columns:
                raise PlanError(
                    f"{self.name}: no column {quoted(name)}, which columns= names; the function before it returned {', '.join(columns)}"
                )
        return copied(materialize({name: columns[name] for name in self._names}))


class RowsThere:
    """The rows that are there: where bad ones are left out, these are missing."""

    rows: int | None = None
    is_choice = True

    def __init__(self, name: str) -> None:
        self.name = name

    def feed(self, fed: FedRows) -> LaneResult:
        """The columns as they are."""
        counts = fed.counts if fed.at is None else np.diff(np.searchsorted(fed.at, fed.edges))
        rows = np.arange(int(counts.sum()))
        return LaneResult(
            columns=fed.columns, spec=fed.spec, rows=rows, counts=counts, used=fed.counts, states=fed.states
        )


class FlatMapRows:
    """Any number of rows for every group of rows."""

    is_choice = False

    def __init__(self, node: FlatMap, call: FunctionCalls) -> None:
        self._call = call
        self.rows: int | None = node.rows
        self.name = f"flat_map({name_of(node.function)})"

    def feed(self, fed: FedRows) -> LaneResult:
        """What the function returns for each group, one after the other."""
        columns, edges, keys = materialize(fed.columns), fed.edges.tolist(), DrawKeys(fed.keys, fed.key)
        groups = [(low, high) for low, high in pairwise(edges) if low < high]
        made = self._call.many([(_rows(columns, low, high), keys.part(low, high)) for low, high in groups])
        given = [len(next(iter(one.values()))) if one else 0 for one in made]
        counts = np.zeros(len(fed.counts), dtype=np.int64)
        counts[fed.counts > 0] = given
        some = [one for one, count in zip(made, given, strict=True) if count]
        joined = self._joined(some) if some else {}
        spec = {name: field_of(column) for name, column in joined.items()}
        rows = np.arange(int(counts.sum()))
        return LaneResult(columns=joined, spec=spec, rows=rows, counts=counts, used=fed.counts, states=fed.states)

    def _joined(self, parts: list[Columns]) -> Columns:
        first = _kinds(parts[0])
        for part in parts:
            if (kinds := _kinds(part)) != first:
                raise PlanError(
                    f"{self.name} returned {first} for some rows and {kinds} for others; return the same columns for all"
                )
        return join_columns(parts)


class PackRows:
    """Sequences of tokens out of rows of tokens."""

    is_choice = False

    def __init__(self, node: Pack, threads: int) -> None:
        self._packing, self._threads = node, threads
        self.rows: int | None = node.window if node.strategy == "best_fit" else None
        self.name = f"pack({', '.join(node.columns)})"

    def feed(self, fed: FedRows) -> LaneResult:
        """The sequences of each group. Where rows are joined and cut, a state says how many tokens of the group's first row are used already."""
        skip = [state or 0 for state in fed.states] if self.rows is None else None
        is_last = False if fed.is_last is None else fed.is_last.tolist()
        packed = pack_window(
            fed.columns, self._packing, fed.counts.tolist(), skip=skip, is_last=is_last, threads=self._threads
        )
        rows = np.arange(int(packed.sequences.sum()))
        states, counts = packed.skip.tolist() if self.rows is None else fed.states, packed.sequences
        return LaneResult(
            columns=packed.columns, spec=packed.spec, rows=rows, counts=counts, used=packed.used, states=states
        )


def _rows(columns: Mapping[str, Any], low: int, high: int) -> Columns:
    return {
        name: column.slice(low, high - low) if isinstance(column, pa.Array) else column[low:high]
        for name, column in columns.items()
    }


def _kinds(columns: Columns) -> dict[str, str]:
    return {
        name: f"{column.type}{' or null' * field_of(column).nullable}"
        if isinstance(column, pa.Array)
        else str(field_of(column))
        for name, column in columns.items()
    }


#: The stage of each node, for so many threads. calls: gives the calls of a node's function.
STAGES: dict[type, Callable[[Any, int, Callable[[Any], FunctionCalls]], LaneStage]] = {
    FilterFunction: lambda node, threads, calls: FilterRows(node, calls(node), _pieces(node, threads), threads),
    FlatMap: lambda node, _, calls: FlatMapRows(node, calls(node)),
    Pack: lambda node, threads, _: PackRows(node, threads),
    SkipBad: lambda node, _, __: RowsThere(node.verb),
    InLanes: lambda node, _, __: RowsThere(node.verb),
}


def _pieces(node: FilterFunction, processes: int) -> int:
    """Pieces of a predicate's rows: one on this thread."""
    return 1 if node.workers == "thread" else processes
