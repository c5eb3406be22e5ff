"""Which rows were picked, by the data and what picked them: kept in the cache, so that the next process need not look at the data."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence

import numpy as np

from penstock.core.columns.picked_rows import RowNumbers
from penstock.core.files.cache_dirs import cache_folder
from penstock.derived.file_indexes import load_checked, write_checked
from penstock.derived.lock import one_maker

_FOLDER = "chosen"
#: The start of every file; another layout gets another number.
_MAGIC = b"PSTKCH01"
#: Rows picked, rows that there are, and bytes of a number: 0 where there is a bit for every row.
_HEADER = struct.Struct("<qqq")


def kept_choices(keys: Sequence[str], make: Callable[[], Sequence[RowNumbers]]) -> list[RowNumbers]:
    """What `make` picks, one for each key: out of the cache, or made by one process while the others wait. Without a cache, made."""
    folder = cache_folder(_FOLDER)
    if folder is None:
        return list(make())
    paths = [os.path.join(folder, f"{key}.chosen") for key in keys]
    if found := _load_all(paths):
        return found
    with one_maker(folder, keys):
        if found := _load_all(paths):  # another process was quicker
            return found
        made = list(make())
        for path, one in zip(paths, made, strict=True):
            _store(path, one)
    return made


def _load_all(paths: Sequence[str]) -> list[RowNumbers]:
    """All of them, or none where one is missing or damaged."""
    found = [one for one in map(_load, paths) if one is not None]
    return found if len(found) == len(paths) else []


def _store(path: str, picked: RowNumbers) -> None:
    """Without room or permission nothing is stored, and the data is looked at again next time."""
    numbers = picked.numbers
    if picked.ascends and picked.rows < 8 * numbers.nbytes:
        mask = np.zeros(picked.rows, dtype=bool)
        mask[numbers] = True
        width, content = 0, np.packbits(mask)
    else:
        width, content = numbers.itemsize, numbers.astype(f"<i{numbers.itemsize}", copy=False).view(np.uint8)
    write_checked(path, _MAGIC, _HEADER.pack(len(picked), picked.rows, width), content.tobytes())


def _load(path: str) -> RowNumbers | None:
    found = load_checked(path, _MAGIC, _HEADER)
    if found is None:
        return None
    (count, rows, width), content = found
    if not 0 <= count < 1 << 62 or not 0 < rows < 1 << 62:
        return None
    if width == 0 and 0 <= 8 * len(content) - rows < 8:
        numbers = np.flatnonzero(np.unpackbits(np.frombuffer(content, dtype=np.uint8), count=rows))
    elif width in (4, 8) and len(content) == count * width:
        numbers = np.frombuffer(content, dtype=f"<i{width}")
    else:
        return None
    is_possible = len(numbers) == count and (not count or (int(numbers.min()) >= 0 and int(numbers.max()) < rows))
    return RowNumbers(numbers, rows) if is_possible else None
