"""The one table that knows every node: what becomes of it, after its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from penstock.batch.pad import padded_spec
from penstock.core.event_loop import is_async
from penstock.core.limits import Limits, tightest
from penstock.core.spec import EntryPoints, Field
from penstock.lower.reading import ReadingStages
from penstock.order.listed import ListedOrder
from penstock.plan.nodes import (
    Batch,
    BatchTokens,
    Bucket,
    Cache,
    Concat,
    Draws,
    Every,
    Map,
    MapRows,
    Mix,
    Node,
    Pad,
    Read,
    Repeat,
    Select,
    Shard,
    Shuffle,
    Skip,
    SourceColumn,
    Take,
    Transform,
    Zip,
)
from penstock.plan.nodes.picked import PICKED, Exclude
from penstock.plan.tree import flow, inputs_of, leaves
from penstock.resolve.cut import LaneOutput
from penstock.resolve.row_places import RowPlaces
from penstock.runtime.stage import Item
from penstock.source.jpeg_index import Growing, index_path, load
from penstock.source.protocol import Access
from penstock.stages.apply import ApplyKernels, CallFunction, ColumnKernel, FirstImage, MergeParts, ZipParts
from penstock.stages.cached.store import KeepRows
from penstock.stages.call import ASYNC_CALLS
from penstock.stages.moved_ops import MovedOps
from penstock.stages.pad import PadColumns
from penstock.stages.select import SelectColumns
from penstock.stages.source_column import SOURCE_FIELD, NumberSources
from penstock.transform.function import name_of
from penstock.transform.image import as_first_is, fuse, gives_indices
from penstock.transform.image.device import split

#: Threads for a user's function: at first, since it may hold the interpreter, and where it waits for something else.
_FIRST_FUNCTION_THREADS, _MOST_FUNCTION_THREADS = 4, 64


@dataclass
class Branch:
    """What comes out of a node: rows of the sources numbered [sources[0], sources[1]). spec: None after a user's function.

    leaf: the first source. leaf_of: the sources of columns that come from another one. indices: the columns that hold indices of a palette.
    """

    sources: tuple[int, int]
    leaf: Read
    spec: dict[str, Field] | None
    limits: Limits
    leaf_of: Mapping[str, Read] = field(default_factory=dict)
    indices: frozenset[str] = frozenset()

    @property
    def is_one_source(self) -> bool:
        """Whether all rows come from one source."""
        return self.sources[1] - self.sources[0] == 1


class NodeStages(ReadingStages):
    """Adds the stages of nodes, inputs first."""

    def branch(self, node: Node) -> Branch:
        """Appends the stages of a node, after those of its inputs; TypeError for a node that no row of LOWER knows."""
        freezes = isinstance(node, Cache) and node.freeze_random
        self.frozen += freezes
        inputs = [self.branch(below) for below in inputs_of(node)]
        self.frozen -= freezes
        found = LOWER[type(node)](self, node, inputs)
        self.stages_after[id(node)] = len(self.stages)
        return found

    def cached(self, node: Cache, inputs: Sequence[Branch]) -> Branch:
        """Rows that were made are kept."""
        below = {id(one) for one in flow(node)}
        functions = [one for one in self.functions if id(one[0]) in below]
        if (reader := self.caches.get(id(node))) is not None:
            self.add(
                node.verb, "io", KeepRows(reader.cached, functions, self.slots, self.budget), threads=self.together
            )
        elif self.is_described:
            self.add(node.verb, "io", _same, threads=self.together)
        return inputs[0]

    def read(self, node: Read, _: Sequence[Branch]) -> Branch:
        """A source; all of them are read by the first stages."""
        self._met += 1
        source: Any = node.opened.source
        if isinstance(source, LaneOutput):
            return Branch((self._met - 1, self._met), leaves(source.node)[0], None, node.limits)
        return Branch((self._met - 1, self._met), node, dict(source.spec), node.limits)

    def same(self, _: Node, inputs: Sequence[Branch]) -> Branch:
        """A node of the order, which changes no column."""
        return inputs[0]

    def joined(self, node: Concat | Mix, inputs: Sequence[Branch]) -> Branch:
        """The parts of several branches become one."""
        sources = inputs[0].sources[0], inputs[-1].sources[1]
        specs = [branch.spec for branch in inputs]
        spec = specs[0] if all(one is not None and one == specs[0] for one in specs) else None
        limits = tightest([branch.limits for branch in inputs])
        if len(inputs) > 1 and not any(low <= sources[0] and sources[1] <= high for low, high in self.read_as_one):
            merge = MergeParts(node.verb, [branch.sources for branch in inputs], self.slots, self.budget)
            self.add(node.verb, "cpu", merge, threads=self.together)
            self.item_bytes.update(self.widest, sum(field.row_bytes for field in self.widest.values()))
        return replace(inputs[0], sources=sources, spec=spec, limits=limits, indices=_indices_of(inputs))

    def zipped(self, node: Zip, inputs: Sequence[Branch]) -> Branch:
        """The parts of several branches side by side."""
        sources = inputs[0].sources[0], inputs[-1].sources[1]
        specs = [branch.spec for branch in inputs]
        known = [spec for spec in specs if spec is not None]
        spec = {name: field for one in known for name, field in one.items()} if len(known) == len(specs) else None
        limits = tightest([branch.limits for branch in inputs])
        leaf_of = {
            name: branch.leaf_of.get(name, branch.leaf)
            for branch in inputs
            for name in branch.spec or branch.leaf.opened.source.spec
        }
        self.add(node.verb, "cpu", ZipParts([branch.sources for branch in inputs]))
        return Branch(sources, inputs[0].leaf, spec, limits, leaf_of, _indices_of(inputs))

    def source_column(self, node: SourceColumn, inputs: Sequence[Branch]) -> Branch:
        """The number of the dataset that each row came of."""
        (branch,) = inputs
        sources = np.cumsum([branch.sources[0], *(len(leaves(below)) for below in inputs_of(node.input)[:-1])])
        number = NumberSources(branch.sources, self.first_ids[sources], node.name, node.input.verb, self.slots)
        self.add(f"{node.verb} {node.name}", "cpu", number)
        self.widest[node.name] = SOURCE_FIELD
        self.item_bytes.update(self.widest)
        return replace(branch, spec=None if branch.spec is None else {**branch.spec, node.name: SOURCE_FIELD})

    def select(self, node: Select, inputs: Sequence[Branch]) -> Branch:
        """Some columns: the stage before drops the others, unless bad rows are taken out of what it makes."""
        (branch,) = inputs
        selecting = SelectColumns(branch.sources, node.columns)
        if self.bad is not None:
            self.add("select", "cpu", selecting)
        else:
            self.stages[-1] = replace(self.stages[-1], work=selecting.after(self.stages[-1].work))
        spec = branch.spec
        return replace(branch, spec=None if spec is None else {name: spec[name] for name in node.columns})

    def transform(self, node: Transform, inputs: Sequence[Branch]) -> Branch:
        """Native ops on columns."""
        (branch,) = inputs
        applied, draws, spec = {}, list[Draws](), None if branch.spec is None else dict(branch.spec)
        indices = {*branch.indices}
        for (name, ops), draw in zip(node.ops, node.draws, strict=True):
            first = FirstImage(branch.leaf_of.get(name, branch.leaf), name, ops)
            if not self.is_described:
                ops = as_first_is(ops, first.mode)  # noqa: PLW2901  # the same, with a mode
            if gives_indices(ops, from_indices=name in indices):
                indices.add(name)
            is_first = name in node.channels_first
            stays = is_first or node is not self.on_device.transform or name in self.on_device.excluded
            if spec is not None and not stays:
                ops = self._host_ops(name, ops, spec[name], draw)  # noqa: PLW2901  # what is left of them
                if not ops:
                    continue
            draws.append(draw)
            if spec is None or self.is_described:
                applied[name] = ColumnKernel(ops, first, branch.limits, numbers=draw.ops, channels_first=is_first)
                continue
            field, numbers = spec[name], draw.ops
            kernel = fuse(ops, field, first.size, limits=branch.limits, numbers=numbers, channels_first=is_first)
            applied[name] = ColumnKernel(ops, first, branch.limits, kernel, self._entry_points(branch, name, ops))
            replaced_bytes = spec[name].row_bytes
            spec[name] = self.widest[name] = kernel.field
            self.item_bytes.update(self.widest, replaced_bytes)
        apply = ApplyKernels(
            branch.sources,
            self.first_ids,
            self._places_of(branch),
            self.slots,
            applied,
            seed=self.seed,
            draws=draws,
            budget=self.budget,
            is_frozen=self.frozen > 0,
        )
        made = replace(branch, spec=spec, indices=frozenset(indices))
        if not applied:
            return made
        self.applied.append(apply)
        before = self.number_of("transform")
        name = "transform" if before == 0 else f"transform {before + 1}"
        self.add_fallible(branch.sources, name, "cpu", apply, threads=self.together)
        return made

    def _host_ops(self, name: str, ops: tuple[Any, ...], source: Field, draw: Draws) -> tuple[Any, ...]:
        """The ops that stay on the host, of a chain whose end the device does."""
        found = split(ops, source, op_numbers=draw.ops)
        if found is None:
            return ops
        self.on_device.columns[name] = MovedOps(split=found, seed=self.seed, draw=(draw.transform, draw.place))
        return found.host

    def _places_of(self, branch: Branch) -> RowPlaces:
        """Names the rows of a branch, with those that follow them in it."""
        begin, end = (int(self.first_ids[number]) for number in branch.sources)
        links = tuple(link for link in self.links if begin <= link.leads[0] and link.follows[1] <= end)
        return RowPlaces(self.first_ids, self.leaves, links)

    def _entry_points(self, branch: Branch, name: str, ops: tuple[Any, ...]) -> EntryPoints | Growing | None:
        """The JPEG index for a column that comes from files of one source, as its Decode asks for it."""
        wish, source = getattr(ops[0], "entry_points", "off") if ops else "off", branch.leaf.opened.source
        if (
            wish == "off"
            or isinstance(self.order, ListedOrder)
            or not branch.is_one_source
            or name not in source.spec
            or source.access is not Access.RECORDS
        ):
            return None
        path = index_path(source.manifest.digest, dict(branch.leaf.columns).get(name, name))
        found = load(path)
        return found if found is not None or wish == "auto" else Growing(source.manifest.samples, path)

    def function(self, node: Map | MapRows, inputs: Sequence[Branch]) -> Branch:
        """A user's function."""
        (branch,) = inputs
        work = CallFunction(
            branch.sources,
            self.call_of(node),
            self.seed,
            node.draws,
            step_of=self.order.step_of,
            is_frozen=self.frozen > 0,
        )
        add = partial(self.add_fallible, branch.sources) if isinstance(node, MapRows) else self.add
        add(f"{node.verb} {name_of(node.function)}", "python", work, **self._threads_of(node))
        return replace(branch, spec=None, indices=frozenset())

    def _threads_of(self, node: Map | MapRows) -> dict[str, Any]:
        """How many threads call a function, and what a tuner may do: beyond the CPUs where it waits for something else. Processes compute."""
        threads = self.where.cpus if node.workers == "thread" else self.workers.at_once
        if isinstance(node, Map) and is_async(node.function):  # of map_rows, many rows of a batch are awaited at once
            return {"threads": max(threads, ASYNC_CALLS)}
        if "cpus" in self.fixed or self.is_described or node.workers == "auto":
            return {"threads": threads}
        if node.workers == "process":
            return {"threads": threads, "most": threads, "tuned_as": "process"}
        return {"threads": min(threads, _FIRST_FUNCTION_THREADS), "most": max(threads, _MOST_FUNCTION_THREADS)}

    def pad(self, node: Pad, inputs: Sequence[Branch]) -> Branch:
        """Ragged columns become dense."""
        (branch,) = inputs
        spec = None if branch.spec is None else padded_spec(node, branch.spec)
        if spec is not None:
            self.widest.update(spec)
            self.item_bytes.update(self.widest)
        pad = PadColumns(branch.sources, node, self._places_of(branch), self.slots, self.budget)
        self.add("pad", "cpu", pad, threads=self.together)
        return replace(branch, spec=spec)


def _indices_of(branches: Sequence[Branch]) -> frozenset[str]:
    return frozenset[str]().union(*(branch.indices for branch in branches))


def _same(item: Item) -> Item:
    return item


#: What becomes of each node.
LOWER: dict[type, Callable[[NodeStages, Any, Sequence[Branch]], Branch]] = {
    Read: NodeStages.read,
    Concat: NodeStages.joined,
    Mix: NodeStages.joined,
    Zip: NodeStages.zipped,
    SourceColumn: NodeStages.source_column,
    Repeat: NodeStages.same,
    Take: NodeStages.same,
    Skip: NodeStages.same,
    Every: NodeStages.same,
    Exclude: NodeStages.same,
    **dict.fromkeys(PICKED, NodeStages.same),
    Shuffle: NodeStages.same,
    Shard: NodeStages.same,
    Select: NodeStages.select,
    Cache: NodeStages.cached,
    Bucket: NodeStages.same,
    Pad: NodeStages.pad,
    Batch: NodeStages.same,
    BatchTokens: NodeStages.same,
    Transform: NodeStages.transform,
    Map: NodeStages.function,
    MapRows: NodeStages.function,
}
