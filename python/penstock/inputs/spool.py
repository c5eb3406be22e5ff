"""Rows that are drawn once and cached, in a file of blocks (`derived.row_file`).

Fixed columns are stored as fixed-size binary, a row's bytes each; text, bytes and lists as Arrow has them. A kept spool is the file
`<key>.rows`, which appears whole or not at all. A spool without a key belongs to this process: its file has no name any more once it is open.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns.digest import add_column
from penstock.core.columns.rows import bytes_of
from penstock.core.columns.spec import Columns, Field, Spec
from penstock.core.errors import DataError, SourceError
from penstock.core.files.byte_ranges import Progress
from penstock.core.files.cache_dirs import cache_folder
from penstock.core.files.scratch import check_room, room_errors, scratch_file
from penstock.core.limits import Limits
from penstock.derived.lock import one_maker
from penstock.derived.row_file import SUFFIX, BlockFile, BlockWriter, binary_column, bytes_of_binary
from penstock.source.manifest import Manifest, StatedManifest
from penstock.source.protocol import Access

_FOLDER = "spool"
#: The files of a spool in earlier versions.
_EARLIER = (".arrow", ".json")
_WHAT, _FACTS_BYTES = "the rows that are drawn (or pass spool=False to keep none)", 4096

#: Blocks of columns with equally many rows each, the last perhaps fewer.
Blocks = Iterator[Columns]


@dataclass(frozen=True, eq=False)
class Spool:
    """Rows out of a spool, any of them at any time."""

    manifest: Manifest
    spec: Spec
    block_rows: int
    file: BlockFile = field(repr=False)
    access: Access = Access.BLOCKS

    def _block(self, number: int) -> pa.RecordBatch:
        try:
            return self.file.block(number)
        except pa.ArrowException as error:
            with suppress(OSError):
                os.unlink(self.file.path)
            raise DataError(
                f"{self.file.path}: the cached rows are damaged ({error}); open the dataset again, which draws them anew"
            ) from None

    def only(self, names: Sequence[str]) -> Spool:
        """The same rows with these columns alone."""
        return replace(self, spec={name: self.spec[name] for name in names})

    def load(self, first: int, rows: int) -> Columns:
        """Rows [first, first + rows), as places in the mapped file where one block holds them all."""
        number, skip = divmod(first, self.block_rows)
        parts = []
        while rows > 0:
            part = self._block(number).slice(skip, rows)
            parts.append(part)
            rows, number, skip = rows - part.num_rows, number + 1, 0
        return {name: _loaded([part.column(name) for part in parts], field) for name, field in self.spec.items()}


def _loaded(parts: list[pa.Array], field: Field) -> npt.NDArray[Any] | pa.Array:
    if not field.is_fixed:
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
    arrays = [_rows_of(part, field) for part in parts]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _rows_of(part: pa.Array, field: Field) -> npt.NDArray[Any]:
    held = bytes_of_binary(part, field.row_bytes).view(field.numpy_dtype)
    return held.reshape(len(part), *(axis or 0 for axis in field.shape))


# Storing


def kept_spool(
    key: str, draw: Callable[[], tuple[Spec, int, Blocks]], limits: Limits, progress: Progress | None, total: int
) -> Spool:
    """The spool of this name; drawn and stored first if it is not there. Several processes draw it once.

    draw() gives the columns, the rows of a block, and the blocks.
    """
    folder = _folder()
    path = os.path.join(folder, key + SUFFIX)
    if (found := _open(path)) is not None:
        return found
    with one_maker(folder, [key]):
        if (found := _open(path)) is not None:  # another process was quicker
            return found
        for suffix in _EARLIER:
            with suppress(OSError):
                os.unlink(os.path.join(folder, key + suffix))
        with _scratch(path, folder) as scratch:
            _store(scratch, *draw(), limits, progress, total)
            os.replace(scratch, path)
    return _made(path)


def own_spool(spec: Spec, block_rows: int, blocks: Blocks, limits: Limits, progress: Progress | None) -> Spool:
    """A spool of this process alone."""
    folder = _folder()
    with _scratch(os.path.join(folder, "own"), folder) as scratch:
        _store(scratch, spec, block_rows, blocks, limits, progress, 0)
        return _made(scratch)


def _folder() -> str:
    folder = cache_folder(_FOLDER)
    if folder is None:
        raise SourceError(
            "rows that are drawn once are written to the cache, and there is none that can be used; set XDG_CACHE_HOME to a folder of your "
            "own, or pass spool=False and samples="
        )
    return folder


@contextmanager
def _scratch(path: str, folder: str) -> Iterator[str]:
    """A scratch file. A full disk is reported as such only while it is made, not when the user's iterable raises."""
    with ExitStack() as made:
        with room_errors(path, folder, _FACTS_BYTES, _WHAT):
            scratch = made.enter_context(scratch_file(path))
        yield scratch


@contextmanager
def _written(path: str, folder: str) -> Iterator[BinaryIO]:
    """A file to write. That its disk is full may be known only when it is closed."""
    with open(path, "wb") as file:
        try:
            yield file
        except BaseException:
            with suppress(OSError):
                file.close()
            raise
        with room_errors(path, folder, _FACTS_BYTES, _WHAT):
            file.close()


def _open(path: str) -> Spool | None:
    """A stored spool; None if it is missing or damaged."""
    if (file := BlockFile.open(path)) is None:
        return None
    facts = file.facts
    manifest = StatedManifest.of("iterable", facts["rows"], facts["digest"], file.size_bytes)
    spec = {name: Field(dtype, tuple(shape), nullable) for name, (dtype, shape, nullable) in facts["columns"].items()}
    return Spool(manifest, spec, facts["block_rows"], file)


def _made(path: str) -> Spool:
    """What was stored a moment ago."""
    if (found := _open(path)) is None:
        raise DataError(f"{path}: written a moment ago, and not there now; something empties the cache")
    return found


def _store(
    path: str, spec: Spec, block_rows: int, blocks: Blocks, limits: Limits, progress: Progress | None, total: int
) -> None:
    """Draws the blocks into a file."""
    state = hashlib.blake2b(repr(sorted(spec.items())).encode(), digest_size=16)
    folder, rows = os.path.dirname(path), 0
    with _written(path, folder) as file:
        writer = BlockWriter(file)
        for block in blocks:
            batch = pa.RecordBatch.from_pydict({name: _stored(block[name], spec[name]) for name in spec})
            for name in spec:
                add_column(state, block[name])
            _check_room(folder, batch.nbytes, writer.size_bytes, limits)
            with room_errors(path, folder, batch.nbytes, _WHAT):
                writer.add(batch)
            rows += batch.num_rows
            if progress is not None:
                progress(rows, max(rows, total))
        if not rows:
            raise SourceError("nothing was drawn: the first item never came")
        columns = {name: (field.dtype, field.shape, field.nullable) for name, field in spec.items()}
        with room_errors(path, folder, _FACTS_BYTES, _WHAT):
            writer.finish({"rows": rows, "digest": state.hexdigest(), "block_rows": block_rows, "columns": columns})


def _check_room(folder: str, coming: int, written: int, limits: Limits) -> None:
    if written + coming > limits.unpacked_bytes:
        raise DataError(
            f"more than {limits.unpacked_bytes:,} bytes were drawn; if that is meant, raise Limits(unpacked_bytes=…)"
        )
    check_room(f"spool, {written:,} bytes so far", folder, coming, _WHAT)


def _stored(column: Any, field: Field) -> pa.Array:
    return binary_column(bytes_of(column), len(column), field.row_bytes) if field.is_fixed else column
