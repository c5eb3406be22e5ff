"""Dataset: what to read and what to do with it. Each verb returns a new dataset; nothing runs before a Loader asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike, fspath
from os.path import commonprefix, exists
from typing import Any, Literal, Never

import numpy as np

from penstock.core.byte_ranges import ByteRanges, Progress, ReadRanges
from penstock.core.cache_dirs import size_of
from penstock.core.cancel import in_threads
from penstock.core.errors import PlanError, SourceError
from penstock.core.limits import DEFAULT_LIMITS, Limits
from penstock.core.options import Column, Options
from penstock.core.shards import Shards
from penstock.core.spec import Spec
from penstock.deliver import open_deliver
from penstock.engine.lower import Lowered, lower
from penstock.engine.ordering import check_shard, check_shuffle, order_of, some_rank
from penstock.engine.simulate import Simulation, simulate
from penstock.format import open_source
from penstock.inputs.memory import from_arrays as open_arrays
from penstock.order.sharing import explain_ranks, explain_sharing
from penstock.plan.check import check_positional, check_verb, find
from penstock.plan.explain import explain_nodes, explain_spec
from penstock.plan.nodes import Batch, Map, MapRows, Node, Read, Shard, Shuffle, Transform
from penstock.plan.optimize import optimize
from penstock.source.checks.ranges import CheckedRanges, Checks, warn_of_unknown
from penstock.source.protocol import AnySource, Format
from penstock.storage import Storage, adopt_storage, open_storage, open_storages
from penstock.storage.braces import expand_braces
from penstock.storage.cache.folder import chosen_cache
from penstock.storage.cache.storage import CachedStorage
from penstock.storage.local import LocalStorage
from penstock.storage.local_copies import WithCopies
from penstock.storage.redact import check_url
from penstock.storage.trust import Trust

#: Requests for single files at once: stores answer many.
_LOCATE_THREADS = 16

#: tf.data's map takes a number of parallel calls there.
_THREADS = "the number of threads is found automatically; write map(function), and Loader(cpus=…) to limit it"


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Dataset:
    """An immutable description: a source and the verbs that follow it. Made by `penstock.read` and `from_arrays`."""

    source: AnySource
    read_ranges: ReadRanges
    nodes: tuple[Node, ...]
    storage: Storage | None = None

    def __init__(
        self,
        source: AnySource | None = None,
        read_ranges: ReadRanges | None = None,
        nodes: tuple[Node, ...] = (),
        storage: Storage | None = None,
        **read_with: Never,
    ) -> None:
        if source is None or read_ranges is None or not nodes or read_with:
            found = "" if source is None else type(source).__name__
            raise PlanError(
                f"Dataset({found}): datasets are not made by hand; make one with penstock.read(path), from_arrays(columns), from_dataset(dataset) or "
                f"from_iterable(function)"
            )
        vars(self).update(source=source, read_ranges=read_ranges, nodes=nodes, storage=storage)

    def shuffle(
        self,
        *misplaced: Never,
        seed: int = 0,
        mode: Literal["block", "global"] = "block",
        block_rows: int | None = None,
        window_blocks: int | None = None,
    ) -> Dataset:
        """Another order in every epoch, a function of (seed, epoch) alone: shuffle(seed=0).

        There is no buffer to size: the order covers the whole dataset.

        mode "block" permutes blocks of neighbouring samples (about 1 MiB; single files where every sample is a file), and rows
        within windows of a lane's blocks; "global" permutes single samples, whatever that costs to read. `block_rows` and
        `window_blocks` fix the sizes by hand.
        """
        check_positional(
            "shuffle", misplaced, "the order covers all samples, so there is no buffer to size; write shuffle(seed=…)"
        )
        return self._then(Shuffle(seed=seed, mode=mode, block_rows=block_rows, window_blocks=window_blocks))

    def shard(self, samples: Sequence[int], *misplaced: Never) -> Dataset:
        """Says that every node has files of its own, as SageMaker's ShardedByS3Key gives them; `samples` counts those of each.

        shard([41_000, 40_200]): two nodes, and what `len` of this dataset is on each. Every node makes its equal part of each
        global batch out of its own files, and its ranks share that. An epoch has equally many steps on all: with drop_last as many
        as the smallest node has samples for, with pad or wrap as the largest needs. A state goes on with as many nodes, each with the
        files that it had, on any number of ranks a node that divides its part of the batch.
        Raises PlanError where the counts are not those that lie here, or class numbers could differ from node to node.
        """
        if misplaced or not isinstance(samples, Iterable):
            raise PlanError(
                f"shard({', '.join(map(repr, (samples, *misplaced)))}): takes the sample counts of nodes with files of their own; to "
                f"divide one dataset among ranks write nothing: the Loader finds its rank, or takes rank= and world_size="
            )
        node = Shard(samples=tuple(samples))
        check_shard(self.source, node.samples)
        return self._then(node)

    def transform(self, **columns: Any) -> Dataset:
        """Native ops on named columns: transform(image=[ps.image.Decode(), ps.image.RandomResizedCrop(224)]).

        Neighbouring ops on one column run as one kernel. Random ops draw from a key made of (seed, epoch, sample id).
        """
        chains = {name: tuple(ops) if isinstance(ops, (list, tuple)) else (ops,) for name, ops in columns.items()}
        if not chains:
            raise PlanError("transform: no columns; write e.g. transform(image=[ps.image.Decode()])")
        return self._then(Transform(ops=tuple(chains.items())))

    def map(self, function: Callable[..., Mapping[str, Any]], *misplaced: Never) -> Dataset:
        """Your function on whole batches, on threads: dict of arrays (rows first) in, dict of arrays out.

        The number of rows must stay. A parameter named `rng` gets a NumPy generator that is a function of seed, epoch and
        sample. Bytes and text come as Arrow arrays.
        """
        check_positional("map", misplaced, _THREADS)
        return self._then(Map(function=function))

    def map_rows(self, function: Callable[..., Mapping[str, Any]], *misplaced: Never) -> Dataset:
        """Your function row by row, on threads: dict of values in, dict of values out; slower than `map`."""
        check_positional("map_rows", misplaced, _THREADS)
        return self._then(MapRows(function=function))

    def batch(
        self,
        size: int,
        *misplaced: Never,
        drop_last: bool = False,
        pad: bool = False,
        wrap: bool = False,
        lanes: int | None = None,
        per_rank: bool = False,
    ) -> Dataset:
        """Global batches of `size` rows: all ranks together; rank r of R gets size / R of them, for any R that divides `size`.

        per_rank: `size` counts the rows of each rank, as a DataLoader's batch_size does; the global batch is then size × R, another
        number of ranks has other batches, and a state goes on only where size × R is what it was.
        The last samples of an epoch, if they are fewer than a batch: a shorter batch, or drop_last (none), pad (filled with
        repeated rows; the bool column "valid" says which are real), wrap (filled with the epoch's first rows). `lanes`
        (a divisor of the global batch) fixes how many sequences the epoch is dealt to. A number of ranks that divides it reads each
        block once; with others, neighbouring ranks share lanes and read some blocks twice: `explain(world_size=R)` says how many.
        """
        check_positional("batch", misplaced, "write batch(size, drop_last=True), pad=True or wrap=True")
        return self._then(Batch(size=size, drop_last=drop_last, pad=pad, wrap=wrap, lanes=lanes, per_rank=per_rank))

    def cache_local(self, limit: str | int | None = None, path: str | PathLike[str] | None = None) -> Dataset:
        """How much of remote data is kept on the local disk: cache_local("100GiB"), cache_local("1TB", "/nvme/cache"), cache_local(0).

        `limit` is a number of bytes, or a text with a unit (kB, MB, GB, TB, KiB, MiB, GiB, TiB); 0 and None switch the cache off.
        `path` is a folder of this user alone, made if need be; without it, the user's cache. It holds from now on for all
        datasets made by the same `penstock.read`, since they share what was opened; batches are the same with and without. Local
        data is not cached. Raises PlanError for a limit that is none, and for a folder that others can write into.
        """
        cache = chosen_cache(size_of(limit), None if path is None else fspath(path))
        if isinstance(self.storage, CachedStorage):
            self.storage.use_cache(cache)
        return self

    def _then(self, node: Node) -> Dataset:
        check_verb(self.nodes, node, self.source.spec)
        if isinstance(node, Shuffle):
            check_shuffle(self.source)
        made = replace(self, nodes=(*self.nodes, node))
        if isinstance(node, Batch):
            order_of(
                made.source, made.nodes, some_rank(made.source, made.nodes)
            )  # says if no batch can be made of so few samples
        return made

    def __len__(self) -> int:
        """Samples in the dataset."""
        return self.source.manifest.samples

    def __repr__(self) -> str:
        verbs = " → ".join(node.verb for node in self.nodes)
        return f"Dataset({len(self):,} samples: {verbs})"

    @property
    def spec(self) -> Spec:
        """The columns that the source offers."""
        return self.source.spec

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, by label; empty if the source names none."""
        return tuple(getattr(self.source, "classes", ()))

    def explain(self, *, world_size: int | None = None) -> str:
        """The plan before and after optimisation, its order and its stages, in words; `world_size`: as that many ranks run it."""
        optimised = optimize(self.nodes)
        parts = [
            explain_spec(f"Source: {len(self):,} samples, {self.source.manifest.size_bytes:,} bytes", self.spec),
            explain_nodes("Plan as written", self.nodes),
            explain_nodes("Plan as it runs", optimised),
        ]
        if any(isinstance(node, Batch) for node in self.nodes):
            parts.append(self._explain_order(world_size))
        return "\n\n".join(parts)

    def simulate(
        self, *, world_size: int = 1, nodes: int = 1, epochs: int = 1, cache: str | int | None = None
    ) -> Simulation:
        """What training would ask of the files: requests and bytes of each node and epoch, and the memory that records take.

        world_size: ranks, spread evenly over the nodes. cache: the limit of each node's cache, as for `cache_local`, empty at first;
        then also what comes from it. By arithmetic alone: nothing is read.
        Not counted: what is read ahead of the next epoch, and requests made again or twice.
        """
        limit = size_of(cache)
        return simulate(
            self.source, self.nodes, world_size=world_size, machines=nodes, epochs=epochs, cache_bytes=limit
        )

    def _explain_order(self, world_size: int | None) -> str:
        where = some_rank(self.source, self.nodes, world_size)
        lowered = lower(self.source, self.read_ranges, self.nodes, open_deliver("numpy", None), where)
        order = lowered.order
        lines = [
            "Order",
            f"  {order.steps_per_epoch:,} steps an epoch, {order.batch_size} rows each, from {order.lanes} lanes",
            f"  blocks of {order.epoch(0).block_rows:,} samples, windows of {order.window_blocks} blocks"
            if order.seed is not None
            else "  natural: step k is samples k × batch size and the following",
            *(f"  {line}" for line in self._explain_ranks(lowered, world_size)),
            f"  {lowered.steps_per_item} steps are made together",
            "",
            "Stages",
            *(f"  {stage.name} ({stage.kind}, {stage.threads} threads)" for stage in lowered.stages),
        ]
        return "\n".join(lines)

    def _explain_ranks(self, lowered: Lowered, world_size: int | None) -> list[str]:
        batch, order, ranks = find(self.nodes, Batch), lowered.order, lowered.where.world_size
        if world_size is None and batch is not None and batch.per_rank:
            return [f"ranks: any number, {batch.size} rows each; described here for {ranks}, see explain(world_size=…)"]
        if world_size is None:
            return [explain_ranks(order)]
        return [f"ranks: {ranks} with {order.batch_size // ranks:,} rows each", *explain_sharing(order, ranks)]


def read(
    where: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    format: str | Format | None = None,
    columns: Mapping[str, str | Column] | Sequence[str] | None = None,
    storage: Any = None,
    verify: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    progress: Progress | None = None,
    trust: str | Sequence[str] = (),
    trusted_hosts: str | Sequence[str] = (),
    **own: Any,
) -> Dataset:
    """Opens files as they are: a folder, a glob, one file, numbered files ("train-{000..099}.tar"), or a list of these.

    `storage` reads from elsewhere than the paths' scheme says: an obstore store, a pyarrow.fs or fsspec file system. The
    format is found by suffix, then by content; `format` forces it, by name or as a format of your own. `columns` selects, renames ({"image":
    "image/encoded"}) and, with `penstock.Column`, types what is read. `verify=False` skips checksums: those of records, and those that
    `penstock index --checksums` made. A list of files from a server may name files of that server, and of the places that
    `trust` names: trust=["s3://other-bucket/", "/data/"]. Redirects to other hosts get credentials if `trusted_hosts` names these:
    trusted_hosts=["target-*.cluster:51081"].
    Further arguments are the format's own (docs/formats.md lists them), for example `window=2049` for token files.
    Raises SourceError if there is nothing to read, PlanError for a column that is not there.
    """
    places = [fspath(place) for place in ([where] if isinstance(where, (str, PathLike)) else where)]
    if not places or (storage is None and "" in places):  # of a storage it is all that it holds
        what = "path" if places else "list of paths"
        raise SourceError(f"read: an empty {what}; pass a path, a glob or a list of them")
    paths = [path for place in places for path in ([place] if exists(place) else expand_braces(place))]
    for path in paths:
        check_url(path)
    trusted = Trust.of(trust, trusted_hosts)
    adopted = None if storage is None else adopt_storage(storage)
    opened = [(adopted, path) for path in paths] if adopted is not None else open_storages(paths, trusted)
    if len({(type(store), getattr(store, "root", "")) for store, _ in opened}) > 1:
        raise SourceError("read: the paths lie in different storages or buckets; read them apart")
    store = opened[0][0]
    if len(opened) == 1 and isinstance(store, LocalStorage):
        listed = [store.list(opened[0][1])]
    else:
        listed = in_threads(lambda one: one[0].list(one[1]), opened, most=_LOCATE_THREADS, name="penstock-list")
    shards = _join(listed)
    if len(shards) == 0:
        raise SourceError(f"{', '.join(places)}: no regular file there")
    asked = columns.values() if isinstance(columns, Mapping) else columns or ()
    if isinstance(columns, str) or not all(isinstance(name, (str, Column)) for name in asked):
        raise PlanError(f"columns={columns!r}: pass a list of names, or a dict of new name to name in the data")
    checks = Checks() if verify else None
    locate = partial(_locate, adopted, checks, trusted, shards.path(0))
    options = Options(columns=columns, verify=verify, limits=limits, progress=progress, own=own, locate=locate)
    read_ranges = _ranges(store, checks)
    source = open_source(", ".join(places), shards, read_ranges, options, format)
    if source.manifest.samples == 0:
        raise SourceError(f"{', '.join(places)}: {len(shards)} files, but not a single record in them")
    opened_read = getattr(source, "read_ranges", read_ranges)
    if checks is not None:
        checks.opening = False
        warn_of_unknown(opened_read, source.manifest.shards)
    opened_storage = opened_read.storage
    return of_source(source, ", ".join(places), columns, opened_read, opened_storage, limits)


def _ranges(store: Storage, checks: Checks | None) -> ReadRanges:
    read = WithCopies(store)
    return read if checks is None else CheckedRanges(read, checks)


def _locate(
    storage: Storage | None, checks: Checks | None, trust: Trust, home: str, names: Sequence[str]
) -> tuple[Shards, ReadRanges]:
    """See `core.byte_ranges.Locate`; all files must lie in one storage, and where a list at `home` may name them."""
    if not names:
        raise SourceError("read: an empty list of files; write some names into it")
    root = getattr(storage, "root", "")
    bare = "" if home.startswith(f"{root}/") else "/"  # what names of this storage do not begin with
    trust.check_named([name if "://" in name or not root else root + name.removeprefix(bare) for name in names], home)
    for name in names:
        check_url(name)
    store, path = (storage, names[0]) if storage is not None else open_storage(names[0], trust)
    base = names[0].removesuffix(path)
    for name in names:
        if not name.startswith(base) or ("://" in name) != ("://" in names[0]):
            raise SourceError(f"read: {names[0]} and {name} lie in different storages; read them apart")
    found = in_threads(
        lambda name: store.list(name.removeprefix(base)), names, most=_LOCATE_THREADS, name="penstock-locate"
    )
    for name, shards in zip(names, found, strict=True):
        if len(shards) != 1:
            raise SourceError(f"read: {name} is {len(shards)} files; a list of files names them one by one")
    return _join(found), _ranges(store, checks)


def from_arrays(columns: Any) -> Dataset:
    """What is in memory already: a dict of columns, rows first, all of one length; a frame or table; a list of dicts.

    from_arrays({"x": np.arange(10), "y": np.zeros((10, 3))}), from_arrays([{"x": 1, "text": "a"}, {"x": 2, "text": "b"}]).
    Columns are NumPy arrays, torch tensors on the CPU, Arrow arrays, pandas and Polars columns, or lists; frames are those of pandas and
    Polars, pyarrow.Table, and what offers Arrow's stream of columns. Times become int64 in the unit of their type, categories their
    values, lists of differing length ragged columns. pandas' row numbers are left out. Raises PlanError for missing values.
    """
    return of_source(open_arrays(columns), "memory", None)


def of_source(
    source: AnySource,
    where: str,
    columns: Any,
    read_ranges: ReadRanges | None = None,
    storage: Storage | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Dataset:
    """A dataset that begins with an opened source; `columns` is what the user asked for, where that renames."""
    plain = _plain_columns(source.spec, columns)
    node = Read(where=where, format=source.manifest.format, columns=plain, limits=limits)
    return Dataset(source, read_ranges or ByteRanges(), (node,), storage)


def _plain_columns(spec: Spec, asked: Any) -> tuple[tuple[str, str], ...]:
    features = asked if isinstance(asked, Mapping) else {}
    return tuple((name, str(getattr(features.get(name, name), "feature", features.get(name, name)))) for name in spec)


def _join(parts: list[Shards]) -> Shards:
    if len(parts) == 1:
        return parts[0]
    import pyarrow as pa

    paths = pa.concat_arrays([part.paths for part in parts])
    sizes = np.concatenate([part.sizes for part in parts])
    versions = np.concatenate([part.versions for part in parts])
    tags = [part.etags for part in parts if part.etags is not None]
    etags = pa.concat_arrays(tags) if len(tags) == len(parts) else None
    roots = {part.root for part in parts}
    if len(roots) == 1:
        return Shards(paths, sizes, versions, roots.pop(), etags=etags)
    common = commonprefix(sorted(roots)).rpartition("/")[0] + "/" if all(roots) else ""  # noqa: RUF071  # cut at a slash right after
    root_lengths = np.repeat([len(part.root) for part in parts], [len(part) for part in parts])
    return Shards(paths, sizes, versions, common, root_lengths, etags=etags)
