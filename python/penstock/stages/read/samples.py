"""Samples one by one or in runs, without a pipeline: for what looks into a dataset before, or instead of, training on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.batch.pick import pick
from penstock.core.columns.spec import Columns, Field, Ids
from penstock.core.errors import DataError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.runtime.slots import Slots
from penstock.source.protocol import Access, AnySource, BlockSource
from penstock.stages.read.blocks import load_block
from penstock.stages.read.parse import parse
from penstock.stages.read.records import read_records


def load_samples(source: AnySource, read: ByteRanges, samples: Ids, *, threads: int = 1) -> Columns:
    """The columns of neighbouring samples, in ascending order; DataError, with its place, for the first that is bad."""
    if isinstance(source, BlockSource):
        rows = np.arange(len(samples), dtype=np.int64)
        block = load_block(source, int(samples[0]), len(samples), threads=threads)
        return pick([block], np.zeros_like(rows), rows, source.spec, _new_array, threads=threads)
    records = None if source.access is Access.MEMORY else read_records(source, read, samples, Slots())
    return parse(source, samples, records, _new_array, threads=threads)


def load_readable(
    source: AnySource, read: ByteRanges, samples: Ids
) -> tuple[list[tuple[Ids, Columns]], list[tuple[int, DataError]]]:
    """The same without the bad samples: runs of good ones, and the bad ones with what is wrong with them."""
    try:
        return [(samples, load_samples(source, read, samples))], []
    except DataError as error:
        if len(samples) == 1:
            return [], [(int(samples[0]), error)]
    halves: Sequence[Ids] = np.array_split(samples, 2)
    (first, bad), (last, more_bad) = (load_readable(source, read, half) for half in halves)
    return first + last, bad + more_bad


def _new_array(_: str, field: Field, rows: int) -> Any:
    return Slots().array(field, rows)
