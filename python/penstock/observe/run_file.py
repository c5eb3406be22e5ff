"""Files of snapshots that `observe="jsonl:run.jsonl"` writes: one JSON object a line, the newest last, of one or several loaders and ranks."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from penstock.core.errors import DataError, SourceError, StorageError
from penstock.core.files.plain_file import open_plain
from penstock.observe.secrets import plain
from penstock.observe.snapshot import Snapshot

#: The first key of each line, and the version of what follows.
FORMAT, VERSION = "penstock_run", 1
#: What each line begins with.
BEGINNING = f'{{"{FORMAT}": '.encode()


def run_line(snapshot: Snapshot) -> bytes:
    """A snapshot as a line. URLs in it have no logins and no queries, and what is no finite number is null."""
    values = plain(snapshot.as_dict())
    return json.dumps({FORMAT: VERSION, **values}, allow_nan=False).encode() + b"\n"


def each_snapshot(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """The snapshots of a file, as `Snapshot.as_dict()` gives them, one after another.

    A last line that was cut off when its process was killed is left out. Raises SourceError if there is no file, DataError for other lines
    that are no snapshots, StorageError if it cannot be read.
    """
    name = os.fspath(path)
    try:
        with open_plain(name) as file:
            for number, line in enumerate(file, start=1):
                is_whole = line.endswith(b"\n")
                if not line.strip():
                    continue
                found = _snapshot(line, f"{name}, line {number}")
                if found is not None:
                    yield found
                elif is_whole:
                    raise DataError(
                        f"{name}, line {number}: is no line of a run file; pass what observe='jsonl:FILE' wrote"
                    )
    except FileNotFoundError:
        raise SourceError(f"{name}: no run file is there; Loader(…, observe='jsonl:{name}') writes one") from None
    except OSError as error:
        raise StorageError(f"{name}: {error.strerror}; name a run file that can be read") from error


def _snapshot(line: bytes, where: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or FORMAT not in found:
        return None
    if found.pop(FORMAT) != VERSION:
        raise DataError(
            f"{where}: is of another version of Penstock; read it with the one that wrote it, or a newer one"
        )
    return found
