"""How many rows each lane of a plan gives in an epoch, as they were counted: kept in the user's cache, also where counting was interrupted."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, fields
from typing import Any

from penstock.core.files.cache_dirs import cache_folder
from penstock.derived.file_indexes import load_checked, write_checked
from penstock.derived.lock import one_maker

_FOLDER = "counts"
#: The start of every file; another layout gets another number.
_MAGIC = b"PSTKRC01"
_HEADER = struct.Struct("<q")


@dataclass(frozen=True, kw_only=True)
class RowCount:
    """What is known of an epoch. step: up to which it was counted, None for all of it.

    ends: the rows of each lane, in all; of an epoch that was counted in part, those of lanes that ended there, by the lane's number. lanes: where each stands at `step`.
    left: where each stands when equal parts are over, if that is known. Places are as states have them.
    """

    step: int | None
    ends: Mapping[str, int]
    lanes: Mapping[str, Sequence[Any]]
    left: Mapping[str, Sequence[Any]]


def kept_count(key: str) -> RowCount | None:
    """What was counted; None if nothing was, or there is no cache."""
    folder = cache_folder(_FOLDER)
    found = None if folder is None else load_checked(_path(folder, key), _MAGIC, _HEADER)
    if found is None:
        return None
    with suppress(ValueError, TypeError):
        given = json.loads(bytes(found[1]))
        if given.keys() == {field.name for field in fields(RowCount)}:
            return RowCount(**given)
    return None


def keep_count(key: str, count: RowCount) -> bool:
    """Keeps it; False without a cache, or room there."""
    folder = cache_folder(_FOLDER)
    return folder is not None and write_checked(
        _path(folder, key), _MAGIC, _HEADER.pack(0), json.dumps(asdict(count)).encode()
    )


def drop_count(key: str) -> None:
    """Forgets it."""
    folder = cache_folder(_FOLDER)
    if folder is not None:
        with suppress(OSError):
            os.unlink(_path(folder, key))


def one_counter(key: str) -> AbstractContextManager[None] | None:
    """While it is held, other processes of this machine wait to count the same; None without a cache."""
    folder = cache_folder(_FOLDER)
    return None if folder is None else one_maker(folder, [key])


def _path(folder: str, key: str) -> str:
    return os.path.join(folder, f"{key}.counts")
