"""Where samples come from: files, memory, map-style Python objects, iterables and generator functions, pipes, SQL queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from os import PathLike
from os.path import exists
from typing import Any, TypeAlias

import numpy as np

from penstock.core.arguments import check_flags, check_progress, check_texts, check_whole, path_of, paths_of
from penstock.core.cancel import in_threads
from penstock.core.errors import PlanError, SourceError
from penstock.core.files.byte_ranges import Progress
from penstock.core.limits import DEFAULT_LIMITS, Limits, check_limits
from penstock.core.messages import quoted
from penstock.core.verbs.options import Asked, Nulls, Options, check_columns, check_nulls
from penstock.core.warnings import warn
from penstock.dataset import Dataset, of_source
from penstock.format import format_named, open_source
from penstock.source.checks.ranges import Checks, warn_of_unknown
from penstock.source.nulls import with_nulls
from penstock.source.protocol import Format
from penstock.storage import adopt_storage, open_storages
from penstock.storage.braces import expand_braces
from penstock.storage.glob import WILDCARD
from penstock.storage.local import LocalStorage
from penstock.storage.named_files import LOCATE_THREADS, NamedFiles, joined_listings
from penstock.storage.redact import check_url
from penstock.storage.trust import Trust

#: One path, or several.
Paths: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]

#: More threads or connections than any machine has use for, and more rows than any count fits.
MOST_THREADS, MOST_ROWS = 1 << 12, (1 << 63) - 1


def read(
    where: Paths,
    *,
    format: str | Format | None = None,
    columns: Asked = None,
    nulls: Nulls = "error",
    storage: Any = None,
    verify: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    progress: Progress | None = None,
    exclude: Paths | None = None,
    trust: str | Sequence[str] = (),
    trusted_hosts: str | Sequence[str] = (),
    **own: Any,
) -> Dataset:
    """Opens files as they are: a folder, a glob, one file, numbered files ("train-{000..099}.tar"), or a list of these.

    Args:
        where: a path or URL, or a list of them.
        format: the name of a format, or one of your own. Default: found by suffix, then by content.
        columns: selects (a list of names), renames ({"image": "image/encoded"}) and, with `penstock.Column`, types what is read; `...` among them stands
            for all others, as they are. Default: all columns.
        nulls: what nulls become. "error", the default, where one is read; "nan", floats with NaN of numbers; "mask", 0 and a column `<name>_valid`;
            "arrow", Arrow arrays with nulls. Text and lists keep Arrow's nulls with the last three.
        storage: reads from elsewhere than the paths' scheme says: an obstore store, a pyarrow.fs or fsspec file system, with the credentials it was made
            with. Default: by scheme, with the credentials of the environment.
        verify: False skips checksums: those of records, and those that `penstock index --checksums` made. Default: True.
        limits: the most that a record or shard may need. Default: `penstock.Limits()`.
        progress: a function that is called with what is done, and what there is to do.
        exclude: quarantine files (see `Loader`): the bad samples in them are left out, and `len` is without them.
        trust: the places that a list of files from a server may name, besides files of that server: ["s3://other-bucket/", "/data/"].
        trusted_hosts: the hosts that receive credentials when a request is redirected to them: ["target-*.cluster:51081"]. Default: the same host alone.
        **own: the format's own options (docs/formats.md lists them), for example `window=2049` for token files.

    Returns:
        A dataset of one row for each record, with the columns that its `spec` tells.

    Raises:
        SourceError: if there is nothing to read.
        PlanError: for a column that is not there, and for an option that the format does not have.
        StorageError: where a store cannot be reached.
        DataError: where files are damaged so that they cannot be opened.

    Example:
        photos = ps.read("photos")
        len(photos) == 40
        photos.classes == ("cats", "dogs")
        tables = ps.read("examples.tfrecord", columns={"features": "x", "label": "y"}, nulls="mask")
    """
    if isinstance(where, Mapping) or hasattr(where, "columns"):  # their names would be taken for paths
        raise PlanError(f"read: a {type(where).__name__} is data, not a path; pass it to penstock.from_arrays")
    places = paths_of("read", where)
    check_flags("read", verify=verify)
    check_progress("read", progress)
    check_columns(columns)
    check_nulls("read", nulls)
    check_limits("read", limits)
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
        listed = in_threads(lambda one: one[0].list(one[1]), opened, most=LOCATE_THREADS, name="penstock-list")
    shards = joined_listings(listed)
    if len(shards) == 0:
        raise SourceError(f"{', '.join(places)}: no regular file there")
    checks = Checks() if verify else None
    files = NamedFiles(adopted, checks, trusted)
    are_picked = (
        len(paths) > 1 or bool(WILDCARD.search(paths[0])) or paths[0].endswith(shards.path(0).rpartition("/")[2])
    )
    options = Options(
        columns=columns,
        nulls=nulls,
        verify=verify,
        limits=limits,
        progress=progress,
        own=own,
        locate=partial(files.locate, shards.path(0)),
        find=files.find,
        are_picked=are_picked,
    )
    read_ranges = files.ranges(store)
    source = open_source(", ".join(places), shards, read_ranges, options, format)
    if source.manifest.samples == 0:
        raise SourceError(f"{', '.join(places)}: {len(shards)} files, but not a single record in them")
    opened_read = getattr(source, "read_ranges", read_ranges)
    if checks is not None:
        checks.opening = False
        warn_of_unknown(opened_read, source.manifest.shards)
    opened_storage = opened_read.storage
    source = with_nulls(source, nulls, columns)
    opened_source = of_source(source, ", ".join(places), columns, opened_read, opened_storage, limits)
    return opened_source if exclude is None else _without(opened_source, exclude)


def _without(dataset: Dataset, exclude: Paths) -> Dataset:
    """A source without the bad samples in quarantine files."""
    from penstock.core.columns.picked_rows import RowNumbers
    from penstock.observe.quarantine import ids_in, read_quarantine
    from penstock.plan.nodes import Exclude
    from penstock.resolve.resolved import resolve

    paths = paths_of("exclude", exclude)
    bad, manifest = [sample for path in paths for sample in read_quarantine(path)], dataset.source.manifest
    ids = np.unique(ids_in(bad, manifest))
    samples = ids[ids >= 0]
    if bad and not len(samples):
        warn(
            f"exclude={', '.join(paths)}: none of the {len(bad):,} bad samples there lies in {manifest.format} files that are read here"
        )
    if not len(samples):
        return dataset
    node = Exclude(input=dataset.root, picked=RowNumbers(samples, manifest.samples))
    if not resolve(node).rows:
        raise PlanError(node.none_left(manifest.samples))
    return Dataset(node)


def from_arrays(columns: Any, *, nulls: Nulls = "error") -> Dataset:
    """What is in memory already: a dict of columns, rows first, all of one length; a frame or table; a list of dicts.

    Times become int64 in the unit of their type, categories their values, lists of differing length ragged columns. pandas' row numbers are left out.

    Args:
        columns: NumPy arrays, torch tensors on the CPU, Arrow arrays, pandas and Polars columns, or lists, by name; a frame of pandas or Polars, a
            pyarrow.Table, or what offers Arrow's stream of columns; or a dict for each row.
        nulls: what missing values (None, NaT, pandas.NA, nulls, what a masked array masks) become, as for `read`. Default: the first column that has some
            is a PlanError.

    Returns:
        A dataset of the rows.

    Raises:
        PlanError: for columns of different lengths, of types that no batch can hold, or with missing values.

    Example:
        ps.from_arrays({"x": np.arange(10), "y": np.zeros((10, 3))})[4]["x"] == 4
        ps.from_arrays([{"x": 1, "text": "a"}, {"x": 2, "text": "b"}]).head()["text"] == ["a", "b"]
    """
    from penstock.inputs.memory import from_arrays as open_arrays

    check_nulls("from_arrays", nulls)
    return of_source(with_nulls(open_arrays(columns, nulls), nulls, None), "memory", None)


def from_dataset(
    data: Any, *, columns: Asked = None, name: str | None = None, version: str = "", threads: int = 1
) -> Dataset:
    """A map-style object, as PyTorch's datasets are: anything with `__getitem__` and `__len__`.

    Items are dicts, tuples or single values (`penstock.inputs.items` has the table). Where there is a `__getitems__(list of numbers)`, it is called once a
    batch; let it return a dict of arrays to do no work per item. Exceptions of the object keep their traceback and name the sample.

    Args:
        data: the object.
        columns: names the places of tuples ("image", "label"), or selects, renames and types as for `read`.
        name: with `version`, what identifies the data to a saved state, besides its length and columns. Default: the object's type.
        version: changes with the data. Default: "".
        threads: calls at once; above 1 says that the object allows several. Default: 1, on a thread of the pipeline.

    Returns:
        A dataset of one row for each item.

    Raises:
        PlanError: for what has no length or no items by number, and for columns that no batch can hold.
        SourceError: for no items.

    Example:
        class Squares:
            def __len__(self):
                return 10

            def __getitem__(self, number):
                return number, number**2

        squares = ps.from_dataset(Squares(), columns=["n", "square"], version="1")
        squares[3]["square"] == 9
    """
    from penstock.inputs.objects import from_dataset as open_objects

    _check_unopened("from_dataset", data)
    check_columns(columns)
    check_texts("from_dataset", name="" if name is None else name, version=version)
    check_whole("from_dataset", MOST_THREADS, threads=threads)
    source = open_objects(data, columns=columns, name=name, version=version, threads=threads)
    return of_source(source, "python object", columns)


def from_iterable(
    make: Callable[..., Iterable[Any]] | Iterable[Any],
    *,
    arguments: Mapping[str, Any] | None = None,
    samples: int | None = None,
    spool: bool = True,
    columns: Asked = None,
    name: str | None = None,
    version: str = "",
    limits: Limits = DEFAULT_LIMITS,
    progress: Progress | None = None,
) -> Dataset:
    """Items of an iterable, or of a generator function; items as for `from_dataset`.

    With spool=True they are drawn once, now, into the user's cache, and from then on everything works: shuffle, resume at no cost, any number of ranks.
    They are kept under `name` and `version`, or else under a digest of the function's code and arguments, so that other processes and days find them;
    iterables without a name are kept for this process only.

    With spool=False nothing is kept: each rank draws all items, and an epoch makes a new iterator. `shuffle(window=…)` mixes items within windows as they
    come. Resuming draws what comes before again, unless the function has a parameter `start`; an iterator instead of a function cannot be resumed.

    Exceptions of the generator keep their traceback and name the sample.

    Args:
        make: a function that returns an iterable, or an iterable.
        arguments: what the function is called with, by name.
        samples: how many items there are; needed with spool=False, unless the iterable has a length.
        spool: whether items are kept. Default: True.
        columns: names, selects, renames and types, as for `from_dataset`.
        name: what the items are kept under, and what identifies them to a saved state.
        version: changes with the items. Default: "".
        limits: the most that an item may need. Default: `penstock.Limits()`.
        progress: a function that is called with items drawn, and items in all.

    Returns:
        A dataset of one row for each item.

    Raises:
        PlanError: for what cannot work.
        DataError: where items differ or their number is not `samples`.
        StateError: from a Loader that resumes an iterator.

    Example:
        def squares(most):
            for number in range(most):
                yield {"n": number, "square": number**2}

        data = ps.from_iterable(squares, arguments={"most": 100}).shuffle(seed=0)
        len(data) == 100
    """
    from penstock.inputs.iterable import Making
    from penstock.inputs.iterable import from_iterable as open_iterable

    _check_unopened("from_iterable", make)
    check_columns(columns)
    check_flags("from_iterable", spool=spool)
    check_limits("from_iterable", limits)
    check_progress("from_iterable", progress)
    check_texts("from_iterable", name="" if name is None else name, version=version)
    check_whole("from_iterable", MOST_ROWS, samples=1 if samples is None else samples)
    if arguments is not None and not (
        isinstance(arguments, Mapping) and all(isinstance(one, str) for one in arguments)
    ):
        raise PlanError(f"from_iterable: arguments={quoted(arguments)}; pass a dict of names and values, or None")
    making = Making(
        make=make, arguments=arguments or {}, columns=columns, samples=None if samples is None else int(samples), name=name, version=version
    )  # fmt: skip
    source = open_iterable(making, spool=spool, limits=limits, progress=progress)
    return of_source(source, "iterable", columns, limits=limits)


def read_stream(
    path: str,
    *,
    format: str,
    samples: int,
    columns: Asked = None,
    nulls: Nulls = "error",
    verify: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    **own: Any,
) -> Dataset:
    """Records out of a named pipe (FIFO), as SageMaker's Pipe mode gives them, or of standard input.

    A pipe comes once and in one order: `shuffle(window=…)` mixes records within windows as they come, every rank draws all records and keeps its own, and a
    resumed epoch draws the records before again, from the pipe of the first pass. Waits for the first records.

    Args:
        path: the pipe, or "-" for standard input. `{epoch}` in it stands for the number of the pass, from 0; without it, the same pipe is opened anew for
            every epoch.
        format: "tfrecord", "recordio", "text" or "jsonl".
        samples: records of an epoch; fewer or more are an error.
        columns: selects, renames and types, as for `read`.
        nulls: what nulls become, as for `read`. Default: an error.
        verify: False skips the records' checksums. Default: True.
        limits: the most that a record may need. Default: `penstock.Limits()`.
        **own: the format's own options, as for `read`.

    Returns:
        A dataset of `samples` rows.

    Raises:
        SourceError: for a pipe that is not there or empty.
        DataError: for damaged records, and for a stream that ends inside of one.

    Example:
        def training_data():
            return ps.read_stream("/opt/ml/input/data/train_{epoch}", format="recordio", samples=1_281_167)
    """
    from penstock.inputs.pipe import open_pipe

    path = path_of("read_stream", path)
    check_columns(columns)
    check_nulls("read_stream", nulls)
    check_flags("read_stream", verify=verify)
    check_limits("read_stream", limits)
    options = Options(columns=columns, nulls=nulls, verify=verify, limits=limits, own=own)
    source = open_pipe(path, format_named(format, options), samples, options)
    return of_source(with_nulls(source, nulls, columns), path, columns, limits=limits)


def read_sql(
    uri: str,
    query: str,
    *,
    partition: str | None = None,
    columns: Asked = None,
    nulls: Nulls = "error",
    ties: bool = False,
    checksum: bool = False,
    connections: int = 4,
    limits: Limits = DEFAULT_LIMITS,
    progress: Progress | None = None,
) -> Dataset:
    """The result of a SQL query, as Arrow tables: PostgreSQL, SQLite or DuckDB, by the URI's scheme.

    A saved state knows the data by the number of rows and by a key every few hundred rows. Only what is requested leaves the server.

    Args:
        uri: the database. Passwords belong in the environment (PGPASSWORD, ~/.pgpass), and are never shown if they are part of the URI.
        query: one SELECT.
        partition: a column of the result by whose order the rows are numbered (integers, text, dates or timestamps; indexed, unique and never null). The
            rows are then read by ranges of it: in parallel, in any order, from all ranks, each row once, out of one snapshot where the database has them.
            Default: the result is drawn once and kept for this process.
        columns: selects, renames and types, as for `read`.
        nulls: what NULL becomes, as for `read`. Default: an error.
        ties: True orders equal keys by all other columns. Default: they are refused.
        checksum: True reads all rows once, so that a saved state knows their values too. Default: False.
        connections: at once, at most. Default: 4.
        limits: the most that a row may need. Default: `penstock.Limits()`.
        progress: a function that is called with rows done, and rows in all.

    Returns:
        A dataset of one row for each row of the result.

    Raises:
        PlanError: for a URI or a query that cannot work, and for keys that are null or equal.
        SourceError: for a result without rows, and a file or package that is not there.
        DataError: where the database cannot be reached any more, or its rows were changed meanwhile.

    Example:
        import sqlite3

        with sqlite3.connect("articles.db") as database:
            database.execute("CREATE TABLE articles (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
            database.executemany("INSERT INTO articles VALUES (?, ?)", [(n, f"text {n}") for n in range(20)])
        articles = ps.read_sql("sqlite:///articles.db", "SELECT id, text FROM articles WHERE id >= 10", partition="id")
        len(articles) == 10
    """
    from penstock.inputs.sql.dialect import DatabaseUri
    from penstock.inputs.sql.source import read_sql as open_sql

    check_columns(columns)
    check_nulls("read_sql", nulls)
    check_flags("read_sql", ties=ties, checksum=checksum)
    check_limits("read_sql", limits)
    check_progress("read_sql", progress)
    check_texts("read_sql", uri=uri, query=query, partition="" if partition is None else partition)
    check_whole("read_sql", MOST_THREADS, connections=connections)
    options = Options(columns=columns, nulls=nulls, limits=limits, progress=progress)
    source = open_sql(
        uri, query, partition=partition, options=options, ties=ties, checksum=checksum, connections=connections
    )
    return of_source(with_nulls(source, nulls, columns), DatabaseUri(uri).shown, columns, limits=limits)


def _check_unopened(verb: str, data: Any) -> None:
    """PlanError for a Dataset, which looks like the objects that are opened here."""
    if isinstance(data, Dataset):
        raise PlanError(
            f"{verb}(Dataset): it is opened already; write its verbs, and penstock.Loader(dataset.batch(32))"
        )
