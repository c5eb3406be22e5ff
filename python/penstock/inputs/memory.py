"""What is in memory already, as a dataset (see `memory_columns` for what that may be)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core import kernels
from penstock.core.columns.categories import Categories
from penstock.core.columns.plain import as_indices
from penstock.core.columns.ragged import is_numbers, pick_numbers
from penstock.core.columns.spec import Columns, Ids, Spans, Spec
from penstock.core.errors import PlanError, SourceError
from penstock.core.verbs.options import Nulls
from penstock.inputs.memory_columns import hold, named_columns
from penstock.source.manifest import Manifest, StatedManifest
from penstock.source.protocol import Access, Allocate

#: Bytes of each column that its digest looks at, in 64 evenly spread pieces.
_DIGEST_BYTES = 1 << 20
#: Rows that are gathered while their order is computed: of a cache line at most, in few columns.
_SHORT_BYTES, _FEW_COLUMNS = 64, 4


@dataclass(frozen=True, eq=False)
class MemoryManifest(StatedManifest):
    """A manifest without files; the digest reads 1 MiB of each column, spread evenly, besides dtypes and shapes."""

    columns: Mapping[str, npt.NDArray[Any] | pa.Array] = field(default_factory=dict)
    spec: Spec = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """32 hex digits that identify the data."""
        state = hashlib.blake2b(digest_size=16)
        for name, column in self.columns.items():
            state.update(f"{name} {self.spec[name]} {len(column)}".encode())
            for part in _buffers(column):
                step = max(1, len(part) // 64)
                for start in range(0, len(part), step):
                    state.update(part[start : start + min(step, _DIGEST_BYTES // 64)])
        return state.hexdigest()


def _taken(column: pa.Array, samples: Ids) -> pa.Array:
    return (
        pick_numbers([column], np.zeros_like(samples), samples)
        if is_numbers(column)
        else column.take(as_indices(samples))
    )


@dataclass(frozen=True, eq=False)
class Arrays:
    """Columns in memory, gathered by native code."""

    manifest: Manifest
    spec: Spec
    columns: Mapping[str, npt.NDArray[Any] | pa.Array]
    access: Access = Access.MEMORY
    of_categories: Mapping[str, tuple[Categories, ...]] = field(default_factory=dict)

    def categories(self, name: str) -> Sequence[Categories]:
        """See `source.protocol.CategorySource`."""
        return self.of_categories.get(name, ())

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """Row `samples[i]` of every column at place i."""
        taken: Columns = {}
        for name, column in self.columns.items():
            if isinstance(column, pa.Array):
                taken[name] = _taken(column, samples)
                continue
            field = self.spec[name]
            out = allocate(name, field, len(samples))
            kernels.gather_rows(_flat(column), field.row_bytes, samples, _flat(out), threads)
            taken[name] = out
        return taken

    def only(self, names: Sequence[str]) -> Arrays:
        """The same rows with these columns alone."""
        spec = {name: self.spec[name] for name in names}
        return replace(self, spec=spec, columns={name: self.columns[name] for name in names})

    @property
    def gathers_steps(self) -> bool:
        """Whether rows are so short that finding them takes longer than copying them."""
        fields = self.spec.values()
        return all(0 < field.row_bytes <= _SHORT_BYTES for field in fields) and len(self.spec) <= _FEW_COLUMNS

    def gather_steps(
        self,
        order: kernels.EpochOrder,
        share: tuple[int, int],
        step: int,
        rows: int,
        allocate: Allocate,
    ) -> Columns:
        """Whole steps of an epoch, `rows` in all: gathers them while their order is computed."""
        outs = {name: allocate(name, field, rows) for name, field in self.spec.items()}
        sources = [_flat(self.columns[name]) for name in outs]
        widths = [field.row_bytes for field in self.spec.values()]
        order.gather_steps(share, step, rows, sources, widths, [_flat(out) for out in outs.values()])
        return dict(outs)


def from_arrays(columns: Any, nulls: Nulls = "error") -> Arrays:
    """Opens columns of equal length; PlanError for what has no rows, is of another length, or cannot be held natively, as nulls unless there is a rule."""
    held = {name: hold(name, column, nulls) for name, column in named_columns(columns).items()}
    if not held:
        raise SourceError("from_arrays: no columns; pass e.g. {'x': np.arange(10)}")
    lengths = {name: len(column.values) for name, column in held.items()}
    if len(set(lengths.values())) > 1:
        raise PlanError(f"from_arrays: the columns differ in length: {lengths}")
    rows = next(iter(lengths.values()))
    if rows == 0:
        raise SourceError("from_arrays: the columns have no rows")
    values = {name: column.values for name, column in held.items()}
    spec = {name: column.field for name, column in held.items()}
    size_bytes = sum(len(part) for column in values.values() for part in _buffers(column))
    manifest = MemoryManifest.of("arrays", rows, "", size_bytes, columns=values, spec=spec)
    found = {name: column.categories for name, column in held.items() if column.categories}
    return Arrays(manifest, spec, values, of_categories=found)


def _flat(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)


def _buffers(column: npt.NDArray[Any] | pa.Array) -> list[memoryview]:
    if isinstance(column, pa.Array):
        return [memoryview(buffer) for buffer in column.buffers() if buffer is not None]
    return [memoryview(_flat(column).data)]
