"""Native code on rows of encoded images, of which libraries decode those that it refuses."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Column
from penstock.core.errors import RowError
from penstock.core.images.by_library import HEAD_BYTES, Kind, as_png, kind_of, readable_head
from penstock.core.images.wanted import UnreadFileError, WantedPixels
from penstock.core.limits import Limits
from penstock.transform.image.native_spans import NativeSpans, native_spans, replaced

_T = TypeVar("_T")


class EncodedRows:
    """Runs native code on columns of encoded images.

    A column without files for libraries costs nothing more: they are looked for once native code has refused one.
    """

    def __init__(self, limits: Limits, wanted: WantedPixels) -> None:
        self._limits, self._wanted = limits, wanted
        self._has_met_some = False

    def run(self, run: Callable[[NativeSpans], _T], column: Column, threads: int) -> _T:
        """What `run` makes of the rows; a RowError is about the file as it was, before a library made pixels of it."""
        spans = native_spans(column)
        if not self._has_met_some:
            try:
                return run(spans)
            except RowError as error:
                if not any(kind_of(_head(spans, one.row)) for one in error.every or (error,)):
                    raise
            self._has_met_some = True
        return self._run_with_libraries(run, spans, threads)

    def _run_with_libraries(self, run: Callable[[NativeSpans], _T], spans: NativeSpans, threads: int) -> _T:
        kinds = _kinds(spans)
        if not kinds:
            return run(spans)

        def made(row: int) -> bytes | UnreadFileError:
            try:
                return as_png(_bytes(spans, row), kinds[row], self._limits, self._wanted)
            except UnreadFileError as error:
                return error

        with ThreadPoolExecutor(min(threads, len(kinds))) as pool:
            every = dict(zip(kinds, pool.map(made, kinds), strict=True))

        def told(error: RowError) -> RowError:
            made = every.get(error.row)
            if made is None:
                return error
            if isinstance(made, UnreadFileError):
                return RowError(error.row, made.found, made.do)
            return RowError(error.row, error.found.replace("PNG", kinds[error.row].name), error.do)

        try:
            return run(replaced(spans, {row: data for row, data in every.items() if isinstance(data, bytes)}))
        except RowError as error:  # rows that no library decoded are among those that are refused
            first = told(error)
            first.every = [told(one) for one in error.every]
            raise first from None


def sizes_from(look: Callable[[NativeSpans], npt.NDArray[np.uint32]], column: Column) -> npt.NDArray[np.uint32]:
    """The sizes that `look` finds in headers, 0 for what is no image; files for libraries are looked for where it finds one."""
    found = look(native_spans(column))
    return found if found.all() else look(spans_of_heads(column))


def spans_of_heads(column: Column) -> NativeSpans:
    """The rows for native code that looks at headers only."""
    spans, heads = native_spans(column), dict[int, bytes]()
    for row in _kinds(spans):
        try:
            heads[row] = readable_head(_bytes(spans, row))
        except UnreadFileError:
            continue  # for native code it is no image
    return replaced(spans, heads)


def _kinds(spans: NativeSpans) -> dict[int, Kind]:
    """The rows that libraries decode, with their kinds."""
    every = ((row, kind_of(_head(spans, row))) for row in range(len(spans[1])))
    return {row: kind for row, kind in every if kind is not None}


def _head(spans: NativeSpans, row: int) -> bytes:
    return _bytes(spans, row, HEAD_BYTES)


def _bytes(spans: NativeSpans, row: int, most: int | None = None) -> bytes:
    """The first bytes of a row, or all."""
    buffers, which, offset, length = spans
    begin, count = int(offset[row]), int(length[row])
    return buffers[int(which[row])][begin : begin + (count if most is None else min(count, most))].tobytes()
