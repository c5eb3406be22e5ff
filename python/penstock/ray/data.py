"""Ray Data's datasets as inputs, and ours as its."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, pairwise
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import ray
import ray.data
from ray.data.block import BlockMetadata
from ray.data.datasource import Datasource, ReadTask
from ray.data.extensions import ArrowTensorArray, ArrowTensorType, ArrowTensorTypeV2

from penstock.core.columns.spec import Columns, Ids, Spec
from penstock.core.errors import DataError, PenstockError, PlanError, ProcessError, SourceError
from penstock.core.messages import quoted
from penstock.core.verbs.options import Asked, Nulls, Options
from penstock.dataset import Dataset, of_source
from penstock.loader import Loader
from penstock.plan.nodes import Batch
from penstock.plan.tree import flow
from penstock.source.manifest import StatedManifest, digest_of
from penstock.source.nulls import null_rows
from penstock.source.nulls import with_nulls as nulls_by_rule
from penstock.source.protocol import Access
from penstock.source.tables.table import TableColumn, choose_columns, columns_of, with_nulls

#: Bytes of rows that are loaded together, and rows at most; and rows of each block that its digest looks at.
_BLOCK_BYTES, _BLOCK_ROWS, _SAMPLED = 1 << 20, 1 << 16, 64
#: Ray's blocks that stay open, and bytes of them, which its object store cannot give to others meanwhile.
_OPEN, _OPEN_BYTES = 16, 256 << 20
#: Rows of a batch where `to_ray` gets a dataset that ends with none.
_ROWS_TOGETHER = 1024
_TENSORS = (ArrowTensorType, ArrowTensorTypeV2)


# From Ray


@dataclass(frozen=True)
class RayBlock:
    """What is known of one of Ray's blocks without fetching it."""

    rows: int
    size_bytes: int
    digest: str
    schema: pa.Schema
    nulls: frozenset[str]


@dataclass(frozen=True, eq=False)
class RayManifest(StatedManifest):
    """A manifest that knows in which of Ray's blocks a row lies."""

    edges: Ids = field(default_factory=lambda: np.zeros(1, dtype=np.int64))

    def place(self, sample: int) -> str:
        """Where a row is, for messages."""
        block = int(np.searchsorted(self.edges, sample, side="right")) - 1
        return f"ray.data.Dataset, block {block:,}, row {sample - int(self.edges[block]):,}"


class OpenBlocks:
    """Ray's blocks by number; the last few that were asked for stay."""

    def __init__(self, refs: Sequence[Any]) -> None:
        self._refs, self._lock = tuple(refs), Lock()
        self._open: OrderedDict[int, pa.Table] = OrderedDict()

    def __reduce__(self) -> tuple[Any, ...]:
        return OpenBlocks, (self._refs,)

    def __getitem__(self, number: int) -> pa.Table:
        """A block as a table; DataError where Ray has lost it."""
        with self._lock:
            if (table := self._open.get(number)) is not None:
                self._open.move_to_end(number)
                return table
        if not ray.is_initialized():
            raise ProcessError(
                "from_ray: this process has not joined the cluster that holds the blocks; leave isolation= out, or use penstock.ray.Loader"
            )
        try:
            table = plain_table(ray.get(self._refs[number]))
        except ray.exceptions.RayError as error:
            raise DataError(
                f"ray.data.Dataset, block {number:,}: Ray has lost it ({type(error).__name__}); make the dataset again, or write it to files and read these"
            ) from error
        with self._lock:
            self._open[number] = table
            held = sum(one.nbytes for one in self._open.values())
            while len(self._open) > _OPEN or (len(self._open) > 1 and held > _OPEN_BYTES):
                held -= self._open.popitem(last=False)[1].nbytes
        return table


@dataclass(frozen=True, eq=False)
class RaySource:
    """Rows of a dataset of Ray Data, block after block."""

    manifest: RayManifest
    columns: tuple[TableColumn, ...]
    block_rows: int
    blocks: OpenBlocks = field(repr=False)
    access: Access = Access.BLOCKS

    @property
    def spec(self) -> Spec:
        """The columns that were asked for."""
        return {column.name: column.field for column in self.columns}

    def only(self, names: Sequence[str]) -> RaySource:
        """See `ColumnSource`."""
        known = {column.name: column for column in self.columns}
        return replace(self, columns=tuple(known[name] for name in names))

    def seeing_nulls(self) -> RaySource:
        """See `NullSource`."""
        return replace(self, columns=with_nulls(self.columns, lambda _: None))

    def load(self, first: int, rows: int) -> Columns:
        """See `BlockSource`."""
        edges, end = self.manifest.edges, first + rows
        parts, number = [], int(np.searchsorted(edges, first, side="right")) - 1
        while first < end:
            stop = min(end, int(edges[number + 1]))
            parts.append(self.blocks[number].slice(first - int(edges[number]), stop - first))
            first, number = stop, number + 1
        return columns_of(parts[0] if len(parts) == 1 else pa.concat_tables(parts), self.columns)


def from_ray(data: Any, *, columns: Asked, nulls: Nulls) -> Dataset:
    """See `penstock.from_ray`."""
    source = open_blocks(data, Options(columns=columns, nulls=nulls))
    return of_source(nulls_by_rule(source, nulls, columns), "ray.data.Dataset", columns)


def open_blocks(data: Any, options: Options) -> RaySource:
    """Runs a dataset of Ray Data and opens its blocks."""
    if not isinstance(data, ray.data.Dataset):
        raise PlanError(f"from_ray({quoted(type(data).__name__)}): pass a ray.data.Dataset")
    refs = _arrow_blocks(data)
    known = _described(refs)
    refs, known = [ref for ref, one in zip(refs, known, strict=True) if one.rows], [one for one in known if one.rows]
    if not known:
        raise SourceError("from_ray: the dataset has no rows")
    schema = known[0].schema
    for number, one in enumerate(known):
        if not one.schema.equals(schema):
            raise DataError(
                f"ray.data.Dataset, block {number:,}: its columns are {_named(one.schema)}, and those of the first block {_named(schema)}; give all blocks one schema"
            )
    nulls = frozenset[str]().union(*(one.nulls for one in known))
    columns = with_nulls(choose_columns(schema, options, "ray.data.Dataset"), lambda column: column.path[0] in nulls)
    edges = np.cumsum([0, *(one.rows for one in known)])
    rows, size_bytes = int(edges[-1]), sum(one.size_bytes for one in known)
    shown = [(column.name, column.feature, str(column.field)) for column in columns]
    digest = digest_of(f"{shown} {[(one.rows, one.digest) for one in known]}")
    block_rows = max(1, min(_BLOCK_ROWS, _BLOCK_BYTES * rows // max(1, size_bytes)))
    return RaySource(
        RayManifest.of("ray", rows, digest, size_bytes, edges=edges), columns, block_rows, OpenBlocks(refs)
    )


def _described(refs: list[Any]) -> list[RayBlock]:
    try:
        known: list[RayBlock] = ray.get([ray.remote(describe).remote(ref) for ref in refs])
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, PenstockError):
            raise error.cause from None
        raise
    return known


def _arrow_blocks(data: Any) -> list[Any]:
    """References to all blocks as Arrow tables, in the order of the dataset's rows, also where it has not run yet."""
    options = data.context.execution_options
    kept, options.preserve_order = options.preserve_order, True
    try:
        refs: list[Any] = data.to_arrow_refs()
    finally:
        options.preserve_order = kept
    return refs


def describe(table: pa.Table) -> RayBlock:
    """Runs where the block lies. The digest is of some rows' values, spread evenly, in whatever layout they lie in memory."""
    plain = plain_table(table)
    state = hashlib.blake2b(str(plain.schema).encode(), digest_size=16)
    if plain.num_rows:
        some = np.unique(np.linspace(0, plain.num_rows - 1, _SAMPLED).astype(np.int64))
        for column in plain.take(pa.array(some)).columns:
            state.update(json.dumps(column.to_pylist(), default=_shown_value).encode())
    nulls = {name for name in plain.column_names if any(bool(null_rows(part).any()) for part in plain[name].chunks)}
    return RayBlock(plain.num_rows, plain.nbytes, state.hexdigest(), plain.schema, frozenset(nulls))


def _shown_value(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else repr(value)


def plain_table(table: pa.Table) -> pa.Table:
    """A block with Ray's tensors as lists of fixed lengths. PlanError for pickled objects, which are code."""
    return pa.table({name: _plain(name, table[name]) for name in table.column_names})


def _plain(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    told = str(getattr(kind, "extension_name", ""))
    if "object" in told and told.startswith("ray.data"):
        raise PlanError(f"from_ray: column {quoted(name)} holds Python objects; make numbers, text or bytes of them")
    if not isinstance(kind, _TENSORS):
        return column
    inner = kind.storage_type.value_type
    for axis in reversed(kind.shape):
        inner = pa.list_(inner, axis)
    return pa.chunked_array([_tensor(part.storage, kind.shape) for part in column.chunks], inner)


def _tensor(lists: pa.Array, shape: tuple[int, ...]) -> pa.Array:
    """Lists of all values of a row, as lists of fixed lengths."""
    values = lists.flatten()
    for axis in reversed(shape):
        values = pa.FixedSizeListArray.from_arrays(values, axis)
    return values


def _named(schema: pa.Schema) -> str:
    return ", ".join(f"{one.name}: {one.type}" for one in schema)


# To Ray


class PenstockDatasource(Datasource):  # type: ignore[misc]  # of Any
    """The batches of a plan's first epoch, read by tasks that each make some neighbouring ones."""

    def __init__(self, dataset: Dataset) -> None:
        super().__init__()
        with Loader(dataset, rank=0, world_size=1) as loader:
            self._steps, self._batch_size = len(loader), loader.batch_size
            # What the data decides is made from the first row on.
            self._is_apart = not loader.state_dict().get("lanes")
        batch = next(node for node in flow(dataset.root) if node.is_batch)
        is_counted = type(batch) is Batch and self._is_apart and not (batch.pad or batch.wrap or batch.steps)
        self._rows = len(dataset) if is_counted else None
        self._sent = ray.put(dataset)

    def get_name(self) -> str:
        """What Ray's progress bars call it."""
        return "Penstock"

    def estimate_inmemory_data_size(self) -> int | None:
        """Not known before anything is decoded."""
        return None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        """As many tasks as Ray asks for, or one where no step can be made before the others."""
        tasks = max(1, min(parallelism, self._steps)) if self._is_apart else 1
        edges = [self._steps * task // tasks for task in range(tasks + 1)]
        return [self._task(first, stop, per_task_row_limit) for first, stop in pairwise(edges)]

    def _task(self, first: int, stop: int, most: int | None) -> ReadTask:
        rows = None
        if self._rows is not None:
            rows = min(self._rows, stop * self._batch_size) - first * self._batch_size
        metadata = BlockMetadata(num_rows=rows, size_bytes=None, exec_stats=None)
        return ReadTask(partial(steps_of, self._sent, first, stop), metadata, per_task_row_limit=most)


def steps_of(sent: Any, first: int, stop: int) -> Iterator[pa.Table]:
    """Runs in a task: the batches of some steps, as tables."""
    with Loader(ray.get(sent), rank=0, world_size=1, cpus=1, prefetch=2, epochs=1) as loader:
        if first:
            loader.load_state_dict({**loader.state_dict(), "step": first})
        for batch in islice(loader, stop - first):
            yield pa.table({name: _column(values) for name, values in batch.items()})


def _column(values: Any) -> pa.Array:
    """A column of a batch in memory of its own, since the batch's is used again."""
    if not isinstance(values, np.ndarray):
        return values
    return pa.array(values) if values.ndim == 1 else ArrowTensorArray.from_numpy(values.copy())


def to_ray(dataset: Dataset, *, override_num_blocks: int | None) -> Any:
    """See `Dataset.to_ray`."""
    is_batched = any(node.is_batch for node in flow(dataset.root))
    source = PenstockDatasource(dataset if is_batched else dataset.batch(_ROWS_TOGETHER))
    return ray.data.read_datasource(source, override_num_blocks=override_num_blocks)
