"""Records out of pipes: named ones (FIFOs) as SageMaker's Pipe mode gives them, one an epoch, or standard input.

What comes is framed natively, piece by piece, in bounded memory. A pipe comes once and in one order: no shuffle, every rank draws all
records and keeps its own, and a resumed epoch draws the records before again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import tempfile
import time
import weakref
from functools import partial

import numpy as np
import pyarrow as pa

from penstock.core import kernels
from penstock.core.arguments import is_whole
from penstock.core.cancel import LOOK_S, StoppedError, is_stopped
from penstock.core.columns.rows import new_rows, spans_to_arrow
from penstock.core.columns.spec import Bytes, Columns, Ids, Spans
from penstock.core.errors import DataError, PlanError, SourceError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.messages import quoted
from penstock.core.verbs.options import Options
from penstock.inputs.forward import STREAM_ROWS, Stream
from penstock.source.manifest import StatedManifest, digest_of
from penstock.source.protocol import Format, Source

#: How the records of each format that can be streamed follow each other.
FRAMED = {"tfrecord": "tfrecord", "recordio": "recordio", "text": "lines", "jsonl": "lines"}

#: Stands in a path for the number of the pass.
EPOCH = "{epoch}"

_PIECE_BYTES = 1 << 20
_LINE_END = ord("\n")
_MADE_WITHIN_S = 60.0
_FIRST_RECORDS = 100


class PipePass:
    """One pass through a pipe: its records, some at a time. For one thread."""

    def __init__(self, path: str, kind: str, record_bytes: int) -> None:
        self._path, self._kind, self._limit = path, kind, record_bytes
        self._handle = _opened(path)
        self.close = weakref.finalize(self, os.close, self._handle)
        self._memory = np.empty(0, dtype=np.uint8)  # what was given out lies in it too
        self._begin = self._end = 0  # where it holds bytes of the records in `_lengths`, then of one that is not whole
        self._lengths = np.empty(0, dtype=np.int64)
        self._ended = False
        self.position = 0

    def take(self, rows: int) -> Spans:
        """The next records with their frames, fewer where the pipe ends; DataError where it ends inside of one."""
        while len(self._lengths) < rows and not self._ended:
            self._more()
        length, self._lengths = self._lengths[:rows], self._lengths[rows:]
        end = np.cumsum(length)
        size = int(end[-1]) if len(end) else 0
        taken = self._held[:size]
        self._begin += size
        self.position += len(length)
        return Spans((taken,), np.zeros(len(length), dtype=np.int64), end - length, length)

    def look(self, rows: int) -> Spans:
        """Up to so many of the next records, which are taken later; as many as came with the first."""
        while not len(self._lengths) and not self._ended:
            self._more()
        length = self._lengths[:rows]
        end = np.cumsum(length)
        return Spans((self._held,), np.zeros(len(length), dtype=np.int64), end - length, length)

    def more(self) -> bool:
        """Whether another byte is there already; the writer is not waited for."""
        return bool(self._held.size) or (not self._ended and _is_ready(self._handle, 0.0) and bool(self._read()))

    @property
    def _held(self) -> Bytes:
        return self._memory[self._begin : self._end]

    def _more(self) -> None:
        new = self._read()
        whole = int(self._lengths.sum())
        first = self.position + len(self._lengths)
        if not new:
            self._ended = True
            if left := self._held.size - whole:
                if self._kind != "lines":
                    raise DataError(
                        f"{self._path}: the stream ends inside record {first:,}, after {left:,} bytes of it; write it again"
                    )
                self._lengths = np.append(self._lengths, left)
            return
        if (
            self._kind == "lines"
            and self._held.size - whole <= self._limit
            and not (self._held[-new:] == _LINE_END).any()
        ):
            return  # a long line is not searched again and again
        found = kernels.stream_records(
            self._kind, self._held[whole:], first=first, record_bytes=self._limit, name=self._path
        )
        self._lengths = np.concatenate([self._lengths, found])

    def _read(self) -> int:
        """Holds more bytes; how many, 0 at the end. StoppedError if nobody wants them any more."""
        while not is_stopped():
            if _is_ready(self._handle, LOOK_S):
                self._make_room()
                try:
                    size = os.readv(self._handle, [self._memory.data[self._end : self._end + _PIECE_BYTES]])
                except OSError as error:
                    raise SourceError(f"{self._path}: {error.strerror}; name a pipe that can be read") from None
                self._end += size
                return size
        raise StoppedError

    def _make_room(self) -> None:
        """For a piece, and for as much again as is held, so that a long record is not copied for every piece of it."""
        held = self._held
        if self._memory.size - self._end < _PIECE_BYTES:
            self._memory = np.empty(2 * (held.size + _PIECE_BYTES), dtype=np.uint8)
            self._memory[: held.size] = held
            self._begin, self._end = 0, held.size


def _opened(path: str) -> int:
    if path == "-":
        try:
            return os.dup(0)
        except OSError as error:
            raise SourceError(f"{path}: standard input is closed ({error.strerror}); send it something") from None
    try:  # without waiting for the writer: that is done where a run's end is seen
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise SourceError(
            f"{path}: {error.strerror}; the writer makes the pipe (os.mkfifo) before it is read"
        ) from None
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):  # no pipe, or more than the system allows
            fcntl.fcntl(handle, fcntl.F_SETPIPE_SZ, _PIECE_BYTES)
    return handle


def wait_until_made(path: str) -> None:
    """Waits for the pipe of a later epoch, which its writer may make late; SourceError if it does not come."""
    end = time.monotonic() + _MADE_WITHIN_S
    while not os.path.exists(path):
        if is_stopped():
            raise StoppedError
        if time.monotonic() > end:
            raise SourceError(
                f"{path}: no such pipe within {_MADE_WITHIN_S:.0f} s; does the writer send another epoch?"
            )
        time.sleep(LOOK_S)


def _is_ready(handle: int, timeout_s: float) -> bool:
    """Whether bytes are there, or the writer has closed; not before a writer came."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(1000 * timeout_s))


class Passes:
    """Pass after pass through pipes. For one thread at a time."""

    def __init__(self, path: str, kind: str, record_bytes: int) -> None:
        self._path, self._kind, self._limit = path, kind, record_bytes
        self._number = 0
        self._pieces = PipePass(path.replace(EPOCH, "0"), kind, record_bytes)
        self.first = self._pieces.look(_FIRST_RECORDS)

    def take(self, first: int, rows: int) -> Spans:
        """Records [first, first + rows), fewer where the pipe ends; an earlier one than the next begins the next pass."""
        if first < self.position:
            self._begin_next()
        while first > self.position and len(self._pieces.take(min(first - self.position, STREAM_ROWS))):
            pass
        return self._pieces.take(rows if self.position == first else 0)

    def _begin_next(self) -> None:
        if self._path == "-":
            raise PlanError(
                "standard input comes once: train one epoch from it, or have the data sent through named pipes"
            )
        self._pieces.close()
        self._number += 1
        path = self._path.replace(EPOCH, str(self._number))
        wait_until_made(path)
        self._pieces = PipePass(path, self._kind, self._limit)

    @property
    def position(self) -> int:
        """The number of the next record."""
        return self._pieces.position

    @property
    def failed(self) -> None:
        """Records come whole or not at all."""
        return None

    def more(self) -> bool:
        """Whether there is a record after those that were taken, as far as is known without waiting."""
        return self._pieces.more()


def _stack(inner: Source, records: Spans) -> Columns:
    """The columns that a format makes of records."""
    found = inner.parse(np.arange(len(records)), records, new_rows)
    return {name: spans_to_arrow(column) if isinstance(column, Spans) else column for name, column in found.items()}


def open_pipe(path: str, format: Format, samples: int, options: Options) -> Stream:
    """Waits for the first records of a pipe and learns the columns from them."""
    kind = FRAMED.get(format.name)
    if kind is None:
        raise PlanError(f"read_stream: format={quoted(format.name)}; what can come through a pipe: {', '.join(FRAMED)}")
    if not is_whole(samples) or not 0 < samples < 1 << 63:
        raise PlanError(f"read_stream: samples={quoted(samples)}; say how many records an epoch has")
    passes = Passes(path, kind, options.limits.record_bytes)
    if not len(passes.first):
        raise SourceError(f"{path}: the stream is empty")
    inner = _learnt(format, passes.first, options)
    mean = int(passes.first.length.mean())
    identity = f"pipe {format.name} {samples} {sorted(inner.spec.items())}"
    manifest = StatedManifest.of("stream", samples, digest_of(identity), samples * mean)
    first = passes.first.take(np.zeros(1, dtype=np.int64))
    # Steps that are made together are made again after an error, and a pipe does not come back: one at a time.
    stack = partial(_stack, inner)
    return Stream(manifest, inner.spec, passes, stack, first, 1, f"{path}: ", "records", comes_once=True)


def _learnt(format: Format, records: Spans, options: Options) -> Source:
    """The format's source on a file of the first records: it parses all that come."""
    begin, end = int(records.offset[0]), int(records.offset[-1] + records.length[-1])
    content = records.buffers[0][begin:end]
    with tempfile.NamedTemporaryFile(prefix="penstock-", suffix=format.suffixes[0]) as file:
        file.write(content.tobytes())
        file.flush()
        status = os.stat(file.name)
        sizes, versions = np.array([status.st_size]), np.array([status.st_mtime_ns])
        shards = Shards(pa.array([file.name], pa.large_string()), sizes, versions, os.path.dirname(file.name) + "/")

        def read(shards: Shards, shard: Ids, offset: Ids, length: Ids, out: Bytes, at: Ids) -> None:  # noqa: ARG001
            for start, size, place in zip(offset.tolist(), length.tolist(), at.tolist(), strict=True):
                out[place : place + size] = content[start : start + size]

        found = format.open(shards, ByteRanges(read), options)
    if not isinstance(found, Source):
        raise PlanError(f"read_stream: {format.name} cannot be parsed record by record")
    return found
