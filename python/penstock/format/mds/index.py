"""The index.json files of MDS and LitData: read with bounds, every value checked before it is used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.core.errors import DataError, SourceError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.derived.decompressed_shards import read_whole
from penstock.format.claims import INDEX, index_files

_AGAIN = "the index is damaged: write it again"
#: Larger numbers are no sizes and no counts.
_MOST = 1 << 48


@dataclass(frozen=True)
class NamedFile:
    """A file that an index names: its number among the shards, None if it is not there, its size and hashes as stated."""

    name: str
    shard: int | None
    bytes: int
    hashes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class MdsShard:
    """What an index says of one shard, or of all; the methods raise DataError for values that cannot be.

    where: the index. values: as in the file. files: number of each file that was listed, by its path. folder: of the index.
    """

    where: str
    values: Mapping[str, Any]
    files: Mapping[str, int] = field(repr=False)
    folder: str

    def damaged(self, found: str) -> DataError:
        """The error for what cannot be."""
        return DataError(f"{self.where}: {found}; {_AGAIN}")

    def _get(self, key: str, kind: type | tuple[type, ...], what: str) -> Any:
        value = self.values.get(key)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.damaged(f"{key!r} is {repr(value)[:80]} where {what} belongs")
        return value

    def number(self, key: str) -> int:
        """A count or a size."""
        value = self._get(key, int, "a number")
        if not 0 <= value <= _MOST:
            raise self.damaged(f"{key!r} is {value}")
        return int(value)

    def text(self, key: str) -> str:
        """A name."""
        return str(self._get(key, str, "a text"))

    def texts(self, key: str) -> tuple[str, ...]:
        """Names."""
        values = self._get(key, list, "a list of texts")
        if not all(isinstance(value, str) for value in values):
            raise self.damaged(f"{key!r} is no list of texts")
        return tuple(values)

    def sizes(self, key: str) -> tuple[int | None, ...]:
        """Sizes, None among them."""
        values = self._get(key, list, "a list of sizes")
        if not all(value is None or (type(value) is int and 0 <= value <= _MOST) for value in values):
            raise self.damaged(f"{key!r} is no list of sizes")
        return tuple(values)

    def file(self, name: str) -> int | None:
        """The number of a file beside the index, None if it was not listed."""
        return self.files.get(self.folder + name)

    def place(self, key: str) -> NamedFile | None:
        """A file with its size and hashes; None where the index has null."""
        if self.values.get(key) is None:
            return None
        inner = MdsShard(self.where, self._get(key, dict, "a file"), self.files, self.folder)
        hashes = inner.values.get("hashes") or {}
        if not isinstance(hashes, dict) or not all(isinstance(value, str) for value in hashes.values()):
            raise self.damaged(f"the hashes of {key!r} are no texts")
        name = inner.text("basename")
        return NamedFile(name, self.file(name), inner.number("bytes"), hashes)


def read_json(shards: Shards, read: ByteRanges, kind: str) -> list[MdsShard]:
    """Every index.json, or only the outermost if there is one above all others.

    Raises SourceError if there is none, DataError for one that is damaged.
    """
    paths: list[str] = shards.paths.to_pylist()
    found = index_files(shards)
    if not found:
        where = paths[0] if paths else "nothing"
        raise SourceError(f"{where}: {kind} shards are read through the {INDEX} beside them; point to their folder")
    folders = [paths[number].removesuffix(INDEX) for number in found]
    above = [
        number for number, folder in zip(found, folders, strict=True) if all(o.startswith(folder) for o in folders)
    ]
    files = {path: number for number, path in enumerate(paths)}
    return [
        MdsShard(
            paths[number],
            _parse(paths[number], read_whole(shards, number, read).tobytes()),
            files,
            paths[number].removesuffix(INDEX),
        )
        for number in above or found
    ]


def entries_of(index: MdsShard, key: str) -> list[MdsShard]:
    """The entries of one list of an index; DataError if there are none."""
    values = index.values.get(key)
    if not isinstance(values, list) or not values or not all(isinstance(value, dict) for value in values):
        raise index.damaged(f"no list of {key}")
    return [MdsShard(index.where, value, index.files, index.folder) for value in values]


def _parse(where: str, text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: no JSON ({str(error)[:80]}); {_AGAIN}") from None
    if not isinstance(found, dict):
        raise DataError(f"{where}: {type(found).__name__} where an object belongs; {_AGAIN}")
    return found
