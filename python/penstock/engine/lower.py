"""From a plan to stages: the one table that knows every node, and the only file that imports all kinds."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from penstock.core.byte_ranges import ReadRanges
from penstock.core.errors import PlanError
from penstock.core.limits import DEFAULT_LIMITS
from penstock.core.rows import spans_to_arrow
from penstock.core.spec import EntryPoints, Field, Spans
from penstock.deliver import Deliver
from penstock.engine.admit import Admitted
from penstock.engine.apply import ApplyKernels, CallFunction, ColumnKernel, FirstPicture
from penstock.engine.budget import Budget
from penstock.engine.ordering import Where, order_of
from penstock.engine.read.blocks import FindRows, LoadBlocks, PickRows
from penstock.engine.read.parse import GatherSteps, Parse
from penstock.engine.read.records import Cursor, OpenBlocks, OpenPieces, Places, ReadAdmitted, ReadPieces, ReadRecords
from penstock.engine.slots import Slots
from penstock.engine.stage import Item, Stage
from penstock.order.cursor import Position, Work, works
from penstock.order.epoch import Last, Order
from penstock.plan.nodes import Map, MapRows, Node, Read, Transform
from penstock.plan.optimize import optimize
from penstock.source.jpeg_index import Growing, index_path, load
from penstock.source.protocol import AnySource, BlockSource, Paced, PartSource, StepSource
from penstock.storage import traffic_of
from penstock.transform.function import BatchFunction, RowFunction
from penstock.transform.image import fuse

#: Steps whose batches are small are made together, up to this many bytes and steps.
_ITEM_BYTES = 8 << 20
_ITEM_STEPS = 1024

#: From afar, this much is asked for at once, as far as memory allows: a fifth of a second of a fast line. Half of the lanes come to
#: new windows at about the same time, and with 64 lanes these are 64 MiB: four times that. More threads than this gain nothing.
_FAR_BYTES = 256 << 20
_FAR_THREADS = 32

#: Threads that gather short rows, each an item of its own: more than one consumer can take.
_GATHER_THREADS = 4

#: The column that says which rows are padding, where a plan pads.
VALID = "valid"


@dataclass(frozen=True, kw_only=True)
class Lowered:
    """A plan ready to run: its order, this rank's place among those that share it, and stages that turn work into delivered items.

    columns: the names of what is delivered, None where only a user's function knows them.
    budget: the memory that a run may hold; window_bytes: how much of it the blocks of open windows take, about;
    batch_bytes: how much a batch on its way.
    """

    order: Order
    where: Where
    stages: tuple[Stage, ...]
    steps_per_item: int
    item_bytes: int
    pictures: Callable[[], Mapping[str, int]]
    slots: tuple[Slots, ...]
    columns: tuple[str, ...] | None
    budget: Budget
    window_bytes: int
    batch_bytes: int
    warned: list[int] = field(default_factory=list)

    def check_memory(self) -> None:
        """Warns, once, if blocks of open windows and one item take more memory than there may be held."""
        needed, limit = self.window_bytes + self.batch_bytes, self.budget.limit_bytes
        if needed > limit and not self.warned:
            self.warned.append(needed)
            warnings.warn(
                f"penstock: memory={limit:,} bytes is less than the {needed:,} that this plan holds in any case, {self.window_bytes:,} for "
                f"blocks of open windows and {self.batch_bytes:,} for a batch: batches are made one at a time, which is slow, and that "
                f"much is held; pass a larger memory= to the Loader, or shuffle with a smaller window_blocks= or block_rows=",
                stacklevel=5,
            )

    def work_from(self, start: Position, *, one_by_one: bool = False, epochs: int | None = None) -> Iterator[Work]:
        """All work from a position on; `one_by_one` makes every step alone. For `epochs` see `works`."""
        return works(
            start,
            steps_per_epoch=self.order.steps_per_epoch,
            full_steps=self.order.full_steps,
            steps_per_work=1 if one_by_one else self.steps_per_item,
            epochs=epochs,
        )


def lower(
    source: AnySource,
    read: ReadRanges,
    nodes: tuple[Node, ...],
    deliver: Deliver,
    where: Where,
    *,
    memory_bytes: int = _FAR_BYTES,
) -> Lowered:
    """Stages for one rank, which hold up to `memory_bytes` together."""
    order, where = order_of(source, nodes, where)
    order.share(where.rank, where.world_size)
    order.check_ranks(where.world_size)
    if order.last is Last.PAD and VALID in source.spec:
        raise PlanError(f"pad=True adds a column {VALID!r}, and the data has one already; rename it")
    maker = _Maker(source, read, order, where, Slots(new_memory=deliver.new_memory), memory_bytes)
    alone = any(isinstance(node, (Map, MapRows)) for node in nodes)
    maker.budget.is_exact = not alone and _is_as_long_as_records(source)
    for node in optimize(nodes):
        if type(node) in LOWER:
            LOWER[type(node)](maker, node)
    maker.end(deliver)
    rows = maker.rows_per_step
    row_bytes = max(1, maker.record_bytes, sum(field.row_bytes for field in maker.widest.values()))
    together = source.rows_together // rows if isinstance(source, Paced) else _ITEM_STEPS
    return Lowered(
        order=order,
        where=where,
        stages=tuple(maker.stages),
        steps_per_item=1 if alone else max(1, min(_ITEM_STEPS, together, _ITEM_BYTES // (rows * row_bytes))),
        item_bytes=rows * row_bytes,
        pictures=maker.pictures,
        slots=(maker.slots, maker.record_slots),
        columns=None if maker.spec is None else (*maker.spec, *([VALID] if order.last is Last.PAD else [])),
        budget=maker.budget,
        window_bytes=maker.window_bytes,
        batch_bytes=maker.item_bytes(rows, None) + (0 if maker.window_bytes else maker.read_bytes(rows)),
    )


def _is_as_long_as_records(source: AnySource) -> bool:
    """Whether columns take no more memory than their fields and records say; lists of numbers, and what is packed, may take more."""
    if isinstance(source, BlockSource):
        return all(field.is_fixed for field in source.spec.values())
    return all(field.is_fixed or field.shape == () for field in source.spec.values())


class _ColumnBytes:
    """See `budget.ItemBytes`. Columns of other than fixed shape are together as long as the records that hold them.

    widest: the columns at their largest.
    """

    def __init__(self, record_bytes: int, widest: Mapping[str, Field]) -> None:
        self._record_bytes, self._replaced_bytes = record_bytes, 0
        self.update(widest)

    def update(self, widest: Mapping[str, Field], replaced_bytes: int = 0) -> None:
        """Takes note of other columns, and of those that are there meanwhile: so many bytes of a row."""
        self._replaced_bytes += replaced_bytes
        self._fixed_bytes = self._replaced_bytes + sum(field.row_bytes for field in widest.values())
        self._is_fixed = all(field.is_fixed for field in widest.values())

    def __call__(self, rows: int, record_bytes: int | None) -> int:
        """For an item of so many rows."""
        fixed_bytes = rows * self._fixed_bytes
        if self._is_fixed:
            return fixed_bytes
        return fixed_bytes + (rows * self._record_bytes if record_bytes is None else record_bytes)


class _Maker:
    """Collects the stages while the nodes of a plan are gone through; `spec` is None after a user's function."""

    def __init__(
        self, source: AnySource, read: ReadRanges, order: Order, where: Where, slots: Slots, memory_bytes: int
    ) -> None:
        self.source, self.read, self.order, self.where, self.slots = source, read, order, where, slots
        self.record_slots = Slots()  # records are never copied to a device, so that their memory is not pinned
        self.budget = Budget(memory_bytes, (slots, self.record_slots))
        self.window_bytes = 0
        self.stages: list[Stage] = []
        self.spec: dict[str, Field] | None = dict(source.spec)
        self.widest: dict[str, Field] = dict(source.spec)
        self.feature_of: dict[str, str] = {}
        self.limits = DEFAULT_LIMITS
        self.record_bytes = source.manifest.size_bytes // max(1, source.manifest.samples)
        self.item_bytes = _ColumnBytes(self.record_bytes, self.widest)

    @property
    def rows_per_step(self) -> int:
        """Rows of a full batch on this rank."""
        return self.order.batch_size // self.where.world_size

    @property
    def together(self) -> int:
        """Threads that call a kernel at once: two, so that one batch's last rows and the next one's first overlap."""
        return min(2, self.where.cpus)

    @property
    def reads_at_once(self) -> int:
        """Items that are read at once: one from disks; from afar as many as fill a line while their answers are on the way."""
        if traffic_of(self.read) is None:
            return 1
        step_bytes = max(1, self.rows_per_step * self.record_bytes)
        far_bytes = min(_FAR_BYTES, self.budget.limit_bytes)
        return min(_FAR_THREADS, max(2, far_bytes // (step_bytes * max(1, _ITEM_BYTES // step_bytes))))

    def admitted(self, make: Callable[[Work], Item]) -> Admitted:
        """A first stage whose items hold their columns alone."""
        return Admitted(self.budget, self.rows_per_step, self.item_bytes, make)

    def read_bytes(self, rows: int) -> int:
        """Bytes of records that are read for rows one by one."""
        in_memory = not isinstance(self.source, BlockSource) and self.source.random_access
        return 0 if in_memory else rows * self.record_bytes

    def open_windows(self, cursor: Cursor) -> None:
        """Notes what the blocks of this rank's lanes take while their windows are open: half of the lanes come to new ones together."""
        order, (first, last) = self.order, cursor.share
        lanes = -(-last // order.rows_per_lane) - first // order.rows_per_lane
        blocks = lanes * order.window_blocks * 3 // 2 if order.seed is not None else 1
        self.window_bytes = blocks * order.block_rows * self.record_bytes

    def add(self, name: str, kind: str, work: Callable[[Any], Item], threads: int = 1) -> None:
        """Appends a stage."""
        self.stages.append(Stage(name, kind, work, threads))

    def pictures(self) -> Mapping[str, int]:
        """Pictures so far, by the decoder that did them (see `transform.image.DECODERS`)."""
        works = [stage.work for stage in self.stages]
        return sum((work.pictures() for work in works if isinstance(work, ApplyKernels)), Counter())

    def end(self, deliver: Deliver) -> None:
        """Appends the stage that hands over."""
        kind = "copy" if deliver.copies else "cpu"
        self.add("deliver", kind, _Hand(deliver, self.order, self.where, self.record_slots), threads=self.together)


def _lower_read(maker: _Maker, node: Node) -> None:
    if not isinstance(node, Read):
        raise TypeError(node)
    maker.feature_of, maker.limits = dict(node.columns), node.limits
    order, where = maker.order, maker.where
    cursor = Cursor(order, where.rank, where.world_size, where.cpus)
    blocks = OpenBlocks(order, where.rank, where.world_size)
    if isinstance(maker.source, BlockSource):
        _lower_blocks(maker, maker.source, cursor, blocks)
        return
    parse = Parse(maker.source, maker.slots, where.cpus, seed=order.seed or 0)
    if maker.source.random_access:
        if isinstance(maker.source, StepSource) and maker.source.gathers_steps:
            gather = maker.admitted(GatherSteps(maker.source, cursor, parse))
            maker.add("gather", "cpu", gather, threads=min(_GATHER_THREADS, where.cpus))
        else:
            maker.add("gather", "cpu", maker.admitted(lambda work: parse(cursor(work))), threads=maker.together)
        return
    read, places, slots = (
        partial(maker.read, maker.source.manifest.stored),
        Places(maker.source.manifest),
        maker.record_slots,
    )
    if order.block_rows == 1 or maker.source.manifest.scattered:
        records = ReadAdmitted(cursor, ReadRecords(places, read, slots), maker.budget, maker.item_bytes)
        maker.add("read", "io", records, threads=max(2, maker.reads_at_once))
    else:
        maker.open_windows(cursor)
        opening = OpenPieces(cursor, places, (read, slots), blocks, maker.budget, maker.item_bytes)
        reading = ReadPieces(places)
        if maker.reads_at_once == 1:
            maker.add("read", "io", lambda work: reading(opening(work)))
        else:
            maker.add("plan", "cpu", opening)
            maker.add("read", "io", reading, threads=maker.reads_at_once)
    maker.add("parse", "cpu", parse, threads=maker.together)


def _lower_blocks(maker: _Maker, source: BlockSource, cursor: Cursor, blocks: OpenBlocks) -> None:
    if maker.order.block_rows == 1 and isinstance(source, PartSource):
        find_rows = FindRows(source)
        maker.add("read", "io", maker.admitted(lambda work: find_rows(cursor(work))), threads=maker.together)
    else:
        maker.open_windows(cursor)
        load = LoadBlocks(cursor, source, blocks, maker.where.cpus, maker.budget, maker.item_bytes)
        maker.add("read", "io", load)
    maker.add("gather", "cpu", PickRows(source, maker.slots, maker.where.cpus), threads=maker.together)


def _lower_transform(maker: _Maker, node: Node) -> None:
    if not isinstance(node, Transform):
        raise TypeError(node)
    applied = {}
    for name, ops in node.ops:
        first = FirstPicture(maker.source, maker.read, name, ops)
        if maker.spec is None:
            applied[name] = ColumnKernel(ops, first, maker.limits)
            continue
        kernel = fuse(ops, maker.spec[name], first.size, limits=maker.limits)
        applied[name] = ColumnKernel(ops, first, maker.limits, kernel, _entry_points(maker, name, ops))
        replaced_bytes = maker.spec[name].row_bytes
        maker.spec[name] = maker.widest[name] = kernel.field
        maker.item_bytes.update(maker.widest, replaced_bytes)
    number = sum(stage.name.startswith("transform") for stage in maker.stages)
    name = "transform" if number == 0 else f"transform {number + 1}"
    maker.add(
        name,
        "cpu",
        ApplyKernels(
            maker.source, maker.slots, applied, seed=maker.order.seed or 0, number=number, threads=maker.where.cpus
        ),
        threads=maker.together,
    )


def _entry_points(maker: _Maker, name: str, ops: tuple[Any, ...]) -> EntryPoints | Growing | None:
    """The JPEG index for a column that comes from files, as its Decode asks for it."""
    wish = getattr(ops[0], "entry_points", "off") if ops else "off"
    if wish == "off" or name not in maker.source.spec:
        return None
    if isinstance(maker.source, BlockSource) or maker.source.random_access:
        return None
    manifest = maker.source.manifest
    path = index_path(manifest.digest, maker.feature_of.get(name, name))
    found = load(path)
    return found if found is not None or wish == "auto" else Growing(manifest.samples, path)


def _lower_function(maker: _Maker, node: Node) -> None:
    if not isinstance(node, (Map, MapRows)):
        raise TypeError(node)
    kind = BatchFunction if isinstance(node, Map) else RowFunction
    call = kind(node.function, node.verb)
    number = sum(stage.kind == "python" for stage in maker.stages)
    work = CallFunction(call, maker.order.seed or 0, number)
    maker.add(f"{node.verb} {call.name}", "python", work, threads=maker.where.cpus)
    maker.spec = None


LOWER: dict[type, Callable[[_Maker, Node], None]] = {
    Read: _lower_read,
    Transform: _lower_transform,
    Map: _lower_function,
    MapRows: _lower_function,
}


class _Hand:
    """Columns to what the user's framework works with."""

    def __init__(self, deliver: Deliver, order: Order, where: Where, slots: Slots) -> None:
        self._deliver, self._order, self._where, self._slots = deliver, order, where, slots

    def __call__(self, item: Item) -> Item:
        if self._order.last is Last.PAD:
            if VALID in item.columns:
                raise PlanError(f"pad=True adds a column {VALID!r}, and there is one already; rename it")
            item.columns[VALID] = self._valid(item)
            item.spec = {**item.spec, VALID: Field("bool")}
        converted = {
            name: self._deliver.convert(
                spans_to_arrow(column, self._slots.take) if isinstance(column, Spans) else column, item.spec[name]
            )
            for name, column in item.columns.items()
        }
        item.delivered = self._deliver.finish(converted)
        item.columns = {}  # what was copied needs its slot no more
        return item

    def _valid(self, item: Item) -> Any:
        rank, world_size = self._where.rank, self._where.world_size
        steps = range(item.step, item.step + item.steps)
        return np.concatenate([self._order.valid(item.epoch, step, rank, world_size) for step in steps])
