"""The files of a dataset, as columns."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core import kernels
from penstock.core.columns import compute as pc
from penstock.core.columns.plain import as_indices
from penstock.core.columns.spec import Bytes, Ids
from penstock.core.errors import DataError

#: Whether what is unpickled now comes from another machine.
_is_elsewhere = ContextVar("is_elsewhere", default=False)
_DO = "if the data was changed on purpose, open the dataset again"


@dataclass(frozen=True, eq=False)
class Shards:
    """The files of a dataset, as columns.

    paths: large_string, the storage's name of each file. sizes: int64, bytes. versions: int64, modification time in ns (or
    a hash of the ETag or date), which shows that a cached index is stale. root: the common prefix of all paths, or "".
    root_lengths: int64, the length of each path's own listed root, if several were listed; else None.
    etags: large_string, the store's identifier of each file's content, sent with every request (see
    `storage.stores.version`), or ""; None for files.
    copied: which of them are local files made from remote ones; None if none are.
    stamps: int64 of shape (files, 3), for local files as they were listed: the times of the last modification and of the last change in
    ns, and the inode. A row of -1, or None, where that is not known.
    made_of: the listed files, one each, that these were made of where they lie in the cache in another form, or are themselves: who
    reads these checks those. None where these are what was listed, or copies of files that lie elsewhere.
    """

    paths: pa.LargeStringArray
    sizes: Ids
    versions: Ids
    root: str = ""
    root_lengths: Ids | None = None
    etags: pa.LargeStringArray | None = None
    copied: npt.NDArray[np.bool_] | None = None
    stamps: Ids | None = None
    made_of: Shards | None = field(default=None, repr=False)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({**state, "stamps": None, "made_of": None} if _is_elsewhere.get() else state)

    def __len__(self) -> int:
        return len(self.sizes)

    def path(self, shard: int) -> str:
        """The name of one shard."""
        return str(self.paths[shard])

    @property
    def several_roots(self) -> bool:
        """Whether several roots were listed."""
        return self.root_lengths is not None

    def has_version(self, shard: int) -> bool:
        """Whether the store distinguishes this version of a shard from others of the same name and size."""
        return int(self.versions[shard]) not in _NO_VERSIONS

    @cached_property
    def is_local(self) -> bool:
        """Whether all files are local paths, which can be opened and mapped."""
        if self.stamps is not None:  # as the operating system listed them
            return True
        elsewhere = pc.or_(pc.invert(pc.starts_with(self.paths, os.sep)), pc.match_substring(self.paths, "://"))
        return not pc.any(elsewhere).as_py()

    @cached_property
    def identity(self) -> str | None:
        """32 hex digits that name these files as they are now; None where one may be replaced unnoticed, or its name says not where it lies."""
        if not self.is_local:
            is_url = pc.all(pc.match_substring(self.paths, "://")).as_py()
            if not is_url or np.isin(self.versions, [*_NO_VERSIONS]).any():
                return None
        state = hashlib.blake2b(digest_size=16)
        for numbers in (*self.path_buffers, self.sizes, self.versions):
            state.update(np.ascontiguousarray(numbers).data)
        return state.hexdigest()

    @cached_property
    def path_buffers(self) -> tuple[Ids, Bytes]:
        """All names for native code: their offsets (int64, one more than there are names), and their bytes."""
        is_large = self.paths.type == pa.large_string()  # a storage of the user's may list text of another type
        paths = self.paths if is_large else self.paths.cast(pa.large_string())
        _, offsets, names = paths.buffers()
        first = paths.offset
        begins = np.frombuffer(offsets, dtype=np.int64)[first : first + len(self) + 1]
        return begins, np.frombuffer(names or b"", dtype=np.uint8)

    def ending_with(self, *endings: str, any_case: bool = False) -> npt.NDArray[np.bool_]:
        """Which paths have one of the endings. any_case: ASCII letters of either case are the same."""
        return kernels.names_end_with(*self.path_buffers, endings, any_case)

    @cached_property
    def names(self) -> pa.LargeStringArray:
        """Every file's name below the folder that was read: "cat/a.png"."""
        if self.root_lengths is None:
            return pc.utf8_slice_codeunits(self.paths, len(self.root))
        parts, places = [], []
        for length in np.unique(self.root_lengths).tolist():
            places.append(np.flatnonzero(self.root_lengths == length))
            parts.append(pc.utf8_slice_codeunits(self.paths.take(as_indices(places[-1])), length))
        return pa.concat_arrays(parts).take(as_indices(np.argsort(np.concatenate(places))))

    def take(self, rows: Ids) -> Shards:
        """The shards of the given numbers, in that order."""
        taken = as_indices(rows)
        return Shards(
            self.paths.take(taken),
            self.sizes[rows],
            self.versions[rows],
            self.root,
            None if self.root_lengths is None else self.root_lengths[rows],
            None if self.etags is None else self.etags.take(taken),
            None if self.copied is None else self.copied[rows],
            None if self.stamps is None else self.stamps[rows],
            None if self.made_of is None else self.made_of.take(rows),
        )

    @property
    def as_made_of(self) -> Shards | None:
        """These, for `made_of` of files that are made of them; None for what the operating system did not list, and for copies, which the cache may drop."""
        return self if self.stamps is not None and self.copied is None else None

    def check_now(self, shard: int) -> None:
        """DataError if a local file is gone, or is not what it was when it was listed; for what opens it by its path.

        Permissions and links change the second number of a stamp alone, and some file systems number their inodes anew: only both together
        are another file.
        """
        path = self.path(shard)
        try:
            now = os.stat(path)
        except OSError as error:
            raise DataError(f"{path}: {error.strerror}; {_DO}") from None
        modified, changed, inode = (-1, -1, -1) if self.stamps is None else self.stamps[shard].tolist()
        if not stat.S_ISREG(now.st_mode):
            found = "no regular file, which it was when it was listed"
        elif now.st_size != self.sizes[shard]:
            found = f"{now.st_size:,} bytes now, {self.sizes[shard]:,} when it was listed"
        elif modified != -1 and (
            now.st_mtime_ns != modified or (now.st_ctime_ns != changed and now.st_ino != inode % (1 << 64))
        ):
            found = "replaced or rewritten since it was listed"
        else:
            return
        raise DataError(f"{path}: {found}; {_DO}")


@contextmanager
def from_another_machine() -> Iterator[None]:
    """What is unpickled meanwhile was listed on another machine: its copies of the files have other times and inodes, which nobody compares then."""
    before = _is_elsewhere.set(True)
    try:
        yield
    finally:
        _is_elsewhere.reset(before)


def joined_shards(several: Sequence[Shards]) -> Shards:
    """The files of several datasets, one after the other, without what is known of some only."""
    sizes, versions = (np.concatenate([getattr(one, name) for one in several]) for name in ("sizes", "versions"))
    stamps = [one.stamps for one in several if one.stamps is not None]
    is_made = any(one.made_of is not None for one in several)
    return Shards(
        pa.concat_arrays([one.paths for one in several]),
        sizes,
        versions,
        stamps=np.concatenate(stamps) if len(stamps) == len(several) else None,
        made_of=joined_shards([one.made_of or one for one in several]) if is_made else None,
    )


def version_number(version: str) -> int:
    """A store's version text as a 64-bit number."""
    return int.from_bytes(hashlib.blake2b(version.encode(), digest_size=8).digest(), "little", signed=True)


#: The numbers for no version: of no text, and of the date that obstore reports for objects without one.
_NO_VERSIONS = frozenset((version_number(""), version_number("1970-01-01 00:00:00+00:00")))
