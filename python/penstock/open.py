"""Where samples come from besides files: map-style Python objects, iterables and generator functions, pipes, SQL queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from penstock.core.byte_ranges import Progress
from penstock.core.limits import DEFAULT_LIMITS, Limits
from penstock.core.options import Column, Options
from penstock.dataset import Dataset, of_source
from penstock.format import format_named
from penstock.inputs.iterable import Making
from penstock.inputs.iterable import from_iterable as open_iterable
from penstock.inputs.objects import from_dataset as open_objects
from penstock.inputs.pipe import open_pipe
from penstock.inputs.sql.dialect import Place
from penstock.inputs.sql.source import read_sql as open_sql
from penstock.source.selection import Asked


def from_dataset(
    data: Any, *, columns: Asked = None, name: str | None = None, version: str = "", threads: int = 1
) -> Dataset:
    """A map-style object, as PyTorch's datasets are: anything with `__getitem__` and `__len__`.

    Items are dicts, tuples or single values (`penstock.inputs.items` has the table); `columns` names the places of tuples
    ("image", "label"), or selects, renames and types as for `read`. Where there is a `__getitems__(list of numbers)`, it is
    called once a batch; let it return a dict of arrays to do no work per item.

    Items are asked for on a thread of the pipeline, one call at a time; `threads` above 1 says that the object allows several
    at once. name, version: what identifies the data to a saved state, besides its length and columns; the object's type
    unless given. Exceptions of the object keep their traceback and name the sample.
    """
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
    """Items of an iterable, or of a generator function, which is called with `arguments`; items as for `from_dataset`.

    With spool=True they are drawn once, now, into the user's cache, and from then on everything works: shuffle, resume at
    no cost, any number of ranks. They are kept under `name` and `version`, or else under a digest of the function's code
    and arguments, so that other processes and days find them; iterables without a name are kept for this process only.

    With spool=False nothing is kept: the natural order only, `samples` (or a length) is needed, each rank draws all items, an
    epoch makes a new iterator, and resuming draws what comes before again, unless the function has a parameter `start`.

    Raises PlanError for what cannot work, DataError where items differ or their number is not `samples`. Exceptions of the
    generator keep their traceback and name the sample.
    """
    making = Making(
        make=make, arguments=arguments or {}, columns=columns, samples=samples, name=name, version=version
    )  # fmt: skip
    source = open_iterable(making, spool=spool, limits=limits, progress=progress)
    return of_source(source, "iterable", columns, limits=limits)


def read_stream(
    path: str,
    *,
    format: str,
    samples: int,
    columns: Mapping[str, str | Column] | Sequence[str] | None = None,
    verify: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    **own: Any,
) -> Dataset:
    """Records out of a named pipe (FIFO), as SageMaker's Pipe mode gives them, or of standard input ("-").

    `{epoch}` in the path stands for the number of the pass, from 0: read_stream("/opt/ml/input/data/train_{epoch}",
    format="recordio", samples=1_281_167). Without it, the same pipe is opened anew for every epoch. format: "tfrecord",
    "recordio", "text" or "jsonl"; its own options as for `read`. samples: records of an epoch; fewer or more are an error.

    A pipe comes once and in one order: it cannot be shuffled, every rank draws all records and keeps its own, and a resumed
    epoch draws the records before again, from the pipe of the first pass. Waits for the first records. Raises SourceError for a pipe that
    is not there or empty, DataError for damaged records and for a stream that ends inside of one.
    """
    options = Options(columns=columns, verify=verify, limits=limits, own=own)
    source = open_pipe(path, format_named(format, options), samples, options)
    return of_source(source, path, columns, limits=limits)


def read_sql(
    uri: str,
    query: str,
    *,
    partition: str | None = None,
    columns: Mapping[str, str | Column] | Sequence[str] | None = None,
    ties: bool = False,
    checksum: bool = False,
    connections: int = 4,
    limits: Limits = DEFAULT_LIMITS,
    progress: Progress | None = None,
) -> Dataset:
    """The result of a SQL query, as Arrow tables: PostgreSQL, SQLite, DuckDB or Flight SQL, told by the URI's scheme.

    partition: a column of the result by whose order the rows are numbered (integers, text, dates or timestamps; indexed, unique
    and never null). The rows are then read by ranges of it: in parallel, in any order, from all ranks, each row once,
    out of one snapshot where the database has them. Equal keys are refused, or with ties=True ordered by all other columns.
    Without `partition` the result is drawn once and kept for this process.

    A saved state knows the data by the number of rows and by a key every few hundred rows; `checksum` reads all rows once to know
    their values too. `columns` selects, renames and types, as for `read`, and only what is asked for leaves the server.

    read_sql("postgresql://user@host/base", "SELECT id, text FROM articles WHERE year > 2000", partition="id"); passwords
    belong into the environment (PGPASSWORD, ~/.pgpass), and are never shown if they are part of the URI.
    """
    options = Options(columns=columns, limits=limits, progress=progress)
    source = open_sql(
        uri, query, partition=partition, options=options, ties=ties, checksum=checksum, connections=connections
    )
    return of_source(source, Place(uri).shown, columns, limits=limits)
