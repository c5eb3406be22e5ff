"""penstock cache: what is kept of remote data on the local disk."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from typing import Annotated, Any

import typer

from penstock.cli.console import out, print_json, progress, size_text
from penstock.cli.opening import Json
from penstock.core.cache_dirs import cache_folder, room_bytes
from penstock.core.errors import SourceError
from penstock.storage.cache.cache import RangeCache
from penstock.storage.cache.folder import FOLDER, default_limit
from penstock.storage.cache.index import JOURNAL

Folder = Annotated[
    str | None, typer.Option("--path", help="The folder given to cache_local, if it is not the user's own cache.")
]


def about_cache() -> None:
    """Look at, check or empty the local cache of remote data.

    What a training reads from a bucket or server is kept on the local disk, so that the next epoch comes from there. It needs no
    care: it stays below its limit, and nothing in it is ever needed, since all of it can be fetched again.

    Examples:
        penstock cache ls
        penstock cache verify --json
        penstock cache rm --path /nvme/cache
    """


def show(path: Folder = None, as_json: Json = False) -> None:
    """Show where the cache lies, what it holds and its limit.

    The limit is the smaller of 100 GiB and of what copied, unpacked and decoded files leave of a fifth of the disk. PENSTOCK_CACHE_BYTES sets
    another for all of these together, cache_local("500GiB") for one training; XDG_CACHE_HOME moves them.
    """
    opened = _open(path)
    facts: dict[str, Any] = {"folder": opened.folder, **asdict(opened.contents)}
    if path is None:
        facts["limit_bytes"] = opened.limit_bytes
    if as_json:
        print_json(facts)
        return
    out.print(opened.folder, soft_wrap=True, markup=False)
    limit = f" of at most {size_text(opened.limit_bytes)}" if path is None else ""
    out.print(f"{size_text(facts['disk_bytes'])}{limit}: {facts['pieces']:,} pieces of {facts['files']:,} remote files")
    if facts["used_at"]:
        out.print(f"last used {time.strftime('%Y-%m-%d %H:%M', time.localtime(facts['used_at']))}")


def remove(path: Folder = None, as_json: Json = False) -> None:
    """Empty the cache, and tell how much that freed.

    Only what the cache itself made is removed. A training that runs meanwhile goes on, and fetches what it needs.
    """
    opened = _open(path)
    pieces, freed = opened.contents.pieces, opened.clear()
    if as_json:
        print_json({"folder": opened.folder, "pieces": pieces, "freed_bytes": freed})
        return
    out.print(f"{size_text(freed)} freed: {pieces:,} pieces in {opened.folder}", soft_wrap=True, markup=False)


def verify(path: Folder = None, as_json: Json = False) -> None:
    """Read everything in the cache and compare the checksums; what is damaged is dropped, and fetched again when it is needed.

    A training checks each piece when it first uses it, so that this is never necessary; it tells whether a disk can be trusted.
    The exit status is 1 if something was damaged.
    """
    opened = _open(path)
    with progress("verify") as report:
        pieces, damaged = opened.verify(report)
    if as_json:
        print_json({"folder": opened.folder, "pieces": pieces, "damaged": damaged})
    else:
        found = "all whole" if not damaged else f"{damaged:,} damaged and dropped"
        out.print(f"{pieces:,} pieces in {opened.folder}: {found}", soft_wrap=True, markup=False)
    if damaged:
        raise typer.Exit(1)


CACHE_COMMANDS = {"ls": show, "rm": remove, "verify": verify}


def _open(path: str | None) -> RangeCache:
    if path is not None:
        folder = os.path.abspath(os.path.expanduser(path))
        if not os.path.isdir(folder):
            raise SourceError(f"{path}: no such folder; name the one that cache_local was given")
        if not os.path.isfile(os.path.join(folder, JOURNAL)):
            raise SourceError(
                f"{path}: holds no cache; name the folder that cache_local was given, once something was read"
            )
        return RangeCache(folder, 1 << 62)
    made = cache_folder(FOLDER)
    if made is None:
        raise SourceError("there is no cache: its folder cannot be used (see the warning)")
    cache = RangeCache(made, default_limit(made))
    cache.set_limit(default_limit(made), lambda: room_bytes(made))
    return cache
