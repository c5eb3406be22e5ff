"""Rows that are drawn once and cached: an Arrow IPC file of blocks, memory-mapped.

Fixed columns are stored as fixed-size binary, a row's bytes each; text, bytes and lists as Arrow has them. A kept spool is
two files, `<key>.arrow` and then `<key>.json`, which says what is in it; each appears whole or not at all. A spool without
a key belongs to this process: its file has no name any more once it is open.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core import kernels
from penstock.core.arguments import is_whole
from penstock.core.columns.digest import add_column
from penstock.core.columns.spec import Bytes, Columns, Field, Ids, Spec, field_of_type
from penstock.core.cpus import usable_cpus
from penstock.core.errors import DataError, SourceError
from penstock.core.files.byte_ranges import Progress
from penstock.core.files.cache_dirs import cache_folder
from penstock.core.files.scratch import check_room, room_errors, scratch_file
from penstock.core.limits import Limits
from penstock.derived.lock import one_maker
from penstock.source.manifest import Manifest, StatedManifest
from penstock.source.protocol import Access

_VERSION = 1
_FOLDER = "spool"
_WHAT, _FACTS_BYTES = "the rows that are drawn (or pass spool=False to keep none)", 4096

#: Blocks of columns with equally many rows each, the last perhaps fewer.
Blocks = Iterator[Columns]


@dataclass(frozen=True, eq=False)
class BlockSums:
    """Checksums (CRC-32C) of the bytes of each block in the mapped file, and of what follows the last one."""

    data: Bytes
    begin: Ids
    length: Ids
    sums: npt.NDArray[np.uint32]

    @classmethod
    def made(cls, data: Bytes, ends: Sequence[int]) -> BlockSums:
        """Of blocks that end at these bytes; the first begins behind Arrow's schema, where `ends` begins."""
        begin = np.array(ends, dtype=np.int64)
        length = np.diff(begin, append=len(data))
        return cls(data, begin, length, kernels.crc32c_sums(data, begin, length, usable_cpus()))

    @classmethod
    def of(cls, data: Bytes, facts: Sequence[tuple[int, int]]) -> BlockSums:
        """Those that a spool's facts say; ArrowInvalid where the end of the file is damaged."""
        begin = np.array([first for first, _ in facts], dtype=np.int64)
        found = cls(data, begin, np.diff(begin, append=len(data)), np.array([crc for _, crc in facts], dtype=np.uint32))
        found.check(len(facts) - 1)
        return found

    @property
    def facts(self) -> list[tuple[int, int]]:
        """Where each begins, and its checksum."""
        return list(zip(self.begin.tolist(), self.sums.tolist(), strict=True))

    def check(self, number: int) -> None:
        """ArrowInvalid where a block is not as it was written."""
        which = slice(number, number + 1)
        found = kernels.crc32c_sums(self.data, self.begin[which], self.length[which], 1)
        if found[0] != self.sums[number]:
            raise pa.ArrowInvalid(f"block {number:,} has another checksum than when it was written")


@dataclass(frozen=True, eq=False)
class Spool:
    """Rows out of a spool, any of them at any time."""

    manifest: Manifest
    spec: Spec
    block_rows: int
    batches: tuple[pa.RecordBatch, ...] = field(repr=False)
    path: str = field(default="", repr=False)
    sums: BlockSums | None = field(default=None, repr=False)
    access: Access = Access.BLOCKS
    _checked: set[int] = field(default_factory=set, repr=False)

    def _whole(self, number: int) -> pa.RecordBatch:
        """A block; what lies where in it is looked at once, when it is first needed."""
        batch = self.batches[number]
        if number not in self._checked:
            try:
                if self.sums is not None:
                    self.sums.check(number)
                for column in batch.columns:
                    column.validate(full=not pa.types.is_fixed_size_binary(column.type))
            except pa.ArrowException as error:
                with suppress(OSError):
                    os.unlink(self.path + ".json")
                raise DataError(
                    f"{self.path}.arrow: the cached rows are damaged ({error}); open the dataset again, which draws them anew"
                ) from None
            self._checked.add(number)
        return batch

    def only(self, names: Sequence[str]) -> Spool:
        """The same rows with these columns alone."""
        return replace(self, spec={name: self.spec[name] for name in names})

    def load(self, first: int, rows: int) -> Columns:
        """Rows [first, first + rows), as places in the mapped file where one block holds them all."""
        number, skip = divmod(first, self.block_rows)
        parts = []
        while rows > 0:
            part = self._whole(number).slice(skip, rows)
            parts.append(part)
            rows, number, skip = rows - part.num_rows, number + 1, 0
        return {name: _loaded([part.column(name) for part in parts], field) for name, field in self.spec.items()}


def _loaded(parts: list[pa.Array], field: Field) -> npt.NDArray[Any] | pa.Array:
    if not field.is_fixed:
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
    arrays = [_rows_of(part, field) for part in parts]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _rows_of(part: pa.Array, field: Field) -> npt.NDArray[Any]:
    if field.row_bytes == 0:
        return np.zeros((len(part), *(axis or 0 for axis in field.shape)), field.numpy_dtype)
    width = field.row_bytes
    held = np.frombuffer(part.buffers()[1], dtype=np.uint8)[width * part.offset : width * (part.offset + len(part))]
    return held.view(field.numpy_dtype).reshape(len(part), *(axis or 0 for axis in field.shape))


# Storing


def kept_spool(
    key: str, draw: Callable[[], tuple[Spec, int, Blocks]], limits: Limits, progress: Progress | None, total: int
) -> Spool:
    """The spool of this name; drawn and stored first if it is not there. Several processes draw it once.

    draw() gives the columns, the rows of a block, and the blocks.
    """
    folder = _folder()
    path = os.path.join(folder, key)
    if (found := _open(path)) is not None:
        return found
    with one_maker(folder, [key]):
        if (found := _open(path)) is not None:  # another process was quicker
            return found
        with _scratch(path, folder) as scratch:
            facts = _store(scratch, *draw(), limits, progress, total)
            os.replace(scratch, path + ".arrow")
        with _scratch(path, folder) as scratch:
            with _written(scratch, folder) as file:
                file.write(json.dumps({**facts, "check": _check_of(facts)}).encode())
            os.replace(scratch, path + ".json")
    found = _open(path)
    if found is None:
        raise DataError(f"{path}.arrow: written a moment ago, and not there now; something empties the cache")
    return found


def own_spool(spec: Spec, block_rows: int, blocks: Blocks, limits: Limits, progress: Progress | None) -> Spool:
    """A spool of this process alone."""
    folder = _folder()
    with _scratch(os.path.join(folder, "own"), folder) as scratch:
        return _mapped(scratch, _store(scratch, spec, block_rows, blocks, limits, progress, 0))


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
    try:
        with open(path + ".json", encoding="utf-8") as file:
            facts = json.load(file)
        check = facts.pop("check", None)
        if facts["version"] != _VERSION or os.stat(path + ".arrow").st_size != facts["size"]:
            return None
        found = _mapped(path + ".arrow", facts)
        return found if check in (None, _check_of(facts)) and _is_possible(found) else None
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
        OverflowError,
        pa.ArrowException,
    ):
        return None  # as good as none


def _is_possible(spool: Spool) -> bool:
    """Whether the blocks are of this many rows and hold these columns, whole: a damaged spool is drawn again."""
    if not is_whole(spool.block_rows):
        return False
    *full, last = [batch.num_rows for batch in spool.batches]
    if not 0 < last <= spool.block_rows or any(rows != spool.block_rows for rows in full):
        return False
    schema = spool.batches[0].schema
    if set(schema.names) != set(spool.spec) or any(batch.schema != schema for batch in spool.batches):
        return False
    for column in (column for batch in spool.batches for column in batch.columns):
        column.validate()
    required = [name for name in schema.names if not spool.spec[name].nullable]
    return not any(batch.column(name).null_count for batch in spool.batches for name in required) and all(
        _holds(schema.field(name).type, field) for name, field in spool.spec.items()
    )


def _holds(kind: pa.DataType, field: Field) -> bool:
    return kind == pa.binary(field.row_bytes or 1) if field.is_fixed else field_of_type(kind) == field.required


def _check_of(facts: dict[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16).hexdigest()


def _mapped(path: str, facts: dict[str, Any]) -> Spool:
    mapped = pa.memory_map(path)
    data = np.frombuffer(mapped.read_buffer(), dtype=np.uint8)
    sums = BlockSums.of(data, facts["sums"]) if "sums" in facts else None  # spools of older versions have none
    reader = pa.ipc.open_file(mapped)
    batches = tuple(reader.get_batch(number) for number in range(reader.num_record_batches))
    samples = sum(batch.num_rows for batch in batches)
    if facts.get("rows", samples) != samples:
        raise ValueError(f"{samples:,} rows")
    manifest = StatedManifest.of("iterable", samples, facts["digest"], facts["size"])
    spec = {name: Field(dtype, tuple(shape), *nullable) for name, (dtype, shape, *nullable) in facts["columns"].items()}
    return Spool(manifest, spec, facts["block_rows"], batches, path.removesuffix(".arrow"), sums)


def _store(
    path: str, spec: Spec, block_rows: int, blocks: Blocks, limits: Limits, progress: Progress | None, total: int
) -> dict[str, Any]:
    """Draws the blocks into a file: what is in it."""
    state = hashlib.blake2b(repr(sorted(spec.items())).encode(), digest_size=16)
    folder, rows, writer = os.path.dirname(path), 0, None
    ends: list[int] = []
    with _written(path, folder) as file:
        for block in blocks:
            batch = pa.RecordBatch.from_pydict({name: _stored(block[name], spec[name]) for name in spec})
            for name in spec:
                add_column(state, block[name])
            _check_room(folder, batch.nbytes, file.tell(), limits)
            with room_errors(path, folder, batch.nbytes, _WHAT):
                writer = writer or pa.ipc.new_file(file, batch.schema)
                ends = ends or [file.tell()]
                writer.write_batch(batch)
                ends.append(file.tell())
                file.flush()
            rows += batch.num_rows
            if progress is not None:
                progress(rows, max(rows, total))
        if writer is None:
            raise SourceError("nothing was drawn: the first item never came")
        with room_errors(path, folder, _FACTS_BYTES, _WHAT):
            writer.close()
            file.flush()
        size = file.tell()
    columns = {
        name: [field.dtype, list(field.shape), *([True] if field.nullable else [])] for name, field in spec.items()
    }
    return {
        "version": _VERSION,
        "size": size,
        "rows": rows,
        "digest": state.hexdigest(),
        "block_rows": block_rows,
        "columns": columns,
        "sums": BlockSums.made(np.memmap(path, np.uint8, "r"), ends).facts,
    }


def _check_room(folder: str, coming: int, written: int, limits: Limits) -> None:
    if written + coming > limits.unpacked_bytes:
        raise DataError(
            f"more than {limits.unpacked_bytes:,} bytes were drawn; if that is meant, raise Limits(unpacked_bytes=…)"
        )
    check_room(f"spool, {written:,} bytes so far", folder, coming, _WHAT)


def _stored(column: Any, field: Field) -> pa.Array:
    if not field.is_fixed:
        return column
    width = field.row_bytes
    held = np.ascontiguousarray(column).reshape(-1).view(np.uint8) if width else np.zeros(len(column), np.uint8)
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width or 1), len(column), [None, pa.py_buffer(held)])
