"""penstock cache: remote data that is cached on the local disk."""

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
    str | None, typer.Option("--path", help="The folder passed to cache_local; default: the user's own cache.")
]


def about_cache() -> None:
    """Show, check or empty the local cache of remote data.

    What a training run reads from a bucket or server is cached on the local disk, and the next epoch comes from there.
    The cache stays below its limit and needs no care. Nothing in it is the only copy: all of it can be downloaded again.

    Examples:
        penstock cache ls
        penstock cache verify --json
        penstock cache rm --path /nvme/cache
    """


def show(path: Folder = None, as_json: Json = False) -> None:
    """Show where the cache is, what it holds and its limit.

    The limit is the smaller of 100 GiB and what copied, decompressed and decoded files leave of a fifth of the disk.
    PENSTOCK_CACHE_BYTES sets another limit for all of these together, cache_local("500GiB") for one training run.
    XDG_CACHE_HOME moves them.
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
    """Empty the cache and print how much that freed.

    Removes only what the cache itself made. A training run that uses it meanwhile continues, and downloads what it needs.
    """
    opened = _open(path)
    pieces, freed = opened.contents.pieces, opened.clear()
    if as_json:
        print_json({"folder": opened.folder, "pieces": pieces, "freed_bytes": freed})
        return
    out.print(f"{size_text(freed)} freed: {pieces:,} pieces in {opened.folder}", soft_wrap=True, markup=False)


def verify(path: Folder = None, as_json: Json = False) -> None:
    """Read everything in the cache, compare checksums, and evict what is damaged.

    A training run checks every piece whenever it reads it, so this is never necessary; it shows whether a disk can be trusted.
    Evicted pieces are downloaded again when they are needed. The exit status is 1 if something was damaged.
    """
    opened = _open(path)
    with progress("verify") as report:
        pieces, damaged = opened.verify(report)
    if as_json:
        print_json({"folder": opened.folder, "pieces": pieces, "damaged": damaged})
    else:
        found = "all intact" if not damaged else f"{damaged:,} damaged and evicted"
        out.print(f"{pieces:,} pieces in {opened.folder}: {found}", soft_wrap=True, markup=False)
    if damaged:
        raise typer.Exit(1)


CACHE_COMMANDS = {"ls": show, "rm": remove, "verify": verify}


def _open(path: str | None) -> RangeCache:
    if path is not None:
        folder = os.path.abspath(os.path.expanduser(path))
        if not os.path.isdir(folder):
            raise SourceError(f"{path}: no such folder; name the folder that was passed to cache_local")
        if not os.path.isfile(os.path.join(folder, JOURNAL)):
            raise SourceError(
                f"{path}: holds no cache; name the folder that was passed to cache_local, once something was read"
            )
        return RangeCache(folder, 1 << 62)
    made = cache_folder(FOLDER)
    if made is None:
        raise SourceError("no cache: its folder cannot be used; the warning above says why")
    cache = RangeCache(made, default_limit(made))
    cache.set_limit(default_limit(made), lambda: room_bytes(made))
    return cache
