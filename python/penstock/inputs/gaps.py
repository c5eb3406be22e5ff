"""What stands for missing values: of each run of rows in which a column is missing, the last value before it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns.spec import Columns, Field, Ids, Spans, Spec
from penstock.source.manifest import Manifest, StatedManifest
from penstock.source.protocol import Access, Allocate


@dataclass(frozen=True, eq=False)
class Gaps:
    """Runs of rows, from `first` to before `end`, ascending, and the value that each has."""

    first: Ids
    end: Ids
    values: pa.Array

    @classmethod
    def of(cls, values: Any, missing: npt.NDArray[np.bool_]) -> Gaps:
        """Those of a column: rows before its first value are in none."""
        edges = np.flatnonzero(np.diff(missing, prepend=False, append=False))
        first, end = edges[::2], edges[1::2]
        some = slice(int(len(first) > 0 and first[0] == 0), None)
        before = pa.array(first[some] - 1)
        taken = (values if isinstance(values, pa.Array) else pa.array(values)).take(before)
        return cls(first[some].astype(np.int64), end[some].astype(np.int64), taken)

    def __len__(self) -> int:
        return len(self.first)

    def at(self, rows: Ids) -> pa.Array:
        """The values of rows; null for one in no run."""
        run = np.searchsorted(self.first, rows, side="right") - 1
        is_outside = (run < 0) | (rows >= self.end[run])
        return self.values.take(pa.array(run, mask=is_outside))

    def update(self, state: Any) -> None:
        """Adds what it holds to a digest."""
        state.update(
            repr(list(zip(self.first.tolist(), self.end.tolist(), self.values.to_pylist(), strict=True))).encode(
                "utf-8", "surrogatepass"
            )
        )


@dataclass(frozen=True, eq=False)
class GapValues:
    """As many rows as the data has, with the value that stands for what is missing, or null."""

    manifest: Manifest
    spec: Spec
    gaps: Mapping[str, Gaps]
    access: Access = field(default=Access.MEMORY)

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """See `Source`."""
        return {name: gaps.at(samples) for name, gaps in self.gaps.items()}

    def only(self, names: Sequence[str]) -> GapValues:
        """See `ColumnSource`."""
        return replace(
            self, spec={name: self.spec[name] for name in names}, gaps={name: self.gaps[name] for name in names}
        )


def gap_values(rows: int, gaps: Mapping[str, Gaps], fields: Spec) -> GapValues:
    """The source of some columns. fields: theirs."""
    state = hashlib.blake2b(f"{rows}".encode(), digest_size=16)
    for name, one in gaps.items():
        state.update(f"{name} {fields[name]} {len(one)}".encode("utf-8", "surrogatepass"))
        one.update(state)
    size_bytes = sum(one.first.nbytes + one.end.nbytes + one.values.nbytes for one in gaps.values())
    manifest = StatedManifest.of("gaps", rows, state.hexdigest(), size_bytes)
    spec: dict[str, Field] = {name: replace(fields[name], nullable=True) for name in gaps}
    return GapValues(manifest, spec, gaps)
