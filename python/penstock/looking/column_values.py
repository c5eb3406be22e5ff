"""The values of an expression for the rows of a plan, in their natural order: what a verb looks at to choose among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.batch.stack import materialize
from penstock.core.columns.repeated_values import is_repeated
from penstock.core.columns.spec import Columns, Field, Ids, Spec, is_list
from penstock.core.cpus import usable_cpus
from penstock.core.errors import PlanError, RowError
from penstock.core.files.byte_ranges import Progress
from penstock.core.messages import quoted
from penstock.core.names import did_you_mean
from penstock.order.rows.zipped import FollowedRows, followed
from penstock.plan.columns import spec_of
from penstock.plan.expression import Expression, columns_of
from penstock.plan.expression_values import no_rows, row_value_of, value_of
from penstock.plan.in_sources import in_sources
from penstock.plan.nodes import Node, Read
from penstock.plan.nullable import bfloat16_as_float32, true_of
from penstock.plan.possibly_true import may_be_true
from penstock.plan.tree import inputs_of, leaves
from penstock.resolve.resolved import resolve
from penstock.resolve.row_places import RowPlaces
from penstock.source.nulls import stored
from penstock.source.protocol import (
    BlockSource,
    BoundedSource,
    ColumnSource,
    NullSource,
    ScannedSource,
    StoringSource,
)
from penstock.stages.read.blocks import named_rows
from penstock.stages.read.samples import load_samples

#: Bytes of records, and rows, that are looked at together.
_BYTES, _ROWS = 16 << 20, 1 << 20
#: So many rows of small parts are looked at together.
_SCANNED_ROWS = 1 << 16
#: Of rows in columns, those between two that are wanted are loaded as well, if they are no more.
_BRIDGED_ROWS = 1024


def check_expression(verb: str, root: Node, expression: Expression) -> Any:
    """What an expression gives, without rows; PlanError for columns that are not there, and types that do not fit."""
    return _checked(verb, root, expression)[1]


def _checked(verb: str, root: Node, expression: Expression) -> tuple[Expression, Any]:
    """The expression of what sources have, and what it gives without rows."""
    spec, names = spec_of(root), columns_of(expression)
    for name in sorted(names):
        if name not in spec:
            known = ", ".join(sorted(spec))
            raise PlanError(f"{verb}: no column {quoted(name)}; there are {known}{did_you_mean(name, spec)}")
    if not names:
        raise PlanError(
            f"{verb}: {quoted(expression)} names no column, so that it is the same for all rows; write penstock.col(name)"
        )
    given, expression = expression, in_sources(verb, root, expression)
    sources = [stored(leaf.opened.source).spec for leaf in leaves(root)]  # where columns have nulls, and no NaN
    named = columns_of(expression)
    if not named:
        raise PlanError(f"{verb}: {quoted(given)} is {quoted(expression)}, the same for all rows")
    fields = {name: next((one[name] for one in sources if name in one), spec.get(name)) for name in named}
    try:
        found = value_of(expression, {name: no_rows(field) for name, field in fields.items() if field is not None})
    except PlanError as error:
        raise PlanError(f"{verb}: {error}") from None
    if not isinstance(found, pa.Array) and np.ndim(found) != 1:
        kinds = ", ".join(f"{name} is {spec[name]}" for name in sorted(names))
        raise PlanError(
            f"{verb}: {quoted(given)} gives {np.shape(found)[1:]} values a row, where one belongs ({kinds}); take one with map"
        )
    if isinstance(found, pa.Array) and is_list(found.type):
        raise PlanError(f"{verb}: {quoted(given)} gives lists, where one value a row belongs; len() is their length")
    if isinstance(found, pa.Array) and pa.types.is_temporal(found.type):
        raise PlanError(f"{verb}: {quoted(given)} gives dates; take a part of it, or cast('int64')")
    return expression, found


def column_values(verb: str, root: Node, expression: Expression, progress: Progress | None) -> Any:
    """The expression's value for every row: a NumPy array, or an Arrow array of text or bytes, or of numbers some of which are null. Reads the columns that it names, and no row twice."""
    expression, empty = _checked(verb, root, expression)
    names = columns_of(expression)
    return row_values(
        root, names, lambda columns, _: row_value_of(expression, columns), empty, progress, sees_nulls=True
    )


def mapped_values(
    verb: str, root: Node, expression: Expression, make: Callable[[Any], Any], empty: Any, progress: Progress | None
) -> Any:
    """What `make` gives for the expression's values of some rows, for every row. empty: what it gives for none."""
    expression, _ = _checked(verb, root, expression)
    names = columns_of(expression)
    return row_values(
        root, names, lambda columns, _: make(row_value_of(expression, columns)), empty, progress, sees_nulls=True
    )


def true_rows(verb: str, root: Node, predicate: Expression, progress: Progress | None) -> Ids:
    """The rows for which a predicate is true, ascending. Nothing is read of rows for which it cannot be, by what their source says of them."""
    predicate, empty = _checked(verb, root, predicate)
    names = columns_of(predicate)
    rows = resolve(root).natural
    ids = np.arange(rows.rows)
    wanted = ids if rows.is_identity else np.unique(ids := rows.ids(ids))
    possible = _possible(root, names, predicate, wanted)
    parts, done = [empty], 0
    for part in parts_of(root, names, possible, sees_nulls=True):
        with _RowsNamed(root, possible[done : done + part.rows]):
            parts.append(np.broadcast_to(true_of(row_value_of(predicate, part.columns)), part.rows))
        done += part.rows
        if progress is not None:
            progress(done, len(possible))
    true = possible[np.concatenate(parts)]
    return true if rows.is_identity else np.flatnonzero(np.isin(ids, true))


def _possible(root: Node, names: set[str], predicate: Expression, ids: Ids) -> Ids:
    """Those of rows, by their ids, which ascend, for which a predicate could be true."""
    if resolve(root).links:
        return ids
    may = np.ones(len(ids), dtype=np.bool_)
    for leaf, _, first_id in resolve(root).numbered_sources:
        source = stored(leaf.opened.source)
        for run in source.bounds(sorted(names)) if isinstance(source, BoundedSource) else ():
            if not may_be_true(predicate, run.of, source.spec):
                low, high = np.searchsorted(ids, [first_id + run.first, first_id + run.first + run.rows])
                may[low:high] = False
    return ids[may]


def row_values(
    root: Node,
    names: set[str],
    make: Callable[[dict[str, Any], int], Any],
    empty: Any,
    progress: Progress | None,
    *,
    sees_nulls: bool = False,
) -> Any:
    """What `make` gives for every row, out of columns of some rows and their number. empty: what it gives for none.

    sees_nulls: whether the columns have their nulls; else they are as batches have them.
    """
    rows = resolve(root).natural
    places = None if rows.is_identity else rows.ids(np.arange(rows.rows))
    wanted = np.arange(rows.rows) if places is None else np.unique(places)
    done, parts = 0, []
    for part in parts_of(root, names, wanted, sees_nulls=sees_nulls):
        with _RowsNamed(root, wanted[done : done + part.rows]):
            parts.append(make(dict(part.columns), part.rows))
        done += part.rows
        if progress is not None:
            progress(done, len(wanted))
    whole = _joined([empty, *parts])
    if places is None or (rows.rows == len(wanted) and bool((places == wanted).all())):
        return whole
    return taken(whole, np.searchsorted(wanted, places))


def parts_of(
    root: Node, names: set[str], ids: Ids | range, *, sees_nulls: bool, keeps_repeated: bool = False
) -> Iterator[_RowPart]:
    """Columns of rows by their ids, which ascend. keeps_repeated: text may come as Arrow dictionaries."""
    first_ids, links = resolve(root).first_ids, resolve(root).links
    if links:
        yield from _parts_of_zips(root, names, written(ids), links, sees_nulls=sees_nulls)
        return
    for number, leaf in enumerate(leaves(root)):
        first, end = first_ids[number : number + 2].tolist()
        if isinstance(ids, range):
            some: Ids | range = range(max(0, ids.start - first), min(end, ids.stop) - first)
        else:
            low, high = np.searchsorted(ids, [first, end])
            some = ids[low:high] - first
        yield from _Looking(leaf, names, sees_nulls=sees_nulls, keeps_repeated=keeps_repeated).batches(some)


def _parts_of_zips(
    root: Node, names: set[str], ids: Ids, links: tuple[FollowedRows, ...], *, sees_nulls: bool
) -> Iterator[_RowPart]:
    """The same where columns of a row come from several sources."""
    first_ids = resolve(root).first_ids.tolist()
    having = zip(count(), leaves(root), _of_each_leaf(root, names), strict=False)
    looking = [(number, _Looking(leaf, some, sees_nulls=sees_nulls)) for number, leaf, some in having if some]
    together = min(one.rows for _, one in looking)
    for begin in range(0, len(ids), together):
        some = ids[begin : begin + together]
        whole, row = followed(links, some)
        found: dict[str, list[tuple[Ids, Any]]] = {name: [] for name in sorted(names)}
        for number, one in looking:
            mine = np.flatnonzero((whole >= first_ids[number]) & (whole < first_ids[number + 1]))
            for name, column in one.columns(whole[mine] - first_ids[number]).items():
                found[name].append((row[mine], column))
        yield _RowPart(len(some), {name: _at_rows(pieces) for name, pieces in found.items()})


def _of_each_leaf(root: Node, names: set[str]) -> Iterator[set[str]]:
    """Which of the columns come from each source: of a zip, from the first dataset that gives them."""
    if isinstance(root, Read):
        yield names & root.opened.source.spec.keys()
        return
    is_zip, left = root.joins == "columns", names
    for below in inputs_of(root):
        mine = left & resolve(below).spec.keys() if is_zip else left
        left = left - mine if is_zip else left
        yield from _of_each_leaf(below, mine)


def _at_rows(pieces: Sequence[tuple[Ids, Any]]) -> Any:
    """A column of pieces, by the rows that each is of."""
    rows, columns = zip(*pieces, strict=True)
    return taken(_joined(columns), np.argsort(np.concatenate(rows)))


class _RowsNamed:
    """Turns what is wrong with one of some rows into a PlanError that says where it lies. ids: of the rows."""

    def __init__(self, root: Node, ids: Ids) -> None:
        self._root, self._ids = root, ids

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, RowError):
            resolved = resolve(self._root)
            places = RowPlaces(resolved.first_ids, leaves(self._root), resolved.links)
            raise PlanError(f"{places(int(self._ids[error.row]))}: {error.found}; {error.do}") from None


def written(numbers: Ids | range) -> Ids:
    """Numbers as an array."""
    return np.arange(numbers.start, numbers.stop) if isinstance(numbers, range) else numbers


def taken(column: Any, rows: Ids) -> Any:
    """Rows of a column, by their numbers."""
    return column.take(pa.array(rows)) if isinstance(column, pa.Array) else column[rows]


def _joined(parts: Sequence[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if not any(isinstance(part, pa.Array) for part in parts):
        return np.concatenate(parts)
    if len(parts) > 1 and not len(parts[0]):  # what is made of no rows knows of no nulls
        return _joined(parts[1:])
    if any(map(is_repeated, parts)) and not all(map(is_repeated, parts)):
        parts = [part.dictionary_decode() if is_repeated(part) else part for part in parts]
    return pa.concat_arrays([part if isinstance(part, pa.Array) else pa.array(part) for part in parts])


@dataclass(frozen=True, eq=False)
class _RowPart:
    """Some rows, and their columns."""

    rows: int
    columns: Mapping[str, Any]


class _Looking:
    """Goes through some columns of a source once."""

    def __init__(self, leaf: Read, names: set[str], *, sees_nulls: bool, keeps_repeated: bool = False) -> None:
        source: Any = leaf.opened.source
        self._keeps_repeated = keeps_repeated
        self._read, self._spec, self._names = leaf.opened.read_ranges, source.spec, sorted(names)
        self._with_nulls = source if sees_nulls and source is not stored(source) else None
        needed = self._names
        if self._with_nulls is not None:
            needed, source = source.stored_names(needed), stored(source)
        if sees_nulls and isinstance(source, NullSource):
            source = source.seeing_nulls()
        if self._with_nulls is not None:
            self._spec = {**source.spec, **{name: self._spec[name] for name in self._names if name not in source.spec}}
        self._source = source
        if isinstance(source, StoringSource):
            self._source = source.once(needed)
        elif isinstance(source, ColumnSource):
            self._source = source.only(needed)
        manifest = source.manifest
        self.rows = max(1, min(_ROWS, _BYTES * manifest.samples // max(1, manifest.size_bytes)))

    def batches(self, samples: Ids | range) -> Iterator[_RowPart]:
        """The columns of samples, which ascend."""
        is_scanned = isinstance(stored(self._source), ScannedSource)
        return self._scanned(samples) if is_scanned else self._loaded(samples)

    def _loaded(self, samples: Ids | range) -> Iterator[_RowPart]:
        for begin in range(0, len(samples), self.rows):
            some = written(samples[begin : begin + self.rows])
            for run in self._runs(some):
                columns = self._load(run)
                if self._with_nulls is not None:
                    columns = self._with_nulls.looked_at(columns)
                yield _RowPart(len(run), _plain(columns, self._spec, self._names))

    def _scanned(self, samples: Ids | range) -> Iterator[_RowPart]:
        """The same part by part of the source, each decoded once; small ones together."""
        edges = stored(self._source).first_row
        if isinstance(samples, range):
            cuts = np.clip(edges, samples.start, max(samples.start, samples.stop)) - samples.start
        else:
            cuts = np.searchsorted(samples, edges)
        together, waiting, rows = min(_SCANNED_ROWS, self.rows), list[Mapping[str, Any]](), 0
        for number in np.flatnonzero(np.diff(cuts)).tolist():
            (first, end), (low, high) = edges[number : number + 2].tolist(), cuts[number : number + 2].tolist()
            columns = self._part(number, first)
            if high - low < end - first:
                wanted = written(samples[low:high]) - first
                columns = {name: taken(column, wanted) for name, column in columns.items()}
            waiting.append(columns)
            rows += high - low
            if rows >= together:
                yield self._together(waiting, rows)
                waiting, rows = [], 0
        if waiting:
            yield self._together(waiting, rows)

    def _together(self, parts: Sequence[Mapping[str, Any]], rows: int) -> _RowPart:
        return _RowPart(rows, {name: _joined([part[name] for part in parts]) for name in self._names})

    def _part(self, number: int, first: int) -> dict[str, Any]:
        """The columns of a part of a source, which begins with this sample."""
        with named_rows(self._source, first):
            columns = stored(self._source).part_columns(number, keeps_repeated=self._keeps_repeated)
            if self._source is not stored(self._source):
                columns = self._source.applied(columns)
        if self._with_nulls is not None:
            columns = self._with_nulls.looked_at(columns)
        return _plain(columns, self._spec, self._names)

    def columns(self, samples: Ids) -> dict[str, Any]:
        """The columns of samples in any order, each of which comes once; nothing for none."""
        turn = np.argsort(samples)
        parts = [part.columns for part in self._loaded(samples[turn])]
        back = np.argsort(turn)
        return {name: taken(_joined([part[name] for part in parts]), back) for name in self._names if parts}

    def _runs(self, samples: Ids) -> list[Ids]:
        if not isinstance(self._source, BlockSource):
            return [samples]
        return np.split(samples, np.flatnonzero(np.diff(samples) > _BRIDGED_ROWS) + 1)

    def _load(self, samples: Ids) -> Columns:
        if not isinstance(self._source, BlockSource):
            return load_samples(self._source, self._read, samples, threads=usable_cpus())
        first = int(samples[0])
        spanned = np.arange(first, int(samples[-1]) + 1)
        loaded = load_samples(self._source, self._read, spanned, threads=usable_cpus())
        if len(samples) == len(spanned):
            return loaded
        return {name: taken(column, samples - first) for name, column in materialize(loaded).items()}


def _plain(columns: Columns, spec: Spec, names: Sequence[str]) -> dict[str, Any]:
    """Columns as expressions take them: bytes as Arrow arrays, bfloat16 as float32."""
    found = materialize({name: columns[name] for name in names})
    return {name: bfloat16_as_float32(column) if _is_bfloat16(spec[name]) else column for name, column in found.items()}


def _is_bfloat16(field: Field) -> bool:
    return field.dtype == "bfloat16" and field.required.is_fixed
