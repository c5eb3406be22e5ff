"""Recipes for the engine: chains of fitted ops, and one native call a batch for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.columns.row_sources import RowSources
from penstock.core.columns.rows import take_rows
from penstock.core.columns.spec import Columns, Field, Ids, Spec
from penstock.core.draw_keys import DrawKeys
from penstock.core.errors import PlanError, RowError
from penstock.core.messages import quoted
from penstock.transform.family import Chains, Family, Kernel, Op, Site, Workspace, one_column
from penstock.transform.table.op import ColumnOp
from penstock.transform.table.program import Compiled, compiled, filled_texts, last_lane


@dataclass(frozen=True)
class Matrix(Op):
    """Several chains, whose numbers stand side by side in one column of float32: see `FittedRecipe.matrix`. chains: columns with their ops."""

    chains: tuple[tuple[str, tuple[ColumnOp, ...]], ...]

    family = "table"
    goes_along = True

    def needs(self, name: str) -> tuple[str, ...]:
        """See `Op`."""
        return tuple(dict.fromkeys(one for column, ops in self.chains for one in ops[0].needs(column)))

    def output(self, name: str, given: Spec) -> Spec:
        """See `Op`."""
        if not {*self.needs(name)} <= given.keys():
            return given
        lanes = [last_lane(column, ops, given) for column, ops in self.chains]
        return {**given, name: Field("float32", (sum(lane.width for lane in lanes),))}


class TableKernel(Kernel):
    """Chains of tables, compiled."""

    def __init__(self, every: Sequence[Compiled], sources: RowSources | None = None) -> None:
        self._every, self._sources = every, sources
        inputs = [one for part in every for one in part.inputs]
        self._folds = {one.name: one.folds for one in inputs if one.folds is not None}
        self.columns = tuple(dict.fromkeys(one.name for one in inputs if one.folds is None))
        self.columns += tuple(
            one.input.name
            for part in every
            for one in part.outputs
            if one.array is None and one.input.name not in self.columns
        )
        self.fields = {one.name: one.field for part in every for one in part.outputs}

    def __call__(self, columns: Columns, keys: Mapping[str, DrawKeys], work: Workspace) -> Columns:
        """See `Kernel`."""
        given: dict[str, Any] = {name: one_column(name, columns) for name in self.columns}
        for name, folds in self._folds.items():
            assert self._sources is not None
            assert work.ids is not None
            given[name] = folds.versions(self._sources, work.ids)
        try:
            return self._made(given, work)
        except RowError:
            if work.bad is None:
                raise
            return self._good_rows(given, work)

    def _good_rows(self, columns: Columns, work: Workspace) -> Columns:
        """What is made where some rows are bad, which `work.bad` gets; there stand zeros."""
        rows = np.arange(len(columns[self.columns[0]]))
        bad = self._bad_rows(columns, rows)
        assert work.bad is not None
        work.bad(bad)
        good = np.delete(rows, [error.row for error in bad])
        some = self._made({name: take_rows(column, good) for name, column in columns.items()}, _aside())
        made: Columns = {}
        for one in (one for part in self._every for one in part.outputs):
            if one.array is None:
                made[one.name] = filled_texts(columns, one)
                continue
            made[one.name] = array = work.allocate(one.name, one.field, len(rows))
            array[...] = 0
            array[good] = some[one.name]
        return made

    def _made(self, columns: Columns, work: Workspace) -> Columns:
        made: Columns = {}
        rows = len(columns[self.columns[0]])
        for part in self._every:
            arrays = [work.allocate(one.name, one.field, rows) for one in part.outputs if one.array is not None]
            if part.program is not None:
                part.program.run(part.given(columns), [array.reshape(-1) for array in arrays], work.threads)
            left = iter(arrays)
            for one in part.outputs:
                made[one.name] = filled_texts(columns, one) if one.array is None else next(left)
        return made

    def _bad_rows(self, columns: Columns, rows: Ids) -> list[RowError]:
        """The errors of all bad rows: halves are tried."""
        if not len(rows):
            return []
        some = {name: take_rows(column, rows) for name, column in columns.items()}
        try:
            self._made(some, _aside())
        except RowError as error:
            if len(rows) == 1:
                return [RowError(int(rows[0]), error.found, error.do)]
            middle = len(rows) // 2
            return [*self._bad_rows(columns, rows[:middle]), *self._bad_rows(columns, rows[middle:])]
        return []


def _aside() -> Workspace:
    """For rows that are not delivered."""
    return Workspace(allocate=lambda _, field, count: np.empty((count, *field.shape), field.dtype))


class TableFamily(Family):
    """See `Family`."""

    def compile(self, chains: Chains, site: Site) -> Kernel:
        """See `Family`."""
        for name, ops in chains.items():
            for op in ops:
                if not isinstance(op, (ColumnOp, Matrix)):
                    raise PlanError(
                        f"transform: {op} on column {quoted(name)} stands beside ops of penstock.table; write it in a transform of its own"
                    )
        matrices = {name: ops[0] for name, ops in chains.items() if isinstance(ops[0], Matrix)}
        others: dict[str, Any] = {name: ops for name, ops in chains.items() if name not in matrices}
        sources = site.sources
        every = [compiled(dict(one.chains), site.fields, name, sources) for name, one in matrices.items()]
        every += [compiled(others, site.fields, sources=sources)] if others else []
        return TableKernel(every, sources)


FAMILY = TableFamily()
