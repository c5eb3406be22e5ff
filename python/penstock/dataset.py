"""Dataset: what to read and what to do with it. Each verb returns a new dataset; nothing runs before a Loader asks."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from os import PathLike
from typing import Any, Literal, TypeAlias

from penstock.core.asked_by import refuse_trainers
from penstock.core.buckets import Buckets
from penstock.core.by_name import options_by_name
from penstock.core.byte_ranges import ByteRanges, Progress
from penstock.core.cache_dirs import size_of
from penstock.core.errors import PlanError
from penstock.core.given import as_tuple, check_flags, check_progress, check_whole, is_one_of, is_whole, path_of
from penstock.core.lengths import Lengths
from penstock.core.limits import DEFAULT_LIMITS, Limits
from penstock.core.names import did_you_mean
from penstock.core.padding import as_names, as_padding_value
from penstock.core.quoted import printable, printable_lines, quoted
from penstock.core.spec import Spec
from penstock.core.warned import warn
from penstock.looking.verbs import (
    balance_rows,
    filter_rows,
    filter_rows_ahead,
    numbers_of_rows,
    sample_rows,
    sort_rows,
    split_rows,
)
from penstock.observe.rows_table import RowsTable
from penstock.plan.check import check_verb, classes_of
from penstock.plan.columns import known_columns, spec_of
from penstock.plan.drawing import check_drawn, followed
from penstock.plan.expression import Expression
from penstock.plan.nodes import (
    COLUMN_NODES,
    Batch,
    BatchTokens,
    Bucket,
    Cache,
    Every,
    FilterFunction,
    FlatMap,
    LaneNode,
    Map,
    MapRows,
    Node,
    Opened,
    Pack,
    Pad,
    Read,
    Repeat,
    Select,
    Shard,
    Shuffle,
    Skip,
    Take,
    Transform,
    TransformBatch,
)
from penstock.plan.nodes.rows import MOST_ROWS
from penstock.plan.tree import flow, inputs_of, leaves, with_inputs
from penstock.resolve.cache_checks import check_cache
from penstock.resolve.draw_checks import check_draws
from penstock.resolve.order_checks import check_order
from penstock.resolve.row_counts import rows_of
from penstock.source.manifest import check_countable, digest_of
from penstock.source.nulls import keeping_nulls
from penstock.source.protocol import Access, AnySource
from penstock.storage import Storage
from penstock.storage.cache.folder import chosen_cache
from penstock.storage.cache.storage import CachedStorage
from penstock.tools.explain import explain
from penstock.tools.few_rows import FewRows, is_empty, length_of, number_of, row_of
from penstock.tools.indexing import build_indexes
from penstock.tools.simulate import Simulation, simulate

#: More ranks, machines or epochs than anybody simulates.
_MOST_RANKS = 1 << 20
#: What a function returns: a value, or an array of rows, for each column.
Columns: TypeAlias = Mapping[str, Any]
#: How functions get text.
Text: TypeAlias = Literal["arrow", "list"]
#: tf.data's map takes a number of parallel calls there.
_THREADS = "the number of threads is found automatically; write map(function), and Loader(cpus=…) to limit it"
_NODES = (
    "takes the sample counts of nodes with files of their own; to divide one dataset among ranks write nothing: the Loader finds its rank, or takes rank= "
    "and world_size="
)


def _not_by_hand(init: Callable[[Dataset, Node], None]) -> Callable[[Dataset, Node], None]:
    """PlanError for whoever calls Dataset instead of what makes one."""

    @wraps(init)
    def checked(self: Dataset, *given: Any, **options: Any) -> None:
        if len(given) != 1 or not isinstance(given[0], Node) or options:
            what = type(given[0]).__name__ if given else ""
            raise PlanError(
                f"Dataset({what}): datasets are not made by hand; make one with penstock.read(path), from_arrays(columns), from_dataset(dataset) or "
                f"from_iterable(function)"
            )
        init(self, *given)

    return checked


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Dataset:
    """An immutable description: what to read and the verbs that follow, as a tree. Made by `penstock.read`, `from_arrays`, `concat` and others."""

    root: Node

    @_not_by_hand
    def __init__(self, root: Node) -> None:
        vars(self).update(root=root)

    @options_by_name("the order covers all samples, so there is no buffer to size; write shuffle(seed=…)")
    def shuffle(
        self,
        *,
        seed: int = 0,
        mode: Literal["block", "global"] = "block",
        block_rows: int | None = None,
        window_blocks: int | None = None,
        window: int | None = None,
    ) -> Dataset:
        """Another order in every epoch, a function of (seed, epoch) alone: shuffle(seed=0).

        There is no buffer to size: the order covers the whole dataset.

        mode "block" permutes blocks of neighbouring samples (about 1 MiB; single files where every sample is a file), and rows
        within windows of a lane's blocks; "global" permutes single samples, whatever that costs to read. `block_rows` and
        `window_blocks` fix the sizes by hand.

        Sources that can only be read in one order (`from_iterable(…, spool=False)`, `read_stream`) are mixed within windows of neighbouring
        rows, `window` of them in all: 10,000 if not given. About half as many are held in memory.
        """
        return self._then(
            Shuffle(
                input=self.root, seed=seed, mode=mode, block_rows=block_rows, window_blocks=window_blocks, window=window
            )
        )

    @options_by_name(_NODES, shows_call=True)
    def shard(self, samples: Sequence[int]) -> Dataset:
        """Says that every node has files of its own, as SageMaker's ShardedByS3Key gives them; `samples` counts those of each.

        shard([41_000, 40_200]): two nodes, and what `len` of this dataset is on each. Every node makes its equal part of each
        global batch out of its own files, and its ranks share that. An epoch has equally many steps on all: with drop_last as many
        as the smallest node has samples for, with pad or wrap as the largest needs. A state continues on as many nodes, each with the
        files that it had, on any number of ranks a node that divides its part of the batch.
        Raises PlanError where the counts are not those that lie here, or class numbers could differ from node to node.
        """
        if not isinstance(samples, Iterable):
            raise PlanError(f"shard({quoted(samples)}): {_NODES}")
        return self._then(Shard(input=self.root, samples=as_tuple("shard", samples)))

    def select(self, *columns: str | Sequence[str]) -> Dataset:
        """These columns alone, in this order: select("image", "label").

        What is not selected is neither read, where the format can leave it out, nor transformed: write it behind all that uses columns. A bad
        value in a column that is not selected is then no error. A function gets all columns of its input; select before it gives it fewer.
        `filter`, `sort` and other expressions come before it if they name a column that it drops.

        data.select("x", "y") and data.select(["x", "y"]) are the same. Raises PlanError for a column that is not there; after a function that is known
        when its first batch comes.
        """
        names = columns[0] if len(columns) == 1 else columns
        if not isinstance(names, str) and isinstance(names, Sequence) and any(is_whole(one) for one in names):
            raise PlanError(
                f"select({quoted(names)}): takes names of columns; rows are chosen by take, skip, every, sample, or filter with an expression"
            )
        return self._then(Select(input=self.root, columns=as_names("select", names)))

    def drop(self, *columns: str | Sequence[str]) -> Dataset:
        """All columns but these: drop("caption", "path"). See `select`.

        Raises PlanError for a column that is not there, if none is left, and after a function, whose columns only it knows: there, select those that stay.
        """
        dropped = as_names("drop", columns[0] if len(columns) == 1 else columns)
        known = known_columns(self.root)
        if known is None:
            raise PlanError(
                f"drop: the columns after a function are not known in advance; write select(…) with those that stay, or leave "
                f"{', '.join(dropped)} out of what the function returns"
            )
        for name in dropped:
            if name not in known:
                raise PlanError(
                    f"drop: no column {quoted(name)}; there are {', '.join(known)}{did_you_mean(name, known)}"
                )
        left = tuple(name for name in known if name not in dropped)
        if not left:
            raise PlanError(f"drop: {', '.join(dropped)} are all columns, and none is left; keep at least one")
        return self._then(Select(input=self.root, columns=left))

    def transform(self, *on_batch: Any, **columns: Any) -> Dataset:
        """Native ops on named columns, transform(image=[ps.image.Decode(), ps.image.RandomResizedCrop(224)]), or on whole batches, batch(256).transform(ps.image.MixUp(0.2, num_classes=1000)).

        Neighbouring ops on one column run as one kernel. Random ops draw from a key made of (seed, epoch, sample id).

        Where several columns have random ops, `draws` says whether these belong together; it is the option where it is text, and a column where it is
        ops. draws="together", for an image and its mask: random ops at the same place draw the same numbers. Those that move pixels must be the same in all
        chains, one after another (RandomResizedCrop with the same `scale` and `ratio`, flips with the same `p`); their sizes and interpolation may
        differ, and so may all other ops: a mask has no Normalize and no colours. draws="apart", for two views of one image: every column draws for itself.

            transform(
                image=[I.Decode(), I.RandomResizedCrop(224), I.RandomHorizontalFlip(), I.Normalize(I.IMAGENET)],
                mask=[I.Decode(), I.RandomResizedCrop(224, interpolation="nearest"), I.RandomHorizontalFlip()],
                draws="together",
            )

        Warns where random ops move the pixels of one column and another one, without draws="apart", has ops and stays as it is: a mask's crop may have been forgotten.

        Raises PlanError where random ops of several columns have no `draws`, also in transforms one after another, or in datasets of a `zip`. Batches raise DataError where
        a crop is drawn together and the sizes of a row's images differ.
        """
        if on_batch:
            return self._on_batches(on_batch, columns)
        drawn = columns.pop("draws") if isinstance(columns.get("draws", ()), (str, type(None))) else None
        chains = tuple(
            (name, tuple(ops) if isinstance(ops, (list, tuple)) else (ops,)) for name, ops in columns.items()
        )
        if not chains:
            raise PlanError("transform: no columns; write e.g. transform(image=[ps.image.Decode()])")
        check_drawn(chains, drawn)
        follows = followed(chains) if drawn == "together" else ()
        return self._then(Transform(input=self.root, ops=chains, drawn=drawn, follows=follows))

    def _on_batches(self, ops: Sequence[Any], columns: Mapping[str, Any]) -> Dataset:
        """See `transform`."""
        for op in ops:
            if not getattr(op, "on_batch", False) or columns:
                raise PlanError(
                    f"transform: {quoted(op)}: ops of columns are named, transform(image=[…]), and ops on whole batches stand alone, transform(ps.image.MixUp(…))"
                )
        found = self
        for op in ops:
            found = found._then(TransformBatch(input=found.root, op=op))
        return found

    @options_by_name(_THREADS)
    def map(
        self,
        function: Callable[..., Columns | Awaitable[Columns]],
        *,
        text: Text = "arrow",
        workers: Literal["thread", "process", "auto"] = "thread",
    ) -> Dataset:
        """Your function on whole batches: dict of arrays (rows first) in, dict of arrays out.

        Text and bytes come as Arrow arrays; with text="list" as lists of str and of bytes, which tokenizers take:
        map(lambda batch: {"ids": [one.ids for one in tokenizer.encode_batch(batch["text"])]}, text="list").

        Columns may be returned as arrays (NumPy, torch on the CPU, Arrow), as lists of numbers, str or bytes, and as lists of one list or array a
        row. Rows that are lists become a ragged column, however long they are (of int64 where all are empty), and so do arrays of several lengths; arrays of one shape become one array. What lies in an inner dict is
        named "outer.inner". The number of rows must stay.

        A parameter named `rng` gets a `penstock.RowGenerator`, which draws for each row: `rng.normal(0, 0.1, size=batch["x"].shape)` has the same numbers for a
        row on any number of ranks. The first batch is made twice; if the results differ, a warning says so.

        It runs on threads. With map(function, workers="process") it runs in processes, as many as there are CPUs to use, which pays where
        most of its time goes to Python code: threads would take turns. Batches are the same, and go there and back in shared memory. The function is sent
        with cloudpickle (`pip install cloudpickle`), as it is when the Loader is made. A Loader raises PlanError where it cannot be sent, and
        DataError if processes end over a batch twice, by a crash or for want of memory. With "auto" it begins on threads; where these take turns, a batch
        is made in both ways, and processes get the next ones if they return the same and are faster (`Loader.stats()["functions"]` says why). What a function
        changes outside of its batch, such as a list that it appends to, is then changed in the other process: leave such functions on threads.

        An `async def` runs on one event loop of the process, in a thread of its own, on up to 16 batches at once (`map_rows`: up to 64 rows).
        """
        return self._then(Map(input=self.root, function=function, text=text, workers=workers))

    @options_by_name(_THREADS)
    def map_rows(
        self,
        function: Callable[..., Columns | Awaitable[Columns]],
        *,
        workers: Literal["thread", "process", "auto"] = "thread",
    ) -> Dataset:
        """Your function row by row: dict of values in, dict of values out; slower than `map`. Text comes as str, and lists as lists. workers, and what it may return: as of `map`.

        A parameter named `rng` gets a NumPy generator that is a function of seed, epoch and sample. The first two rows are made twice; see `map`.
        """
        return self._then(MapRows(input=self.root, function=function, workers=workers))

    @options_by_name("write filter(predicate), of several (first) & (second)")
    def filter(
        self,
        predicate: Expression | Callable[..., Any],
        *,
        columns: str | Sequence[str] | None = None,
        ahead: bool = False,
        progress: Progress | None = None,
        text: Text = "arrow",
        workers: Literal["thread", "process", "auto"] = "thread",
    ) -> Dataset:
        """The rows for which a predicate is true: filter((ps.col("width") >= 64) & (ps.col("label") != 3)), or a function says True.

        The columns that an expression names are read once, now, and what came out is kept in the user's cache: `len` is exact, and nothing is
        read again until the files change. It goes before `shuffle`, `transform` and functions. progress: called with rows done and rows in all.
        Raises PlanError for a predicate that is no column of true and false, or true for no row.

        A function, filter(lambda batch: batch["length"] > 16), gets whole batches while training, as for `map`, and returns a mask, one bool
        a row. The number of rows that stay is not known in advance, so `batch(…, steps=…)` says how long an epoch is. Exact through ranks and
        resume: a state says how far every lane is used. With ahead=True it gets all rows once, now, as an expression does: it must be a
        function of each row alone, and goes before `shuffle`, `transform` and other functions (`penstock index --filter` does it before training).
        workers: where it runs while training, as of `map`; processes get a part of a batch each.

        columns: those that a function gets, filter(is_long, columns=["length"]). Others are not made for it: images are decoded after the filter, of the
        rows that stay, and columns that nothing else uses are not read. text: how a function gets text, as of `map`.
        """
        check_flags("filter", ahead=ahead)
        if not is_one_of(workers, ("thread",)) and (ahead or isinstance(predicate, Expression)):
            raise PlanError(
                f"filter: workers={quoted(workers)} is for a function that runs while training; leave it out for an expression, and with ahead=True"
            )
        names = None if columns is None else as_names("filter", columns)
        if isinstance(predicate, Expression):
            if names is not None:
                raise PlanError(f"filter: columns={quoted(columns)} is for a function; an expression names its columns")
            return self._then(filter_rows(self.root, predicate, progress))
        if ahead:
            return self._then(filter_rows_ahead(self.root, predicate, names, progress, text))
        return self._then(
            FilterFunction(input=self.root, function=predicate, columns=names, text=text, workers=workers)
        )

    @options_by_name(_THREADS)
    def flat_map(
        self,
        function: Callable[..., Mapping[str, Any]],
        *,
        rows: int = 16,
        text: Text = "arrow",
        workers: Literal["thread", "process", "auto"] = "thread",
    ) -> Dataset:
        """Your function on `rows` neighbouring rows of a lane: dict of arrays in, dict of arrays out, with any number of rows, none as well.

        A lane of fewer rows gives all of its epoch together. The first batch needs the rows of every lane's first call: see `explain()`.

        So one document becomes several paragraphs, or several become one. `batch(…, steps=…)` says how long an epoch is. Exact through ranks and
        resume, where the function sees the same rows together. text, workers, what it may return, and a parameter named `rng`: as of `map`; it draws for each row that
        comes in, and has no `rng.step`.
        """
        return self._then(FlatMap(input=self.root, function=function, rows=rows, text=text, workers=workers))

    @options_by_name("write pack(columns, length=2048)")
    def pack(
        self,
        columns: str | Sequence[str],
        *,
        length: int,
        strategy: Literal["best_fit", "concat"] = "best_fit",
        window: int = 1000,
        over_long: Literal["split", "truncate", "refuse"] = "split",
        padding_value: float | Mapping[str, float] = 0,
    ) -> Dataset:
        """Rows of tokens become sequences of `length` tokens: pack("tokens", length=2048).batch(64, steps=1000).

        A sequence comes as the token columns (length,), with segment_ids (int32: 1, 2, … a document, 0 at padding), position_ids (int32, from 0 on in every
        document) and loss_mask (bool, False at padding). Several columns are packed side by side; others are left out.

        "best_fit" packs each `window` neighbouring rows of a lane for themselves (all of its epoch, if a lane has fewer), the longest first, and never cuts a document that fits; on texts
        of usual lengths less than 2 % is padding. "concat" joins documents and cuts them every `length` tokens: nothing is padded, and documents go
        on in the next sequence. over_long: rows of more than `length` tokens are split, truncated, or refused by an error.

        `batch(…, steps=…)` says how long an epoch is. The first batch needs a window of every lane: see `explain()`. Exact through ranks and resume: a state says how far every lane is used, which is at
        most `window` rows to be read again.
        """
        names = as_names("pack", [columns] if isinstance(columns, str) else columns)
        value = as_padding_value("pack", padding_value)
        packed = Pack(
            input=self.root,
            columns=names,
            length=length,
            strategy=strategy,
            window=window,
            over_long=over_long,
            padding_value=value,
        )
        return self._then(packed)

    @options_by_name("write batch(size, drop_last=True), pad=True or wrap=True")
    def batch(
        self,
        size: int,
        *,
        drop_last: bool = False,
        pad: bool = False,
        wrap: bool = False,
        lanes: int | None = None,
        per_rank: bool = False,
        steps: int | None = None,
    ) -> Dataset:
        """Global batches of `size` rows: all ranks together; rank r of R gets size / R of them, for any R that divides `size`.

        per_rank: `size` counts the rows of each rank, as a DataLoader's batch_size does; the global batch is then size × R, another
        number of ranks has other batches, and a state continues only where size × R is what it was.
        The last samples of an epoch, if they are fewer than a batch: a shorter batch, or drop_last (none), pad (filled with
        repeated rows; the bool column "valid" says which are real), wrap (filled with the epoch's first rows). `lanes`
        (a divisor of the global batch) fixes how many sequences the epoch is dealt to. A number of ranks that divides it reads each
        block once; with others, neighbouring ranks share lanes and read some blocks twice: `explain(world_size=R)` says how many.

        steps: how long an epoch is, whatever the number of rows; the next one goes on from there, and data that ends begins again, shuffled
        anew. After `filter` by a function and `flat_map`, whose rows nobody has counted, it must be given.
        """
        return self._then(
            Batch(
                input=self.root,
                size=size,
                drop_last=drop_last,
                pad=pad,
                wrap=wrap,
                lanes=lanes,
                per_rank=per_rank,
                steps=steps,
            )
        )

    @options_by_name("write batch_padded(size, length=512), or padding_value=…")
    def batch_padded(
        self,
        size: int,
        *,
        columns: Sequence[str] | None = None,
        multiple_of: int | None = None,
        length: int | None = None,
        truncate: bool = False,
        padding_value: float | Mapping[str, float] = 0,
        drop_last: bool = False,
        pad: bool = False,
        wrap: bool = False,
        lanes: int | None = None,
        per_rank: bool = False,
        steps: int | None = None,
    ) -> Dataset:
        """`batch` with dense arrays for columns whose rows are lists of numbers: batch_padded(32, multiple_of=64).

        A column "tokens" of rows of 3 and 5 numbers comes as "tokens" (2, 5), with "tokens_lengths" [3, 5] (int32) and "tokens_mask" (2, 5),
        which is True at numbers. Rows of arrays, (None, 4) in `spec`, become (2, 5, 4). Text and bytes stay as they are.

        Rows are padded to the longest of their batch, rounded up to `multiple_of`: of each rank's part of the batch, so that ranks may have
        other lengths. With `length` all batches of all ranks are as long; a longer row is then an error that names it, or truncate=True
        cuts it. `columns`: those that are padded, by default all that can be. `padding_value`: for all columns, or a dict of one each (0 for others).
        The other options are those of `batch`; its `pad` fills the last batch with repeated rows.
        """
        if not isinstance(pad, bool):
            raise PlanError(
                f"batch_padded: pad={quoted(pad)} fills the last batch, or not; write padding_value={quoted(pad)}"
            )
        padded = Pad(
            input=self.root,
            columns=None if columns is None else as_names("batch_padded", columns),
            multiple_of=multiple_of,
            length=length,
            truncate=truncate,
            padding_value=as_padding_value("batch_padded", padding_value),
        )
        return self._then(padded).batch(
            size, drop_last=drop_last, pad=pad, wrap=wrap, lanes=lanes, per_rank=per_rank, steps=steps
        )

    @options_by_name("write batch_bucketed(size, by=lengths, boundaries=[…])")
    def batch_bucketed(
        self,
        size: int,
        *,
        by: Any,
        boundaries: Sequence[float] | None = None,
        quantiles: int | None = None,
        columns: Sequence[str] | None = None,
        multiple_of: int | None = None,
        padding_value: float | Mapping[str, float] = 0,
        drop_last: bool = False,
        pad: bool = False,
        wrap: bool = False,
        lanes: int | None = None,
        per_rank: bool = False,
        progress: Progress | None = None,
    ) -> Dataset:
        """`batch_padded` with rows of similar length in each batch: batch_bucketed(32, by="tokens", boundaries=[128, 512]).

        by: the name of a column, whose rows' lengths count if it holds lists or text; or an expression, as `filter` takes; or an array with a number
        for each row of the dataset, in the order of the data. A column is read once, now; `progress` is called with the rows done, and all.
        boundaries: bucket 0 has the rows below the first, bucket 1 those from there to below the second, and so on. quantiles: that many
        buckets of about equally many rows instead.

        A batch takes its rows of one bucket, so that all ranks have rows of the same bucket in a step. After `shuffle`, buckets take turns in another order every
        epoch; without it, one follows the other. The rows that are left over of all buckets come in the last batches of an epoch, shortest
        first; with drop_last not at all. Rows are read one by one, not in blocks: data that lies far away is better cached.

        The other options are those of `batch_padded`. Raises PlanError where `by` does not fit, or rows are chosen or mixed after `shuffle`.
        """
        numbers = numbers_of_rows("batch_bucketed", self.root, by, progress)
        bucketed = self._then(Bucket(input=self.root, buckets=Buckets.of(numbers, boundaries, quantiles)))
        return bucketed.batch_padded(
            size,
            columns=columns,
            multiple_of=multiple_of,
            padding_value=padding_value,
            drop_last=drop_last,
            pad=pad,
            wrap=wrap,
            lanes=lanes,
            per_rank=per_rank,
        )

    @options_by_name("write batch_tokens(max_tokens, by=lengths)")
    def batch_tokens(
        self,
        max_tokens: int,
        *,
        by: Any,
        padded: bool = True,
        fill: float = 0.9,
        columns: Sequence[str] | None = None,
        multiple_of: int | None = None,
        padding_value: float | Mapping[str, float] = 0,
        drop_last: bool = False,
        lanes: int | None = None,
        progress: Progress | None = None,
    ) -> Dataset:
        """As many rows as have at most `max_tokens` together, of similar length: batch_tokens(max_tokens=32_768, by="tokens").

        max_tokens: of the global batch, all ranks together; each of R ranks has at most max_tokens / R in any step. What counts is rows × the longest of
        them, as they are padded (`multiple_of` included); with padded=False columns stay lists, and the plain sum counts.
        by: how long each row is, as for `batch_bucketed`: a column, an expression or an array of whole numbers from 0 on.

        A step of long rows has few of them, one of short rows many, and every rank takes equally many (of an epoch's last step, which is a short one,
        nearly equally many; drop_last leaves it out). Rows are dealt to the ranks by length, so that all have about as many tokens;
        `explain(world_size=…)` says how well that goes. Every row comes once an epoch.

        fill: rows that come together are at least so long as this share of the longest of them, where there are enough of these for four steps. More
        pads less, and mixes less. lanes: into how many parts of max_tokens / lanes a step is divided. Numbers of ranks must divide it, and the longest row must
        have room in it. By default the largest power of two, up to 64, in which four of the longest rows have room.

        `columns` and `padding_value` are those of `batch_padded`. After `shuffle`, steps of long and short rows come in another order every epoch; without it, the
        longest first. Rows are read one by one, not in blocks. Raises PlanError for a row that is too long, and where `by` does not fit.
        """
        check_flags("batch_tokens", padded=padded)
        if not padded and (columns, multiple_of, padding_value) != (None, None, 0):
            raise PlanError(
                "batch_tokens: columns=, multiple_of= and padding_value= say how rows are padded; leave them out, or padded=False"
            )
        lengths = Lengths.of("batch_tokens", numbers_of_rows("batch_tokens", self.root, by, progress))
        below = self
        if padded:
            values = as_padding_value("batch_tokens", padding_value)
            names = None if columns is None else as_names("batch_tokens", columns)
            below = self._then(Pad(input=self.root, columns=names, multiple_of=multiple_of, padding_value=values))
        batch = BatchTokens(
            input=below.root,
            size=max_tokens,
            lengths=lengths,
            is_padded=bool(padded),
            multiple_of=int(multiple_of or 1),
            fill=fill,
            drop_last=drop_last,
            lanes=lanes,
        )
        return below._then(batch)  # noqa: SLF001  # its own class

    @options_by_name("write cache(folder, size=…)")
    def cache(
        self,
        folder: str | PathLike[str] | None = None,
        *,
        to: Literal["memory", "disk"] | None = None,
        size: str | int | None = None,
        freeze_random: bool = False,
    ) -> Dataset:
        """Keeps rows as they are here, so that later epochs do not make them again: cache(), cache("/nvme/rows"), cache(to="disk").

        cache() keeps them in this process's memory, as long as the dataset or a loader of it is there. cache("/nvme/rows") keeps them in files of that folder, for
        all processes and later runs; to="disk" means the user's cache (`penstock cache ls`). What is kept is named by the data, by the ops and functions
        before, their code and the values that they use: if any of these changes, other rows are kept. Rows come in any order; batches are the same with and
        without. Whatever passes can be kept: bytes of records, text, lists, arrays.

        size: how much is kept at most, a number of bytes or "100GiB"; the rest is made again in every epoch. By default half of the free memory, or
        what the disk has room for. Goes before `batch`, and before whatever is random: ops and functions that draw are refused, or with freeze_random=True
        keep what epoch 0 draws. A function of `map` before it must treat each row by itself. Raises PlanError for rows that have no numbers: those of
        `filter` by a function, `flat_map`, `pack` and streams; put cache() before these.
        """
        check_flags("cache", freeze_random=freeze_random)
        if to is not None and (folder is not None or not is_one_of(to, ("memory", "disk"))):
            raise PlanError(
                f"cache: to={quoted(to)}{'' if folder is None else ' and a folder'}; write cache() for memory, cache(to='disk') for the user's cache, or "
                f"cache(folder)"
            )
        size_bytes = None if size is None else size_of(size, "size")
        if size_bytes == 0:
            raise PlanError(f"cache: size={quoted(size)} keeps nothing; leave cache() out")
        place = path_of("cache", folder) if folder is not None else "" if to == "disk" else None
        if folder is not None and not place:
            raise PlanError("cache: an empty path; name a folder, or write cache(to='disk') for the user's cache")
        where = os.path.abspath(os.path.expanduser(place)) if place else place
        node = Cache(input=self.root, folder=where, size_bytes=size_bytes, freeze_random=bool(freeze_random))
        check_cache(node)
        return self._then(node)

    def cache_local(self, limit: str | int | None = None, path: str | PathLike[str] | None = None) -> Dataset:
        """How much of remote data is kept on the local disk: cache_local("100GiB"), cache_local("1TB", "/nvme/cache"), cache_local(0).

        `limit` is a number of bytes, or a text with a unit (kB, MB, GB, TB, KiB, MiB, GiB, TiB); 0 and None switch the cache off.
        `path` is a folder of this user alone, made if need be; without it, the user's cache. It holds from now on for all
        datasets made by the same `penstock.read`, since they share what was opened; batches are the same with and without. Local
        data is not cached. Raises PlanError for a limit that is none, and for a folder that others can write into.
        """
        cache = chosen_cache(size_of(limit, "limit"), None if path is None else path_of("cache_local", path))
        for leaf in leaves(self.root):
            if isinstance(leaf.opened.storage, CachedStorage):
                leaf.opened.storage.use_cache(cache)
        return self

    @options_by_name("write take(count)")
    def take(self, count: int) -> Dataset:
        """The first `count` rows of an epoch, or all of them if they are fewer: take(1000).

        Before `shuffle`, always the same rows: take(1000).shuffle(seed=0). After it, those that come first in every epoch: others each time.
        """
        return self._then(Take(input=self.root, count=count))

    @options_by_name("write skip(count)")
    def skip(self, count: int) -> Dataset:
        """All but the first `count` rows of an epoch: data.skip(1000) and data.take(1000) are all of `data`."""
        return self._then(Skip(input=self.root, count=count))

    @options_by_name("write every(count)")
    def every(self, count: int) -> Dataset:
        """Every `count`-th row, from the first on: every(10) is a tenth of the rows, at equal distances. Goes before `shuffle`."""
        return self._then(Every(input=self.root, count=count))

    @options_by_name("write repeat(times)")
    def repeat(self, times: int) -> Dataset:
        """`times` epochs as one: shuffle(seed=0).repeat(3). Each copy is shuffled and augmented anew. `shuffle` goes before it."""
        return self._then(Repeat(input=self.root, times=times))

    @options_by_name('write split({"train": 0.9, "val": 0.1}, by=…)')
    def split(
        self,
        parts: Mapping[str, float],
        *,
        by: str | Expression | None = None,
        stratify: str | Expression | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> dict[str, Dataset]:
        """Parts that share no row and have all of them: split({"train": 0.8, "val": 0.1, "test": 0.1})["train"].shuffle(seed=0).

        A row's part follows from its file and its place there (in memory from its number), so that files and rows that are added later
        move no other row. Shares are as chance has it: of 10,000 rows about 100 more or less. by: a column; rows with equal values stay
        together, whatever else is there. stratify: a column; every part has its share of each class, to the row, and rows that are added
        may move others.
        """
        found = split_rows(self.root, parts, by, stratify, seed, progress)
        return {name: self._then(node) for name, node in found.items()}

    @options_by_name('write balance(column, mode="over")')
    def balance(
        self,
        column: str | Expression,
        *,
        mode: Literal["over", "under"] = "over",
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Dataset:
        """Equally many rows of every class, to the row: balance("label").shuffle(seed=0).

        mode "over": as many as the most frequent class has; a row comes as often as any other of its class, or once more, and each copy is
        augmented anew. "under": as many as the rarest has, no row twice, chosen by `seed`. Copies lie apart in the order, and rows are then
        read one by one. Raises PlanError for labels that are missing, or of no class.
        """
        return self._then(balance_rows(self.root, column, mode, seed, progress))

    @options_by_name("write sample(count, weights=…, replacement=True)")
    def sample(
        self,
        count: int,
        *,
        weights: Any = None,
        replacement: bool = False,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Dataset:
        """`count` rows by chance: sample(10_000, weights="weight", replacement=True).shuffle(seed=0).

        weights: a column, or an array of one number above 0 for each row; without it all rows are alike. With replacement, a row comes as
        often as its weight says, rounded up or down, and each copy is augmented anew; without, no row comes twice. The same rows in every epoch.
        """
        return self._then(sample_rows(self.root, count, weights, seed, progress, replacement=replacement))

    @options_by_name("write sort(column, descending=True)")
    def sort(
        self,
        by: str | Expression,
        *,
        descending: bool = False,
        progress: Progress | None = None,
    ) -> Dataset:
        """All rows in the order of a column, equal ones as they were: sort("length") begins with the shortest, a curriculum.

        Rows are then read one by one. A `shuffle` after it mixes them again.
        """
        return self._then(sort_rows(self.root, by, progress, descending=descending))

    def _then(self, node: Node) -> Dataset:
        check_verb(node)
        check_draws(node)
        check_order(node)
        return Dataset(node)

    def __len__(self) -> int:
        """Rows of an epoch."""
        return rows_of(self.root)

    def __getitem__(self, row: int) -> dict[str, Any]:
        """One row to look at, as a dict: dataset[0]["label"]; dataset[-1] is the last one.

        Rows are those of epoch 0, in its order, after all ops and functions; after `batch`, the rows of the first batch. Arrays and numbers are
        NumPy's, text, bytes and lists Python's. Each call makes one row in the calling thread; train with a Loader.
        Raises IndexError beyond the last row, PlanError for slices and names, and where rows only come one after the other (`filter` by a function,
        `flat_map`, `pack`, streams): there, look at `head`.
        """
        refuse_trainers()
        number = number_of(row)
        if is_empty(self.root):
            raise IndexError(f"dataset[{number}]: the dataset has 0 rows")
        with FewRows(self.root) as rows:
            return rows.row(number)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows of epoch 0, each as `dataset[i]` gives it, with a warning: this is for looking at some; a Loader makes batches."""
        refuse_trainers()
        warn(
            "for row in dataset: one row at a time, to look at some; train with `for batch in penstock.Loader(dataset.batch(…))`"
        )
        return self._each()

    def _each(self) -> Iterator[dict[str, Any]]:
        if not is_empty(self.root):
            with FewRows(self.root) as rows:
                yield from rows

    def head(self, n: int = 5) -> dict[str, Any]:
        """The first `n` rows as columns, to look at: head(3)["label"]. All rows, if they are fewer.

        They are made as for `dataset[i]`; columns are NumPy arrays with rows first, or Arrow arrays for bytes, text and lists. With `filter` by a function,
        `flat_map` or `pack` they are the rows that come of the first epoch. No thread is left running. Raises PlanError where rows come once (a pipe, an
        iterator without a function that makes it).
        """
        check_whole("head", MOST_ROWS, n=n)
        with FewRows(self.root) as rows:
            return dict[str, Any](rows.head(n))

    def show(self, n: int = 5) -> None:
        """Prints the first `n` rows as a table with dtypes, shapes and shortened values; in a notebook, images as pictures."""
        columns = self.head(n)
        table = RowsTable([row_of(columns, number) for number in range(length_of(columns))])
        ipython = sys.modules.get("IPython")
        if ipython is None or ipython.get_ipython() is None:
            print(table)
        else:
            ipython.display.display(table)

    def index(
        self,
        *,
        checksums: bool = False,
        jpeg: bool = False,
        column: str | None = None,
        progress: Progress | None = None,
    ) -> Dataset:
        """Builds what `penstock index` does, for every source of this dataset, and returns the dataset: read("photos", …).index(jpeg=True).

        Shards, sizes and places of records are known already, since `read` looked for them. checksums: reads all files once and keeps a CRC-32C of every
        64 KiB in the user's cache; reads compare them from then on. jpeg: keeps the places at which decoding can begin inside JPEGs, so that a random crop
        is decoded without what lies above it. column: with jpeg, the column of images; default: the only one, or the first that holds images. progress: called
        with what is done and what there is, for each part anew. What is there already is not built again.
        Raises PlanError for data without files, and where no column holds images.
        """
        check_flags("index", checksums=checksums, jpeg=jpeg)
        check_progress("index", progress)
        build_indexes(self.root, checksums=checksums, jpeg=jpeg, column=column, progress=progress)
        return self

    def __repr__(self) -> str:
        try:
            rows = f"{len(self):,} samples"
        except PlanError:
            rows = "as many samples as come"
        return printable(f"Dataset({rows}: {_verbs(self.root)})")

    @property
    def spec(self) -> Spec:
        """The columns that the source offers; of several sources, those that all of them offer, and of a zip those of all."""
        return spec_of(self.root)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, by label; empty if the source names none."""
        return classes_of(self.root)

    @property
    def source(self) -> AnySource:
        """The opened source; PlanError if there are several."""
        return self._opened.source

    @property
    def read_ranges(self) -> ByteRanges:
        """What reads byte ranges of the source's files."""
        return self._opened.read_ranges

    @property
    def storage(self) -> Any:
        """The storage that the source's files lie in; None for what is no file."""
        return self._opened.storage

    @property
    def _opened(self) -> Opened:
        found = leaves(self.root)
        if len(found) > 1:
            raise PlanError(f"the dataset reads {len(found)} sources, and this needs one: do it before concat(…)")
        return found[0].opened

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The plan's verbs in flow order, each after its inputs."""
        return flow(self.root)

    @property
    def digest(self) -> str:
        """32 hex digits that identify the data."""
        digests = [leaf.opened.source.manifest.digest for leaf in leaves(self.root)]
        return digests[0] if len(digests) == 1 else digest_of(" ".join(digests))

    def explain(self, *, world_size: int | None = None) -> str:
        """The plan before and after optimisation, its order and its stages, in words; `world_size`: as that many ranks run it."""
        if world_size is not None:
            check_whole("explain", _MOST_RANKS, world_size=world_size)
        return printable_lines(explain(self.root, world_size))

    def simulate(
        self, *, world_size: int = 1, nodes: int = 1, epochs: int = 1, cache: str | int | None = None
    ) -> Simulation:
        """What training would ask of the files: requests and bytes of each node and epoch, and the memory that records take.

        world_size: ranks, spread evenly over the nodes. cache: the limit of each node's cache, as for `cache_local`, empty at first;
        then also what comes from it. By arithmetic alone: nothing is read.
        Not counted: what is read ahead of the next epoch, and requests made again or twice.
        """
        check_whole("simulate", _MOST_RANKS, world_size=world_size, nodes=nodes, epochs=epochs)
        limit = size_of(cache, "cache")
        return simulate(self.root, world_size=world_size, machines=nodes, epochs=epochs, cache_bytes=limit)


def with_kept_nulls(dataset: Dataset) -> Dataset:
    """The dataset for batches that are frames, which hold nulls: they are kept where they would be errors, unless a function or an op gets them."""

    def kept(node: Node) -> Node:
        if not isinstance(node, Read):
            below = inputs_of(node)
            made = [kept(one) for one in below]
            is_same = all(one is other for one, other in zip(made, below, strict=True))
            return node if is_same else with_inputs(node, made)
        source = keeping_nulls(node.opened.source)
        return node if source is node.opened.source else replace(node, opened=replace(node.opened, source=source))

    if any(isinstance(node, (*COLUMN_NODES, LaneNode, Transform, Pad)) for node in flow(dataset.root)):
        return dataset
    root = kept(dataset.root)
    return dataset if root is dataset.root else Dataset(root)


def of_source(
    source: AnySource,
    where: str,
    columns: Any,
    read_ranges: ByteRanges | None = None,
    storage: Storage | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Dataset:
    """A dataset that begins with an opened source; `columns` is what the user asked for, where that renames."""
    if not isinstance(getattr(source, "access", None), Access):
        raise PlanError(
            f"{where}: {type(source).__name__} does not say how its rows are reached; give it `access`, one of penstock.source.Access"
        )
    check_countable(source.manifest, where)
    plain = _plain_columns(source.spec, columns)
    opened = Opened(source=source, read_ranges=read_ranges or ByteRanges(), storage=storage, asked=repr(columns))
    return Dataset(Read(opened=opened, where=where, format=source.manifest.format, columns=plain, limits=limits))


def _plain_columns(spec: Spec, asked: Any) -> tuple[tuple[str, str], ...]:
    features = asked if isinstance(asked, Mapping) else {}
    return tuple((name, str(getattr(features.get(name, name), "feature", features.get(name, name)))) for name in spec)


def _verbs(root: Node) -> str:
    """A plan in one line: "[read, read → map] → concat → batch"."""
    below = inputs_of(root)
    if len(below) == 1:
        return f"{_verbs(below[0])} → {root.verb}"
    return f"[{', '.join(map(_verbs, below))}] → {root.verb}" if below else root.verb
