"""Files made from the data once and kept in the user's cache: downloads, decompressed shards, other layouts, decoded parts.

Whichever process comes first makes a file, and the others wait for it. It is written aside and renamed, so it is whole or absent. Room
is made for it first, and a lease keeps it from eviction as long as it is in use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import BinaryIO

from penstock.core.errors import SourceError
from penstock.core.files.cache_dirs import cache_folder
from penstock.core.files.scratch import check_room, room_errors, whole_file
from penstock.core.files.shards import Shards
from penstock.derived.file_indexes import part_key
from penstock.derived.lease import hold, make_room
from penstock.derived.lock import one_maker

#: What a lease takes of the disk.
_LEASE_BYTES = 4096


class DerivedFiles:
    """Files of a folder of the cache, by name. None of them is evicted before `release` is called, or the process ends.

    what: for messages, what is made of `where`, for example "a copy". SourceError if there is no cache, StorageError if its disk is full.
    """

    def __init__(self, folder: str, names: Iterable[str], where: str, what: str) -> None:
        found = cache_folder(folder)
        if found is None:
            raise SourceError(f"{where}: {what} is written to the cache first, and there is none; set XDG_CACHE_HOME")
        self.folder, self.where, self._what = found, where, what
        with room_errors(where, found, _LEASE_BYTES, what):
            self.release = hold(found, names)

    def path(self, name: str) -> str:
        """Where a file is, or will be."""
        return os.path.join(self.folder, name)

    def size(self, name: str) -> int | None:
        """The bytes of a file; None if it is not there."""
        try:
            return os.stat(self.path(name)).st_size
        except OSError:
            return None

    def missing(self, sizes: Mapping[str, int | None]) -> list[str]:
        """The names of those that are not there, or of another size; None for a size that is not known."""
        found = {name: self.size(name) for name in sizes}
        return [name for name, size in sizes.items() if found[name] is None or size not in (None, found[name])]

    def remove(self, names: Iterable[str]) -> None:
        """Removes files that nobody will read; those that are missing are no error."""
        for name in names:
            with suppress(OSError):
                os.unlink(self.path(name))

    def make(self, sizes: Mapping[str, int | None], make: Callable[[list[str]], object]) -> None:
        """Have `make` write the missing files, each by `writing`, unless another process does."""
        if not self.missing(sizes):
            return
        with one_maker(self.folder, sizes):
            if missing := self.missing(sizes):
                make_room(self.folder, sum(sizes[name] or 0 for name in missing))
                make(missing)

    @contextmanager
    def writing(self, name: str, needed_bytes: int, where: str | None = None) -> Iterator[str]:
        """A path to write a file to, which has its name once this ends; StorageError if the disk is full."""
        where = where or self.where
        with room_errors(where, self.folder, needed_bytes, self._what):
            check_room(where, self.folder, needed_bytes, self._what)
            with whole_file(self.path(name)) as scratch:
                yield scratch

    def get(self, name: str, size: int, write: Callable[[BinaryIO], object]) -> str:
        """The path of one file of this size, made by `write` if need be."""

        def make(_: list[str]) -> None:
            with self.writing(name, size) as scratch, open(scratch, "w+b") as file:
                write(file)

        self.make({name: size}, make)
        return self.path(name)


def derived_file(shards: Shards, shard: int, kind: str, size_bytes: int, write: Callable[[BinaryIO], object]) -> str:
    """The path of the file of `size_bytes` that `write` makes of a shard; cached, and held as long as this process runs.

    kind: names what is made, and how. Raises as `DerivedFiles`.
    """
    path = shards.path(shard)
    key = part_key(kind, 1, shards, shard)
    return DerivedFiles("unpacked", [key], path, kind).get(key, size_bytes, write)
