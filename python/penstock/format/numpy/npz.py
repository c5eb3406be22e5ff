"""NumPy's .npz files: zip archives of arrays. The arrays are columns and must be equally long; several files are shards.

Arrays that are stored plainly (np.savez) are mapped where they lie; packed ones (np.savez_compressed) and those in Fortran's order
are unpacked once, into the cache. Archives that lie elsewhere are copied there first.
"""

from __future__ import annotations

import errno
import lzma
import shutil
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from io import BufferedReader
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from penstock.core.columns.ragged import edges_of
from penstock.core.columns.spec import Ids
from penstock.core.errors import DataError, PenstockError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.limits import Limits
from penstock.core.verbs.options import Options
from penstock.derived.downloads import copies_of, naming
from penstock.derived.files import derived_file
from penstock.format.numpy.npy import HEADER_BYTES, NpyHeader, header_bytes, parse_header, turn
from penstock.source.arrays.sliced import ArrayFacts, check_alike, rows_of
from penstock.source.arrays.strided import Mapped, PlacedColumn, PlacedColumns, StoredColumn, distinct_columns, leaves
from penstock.source.manifest import Manifest
from penstock.source.selection import Selection
from penstock.source.tables.ranged_file import RangedFile

_SUFFIX = ".npy"
#: A member's own header in front of its name (PKWARE APPNOTE 4.3.7): its magic, and the lengths of what follows it.
_LOCAL_HEADER = struct.Struct("<4s22xHH")
#: What zipfile and its decoders raise about damage; their OSErrors are told apart below.
_DAMAGED = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, struct.error, UnicodeDecodeError, RuntimeError
)  # fmt: skip
#: Below this size, what is packed may be of any ratio.
_RATIO_FROM = 1 << 20


@dataclass(frozen=True)
class _Member:
    """An array of an archive, by the archive's number: its header, the file and byte where its values begin, and the archive's version."""

    shard: int
    header: NpyHeader
    path: str
    start: int
    file_bytes: int
    version: int


_Members = dict[str, _Member]


def open_npz(shards: Shards, read: ByteRanges, options: Options) -> PlacedColumns:
    """Opens archives; every one must hold the chosen arrays, with the dtypes and row shapes of the first."""
    copies = copies_of(shards, read, options)
    with naming(shards, copies.paths.to_pylist()):
        source = _open_local(copies, read, options)
    return replace(source, manifest=replace(source.manifest, shards=shards))


def _open_local(shards: Shards, read: ByteRanges, options: Options) -> PlacedColumns:
    with _archive(shards, 0, read) as (archive, _file):
        names = [name.removesuffix(_SUFFIX) for name in archive.namelist() if name.endswith(_SUFFIX)]
    wanted = _wanted(options, names)
    found = [_open_shard(shards, shard, read, wanted, options.limits) for shard in range(len(shards))]
    selection, where = Selection(options.columns), shards.path(0)
    each_column = (
        (name, (array, column))
        for array, member in found[0].items()
        for name, column in leaves(member.header.dtype, member.header.shape[1:], where, array)
    )
    offered = distinct_columns(each_column, where)
    selection.choose(offered if len(wanted) == len(names) else [*offered, *names], where)
    features = selection.choose_stored({name: column.field for name, (_, column) in offered.items()}, where)
    facts = [
        {name: ArrayFacts(one.header.shape, one.header.dtype) for name, one in members.items()} for members in found
    ]
    rows = [
        rows_of({name: one.shape for name, one in each.items()}, shards.path(shard)) for shard, each in enumerate(facts)
    ]
    for shard, each in enumerate(facts):
        for name, one in each.items():
            check_alike(facts[0][name], one, name, (where, shards.path(shard)))
    mapped = {member.path: member for members in found for member in members.values()}
    number = {path: place for place, path in enumerate(mapped)}
    placed = {}
    for name, feature in features.items():
        array, column = offered[feature]
        placed[name] = _placed(column, [members[array] for members in found], number)
    manifest = Manifest("npz", shards, edges_of(rows))
    return PlacedColumns(manifest, placed, Mapped(_files(mapped, shards), read))


def _files(members: Mapping[str, _Member], archives: Shards) -> Shards:
    """The files that are mapped: archives, and what was made of them."""
    stamps = None
    if archives.stamps is not None:
        stamp = dict(zip(archives.paths.to_pylist(), archives.stamps, strict=True))
        stamps = np.array([stamp.get(path, [-1, -1, -1]) for path in members], dtype=np.int64)
    sizes, versions, shard = (
        np.array([getattr(member, name) for member in members.values()], dtype=np.int64)
        for name in ("file_bytes", "version", "shard")
    )
    made_of = None if archives.as_made_of is None else archives.take(shard)
    return Shards(pa.array(list(members), pa.large_string()), sizes, versions, stamps=stamps, made_of=made_of)


def _wanted(options: Options, names: list[str]) -> list[str]:
    """The arrays that the asked columns are of: all of them if none are asked for, or one is not there."""
    features = Selection(options.columns).features(names)
    found = [name for name in names if any(f"{feature}.".startswith(f"{name}.") for feature in features)]
    return found or names


def _placed(column: StoredColumn, members: list[_Member], number: Mapping[str, int]) -> PlacedColumn:
    files = np.array([number[member.path] for member in members], dtype=np.int64)
    starts: Ids = np.array([member.start + column.at for member in members], dtype=np.int64)
    return PlacedColumn(column, files, starts, members[0].header.row_bytes)


@contextmanager
def _archive(shards: Shards, shard: int, read: ByteRanges) -> Iterator[tuple[zipfile.ZipFile, BinaryIO]]:
    """An open archive and its file; DataError for a damaged one."""
    path = shards.path(shard)
    try:
        with BufferedReader(RangedFile(shards, shard, read)) as file, zipfile.ZipFile(file) as archive:
            yield archive, file
    except PenstockError:
        raise
    except _DAMAGED as error:
        raise DataError(f"{path}: the zip archive is damaged ({error}); write it again") from None
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        raise DataError(f"{path}: {error.strerror or error}") from None


def _open_shard(shards: Shards, shard: int, read: ByteRanges, wanted: Iterable[str], limits: Limits) -> _Members:
    path = shards.path(shard)
    with _archive(shards, shard, read) as (archive, file):
        known = {info.filename: info for info in archive.infolist()}
        if len(known) != len(archive.infolist()):
            raise DataError(f"{path}: two members have one name; write the archive again")
        for name in wanted:
            if name + _SUFFIX not in known:
                raise DataError(f"{path}: no array {name!r}, which {shards.path(0)} has; read the files apart")
        return {name: _member(shards, shard, archive, file, known[name + _SUFFIX], limits) for name in wanted}


def _member(
    shards: Shards, shard: int, archive: zipfile.ZipFile, file: BinaryIO, info: zipfile.ZipInfo, limits: Limits
) -> _Member:
    path, where = shards.path(shard), f"{shards.path(shard)}, {info.filename}"
    version = int(shards.versions[shard])
    if info.flag_bits & 1:
        raise DataError(f"{where}: is encrypted; save it without a password")
    packed = info.compress_type != zipfile.ZIP_STORED
    _check_size(where, info, limits)
    with archive.open(info) as stream:
        head = stream.read(12)
        header = parse_header(head + stream.read(min(HEADER_BYTES, header_bytes(head, where))), where)
    if header.start + header.size_bytes != info.file_size:
        raise DataError(
            f"{where}: {info.file_size:,} bytes, its header asks for {header.start + header.size_bytes:,}; write it again"
        )
    if not packed and not header.fortran:
        start = _data_start(file, info, where) + header.start
        return _Member(shard, header, path, start, int(shards.sizes[shard]), version)
    kind = f"npz member {info.filename} in C's order"
    made = derived_file(shards, shard, kind, info.file_size, partial(_unpack, archive, info))
    if not header.fortran:
        return _Member(shard, header, made, header.start, info.file_size, version)
    kind = f"npz member {info.filename} turned"
    turned = derived_file(shards, shard, kind, header.size_bytes, partial(turn, made, header))
    return _Member(shard, header, turned, 0, header.size_bytes, version)


def _check_size(where: str, info: zipfile.ZipInfo, limits: Limits) -> None:
    if info.file_size > limits.unpacked_bytes:
        raise DataError(
            f"{where}: {info.file_size:,} bytes unpacked, Limits(unpacked_bytes={limits.unpacked_bytes:,}) allows fewer"
        )
    if info.file_size > max(_RATIO_FROM, limits.ratio * info.compress_size):
        raise DataError(
            f"{where}: {info.compress_size:,} bytes say that they unpack to {info.file_size:,}; Limits(ratio={limits.ratio}) "
            f"allows less, raise it if that is right"
        )


def _unpack(archive: zipfile.ZipFile, info: zipfile.ZipInfo, out: BinaryIO) -> None:
    with archive.open(info) as stream:  # stops at the size that was checked, and compares the checksum there
        shutil.copyfileobj(stream, out, 1 << 20)
    if out.tell() != info.file_size:
        raise EOFError(f"{info.filename} holds {out.tell():,} bytes of {info.file_size:,}")


def _data_start(file: BinaryIO, info: zipfile.ZipInfo, where: str) -> int:
    """The byte of the archive where a stored member's data begins."""
    file.seek(info.header_offset)
    head = file.read(_LOCAL_HEADER.size)
    if len(head) < _LOCAL_HEADER.size or not head.startswith(b"PK\x03\x04") or info.compress_size != info.file_size:
        raise DataError(f"{where}: the archive's list and the member's own header disagree; write it again")
    _, name, extra = _LOCAL_HEADER.unpack(head)
    start: int = info.header_offset + _LOCAL_HEADER.size + name + extra
    return start
