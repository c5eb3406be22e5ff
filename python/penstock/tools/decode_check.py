"""Whether all images of a dataset can be read and decoded: each is tried, on all cores, and the bad ones are named."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from penstock.core.cancel import work_for
from penstock.core.columns.spec import Columns, Ids, Spans
from penstock.core.files.byte_ranges import ByteRanges, Progress
from penstock.core.images.encoded import rgb_of
from penstock.core.images.wanted import WantedPixels
from penstock.source.protocol import Access, AnySource
from penstock.stages.read.samples import load_readable

#: Samples, and bytes of them, that a thread takes at once.
_RUN_SAMPLES, _RUN_BYTES = 16, 8 << 20


@dataclass(frozen=True, kw_only=True)
class UndecodableSample:
    """A sample that cannot be read, or whose image in `column` cannot be decoded ("" if it could not even be read)."""

    sample: int
    where: str
    column: str
    found: str


def find_bad(
    source: AnySource, read: ByteRanges, columns: Sequence[str], *, threads: int, progress: Progress | None = None
) -> Iterator[UndecodableSample]:
    """The bad samples, in the order of their ids. Reads every sample and decodes the images in `columns`.

    Memory: a few MiB and a decoded image for each thread, whatever the size of the dataset. A store that cannot be reached ends it.
    """
    stop, samples, done = threading.Event(), source.manifest.samples, 0

    def check(run: Ids) -> tuple[int, list[UndecodableSample]]:
        work_for(stop)
        return len(run), _bad_of(source, read, columns, run, stop)

    pool = ThreadPoolExecutor(threads, thread_name_prefix="penstock-decode")
    last = None
    try:
        for checked, bad in _in_order(pool, check, _runs(source), threads + 2):
            for one in bad:
                if last is None or (one.where, one.found) != (last.where, last.found):  # rows that share what is wrong
                    yield one
                last = one
            done += checked
            if progress is not None:
                progress(done, samples)
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


def _in_order(pool: ThreadPoolExecutor, check: Any, runs: Iterable[Ids], at_once: int) -> Iterator[Any]:
    """What `check` gives for each run, at most so many of them at work."""
    left = iter(runs)
    waiting: deque[Future[Any]] = deque(pool.submit(check, run) for run in islice(left, at_once))
    while waiting:
        yield waiting.popleft().result()
        waiting.extend(pool.submit(check, run) for run in islice(left, 1))


def _runs(source: AnySource) -> Iterator[Ids]:
    """Neighbouring samples, as many as a thread takes at once."""
    manifest = source.manifest
    mean_bytes = max(1, manifest.size_bytes // max(1, manifest.samples))
    sized = source.access is Access.RECORDS
    rows = _RUN_SAMPLES if sized else max(1, min(_RUN_SAMPLES, _RUN_BYTES // mean_bytes))
    for first in range(0, manifest.samples, rows):
        run = np.arange(first, min(first + rows, manifest.samples), dtype=np.int64)
        if not sized:
            yield run
            continue
        part = np.cumsum(manifest.extents(run)[2]) // _RUN_BYTES
        yield from np.split(run, np.flatnonzero(np.diff(part)) + 1)


def _bad_of(
    source: AnySource, read: ByteRanges, columns: Sequence[str], run: Ids, stop: threading.Event
) -> list[UndecodableSample]:
    place = source.manifest.place
    runs, unreadable = load_readable(source, read, run)
    bad = [_unreadable(sample, place(sample), str(error)) for sample, error in unreadable]
    for samples, loaded in runs:
        for sample, column, image in _images(samples, loaded, columns):
            if stop.is_set():
                return bad
            if found := _wrong_with(image):
                bad.append(UndecodableSample(sample=sample, where=place(sample), column=column, found=found))
    return sorted(bad, key=lambda one: one.sample)


def _unreadable(sample: int, place: str, error: str) -> UndecodableSample:
    """Errors about what is decoded together, as Parquet's row groups are, name a place of their own."""
    where, _, found = (
        (place, "", error.removeprefix(f"{place}: ")) if error.startswith(place) else error.partition(": ")
    )
    return UndecodableSample(sample=sample, where=where, column="", found=found)


def _images(samples: Ids, loaded: Columns, columns: Sequence[str]) -> Iterator[tuple[int, str, bytes]]:
    """Every image with its sample and column; a row may have a list of them."""
    for column in columns:
        values: Any = loaded[column]
        for row, sample in enumerate(samples.tolist()):
            value = values[row] if isinstance(values, Spans) else values[row].as_py()
            for image in value if isinstance(value, list) else [value]:
                yield sample, column, image


def _wrong_with(image: bytes) -> str:
    try:
        rgb_of(image, WantedPixels(window="full"))  # the file of no window is a whole one, too
    except ValueError as error:
        return str(error)
    return ""
