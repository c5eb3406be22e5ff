"""Dataset: what to read and what to do with it. Each verb returns a new dataset; nothing runs before a Loader asks.

What few plans ask for is imported by the verb that asks: opening a folder takes a quarter of a second, most of which are imports.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from penstock.core.arguments import check_flags, check_progress, check_whole, is_one_of, is_whole, path_of
from penstock.core.columns.spec import Spec
from penstock.core.errors import PlanError
from penstock.core.files.byte_ranges import ByteRanges, Progress
from penstock.core.files.cache_dirs import size_of
from penstock.core.installing import pip_install
from penstock.core.limits import DEFAULT_LIMITS, Limits
from penstock.core.messages import plain_signs, printable, printable_lines, quoted
from penstock.core.verbs.options_by_name import options_by_name
from penstock.core.verbs.padding import as_names, as_padding_value
from penstock.core.verbs.trainers import refuse_trainers
from penstock.core.warnings import warn
from penstock.plan.ends import with_lanes
from penstock.plan.nodes import (
    Batch,
    BatchTokens,
    Bucket,
    Cache,
    Every,
    FilterFunction,
    FlatMap,
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
    WithColumns,
    classes_of,
)
from penstock.plan.nodes.rows import MOST_ROWS
from penstock.plan.tree import flow, inputs_of, lane_stage, leaves, with_inputs
from penstock.source.manifest import check_countable
from penstock.source.protocol import Access, AnySource

if TYPE_CHECKING:
    from penstock.core.verbs.lengths import Lengths
    from penstock.plan.expression import Expression
    from penstock.resolve.resolved import Resolved
    from penstock.storage import Storage
    from penstock.tools.simulate import Simulation

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
    """An immutable description: what to read and the verbs that follow, as a tree.

    `penstock.read`, `from_arrays`, `concat` and others make one. Each verb returns a new dataset; nothing runs before a Loader asks.

    Example:
        batches = data.filter(ps.col("label") == 1).shuffle(seed=0).batch(2)
        [sorted(batch) for batch in ps.Loader(batches)][0] == ["label", "text", "tokens", "x"]
    """

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
        """Another order in every epoch, a function of (seed, epoch) alone.

        There is no buffer to size: the order covers the whole dataset.

        Args:
            seed: of the order, and of all random numbers that follow. Default: 0.
            mode: "block", the default, permutes blocks of neighbouring samples (about 1 MiB; single files where every sample is a file), and rows within
                windows of a lane's blocks; "global" permutes single samples, whatever that costs to read.
            block_rows: rows of a block. Default: by their size.
            window_blocks: blocks of a window. Default: by their size.
            window: for sources that can only be read in one order (`from_iterable(…, spool=False)`, `read_stream`): they are mixed within windows of
                neighbouring rows, so many in all. About half as many are held in memory. Default: 10,000.

        Raises:
            PlanError: where the order cannot be mixed any more, or an option does not fit the source.

        Example:
            shuffled = data.shuffle(seed=1)
            sorted(shuffled.head(10)["x"]) == [*range(10)]
            shuffled.head(10)["x"] == data.shuffle(seed=1).head(10)["x"]
        """
        return self._then(
            Shuffle(
                input=self.root, seed=seed, mode=mode, block_rows=block_rows, window_blocks=window_blocks, window=window
            )
        )

    @options_by_name(_NODES, shows_call=True)
    def shard(self, samples: Sequence[int]) -> Dataset:
        """Says that every node has files of its own, as SageMaker's ShardedByS3Key gives them.

        Every node makes its equal part of each global batch out of its own files, and its ranks share that. An epoch has equally many steps on all: with
        drop_last as many as the smallest node has samples for, with pad or wrap as the largest needs. A state continues on as many nodes, each with the files
        that it had, on any number of ranks a node that divides its part of the batch.

        Args:
            samples: what `len` of this dataset is on each node.

        Raises:
            PlanError: where the counts are not those that lie here, or class numbers could differ from node to node.

        Example:
            # This node has the 10 rows of `data`, the other one 12.
            batches = data.shard([10, 12]).shuffle(seed=0).batch(4, drop_last=True)
        """
        if not isinstance(samples, Iterable):
            raise PlanError(f"shard({quoted(samples)}): {_NODES}")
        return self._then(Shard(input=self.root, samples=tuple(samples)))

    def select(self, *columns: str | Sequence[str]) -> Dataset:
        """These columns alone, in this order.

        What is not selected is neither read, where the format can leave it out, nor transformed: write it behind all that uses columns. A bad value in a column
        that is not selected is then no error. A function gets all columns of its input; select before it gives it fewer. `filter`, `sort` and other expressions
        come before it if they name a column that it drops.

        Args:
            *columns: names, or one list of names.

        Raises:
            PlanError: for a column that is not there; after a function that is known when its first batch comes.

        Example:
            [*data.select("x", "label").head()] == ["x", "label"]
            [*data.select(["x", "label"]).head()] == ["x", "label"]
        """
        names = columns[0] if len(columns) == 1 else columns
        if not isinstance(names, str) and isinstance(names, Sequence) and any(is_whole(one) for one in names):
            raise PlanError(
                f"select({quoted(names)}): takes names of columns; rows are chosen by take, skip, every, sample, or filter with an expression"
            )
        return self._then(Select(input=self.root, columns=as_names("select", names)))

    def drop(self, *columns: str | Sequence[str]) -> Dataset:
        """All columns but these. See `select`.

        Args:
            *columns: names, or one list of names.

        Raises:
            PlanError: for a column that is not there, if none is left, and after a function, whose columns only it knows: there, select those that stay.

        Example:
            [*data.drop("text", "tokens").spec] == ["x", "label"]
        """
        from penstock.core.names import did_you_mean

        dropped = as_names("drop", columns[0] if len(columns) == 1 else columns)
        known = self._resolved.columns
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

    def with_columns(self, columns: Mapping[str, Any] | None = None, /, **named: Any) -> Dataset:
        """Columns that are computed of others, natively and row by row.

        Each is an expression of the columns as they are before this verb; one of a name that is there takes its place. Whole numbers are computed as int64, others
        as float64; `cast` says otherwise. Types are known before anything runs. What nobody uses is not computed, and not read. `filter`, `sort`, `split`,
        `balance` and `batch_bucketed` above it know the columns.

        Expressions see nulls right behind what reads, whatever `nulls=` says, and what is left of them meets that rule afterwards.

        Args:
            columns: expressions by the names of their columns, for names that Python could not write: {"a b": penstock.col("a")}.
            **named: the same by keyword: an expression, or a number for every row (text: `penstock.lit`).

        Returns:
            A dataset with these columns behind those that were there.

        Raises:
            PlanError: for a column that is not there, and for types that do not fit.
            DataError: from a Loader, for a row of which a column cannot be computed, or is null.

        Example:
            made = data.with_columns(half=ps.col("x") / 2, long=ps.col("text").str.len() > 3)
            made.head(3)["half"].tolist() == [0, 0.5, 1]
            len(made.filter(ps.col("half") > 4)) == 1
        """
        from penstock.plan.column_verbs import with_columns
        from penstock.plan.expression import uses

        given = _by_name("with_columns", columns, named)
        if any(uses("cat.codes", one) for one in given.values()):
            from penstock.looking.categories import with_categories

            given = {name: with_categories("with_columns", self.root, one) for name, one in given.items()}
        return self._then(with_columns("with_columns", self.root, given))

    def categories(self, column: str) -> list[Any]:
        """The categories of a column, in the order of their codes: of pandas' Categorical, Polars' Enum, Arrow's dictionary.

        They are read where the files have them, those that no row has among them. Where parts of the data have others, all of them: those of the first part, then what
        the next ones have besides, as pandas and Arrow join them. Arrow's files and frames have them at one place, of Parquet the column is read once.

        Args:
            column: its name.

        Raises:
            PlanError: for a column of plain values, one that is computed, and ordered categories that differ from part to part.

        Example:
            import pandas as pd

            pets = ps.from_arrays(pd.DataFrame({"kind": pd.Categorical(["dog", "cat"], categories=["owl", "dog", "cat"])}))
            pets.categories("kind") == ["owl", "dog", "cat"]
        """
        from penstock.looking.categories import categories_of

        if not isinstance(column, str):
            raise PlanError(f"categories({quoted(column)}): pass the name of a column")
        return [*categories_of("categories", self.root, column)]

    def rename(self, names: Mapping[str, str]) -> Dataset:
        """The same columns, some of them by other names.

        Args:
            names: new names by old ones; two may change places.

        Raises:
            PlanError: for a column that is not there, for two of one name, and after a function, whose columns only it knows.

        Example:
            [*data.rename({"label": "y"}).head()] == ["x", "y", "text", "tokens"]
        """
        from penstock.plan.column_verbs import renamed

        return self._as(renamed(self.root, names))

    def cast(self, dtypes: Mapping[str, Any]) -> Dataset:
        """Columns in other types. See `Expression.cast`.

        Args:
            dtypes: types by column: "int32", "float32", "bool", "string", …, types of Python, or dtypes of NumPy.

        Raises:
            PlanError: for a column or a type that there is not.
            DataError: from a Loader, for a value that the type does not hold.

        Example:
            str(data.cast({"x": "float32"}).spec["x"]) == "float32"
        """
        from penstock.plan.column_verbs import cast_columns

        return self._then(cast_columns(self.root, dtypes))

    def fill_null(self, values: Any) -> Dataset:
        """Columns with a value in place of nulls, right behind what reads them.

        Args:
            values: a value for all columns of its kind that may be null; or values, or expressions, by column.

        Raises:
            PlanError: where no column takes the value, or nulls became something else before.

        Example:
            people = ps.from_arrays([{"age": 20, "city": "Ulm"}, {"age": None, "city": None}], nulls="arrow")
            filled = people.fill_null({"age": 0, "city": "?"}).head()
            (filled["age"].tolist(), filled["city"]) == ([20, 0], ["Ulm", "?"])
        """
        from penstock.plan.column_verbs import filled

        return self._as(filled(self.root, values))

    def forward_fill(self, *columns: str | Sequence[str], progress: Progress | None = None) -> Dataset:
        """Missing values, null or NaN, as the last value before them: pandas' `ffill`, Polars' `forward_fill`.

        Before means in the order that the data has at this place: files and their rows as they are listed, or as `sort` left them. So what a row gets does not depend
        on shuffling, ranks or epochs. Values before the first one stay missing. The columns are read once, now, and runs of missing rows are held. It goes where `filter`
        by an expression goes; behind `split` a part is filled by its own rows alone, and behind `concat` by those of the datasets before.

        Args:
            *columns: which ones: names, or one list of names. Default: all that may be missing, and hold a value a row.
            progress: a function that is called with rows done and rows in all.

        Raises:
            PlanError: for a column that is not there, lists, without names also where a list is missing, and where nulls became something else before.

        Example:
            prices = ps.from_arrays({"price": np.array([np.nan, 2.5, np.nan, np.nan, 3.0])})
            prices.forward_fill("price").skip(1).head()["price"].tolist() == [2.5, 2.5, 2.5, 3.0]
        """
        from penstock.looking.forward_fill import forward_filled

        names = as_names("forward_fill", columns[0] if len(columns) == 1 else columns) if columns else ()
        return self._as(forward_filled(self.root, names, progress))

    def drop_nulls(self, *columns: str | Sequence[str], progress: Progress | None = None) -> Dataset:
        """The rows that have no null: `filter` by `is_not_null`, so that `len` is exact. NaN is a number.

        It goes where `filter` by an expression goes, before `shuffle`, `transform` and functions.

        Args:
            *columns: where nulls count: names, or one list of names. Default: in all columns.
            progress: a function that is called with rows done and rows in all.

        Raises:
            PlanError: for a column that is not there, and if no row is left.

        Example:
            people = ps.from_arrays([{"age": 20}, {"age": None}], nulls="arrow")
            people.drop_nulls("age").head()["age"].to_pylist() == [20]
        """
        from penstock.plan.check import check_picking
        from penstock.plan.column_verbs import present

        check_picking("drop_nulls", self.root)
        names = as_names("drop_nulls", columns[0] if len(columns) == 1 else columns) if columns else ()
        predicate = present(self.root, names)
        return self if predicate is None else self.filter(predicate, progress=progress)

    def transform(self, /, *on_batch: Any, **columns: Any) -> Dataset:
        """Native ops on named columns, or on whole batches.

        Neighbouring ops on one column run as one kernel. Random ops draw from a key made of (seed, epoch, sample id).

        Warns where random ops move the pixels of one column and another one, without draws="apart", has ops and stays as it is: a mask's crop may have been
        forgotten.

        Args:
            *on_batch: behind `batch`, ops on whole batches: transform(ps.image.MixUp(0.2, num_classes=1000)). Or a fitted recipe of `penstock.table`, at any place.
            **columns: an op, a list of ops or a `Recipe` for each column, by name. `draws` is an option where it is text, and a column where it is ops: it says whether
                the random ops of several columns belong together. draws="together", for an image and its mask: random ops at the same place draw the same
                numbers. Those that move pixels must be the same in all chains, one after another (RandomResizedCrop with the same `scale` and `ratio`,
                flips with the same `p`); their sizes and interpolation may differ, and so may all other ops: a mask has no Normalize and no colours.
                draws="apart", for two views of one image: every column draws for itself.

        Returns:
            A dataset whose images are arrays of shape (rows, channels, height, width), or with channels last after `ToLayout("NHWC")`.

        Raises:
            PlanError: where random ops of several columns have no `draws`, also in transforms one after another, or in datasets of a `zip`.
            DataError: from a Loader, where a crop is drawn together and the sizes of a row's images differ.

        Example:
            I = ps.image
            photos = ps.read("photos").transform(image=[I.Decode(), I.RandomResizedCrop(64), I.Normalize(I.IMAGENET)])
            photos.head(2)["image"].shape == (2, 3, 64, 64)

            pairs = ps.zip([ps.read("photos"), ps.read("photos", columns={"mask": "image"})])
            pairs = pairs.transform(
                image=[I.Decode(), I.RandomResizedCrop(64), I.RandomHorizontalFlip(), I.Normalize(I.IMAGENET)],
                mask=[I.Decode(mode="L"), I.RandomResizedCrop(64, interpolation="nearest"), I.RandomHorizontalFlip()],
                draws="together",
            )
        """
        if len(on_batch) == 1 and hasattr(on_batch[0], "on_dataset") and not columns:
            made: Dataset = on_batch[0].on_dataset(self)
            return made
        if on_batch:
            return self._on_batches(on_batch, columns)
        from penstock.plan.columns import check_names
        from penstock.plan.drawing import check_drawn, followed
        from penstock.transform.recipe import end_of, recipes_in

        drawn = columns.pop("draws") if isinstance(columns.get("draws", ()), (str, type(None))) else None
        recipes = recipes_in(columns)
        end = end_of(recipes, columns, drawn)
        given = {name: recipes[name].ops if name in recipes else ops for name, ops in columns.items()}
        chains = tuple(
            (name, tuple(ops) if isinstance(ops, (list, tuple)) else (ops,))
            for name, ops in given.items()
            if ops or name not in recipes
        )
        if not columns:
            raise PlanError("transform: no columns; write e.g. transform(image=[ps.image.Decode()])")
        check_drawn(chains, drawn)
        follows = followed(chains) if drawn == "together" else ()
        said = () if end else tuple((name, one.steps) for name, one in recipes.items())
        chain = Transform(input=self.root, ops=chains, drawn=drawn, follows=follows, recipes=said)
        native = self._then(chain) if chains else self
        if end is None:
            return native
        check_names("transform", [name for name, _ in end.functions], native.root)
        return native.map_rows(end, workers=end.workers)

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

        A parameter named `rng` receives a `penstock.RowGenerator`, which draws for each row: the same numbers for a row on any number of ranks. The first batch
        is made twice; if the results differ, a warning says so.

        The function runs on threads, or with workers="process" in processes, as many as there are CPUs to use, which pays where most of its time goes to Python
        code: threads would take turns. Batches are the same, and go there and back in shared memory. The function is sent with cloudpickle
        (`pip install cloudpickle`), as it is when the Loader is made. What it changes outside of its batch, such as a list that it appends to, is then changed in
        the other process: leave such functions on threads.

        An `async def` runs on one event loop of the process, in a thread of its own, on up to 16 batches at once (`map_rows`: up to 64 rows).

        Args:
            function: returns columns as arrays (NumPy, torch on the CPU, Arrow), as lists of numbers, str or bytes, or as lists of one list or array a row.
                Rows that are lists become a ragged column, however long they are (of int64 where all are empty), and so do arrays of several lengths;
                arrays of one shape become one array. What lies in an inner dict is named "outer.inner". The number of rows must stay.
            text: how it gets text and bytes: "arrow", the default, as Arrow arrays; "list" as lists of str and of bytes, which tokenizers take.
            workers: "thread", the default; "process"; or "auto", which begins on threads: where these take turns, a batch is made in both ways, and processes
                get the next ones if they return the same and are faster (`Loader.stats()["functions"]` says why).

        Returns:
            A dataset with the columns that the function returns.

        Raises:
            PlanError: from a Loader, where the function cannot be sent to a process.
            DataError: from a Loader, for what is no column, and if processes end over a batch twice, by a crash or for want of memory.

        Example:
            data.map(lambda batch: {"twice": batch["x"] * 2}).head(3)["twice"] == [0, 2, 4]
            words = data.map(lambda batch: {"words": [text.split() for text in batch["text"]]}, text="list")
            words.head(1)["words"] == [["row", "0"]]
            noisy = data.map(lambda batch, rng: {"x": batch["x"] + rng.normal(0, 0.1)})
        """
        return self._then(Map(input=self.root, function=function, text=text, workers=workers))

    @options_by_name(_THREADS)
    def map_rows(
        self,
        function: Callable[..., Columns | Awaitable[Columns]],
        *,
        workers: Literal["thread", "process", "auto"] = "thread",
    ) -> Dataset:
        """Your function row by row: dict of values in, dict of values out; slower than `map`.

        A parameter named `rng` receives a NumPy generator that is a function of seed, epoch and sample. The first two rows are made twice; see `map`.

        Args:
            function: receives text as str and lists as lists; what it may return: as of `map`.
            workers: "thread", the default, "process" or "auto", as of `map`.

        Returns:
            A dataset with the columns that the function returns.

        Raises:
            PlanError: as of `map`.
            DataError: as of `map`.

        Example:
            data.map_rows(lambda row: {"length": len(row["tokens"])}).head(3)["length"] == [1, 2, 3]
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
        """The rows for which an expression is true, or for which a function says True.

        The columns that an expression names are read once, now, and what came out is kept in the user's cache: `len` is exact, and nothing is read again until
        the files change. It goes before `shuffle`, `transform` and functions.

        A function gets whole batches while training, as for `map`. The number of rows that stay is not known in advance: an epoch ends where they do, which several ranks count
        ahead (`count_rows`), or `batch(…, steps=…)` says how long it is. Exact through ranks and resume: a state says how far every lane is used.

        Args:
            predicate: an expression; or a function that gets columns and returns a mask, one bool a row.
            columns: those that a function gets. Others are not made for it: images are decoded after the filter, of the rows that stay, and columns that
                nothing else uses are not read. Default: all.
            ahead: with True a function gets all rows once, now, as an expression does: it must be a function of each row alone, and goes before `shuffle`,
                `transform` and other functions (`penstock index --filter` does it before training). Default: False.
            progress: a function that is called with rows done and rows in all.
            text: how a function gets text, as of `map`. Default: "arrow".
            workers: where a function runs while training, as of `map`; processes get a part of a batch each. Default: "thread".

        Returns:
            A dataset of the rows that stay.

        Raises:
            PlanError: for a predicate that is no column of true and false, or true for no row.

        Example:
            chosen = data.filter((ps.col("x") >= 4) & (ps.col("label") != 1))
            len(chosen) == 3
            long = data.filter(lambda batch: np.diff(batch["tokens"].offsets) > 7, columns=["tokens"])
            long.batch(2, steps=100, lanes=1).head()["x"] == [7, 8]
        """
        from penstock.looking.verbs import filter_rows, filter_rows_ahead
        from penstock.plan.expression import Expression

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
        """Your function on neighbouring rows of a lane: dict of arrays in, dict of arrays out, with any number of rows, none as well.

        So one document becomes several paragraphs, or several become one. An epoch ends where its rows do, which several ranks count ahead (`count_rows`), or
        `batch(…, steps=…)` says how long it is. Exact through ranks and resume, where the function sees the same rows together. A parameter named `rng` draws for each row that comes in, as of `map`, and has no `rng.step`.

        Args:
            function: what it may return: as of `map`.
            rows: how many rows it gets together. A lane of fewer rows gives all of its epoch together. The first batch needs the rows of every lane's first
                call: see `explain()`. Default: 16.
            text: how it gets text, as of `map`. Default: "arrow".
            workers: where it runs, as of `map`. Default: "thread".

        Returns:
            A dataset of the rows that the function returns.

        Raises:
            PlanError: as of `map`.
            DataError: as of `map`.

        Example:
            words = data.flat_map(lambda batch: {"word": [word for text in batch["text"] for word in text.split()]}, text="list")
            words.batch(4, steps=100, lanes=1).head()["word"] == ["row", "0", "row", "1"]
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
        lengths: Any = None,
        progress: Progress | None = None,
    ) -> Dataset:
        """Rows of tokens become sequences of one length.

        An epoch ends where its sequences do; `batch(…, steps=…)` says how long it is instead. Several ranks need to know where: that is arithmetic for lists in
        memory, rows of one length, and with `lengths`; other rows are counted by `count_rows`. The first batch needs a window of every lane: see `explain()`. Exact through ranks and resume: a state says
        how far every lane is used, which is at most `window` rows to be read again.

        Args:
            columns: the column of tokens, or several that are packed side by side; others are left out.
            length: tokens of a sequence.
            strategy: "best_fit", the default, packs each `window` neighbouring rows of a lane for themselves (all of its epoch, if a lane has fewer), the
                longest first, and never cuts a document that fits; on texts of usual lengths less than 2 % is padding. "concat" joins documents and cuts
                them every `length` tokens: nothing is padded, and documents continue in the next sequence.
            window: rows that "best_fit" packs together. Default: 1,000.
            over_long: what becomes of rows of more than `length` tokens: "split", the default, "truncate", or "refuse", an error.
            padding_value: for all columns, or a dict of one each (0 for others). Default: 0.
            lengths: how many tokens each row has, so that sequences are counted without reading these: a column that says so, an expression, or a number for each row.
                Where a row has another length, that is an error when its lane ends. Default: none.
            progress: a function that is called with the rows done, and all, where a column is read for `lengths`.

        Returns:
            The token columns (length,), with segment_ids (int32: 1, 2, … a document, 0 at padding), position_ids (int32, from 0 on in every document) and
            loss_mask (bool, False at padding).

        Raises:
            PlanError: for columns that are no lists of numbers.
            DataError: from a Loader, for a row that is too long with over_long="refuse".

        Example:
            packed = data.take(4).pack("tokens", length=5).batch(2, steps=10, lanes=1).head()
            packed["tokens"] == [[0, 0, 1, 2, 3], [0, 1, 0, 1, 2]]
            packed["segment_ids"] == [[1, 2, 2, 2, 2], [1, 1, 2, 2, 2]]
        """
        from penstock.resolve.order_checks import check_rows_have_lengths

        if lengths is not None:
            check_rows_have_lengths(self.root)
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
            lengths=None if lengths is None else self._lengths_of("pack", lengths, progress),
        )
        return self._then(packed)

    def _lengths_of(self, verb: str, by: Any, progress: Progress | None) -> Lengths:
        from penstock.core.verbs.lengths import Lengths
        from penstock.tools.made_ahead import numbers_ahead

        return Lengths.of(verb, numbers_ahead(verb, self.root, by, progress))

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
        """Global batches: all ranks together; rank r of R gets size / R rows, for any R that divides `size`.

        Args:
            size: rows of a batch.
            drop_last: True leaves out the last samples of an epoch, if they are fewer than a batch. Default: a shorter batch.
            pad: True fills the last batch with repeated rows; the bool column "valid" says which are real. Default: False.
            wrap: True fills the last batch with the epoch's first rows. Default: False.
            lanes: how many sequences the epoch is dealt to, a divisor of the global batch. A number of ranks that divides it reads each block once; with
                others, neighbouring ranks share lanes and read some blocks twice: `explain(world_size=R)` says how many. Default: chosen by `size`, and fewer where blocks are
                so large that more than 1 GiB of them would be open.
            per_rank: True lets `size` count the rows of each rank, as a DataLoader's batch_size does; the global batch is then size × R, another number of
                ranks has other batches, and a state continues only where size × R is what it was. Default: False.
            steps: how long an epoch is, whatever the number of rows; the next one continues from there, and data that ends begins again, shuffled anew.
                Default: all rows, once.

        Returns:
            A dataset for a Loader, whose batches are columns of shape (rows, …).

        Raises:
            PlanError: for options that exclude each other, and for `lanes` that do not divide the batch.

        Example:
            [len(batch["x"]) for batch in ps.Loader(data.batch(4))] == [4, 4, 2]
            [len(batch["x"]) for batch in ps.Loader(data.batch(4), rank=1, world_size=2)] == [2, 2, 1]
            [batch["valid"].sum() for batch in ps.Loader(data.batch(4, pad=True))] == [4, 4, 2]
        """
        return self._then(
            Batch(
                input=self.root if steps is not None else with_lanes(self.root),
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
        """`batch` with dense arrays for columns whose rows are lists of numbers.

        Rows are padded to the longest of their batch, rounded up to `multiple_of`: of each rank's part of the batch, so that ranks may have other lengths. Rows
        of arrays, (None, 4) in `spec`, become (rows, length, 4). Text and bytes stay as they are.

        Args:
            size: rows of a global batch.
            columns: those that are padded. Default: all that can be.
            multiple_of: what lengths are rounded up to. Default: 1.
            length: one length for all batches of all ranks; a longer row is then an error that names it. Default: the longest row's.
            truncate: True cuts rows that are longer than `length`. Default: False.
            padding_value: for all columns, or a dict of one each (0 for others). Default: 0.
            drop_last: as of `batch`.
            pad: as of `batch`: True fills the last batch with repeated rows.
            wrap: as of `batch`.
            lanes: as of `batch`.
            per_rank: as of `batch`.
            steps: as of `batch`.

        Returns:
            For a column "tokens": "tokens" of shape (rows, length), "tokens_lengths" (rows,) int32, and "tokens_mask" (rows, length) bool, which is True at
            numbers.

        Raises:
            PlanError: for columns that are no lists of numbers, and for options that exclude each other.
            DataError: from a Loader, for a row that is longer than `length`.

        Example:
            batch = data.batch_padded(2, multiple_of=4).head()
            batch["tokens"] == [[0, 0, 0, 0], [0, 1, 0, 0]]
            batch["tokens_lengths"] == [1, 2]
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
        """`batch_padded` with rows of similar length in each batch.

        A batch takes its rows of one bucket, so that all ranks have rows of the same bucket in a step. After `shuffle`, buckets take turns in another order every
        epoch; without it, one follows the other. The rows that are left over of all buckets come in the last batches of an epoch, shortest first; with drop_last
        not at all. Rows are read one by one, not in blocks: data that lies far away is better cached.

        Args:
            size: rows of a global batch.
            by: the name of a column, whose rows' lengths count if it holds lists or text; or an expression, as `filter` takes; or an array with a number for
                each row of the dataset, in the order of the data. A column is read once, now; one that native ops make (tokens, a recipe's column) is made once, now.
            boundaries: bucket 0 has the rows below the first, bucket 1 those from there to below the second, and so on.
            quantiles: that many buckets of about equally many rows, instead of `boundaries`.
            columns: as of `batch_padded`.
            multiple_of: as of `batch_padded`.
            padding_value: as of `batch_padded`.
            drop_last: as of `batch`.
            pad: as of `batch`.
            wrap: as of `batch`.
            lanes: as of `batch`.
            per_rank: as of `batch`.
            progress: a function that is called with the rows done, and all.

        Returns:
            Columns as of `batch_padded`.

        Raises:
            PlanError: where `by` does not fit, or rows are chosen or mixed after `shuffle`.

        Example:
            batches = ps.Loader(data.batch_bucketed(2, by="tokens", boundaries=[5]))
            [batch["tokens"].shape for batch in batches] == [(2, 2), (2, 4), (2, 6), (2, 8), (2, 10)]
        """
        from penstock.core.verbs.buckets import Buckets
        from penstock.tools.made_ahead import numbers_ahead

        numbers = numbers_ahead("batch_bucketed", self.root, by, progress)
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
        """As many rows as have at most `max_tokens` together, of similar length.

        A step of long rows has few of them, one of short rows many, and every rank takes equally many (of an epoch's last step, which is a short one, nearly
        equally many; drop_last leaves it out). Rows are dealt to the ranks by length, so that all have about as many tokens; `explain(world_size=…)` says how well
        that goes. Every row comes once an epoch. After `shuffle`, steps of long and short rows come in another order every epoch; without it, the longest first.
        Rows are read one by one, not in blocks.

        Args:
            max_tokens: of the global batch, all ranks together; each of R ranks has at most max_tokens / R in any step. What counts is rows × the longest of
                them, as they are padded (`multiple_of` included).
            by: how long each row is, as for `batch_bucketed`: a column, an expression or an array of whole numbers from 0 on.
            padded: with False columns stay lists, and the plain sum counts. Default: True.
            fill: rows that come together are at least so long as this share of the longest of them, where there are enough of these for four steps. More pads
                less, and mixes less. Default: 0.9.
            columns: as of `batch_padded`.
            multiple_of: as of `batch_padded`.
            padding_value: as of `batch_padded`.
            drop_last: as of `batch`.
            lanes: into how many parts of max_tokens / lanes a step is divided. Numbers of ranks must divide it, and the longest row must have room in it.
                Default: the largest power of two, up to 64, in which four of the longest rows have room.
            progress: a function that is called with the rows done, and all.

        Returns:
            Columns as of `batch_padded`, with another number of rows in each batch.

        Raises:
            PlanError: for a row that is too long, and where `by` does not fit.

        Example:
            batches = data.batch_tokens(max_tokens=40, by="tokens")
            max(batch["tokens"].size for batch in ps.Loader(batches)) <= 40
        """
        check_flags("batch_tokens", padded=padded)
        if not padded and (columns, multiple_of, padding_value) != (None, None, 0):
            raise PlanError(
                "batch_tokens: columns=, multiple_of= and padding_value= say how rows are padded; leave them out, or padded=False"
            )
        lengths = self._lengths_of("batch_tokens", by, progress)
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
        """Keeps rows as they are here, so that later epochs do not make them again.

        What is kept is named by the data, by the ops and functions before, their code and the values that they use: if any of these changes, other rows are kept.
        Rows come in any order; batches are the same with and without. Whatever passes can be kept: bytes of records, text, lists, arrays.

        It goes before `batch`, and before whatever is random. A function of `map` before it must treat each row by itself.

        Args:
            folder: keeps rows in files of that folder, for all processes and later runs. Default: in this process's memory, as long as the dataset or a loader
                of it is there.
            to: "memory"; or "disk", the user's cache (`penstock cache ls`).
            size: how much is kept at most, a number of bytes or "100GiB"; the rest is made again in every epoch. Default: half of the free memory, or what the
                disk has room for.
            freeze_random: True keeps what epoch 0 draws. Default: ops and functions that draw are refused.

        Returns:
            A dataset of the same rows.

        Raises:
            PlanError: for what draws; for rows that have no numbers, those of `filter` by a function, `flat_map`, `pack` and streams: put cache() before these.

        Example:
            decoded = ps.read("photos").transform(image=[ps.image.Decode(), ps.image.Resize((64, 64))])
            in_memory = decoded.cache(size="1GiB").shuffle(seed=0).batch(8)
            on_disk = decoded.cache("rows").shuffle(seed=0).batch(8)
        """
        from penstock.resolve.cache_checks import check_cache

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
        """How much of remote data is kept on the local disk.

        It holds from now on for all datasets made by the same `penstock.read`, since they share what was opened; batches are the same with and without. Local data
        is not cached.

        Args:
            limit: a number of bytes, or a text with a unit (kB, MB, GB, TB, KiB, MiB, GiB, TiB); 0 and None switch the cache off.
            path: a folder of this user alone, made if need be. Default: the user's cache.

        Returns:
            This dataset.

        Raises:
            PlanError: for a limit that is none, and for a folder that others can write into.

        Example:
            data = data.cache_local("100GiB")
            data = data.cache_local("1TB", "nvme/cache")
            data = data.cache_local(0)
        """
        from penstock.storage.cache.folder import chosen_cache
        from penstock.storage.cache.storage import CachedStorage

        cache = chosen_cache(size_of(limit, "limit"), None if path is None else path_of("cache_local", path))
        for leaf in leaves(self.root):
            if isinstance(leaf.opened.storage, CachedStorage):
                leaf.opened.storage.use_cache(cache)
        return self

    @options_by_name("write take(count)")
    def take(self, count: int) -> Dataset:
        """The first rows of an epoch.

        Before `shuffle`, always the same rows: take(1000).shuffle(seed=0). After it, those that come first in every epoch: others each time. After `filter` by a function,
        `flat_map` or `pack`, an epoch ends after so many rows.

        Args:
            count: how many, or all of them if they are fewer.

        Example:
            data.take(3).head()["x"] == [0, 1, 2]
        """
        return self._then(Take(input=self.root, count=count))

    @options_by_name("write skip(count)")
    def skip(self, count: int) -> Dataset:
        """All but the first rows of an epoch: data.skip(1000) and data.take(1000) are all of `data`, also after `filter` by a function, `flat_map` or `pack`.

        Args:
            count: how many are left out.

        Example:
            data.skip(8).head()["x"] == [8, 9]
        """
        return self._then(Skip(input=self.root, count=count))

    @options_by_name("write every(count)")
    def every(self, count: int) -> Dataset:
        """Rows at equal distances, from the first on. Goes before `shuffle`.

        Args:
            count: the distance; 10 is a tenth of the rows.

        Example:
            data.every(4).head()["x"] == [0, 4, 8]
        """
        return self._then(Every(input=self.root, count=count))

    @options_by_name("write repeat(times)")
    def repeat(self, times: int) -> Dataset:
        """Several epochs as one. Each copy is shuffled and augmented anew. `shuffle` goes before it.

        After `filter` by a function, `flat_map` or `pack`, what these get is repeated, and their epoch ends with its last row: packed sequences may go on from one copy to the next.

        Args:
            times: how many.

        Example:
            len(data.shuffle(seed=0).repeat(3)) == 30
        """
        return self._below_lanes(lambda below: Repeat(input=below, times=times))

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
        """Parts that share no row and have all of them.

        A row's part follows from its file and its place there (in memory from its number), so that files and rows that are added later move no other row.

        Args:
            parts: the share of each part, by name. Shares are as chance has it: of 10,000 rows about 100 more or less.
            by: a column; rows with equal values stay together, whatever else is there.
            stratify: a column; every part has its share of each class, to the row, and rows that are added may move others.
            seed: another one gives other parts. Default: 0.
            progress: a function that is called with the rows read, and all, where a column is looked at.

        Returns:
            A dataset for each part, by name.

        Raises:
            PlanError: for shares that do not add up to 1, and for `by` and `stratify` together.

        Example:
            parts = data.split({"train": 0.8, "val": 0.2}, stratify="label")
            {name: len(part) for name, part in parts.items()} == {"train": 8, "val": 2}
            train = parts["train"].shuffle(seed=0)
        """
        from penstock.looking.verbs import split_rows

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
        """Equally many rows of every class, to the row.

        Copies lie apart in the order, and rows are then read one by one.

        Args:
            column: the classes: a column, or an expression.
            mode: "over", the default: as many as the most frequent class has; a row comes as often as any other of its class, or once more, and each copy is
                augmented anew. "under": as many as the rarest has, no row twice, chosen by `seed`.
            seed: which rows are chosen. Default: 0.
            progress: a function that is called with the rows read, and all.

        Raises:
            PlanError: for labels that are missing, or of no class.

        Example:
            few = data.filter((ps.col("label") == 0) | (ps.col("x") < 4))  # five rows of class 0, two of class 1
            len(few.balance("label")) == 10
            len(few.balance("label", mode="under")) == 4
        """
        from penstock.looking.verbs import balance_rows

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
        """Rows by chance, the same ones in every epoch.

        Args:
            count: how many.
            weights: a column, or an array of one number above 0 for each row. Default: all rows are alike.
            replacement: True: a row comes as often as its weight says, rounded up or down, and each copy is augmented anew. False, the default: no row comes
                twice.
            seed: another one gives other rows. Default: 0.
            progress: a function that is called with the rows read, and all.

        Raises:
            PlanError: for weights that are none, and for more rows than there are without replacement.

        Example:
            len(data.sample(3)) == 3
            heavy = data.sample(20, weights=np.arange(10) + 1, replacement=True).shuffle(seed=0)
            len(heavy) == 20
        """
        from penstock.looking.verbs import sample_rows

        return self._then(sample_rows(self.root, count, weights, seed, progress, replacement=replacement))

    @options_by_name("write sort(column, descending=True)")
    def deduplicate(
        self,
        by: str | Expression,
        *,
        how: Literal["exact", "minhash"] = "exact",
        keep: Literal["first", "last"] = "first",
        n_grams: int = 5,
        num_buckets: int = 14,
        hashes_per_bucket: int = 8,
        seed: int = 1,
        progress: Progress | None = None,
    ) -> Dataset:
        """One row of each set of copies, exact or near ones.

        The column is read once, now, and which rows stay is kept in the user's cache: `len` is exact, and nothing is read again until the files change. The rows that stay are the same on any number of ranks
        and threads, and in stored order. It goes before `shuffle`, `transform` and functions. `penstock index --dedup` does it before training. See docs/text_cleaning.md.

        "exact" compares 128 bits of a hash (XXH3) of the bytes: among a billion different texts, the odds that any two are taken for copies are less than 1 in 10²⁰. "minhash" compares texts as datatrove does: in lower case,
        numbers as 0, without punctuation and accents, as sets of n-grams of spaCy's English words. Two texts are copies if their signatures agree in all hashes of a bucket, and so is what is linked through others:
        of two texts with Jaccard similarity s, the odds are 1 - (1 - s**hashes_per_bucket)**num_buckets, half of them at s = 0.69. A text of fewer words than an n-gram has is one n-gram. Rows without a text all stay.

        Memory: 28 bytes a row for "exact"; for "minhash" 8 for each bucket and about 28 more. What is more than 1 GiB lies in a file in the cache meanwhile.

        Args:
            by: a column of text, for "exact" also of bytes; or an expression.
            how: "exact" or "minhash". Default: "exact".
            keep: which row of a set stays, in stored order: "first" or "last". Default: "first".
            n_grams: words of an n-gram. Default: 5.
            num_buckets: buckets of a signature. Default: 14.
            hashes_per_bucket: hashes of a bucket. Default: 8.
            seed: chooses the hash functions. Default: 1.
            progress: a function that is called with the rows read, and all.

        Returns:
            A dataset of the rows that stay.

        Raises:
            PlanError: for a column that is not text, a text that is not UTF-8, and numbers that make no signature.

        Example:
            pages = ps.from_arrays({"text": ["One page.", "Another page.", "One page."]})
            pages.deduplicate("text").head()["text"] == ["One page.", "Another page."]
        """
        from penstock.looking.duplicates import MinHashSettings, deduplicate_rows

        settings = MinHashSettings(
            n_grams=n_grams, num_buckets=num_buckets, hashes_per_bucket=hashes_per_bucket, seed=seed
        )
        return self._then(deduplicate_rows(self.root, by, how, keep, settings, progress))

    def sort(
        self,
        by: str | Expression,
        *,
        descending: bool = False,
        progress: Progress | None = None,
    ) -> Dataset:
        """All rows in the order of a column, equal ones as they were: a curriculum.

        Rows are then read one by one. A `shuffle` after it mixes them again.

        Args:
            by: a column, or an expression.
            descending: True begins with the largest. Default: with the smallest.
            progress: a function that is called with the rows read, and all.

        Raises:
            PlanError: for a column that has no order.

        Example:
            data.sort(ps.col("tokens").len(), descending=True).head(3)["x"] == [9, 8, 7]
        """
        from penstock.looking.verbs import sort_rows

        return self._then(sort_rows(self.root, by, progress, descending=descending))

    @property
    def _resolved(self) -> Resolved:
        """What follows from the plan."""
        from penstock.resolve.resolved import resolve

        return resolve(self.root)

    def _below_lanes(self, verb: Callable[[Node], Node]) -> Dataset:
        """With a verb on what lane stages get, where rows come straight from these."""
        root = self.root
        if lane_stage(root) is None or root.row_effect not in ("counted", "same"):
            return self._then(verb(root))
        below = Dataset(*root.below)._below_lanes(verb)  # noqa: SLF001  # its own class
        return self._then(with_inputs(root, [below.root]))

    def _then(self, node: Node) -> Dataset:
        from penstock.plan.check import check_verb
        from penstock.resolve.draw_checks import check_draws
        from penstock.resolve.order_checks import check_order

        check_verb(node)
        check_draws(node)
        check_order(node)
        return Dataset(node)

    def _as(self, root: Node) -> Dataset:
        """With other verbs at its end; itself where there are none."""
        return self if root is self.root else self._then(root)

    def to_ray(self, *, override_num_blocks: int | None = None) -> Any:
        """The rows of the first epoch as a `ray.data.Dataset`, made by its read tasks when it runs, each from its own step on.

        A dataset without `batch` is read in batches of 1,024 rows. Columns of several axes become Ray's tensors. Plans with stages whose rows depend on the data (`filter` by a function,
        `flat_map`, `pack`) are one task. For exact order, Ray's `execution_options.preserve_order` must be set, as for any of its datasets.

        Args:
            override_num_blocks: how many tasks read, at most one a step. Default: Ray decides.

        Returns:
            A `ray.data.Dataset`.

        Raises:
            PlanError: where Ray cannot be imported, and for plans that no Loader could run.

        Example:
            def write(dataset):
                dataset.to_ray().write_parquet("rows")
        """
        try:
            found = import_module("penstock.ray.data")
        except ImportError as error:
            raise PlanError(f"to_ray: Ray Data cannot be imported ({error}); {pip_install('ray')}") from None
        return found.to_ray(self, override_num_blocks=override_num_blocks)

    def __len__(self) -> int:
        """Rows of an epoch."""
        return self._resolved.rows

    def __getitem__(self, row: int) -> dict[str, Any]:
        """One row to look at, as a dict. Each call makes one row in the calling thread; train with a Loader.

        Rows are those of epoch 0, in its order, after all ops and functions; after `batch`, the rows of the first batch.

        Args:
            row: its place in the epoch; -1 is the last one.

        Returns:
            The row's values by column: arrays and numbers as NumPy's, text, bytes and lists as Python's.

        Raises:
            IndexError: beyond the last row.
            PlanError: for slices and names, and where rows only come one after the other (`filter` by a function, `flat_map`, `pack`, streams): there, look
                at `head`.

        Example:
            data[3]["text"] == "row 3"
            data[-1]["tokens"] == [*range(10)]
        """
        from penstock.tools.few_rows import FewRows, is_empty, number_of

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
        from penstock.tools.few_rows import FewRows, is_empty

        if not is_empty(self.root):
            with FewRows(self.root) as rows:
                yield from rows

    def head(self, n: int = 5) -> dict[str, Any]:
        """The first rows as columns, to look at.

        They are made as for `dataset[i]`. With `filter` by a function, `flat_map` or `pack` they are the rows that come of the first epoch. No thread is left
        running.

        Args:
            n: how many; all rows, if they are fewer. Default: 5.

        Returns:
            NumPy arrays with rows first, or Arrow arrays for bytes, text and lists, by name.

        Raises:
            PlanError: where rows come once (a pipe, an iterator without a function that makes it).

        Example:
            data.head(3)["label"] == [0, 1, 0]
        """
        check_whole("head", MOST_ROWS, n=n)
        from penstock.tools.few_rows import FewRows

        with FewRows(self.root) as rows:
            return dict[str, Any](rows.head(n))

    def show(self, n: int = 5, *, steps: bool = False, html: str | PathLike[str] | None = None, **over: Any) -> None:
        """Prints the first rows as a table with dtypes, shapes and shortened values; in a notebook, images are shown, with the boxes, masks and points that belong to them.

        What lies over an image is what the plan's `Boxes`, `Mask` and `KeyPoints` say, or a chain of `Decode(mode="P")` beside it; of data that no transform has named yet, say it here.

        Args:
            n: how many. Default: 5.
            steps: True shows what each op of `transform` did to each of them: its image behind the first op, behind the second, …, and what the op drew. Numbers that are no bytes
                are stretched from their least to their most. Default: False.
            html: a file to write as a page, in place of printing. Default: none.
            over: by column, what lies over an image, in the words of `transform`: `boxes=Boxes(of="image", format="XYWH", labels="label")`.

        Raises:
            PlanError: with steps, for a plan without ops on images, and where rows only come one after the other; for what says of no column what lies over it, and for a page that cannot be written.

        Example:
            data.show(2)
            photos = ps.read("photos").transform(image=[ps.image.Decode(), ps.image.RandomResizedCrop(64)])
            photos.show(1, steps=True)
        """
        check_flags("show", steps=steps)
        check_whole("show", MOST_ROWS, n=n)
        from penstock.tools.seeing import steps_of, table_of, write_page

        table = (steps_of if steps else table_of)(self.root, n, over)
        if html is not None:
            write_page(html, table)
            return
        ipython = sys.modules.get("IPython")
        if ipython is None or ipython.get_ipython() is None:
            print(table)
        else:
            ipython.display.display(table)

    def blocks(self, columns: Sequence[str], *, repeated: bool = False) -> Any:
        """All rows in blocks of some columns, in the order of the data, each block once: for statistics. Recipes are fitted on it.

        Args:
            columns: their names.
            repeated: whether text of which few values stand in many rows may come as Arrow dictionaries, as files have it. Default: False.

        Returns:
            An iterable of blocks with `columns`, arrays by name, and `ids`, the rows' ids; it has `rows`, and the `digest` of the data.

        Raises:
            PlanError: for columns that are not there, and behind ops and functions, which change columns.
            DataError: for a row that is bad.

        Example:
            sum(int(block.columns["x"].sum()) for block in data.blocks(["x"])) == 45
        """
        from penstock.looking.blocks import Blocks

        return Blocks("blocks", self.root, columns, keeps_repeated=repeated)

    def index(
        self,
        *,
        checksums: bool = False,
        jpeg: bool = False,
        column: str | None = None,
        progress: Progress | None = None,
    ) -> Dataset:
        """Builds what `penstock index` does, for every source of this dataset.

        Shards, sizes and places of records are known already, since `read` looked for them. What is there already is not built again.

        Args:
            checksums: True reads all files once and keeps a CRC-32C of every 64 KiB in the user's cache; reads compare them from then on. Default: False.
            jpeg: True keeps the places at which decoding can begin inside JPEGs, so that a random crop is decoded without what lies above it. Default: False.
            column: with jpeg, the column of images. Default: the only one, or the first that holds images.
            progress: a function that is called with what is done and what there is, for each part anew.

        Returns:
            This dataset.

        Raises:
            PlanError: for data without files, and where no column holds images.

        Example:
            photos = ps.read("photos").index(checksums=True, jpeg=True)
        """
        check_flags("index", checksums=checksums, jpeg=jpeg)
        check_progress("index", progress)
        from penstock.tools.indexing import build_indexes

        build_indexes(self.root, checksums=checksums, jpeg=jpeg, column=column, progress=progress)
        return self

    def __repr__(self) -> str:
        try:
            rows = f"{len(self):,} samples"
        except PlanError:
            rows = "as many samples as come"
        return plain_signs(printable(f"Dataset({rows}: {_verbs(self.root)})"))

    @property
    def spec(self) -> Spec:
        """The columns that the source offers; of several sources, those that all of them offer, and of a zip those of all."""
        return self._resolved.spec

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
        return self._resolved.digest

    def explain(self, *, world_size: int | None = None) -> str:
        """The plan before and after optimisation, its order and its stages, in words.

        Args:
            world_size: as that many ranks run it. Default: as one does.

        Returns:
            Lines of text.

        Example:
            print(data.shuffle(seed=0).batch(4).explain(world_size=2))
        """
        if world_size is not None:
            check_whole("explain", _MOST_RANKS, world_size=world_size)
        from penstock.tools.explain import explain

        return printable_lines(explain(self.root, world_size))

    def count_rows(
        self,
        *,
        epochs: int = 1,
        world_size: int | None = None,
        again: bool = False,
        on_error: Literal["raise", "substitute", "skip"] = "raise",
        progress: Callable[[int, int], None] | None = None,
    ) -> list[int]:
        """How many rows the first epochs have, where only the data says so: after `filter` by a function, `flat_map` or `pack`, without `steps=`.

        Several ranks must know that before an epoch begins, and `len(loader)` says it then. All rows are made once, as while training, and nothing is kept but where
        lanes end: in the user's cache, named by data, plan and functions. What was counted is not counted again, and what was interrupted goes on. Ranks of a process group (PyTorch's, or
        `jax.distributed`) that call it count together, each some of the lanes; of other processes of a machine one counts. Where nothing shuffles or draws random numbers, all epochs are as the first one.

        Args:
            epochs: how many are counted, from the first one on. Default: 1.
            world_size: for how many ranks, with batch(…, per_rank=True). Default: any number.
            again: True counts anew, where a function looks at something that its code does not show. Default: False.
            on_error: what is done about bad rows: as the Loader does that trains on the plan. Default: "raise".
            progress: a function that is called with rows done and rows in all.

        Returns:
            The rows of each epoch.

        Raises:
            PlanError: for a plan without a batch, and for rows that come once.
            ProcessError: where another rank of the process group could not count its lanes, or is lost.

        Example:
            data.filter(lambda batch: batch["x"] % 2 == 0).batch(4).count_rows() == [5]
        """
        check_whole("count_rows", _MOST_RANKS, epochs=epochs)
        if world_size is not None:
            check_whole("count_rows", _MOST_RANKS, world_size=world_size)
        check_flags("count_rows", again=again)
        from penstock.tools.count_rows import count_rows

        return count_rows(
            self.root, epochs=epochs, world_size=world_size, again=again, on_error=on_error, progress=progress
        )

    def simulate(
        self, *, world_size: int = 1, nodes: int = 1, epochs: int = 1, cache: str | int | None = None
    ) -> Simulation:
        """What training would ask of the files: requests and bytes of each node and epoch, and the memory that records take.

        By arithmetic alone: nothing is read. Not counted: what is read ahead of the next epoch, and requests made again or twice.

        Args:
            world_size: ranks, spread evenly over the nodes. Default: 1.
            nodes: machines. Default: 1.
            epochs: how many. Default: 1.
            cache: the limit of each node's cache, as for `cache_local`, empty at first; then also what comes from it. Default: none.

        Raises:
            PlanError: where the ranks cannot share the work.

        Example:
            training = ps.read("photos").shuffle(seed=0).batch(8).simulate(world_size=2, epochs=2)
            training.steps_per_epoch == 5
        """
        check_whole("simulate", _MOST_RANKS, world_size=world_size, nodes=nodes, epochs=epochs)
        limit = size_of(cache, "cache")
        from penstock.tools.simulate import simulate

        return simulate(self.root, world_size=world_size, machines=nodes, epochs=epochs, cache_bytes=limit)


def _by_name(verb: str, columns: Any, named: Mapping[str, Any]) -> dict[str, Any]:
    """What a verb was given by a dict, by keywords, or both."""
    if columns is None:
        return dict(named)
    if not isinstance(columns, Mapping) or not all(isinstance(name, str) for name in columns):
        raise PlanError(
            f"{verb}({quoted(columns)}): name what is computed: {verb}(ratio=penstock.col('a') / penstock.col('b'))"
        )
    if twice := next((name for name in columns if name in named), None):
        raise PlanError(f"{verb}: {quoted(twice)} is given twice; give it once")
    return {**columns, **named}


def with_kept_nulls(dataset: Dataset) -> Dataset:
    """The dataset for batches that are frames, which hold nulls: they are kept where they would be errors, unless a function or an op gets them."""
    from penstock.plan.null_rules import with_nulls_kept
    from penstock.source.nulls import keeping_nulls

    def kept(node: Node) -> Node:
        if not isinstance(node, Read):
            below = inputs_of(node)
            made = [kept(one) for one in below]
            if isinstance(node, WithColumns):
                return with_nulls_kept(replace(node, input=made[0]))
            is_same = all(one is other for one, other in zip(made, below, strict=True))
            return node if is_same else with_inputs(node, made)
        source = keeping_nulls(node.opened.source)
        return node if source is node.opened.source else replace(node, opened=replace(node.opened, source=source))

    if any(node.computes and node.column_effect != "computed" for node in flow(dataset.root)):
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
