"""The plan: what the user wrote, as a tree of frozen descriptions. They check themselves and run nothing.

Leaves hold what was opened; every other node has `input`, or `inputs`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeAlias

from penstock.core.buckets import Buckets
from penstock.core.byte_ranges import ByteRanges
from penstock.core.errors import PlanError
from penstock.core.given import check_flags, hold_as_int, is_one_of, is_whole
from penstock.core.lengths import Lengths
from penstock.core.limits import DEFAULT_LIMITS, Limits
from penstock.core.packing import Packing
from penstock.core.padding import Padding
from penstock.core.picked import Picked
from penstock.core.quoted import quoted
from penstock.derived.row_cache.in_memory import MemoryCaches
from penstock.plan.picked_nodes import Balance, Exclude, Filter, Sample, Sort, Split
from penstock.plan.row_choice import RowChoice
from penstock.plan.weights import Changes, Weights, check_weights, quotas_of
from penstock.source.protocol import AnySource

#: What else verbs take in place of a function.
_OR = {"filter": ", or an expression such as penstock.col('width') >= 64"}

#: Rows of a batch, or steps of an epoch: more than anybody has, and few enough that their products have room in 64 bits.
_MOST_ROWS = 1 << 40
#: A function of `flat_map` gets no more rows together, of each lane: all of them are read before it begins.
_MOST_TOGETHER = 1 << 20

#: Where users' functions run.
_WORKERS = ("thread", "process", "auto")

#: Fields that are no words of a verb.
_NO_WORDS = ("input", "inputs", "opened", "verb", "draws", "in_memory")
#: Fields that came later, and say nothing where they are not given: digests in older states know nothing of them.
_LATER = {"later": True}


@dataclass(frozen=True, eq=False, kw_only=True)
class Opened:
    """An opened source, how its bytes are read, and the storage that they lie in. asked: which columns were asked for, and as what."""

    source: AnySource
    read_ranges: ByteRanges
    storage: Any = None
    asked: str = ""


@dataclass(frozen=True, kw_only=True)
class Read:
    """Where the samples come from. limits: what their bytes may ask for, which changes no sample."""

    opened: Opened
    where: str
    format: str
    columns: tuple[tuple[str, str], ...]
    limits: Limits = field(default=DEFAULT_LIMITS, metadata={"affects_result": False})
    verb: str = "read"


@dataclass(frozen=True, kw_only=True)
class Concat:
    """The rows of several inputs, one after another."""

    inputs: tuple[Node, ...]
    verb: str = "concat"


@dataclass(frozen=True, kw_only=True)
class Mix:
    """The rows of several inputs, each row from the one whose turn it is by the weights. stop, rows: when an epoch ends.

    changes: other weights, from a step on, counted over epochs.
    """

    inputs: tuple[Node, ...]
    weights: Weights
    changes: Changes = field(default=(), metadata=_LATER)
    stop: str = "first_exhausted"
    rows: int | None = None
    verb: str = "mix"

    def __post_init__(self) -> None:
        check_weights("mix", self.weights, len(self.inputs))
        for step, weights in self.changes:
            check_weights(f"mix: from step {step} on", weights, len(self.inputs))
        if not is_one_of(self.stop, ("first_exhausted", "all_exhausted")):
            raise PlanError(
                f"mix: stop={quoted(self.stop)}; choose 'first_exhausted' or 'all_exhausted', or give rows="
            )
        if self.rows is not None and (not is_whole(self.rows) or not 1 <= self.rows <= _MOST_ROWS):
            raise PlanError(f"mix: rows={quoted(self.rows)}; an epoch has at least one row, and a whole number of them")
        if self.changes and self.rows is None:
            raise PlanError(
                "mix: weights that change need epochs of so many rows, in which each dataset goes on where it was; write mix(…, rows=…)"
            )

    @property
    def quotas(self) -> tuple[int, ...]:
        """The weights as whole numbers."""
        return quotas_of(self.weights)

    @property
    def schedule(self) -> Changes:
        """All weights, by the step from which on they hold."""
        return ((0, self.weights), *self.changes)


@dataclass(frozen=True, kw_only=True)
class Zip:
    """The columns of several inputs side by side: row i of each is row i."""

    inputs: tuple[Node, ...]
    verb: str = "zip"


@dataclass(frozen=True, kw_only=True)
class SourceColumn:
    """A column with the number of the dataset, of a mix or a concat, that each row came of."""

    input: Node
    name: str
    verb: str = "source"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise PlanError(
                f"{self.input.verb}: source={quoted(self.name)}; give the new column a name, for example source='source'"
            )


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """Several epochs as one."""

    input: Node
    times: int
    verb: str = "repeat"

    def __post_init__(self) -> None:
        if not is_whole(self.times) or not 1 <= self.times < _MOST_ROWS:
            raise PlanError(f"repeat({quoted(self.times)}): how often, from 1 to 2**40, in whole numbers")


@dataclass(frozen=True, kw_only=True)
class Take(RowChoice):
    """The first rows."""

    input: Node
    count: int
    verb: str = "take"

    def __post_init__(self) -> None:
        _check_count(self)

    def rows(self, below: int) -> int:
        """How many rows are left of so many."""
        return min(below, int(self.count))

    def none_left(self, below: int) -> str:
        """What to say where none is."""
        return "take(0): no rows are left to make a batch of; take at least one"


@dataclass(frozen=True, kw_only=True)
class Skip(RowChoice):
    """All but the first rows."""

    input: Node
    count: int
    verb: str = "skip"

    def __post_init__(self) -> None:
        _check_count(self)

    def rows(self, below: int) -> int:
        """How many rows are left of so many."""
        return max(0, below - int(self.count))

    def none_left(self, below: int) -> str:
        """What to say where none is."""
        return f"skip({self.count:,}): there are {below:,} rows, and none is left; skip fewer"


@dataclass(frozen=True, kw_only=True)
class Every(RowChoice):
    """Every n-th row, from the first on."""

    input: Node
    count: int
    verb: str = "every"

    def __post_init__(self) -> None:
        if not is_whole(self.count) or not 1 <= self.count < 2**63:
            raise PlanError(f"every({quoted(self.count)}): a distance in rows, from 1 to 2**63")

    def rows(self, below: int) -> int:
        """How many rows are left of so many."""
        return -(-below // int(self.count))

    def none_left(self, below: int) -> str:
        """What to say where none is."""
        return "every: there are no rows"


@dataclass(frozen=True, kw_only=True)
class Shuffle:
    """Another order for every epoch. mode "block" mixes blocks and windows, "global" single samples.

    window: how many rows are mixed of sources that can only be read in one order.
    """

    input: Node
    seed: int = 0
    mode: str = "block"
    block_rows: int | None = None
    window_blocks: int | None = None
    window: int | None = field(default=None, metadata=_LATER)
    verb: str = "shuffle"

    def __post_init__(self) -> None:
        if not is_one_of(self.mode, ("block", "global")):
            raise PlanError(f"shuffle: mode={quoted(self.mode)}; choose 'block' or 'global'")
        check_seed("shuffle", self.seed)
        for name in ("block_rows", "window_blocks", "window"):
            value = getattr(self, name)
            if value is not None and (not is_whole(value) or not 1 <= value < 2**63):
                raise PlanError(f"shuffle: {name}={quoted(value)}; it must be at least 1, and a whole number")


@dataclass(frozen=True, kw_only=True)
class Shard:
    """Every node has files of its own; `samples` counts those of each."""

    input: Node
    samples: tuple[int, ...]
    verb: str = "shard"

    def __post_init__(self) -> None:
        if not self.samples or not all(is_whole(count) and count > 0 for count in self.samples):
            raise PlanError(
                f"shard: samples={quoted(self.samples)}; pass len(dataset) of every node, none of them empty"
            )


@dataclass(frozen=True, kw_only=True)
class Select:
    """Some columns of the input, in this order."""

    input: Node
    columns: tuple[str, ...]
    verb: str = "select"


@dataclass(frozen=True, kw_only=True)
class Transform:
    """Chains of native ops, each for one column. draws: of each chain the two numbers that key its random choices, and how many of its ops ran before it, below a cache (see `rules.numbered`)."""

    input: Node
    ops: tuple[tuple[str, tuple[Any, ...]], ...]
    draws: tuple[tuple[int, int, int], ...] = field(default=(), metadata={"affects_result": False})
    verb: str = "transform"


@dataclass(frozen=True, kw_only=True)
class Map:
    """A user's function: batch dict in, batch dict out. workers: where it runs, which changes no batch. draws: keys its random numbers."""

    input: Node
    function: Callable[..., Mapping[str, Any]]
    workers: str = field(default="thread", metadata={"affects_result": False})
    draws: int = field(default=0, metadata={"affects_result": False})
    verb: str = "map"

    def __post_init__(self) -> None:
        _check_function(self)
        _check_workers(self)


@dataclass(frozen=True, kw_only=True)
class MapRows:
    """A user's function: one row's dict in, one row's dict out. workers: as of `Map`."""

    input: Node
    function: Callable[..., Mapping[str, Any]]
    workers: str = field(default="thread", metadata={"affects_result": False})
    draws: int = field(default=0, metadata={"affects_result": False})
    verb: str = "map_rows"

    def __post_init__(self) -> None:
        _check_function(self)
        _check_workers(self)


@dataclass(frozen=True, kw_only=True)
class Cache:
    """Rows that were made once are kept. folder: None in memory, "" in the user's cache. size_bytes: at most, None for what there is room for.

    freeze_random: whether random ops below give the rows of epoch 0 for ever.
    """

    input: Node
    folder: str | None = field(default=None, metadata={"affects_result": False})
    size_bytes: int | None = field(default=None, metadata={"affects_result": False})
    freeze_random: bool = False
    in_memory: MemoryCaches = field(
        default_factory=MemoryCaches, compare=False, repr=False, metadata={"affects_result": False}
    )
    verb: str = "cache"


class LaneNode:
    """What verbs have in common that give more or fewer rows than they get, by what the data says: they run lane by lane.

    How many rows come out is known once they came, so that an epoch is as long as `batch` or `mix` says.
    """


@dataclass(frozen=True, kw_only=True)
class FilterFunction(LaneNode):
    """The rows for which a user's function says True: batch dict in, a mask of its rows out. columns: those that it gets, None for all."""

    input: Node
    function: Callable[..., Any]
    columns: tuple[str, ...] | None = field(default=None, metadata=_LATER)
    workers: str = field(default="thread", metadata={"affects_result": False})
    verb: str = "filter"

    def __post_init__(self) -> None:
        _check_function(self)
        _check_workers(self)


@dataclass(frozen=True, kw_only=True)
class FlatMap(LaneNode):
    """A user's function on `rows` neighbouring rows of a lane: batch dict in, batch dict of any number of rows out."""

    input: Node
    function: Callable[..., Mapping[str, Any]]
    rows: int = 16
    workers: str = field(default="thread", metadata={"affects_result": False})
    verb: str = "flat_map"

    def __post_init__(self) -> None:
        _check_function(self)
        _check_workers(self)
        if not is_whole(self.rows) or not 1 <= self.rows <= _MOST_TOGETHER:
            raise PlanError(
                f"flat_map: rows={quoted(self.rows)}; the function gets at least one row, a whole number of them, and at most {_MOST_TOGETHER:,}"
            )
        hold_as_int(self, "rows")


@dataclass(frozen=True, kw_only=True)
class Pack(LaneNode, Packing):
    """Rows of tokens become sequences of one length: see `core.packing.Packing`."""

    input: Node
    verb: str = "pack"


@dataclass(frozen=True, kw_only=True)
class SkipBad(LaneNode):
    """The rows that could be made: a Loader that leaves out bad rows puts it into its plan (see `plan.skipping`)."""

    input: Node
    verb: str = "skip bad rows"


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """Every batch takes its rows of one bucket; the batch follows at once, or after `Pad`."""

    input: Node
    buckets: Buckets
    verb: str = "bucket"


@dataclass(frozen=True, kw_only=True)
class Pad(Padding):
    """Ragged columns become dense, in each batch for itself; the batch follows at once."""

    input: Node
    verb: str = "pad"


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The global batch: `size` rows over all ranks together; with per_rank, for each of them. steps: of an epoch, None for all rows."""

    input: Node
    size: int
    drop_last: bool = False
    pad: bool = False
    wrap: bool = False
    lanes: int | None = None
    per_rank: bool = False
    steps: int | None = None
    verb: str = "batch"

    def __post_init__(self) -> None:
        if self.steps is not None and (not is_whole(self.steps) or not 1 <= self.steps <= _MOST_ROWS):
            raise PlanError(
                f"batch: steps={quoted(self.steps)}; an epoch has at least one step, and a whole number of them up to 2**40"
            )
        if not is_whole(self.size) or not 1 <= self.size <= _MOST_ROWS:
            raise PlanError(
                f"batch: size={quoted(self.size)}; a batch has at least one row, and a whole number of them up to 2**40"
            )
        check_flags("batch", drop_last=self.drop_last, pad=self.pad, wrap=self.wrap, per_rank=self.per_rank)
        if bool(self.drop_last) + bool(self.pad) + bool(self.wrap) > 1:
            raise PlanError("batch: choose one of drop_last, pad and wrap")
        hold_as_int(self, "size", "steps")
        if self.lanes is None:
            return
        if not is_whole(self.lanes) or self.lanes < 1 or (self.size % self.lanes and not self.per_rank):
            raise PlanError(f"batch: lanes={quoted(self.lanes)} does not divide size={self.size}")
        hold_as_int(self, "lanes")

    def of_all(self, world_size: int) -> Batch:
        """The same over all ranks: 64 rows for each of 4 ranks are 256."""
        if not self.per_rank:
            return self
        size = self.size * world_size
        if self.lanes is not None and size % self.lanes:
            raise PlanError(
                f"batch: lanes={self.lanes} does not divide the {size:,} rows of {world_size} ranks with {self.size} rows each"
            )
        return replace(self, size=size, per_rank=False)


@dataclass(frozen=True, kw_only=True)
class BatchTokens(Batch):
    """The global batch: as many rows of similar length as make at most `size` tokens over all ranks together.

    is_padded: whether rows count as padded to the longest. multiple_of: padded lengths are rounded up to this. fill: see `Dataset.batch_tokens`.
    """

    size: int = field(metadata={"word": "max_tokens"})
    lengths: Lengths
    is_padded: bool = True
    multiple_of: int = 1
    fill: float = 0.9
    verb: str = "batch_tokens"

    def __post_init__(self) -> None:
        check_flags("batch_tokens", drop_last=self.drop_last)
        for name, value in (("max_tokens", self.size), ("lanes", self.lanes)):
            is_left_out = name == "lanes" and value is None
            if not is_left_out and (isinstance(value, bool) or not is_whole(value) or not 1 <= value <= _MOST_ROWS):  # type: ignore[operator]  # a whole number
                raise PlanError(f"batch_tokens: {name}={quoted(value)}; at least 1, and a whole number")
        if isinstance(self.fill, bool) or not isinstance(self.fill, (float, int)) or not 0 < self.fill <= 1:
            raise PlanError(f"batch_tokens: fill={quoted(self.fill)}; it is a share above 0, and at most 1")
        hold_as_int(self, "size", "lanes")


Node: TypeAlias = (
    Read
    | Concat
    | Mix
    | Zip
    | SourceColumn
    | Repeat
    | Take
    | Skip
    | Every
    | Shuffle
    | Shard
    | Select
    | Cache
    | Transform
    | Map
    | MapRows
    | FilterFunction
    | FlatMap
    | Pack
    | SkipBad
    | Bucket
    | Pad
    | Batch
    | BatchTokens
    | Exclude
    | Filter
    | Split
    | Balance
    | Sample
    | Sort
)

#: Verbs with a function of the user's.
FUNCTION_NODES = (Map, MapRows, FilterFunction, FlatMap)
#: Those after which there are other columns than the source's, which functions alone know.
COLUMN_NODES = (Map, MapRows, FlatMap, Pack)


def of_all_ranks(nodes: Sequence[Node], world_size: int) -> tuple[Node, ...]:
    """The plan that all ranks follow together: a batch that counts rows per rank depends on how many they are."""
    return tuple(node.of_all(world_size) if isinstance(node, Batch) else node for node in nodes)


def describe(node: Node) -> str:
    """One line for people, such as "batch size=8 drop_last=True"."""
    words = sorted(
        (field for field in fields(node) if field.name not in _NO_WORDS), key=lambda field: field.name == "picked"
    )
    parts = [
        _named(field.metadata.get("word", field.name), getattr(node, field.name), field.default) for field in words
    ]
    inputs = [f"inputs={len(node.inputs)}"] if isinstance(node, (Concat, Mix, Zip)) else []
    return " ".join([node.verb, *inputs, *filter(None, parts)])


def digest(node: Node) -> str:
    """8 hex digits of all that the node says; functions count by their qualified name."""
    text = json.dumps(_plain(node), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


def _check_function(node: Map | MapRows | FilterFunction | FlatMap) -> None:
    if not callable(node.function):
        raise PlanError(
            f"{node.verb}: {quoted(node.function)} cannot be called; pass a function{_OR.get(node.verb, '')}"
        )


def _check_workers(node: Map | MapRows | FilterFunction | FlatMap) -> None:
    if not is_one_of(node.workers, _WORKERS):
        raise PlanError(
            f"{node.verb}: workers={quoted(node.workers)}; pass 'thread', 'process' for functions that hold the interpreter, or 'auto' to find out by measuring. How many there are "
            f"follows from the CPUs that may be used; Loader(cpus=…) limits it"
        )


def _check_count(node: Take | Skip) -> None:
    if not is_whole(node.count) or not 0 <= node.count < 2**63:
        raise PlanError(f"{node.verb}({quoted(node.count)}): a number of rows, from 0 on and below 2**63")


def check_seed(verb: str, seed: Any) -> None:
    """PlanError for what is no seed."""
    if not is_whole(seed) or not 0 <= seed < 2**64:
        raise PlanError(f"{verb}: seed={quoted(seed)}; a seed is a number from 0 to 2**64 - 1")


def _named(name: str, value: Any, default: Any) -> str:
    if value == default:
        return ""
    if name == "ops":
        return ", ".join(f"{column}=[{', '.join(map(repr, ops))}]" for column, ops in value)
    if name == "columns":
        pairs = [(one, one) if isinstance(one, str) else one for one in value]
        return "columns=[" + ", ".join(f"{new}: {old}" if new != old else new for new, old in pairs) + "]"
    return f"{name}={getattr(value, '__qualname__', value)}"


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        inner = {
            field.name: _plain(getattr(value, field.name))
            for field in fields(value)
            if field.metadata.get("affects_result", True)
            and (field.name == "verb" or field.name not in _NO_WORDS)
            and not ("later" in field.metadata and getattr(value, field.name) == field.default)
        }
        return {"kind": type(value).__name__, **inner}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, Picked):
        return repr(value)
    if callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)
