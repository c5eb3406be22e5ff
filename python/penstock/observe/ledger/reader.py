"""Reads ledger files. Damage is a DataError with its place; a last record that a kill cut off is left out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from penstock.core.errors import DataError, SourceError
from penstock.core.files.plain_file import open_plain
from penstock.observe.ledger.format import (
    HEAD_BYTES,
    MAGIC,
    SUFFIX,
    EpochSize,
    LedgerHeader,
    Mark,
    RecordKind,
    StepsHead,
    TakenSteps,
    check_body,
    check_head,
    damaged,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundRecord:
    """A record of a file: a mark, what an epoch holds, or what steps it is of and where its body lies."""

    at: int
    length: int
    mark: Mark | None = None
    size: EpochSize | None = None
    head: StepsHead | None = None


@dataclass(frozen=True, kw_only=True)
class LedgerFile:
    """A file of which every checksum was compared. torn_bytes: bytes of a last record that was cut off."""

    path: str
    header: LedgerHeader
    records: tuple[FoundRecord, ...]
    torn_bytes: int

    @property
    def name(self) -> str:
        """Its name without the folder."""
        return os.path.basename(self.path)

    def steps(self, found: Sequence[FoundRecord]) -> Iterator[TakenSteps]:
        """The steps of some of its records."""
        with _opened(self.path) as file:
            for record in found:
                file.seek(record.at)
                body = file.read(record.length)
                yield _decoded(TakenSteps.decode, body, f"{self.path}, byte {record.at:,}")


def ledger_paths(paths: Sequence[str]) -> list[str]:
    """The ledger files that files and folders stand for; SourceError where there is none."""
    found: list[str] = []
    for path in map(os.path.expanduser, paths):
        if os.path.isdir(path):
            inside = sorted(name for name in _names(path) if name.endswith(SUFFIX))
            if not inside:
                raise SourceError(
                    f"{path}: no {SUFFIX} files in this folder; pass the folder that was Loader(…, ledger=…)"
                )
            found += inside
        elif os.path.exists(path):
            found.append(path)
        else:
            raise SourceError(f"{path}: no such file or folder; pass the folder that was Loader(…, ledger=…)")
    return sorted({os.path.realpath(path): path for path in found}.values())


def _names(folder: str) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(folder)]
    except OSError as error:
        raise _unreadable(folder, error) from error


def read_ledger(path: str) -> LedgerFile | None:
    """A file, read from beginning to end; None if it was killed before its header was written. DataError where it is damaged."""
    with _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        magic = file.read(len(MAGIC))
        if not MAGIC.startswith(magic):
            raise DataError(
                f"{path}: no ledger of this version of Penstock: it begins with {magic!r}; pass other files, or the version that wrote it"
            )
        header, records = None, []
        at = len(magic)
        while (found := _next_record(file, path, at, size)) is not None:
            kind, body = found
            where = f"{path}, byte {at:,}"
            if header is None:
                if kind != RecordKind.HEADER:
                    raise damaged(where, f"a record of kind {kind} stands where the header belongs")
                header = _decoded(LedgerHeader.decode, body, where)
            else:
                records.append(_record(kind, body, at + HEAD_BYTES, where))
            at += HEAD_BYTES + len(body)
    if header is None:
        return None
    return LedgerFile(path=path, header=header, records=tuple(records), torn_bytes=size - at)


def _next_record(file: BinaryIO, path: str, at: int, size: int) -> tuple[int, bytes] | None:
    """Kind and body of the record at a place; None where the file ends, or what follows was cut off."""
    head = file.read(HEAD_BYTES)
    if len(head) < HEAD_BYTES:
        return None
    where = f"{path}, byte {at:,}"
    if not any(head):  # a file system that lost power may have made the file longer, and not written its bytes
        while piece := file.read(1 << 20):
            if any(piece):
                raise damaged(where, "zeros stand where a record belongs")
        return None
    kind, length, body_sum = check_head(head, where)
    if at + HEAD_BYTES + length > size:
        return None
    body = file.read(length)
    check_body(body, body_sum, where)
    return kind, body


def _record(kind: int, body: bytes, at: int, where: str) -> FoundRecord:
    if kind == RecordKind.MARK:
        return FoundRecord(at=at, length=len(body), mark=_decoded(Mark.decode, body, where))
    if kind == RecordKind.EPOCH:
        return FoundRecord(at=at, length=len(body), size=_decoded(EpochSize.decode, body, where))
    if kind == RecordKind.STEPS:
        return FoundRecord(at=at, length=len(body), head=_decoded(StepsHead.decode, body, where))
    raise damaged(where, f"a record of kind {kind}, which this version does not know")


def _decoded(decode: Any, body: bytes, where: str) -> Any:
    try:
        return decode(body)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise damaged(where, str(error)) from None


def _opened(path: str) -> BinaryIO:
    try:
        return open_plain(path)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: OSError) -> SourceError:
    return SourceError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions")


def data_of(paths: Sequence[str]) -> str:
    """The digest of the data that the first of these ledgers is of."""
    for path in ledger_paths(paths):
        file = read_ledger(path)
        if file is not None:
            return file.header.data
    raise SourceError(f"{', '.join(paths)}: no ledger has a whole header; there is nothing to verify")
