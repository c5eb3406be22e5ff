"""A quarantine file: one line of JSON for each bad sample, which any number of ranks and runs may write, and `read(…, exclude=…)` reads.

A line is one write at the end of the file, so lines of several processes do not mix, and a killed process leaves at most one that is cut off:
readers leave it out, and the next writer begins a new line behind it.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.arguments import path_of
from penstock.core.columns.spec import Ids
from penstock.core.errors import DataError, PlanError, SourceError, StorageError
from penstock.core.files.plain_file import kind_of, open_plain
from penstock.source.manifest import Manifest

_RANK = "{rank}"
#: Ids and places of records fit so many bits.
_END = 1 << 63


@dataclass(frozen=True, kw_only=True)
class BadSample:
    """A sample that could not be made.

    where, found, do: in words. source: what was opened. data: the digest of its files; sample: the sample's id there. file, record: the file that it lies in, and
    its number there, where there are files. epoch, step: where it was met first; step is None where that is known on the way only.
    """

    where: str
    sample: int
    source: str
    data: str
    found: str
    do: str = ""
    file: str | None = None
    record: int | None = None
    epoch: int | None = None
    step: int | None = None

    @property
    def key(self) -> tuple[str, int]:
        """What tells it from all others."""
        return self.data, self.sample


class Quarantine:
    """Appends bad samples to a file, each once, also where a run before wrote it. `{rank}` in the path stands for the rank."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path_of("quarantine", path)
        if not os.path.isdir(os.path.dirname(self._path) or os.curdir):
            raise PlanError(f"quarantine={self._path!r}: there is no folder {Path(self._path).parent}; make it first")
        self._file: int | None = None
        self._known: set[tuple[str, int]] = set()
        self._lock = threading.Lock()

    def add(self, sample: BadSample, rank: int) -> None:
        """Writes it, unless it stands there."""
        path = self._path.replace(_RANK, str(rank))
        with self._lock:
            try:
                if self._file is None:
                    self._file = self._open(path)
                if sample.key not in self._known:
                    self._known.add(sample.key)
                    os.write(self._file, _line(sample))
            except OSError as error:
                raise StorageError(f"{path}: {error.strerror}; name a quarantine file that can be written") from error

    def _open(self, path: str) -> int:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        found = os.fstat(file)
        if stat.S_ISFIFO(found.st_mode):  # what nobody reads is full soon
            os.close(file)
            raise OSError(errno.EINVAL, f"it is {kind_of(found.st_mode)}")
        size = found.st_size
        if size:
            self._known = {sample.key for sample in read_quarantine(path)}
            if os.pread(file, 1, size - 1) != b"\n":
                os.write(file, b"\n")
        return file

    def close(self) -> None:
        """Closes the file; `add` opens it again."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
            self._file = None


def read_quarantine(path: str | os.PathLike[str]) -> list[BadSample]:
    """The bad samples of a file. SourceError if it is not there, DataError for a line that no quarantine file has."""
    try:
        with open_plain(path) as file:
            content = file.read()
    except FileNotFoundError:
        raise SourceError(
            f"{os.fspath(path)}: no quarantine file is there; Loader(…, quarantine=…) writes one"
        ) from None
    except OSError as error:
        raise StorageError(f"{os.fspath(path)}: {error.strerror}; name a quarantine file that can be read") from error
    return list(_samples(os.fspath(path), content))


def ids_in(bad: Sequence[BadSample], manifest: Manifest) -> Ids:
    """The id of each bad sample in some data, -1 for those that lie elsewhere: of the same data by their ids, of other data by their files."""
    names = pa.array([sample.file for sample in bad], pa.large_string())
    edges = manifest.first_sample.tolist()
    found = np.full(len(bad), -1, dtype=np.int64)
    for number, shard in enumerate(pc.index_in(names, manifest.shards.paths).to_pylist()):
        sample, record = bad[number], bad[number].record or 0
        if sample.data == manifest.digest and 0 <= sample.sample < manifest.samples:
            found[number] = sample.sample
        elif sample.file is not None and shard is not None and 0 <= record < edges[shard + 1] - edges[shard]:
            found[number] = edges[shard] + record
    return found


def _samples(path: str, content: bytes) -> Iterator[BadSample]:
    lines = content.split(b"\n")
    for number, line in enumerate(lines):
        if not line:
            continue
        try:
            yield _sample(json.loads(line))
        except (ValueError, TypeError, KeyError, RecursionError):
            if number == len(lines) - 1 or not line.endswith(b"}"):  # cut off when its process was killed
                continue
            raise DataError(
                f"{path}, line {number + 1}: is no line of a quarantine file; pass what Loader(…, quarantine=…) wrote"
            ) from None


def _sample(found: Any) -> BadSample:
    sample = BadSample(**found)
    if not all(isinstance(number, int) and abs(number) < _END for number in (sample.sample, sample.record or 0)):
        raise TypeError
    if not all(isinstance(text, str) for text in (sample.data, sample.file or "")):
        raise TypeError
    (sample.file or "").encode()  # ValueError for half of a surrogate pair
    return sample


def _line(sample: BadSample) -> bytes:
    return json.dumps(asdict(sample)).encode() + b"\n"
