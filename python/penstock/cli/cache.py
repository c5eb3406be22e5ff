"""penstock cache: remote data, and rows of `cache()`, on the local disk."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from typing import Annotated, Any

import typer

from penstock.cli.cached_rows import facts_of_rows, remove_rows, rows_folder, show_rows, verify_rows
from penstock.cli.console import out, print_json, progress, size_text
from penstock.cli.opening import Json
from penstock.core.errors import SourceError
from penstock.core.files.cache_dirs import cache_folder, room_bytes
from penstock.derived.row_cache.listing import tables_in
from penstock.storage.cache.cache import RangeCache
from penstock.storage.cache.folder import FOLDER, default_limit
from penstock.storage.cache.index import JOURNAL

Folder = Annotated[
    str | None, typer.Option("--path", help="The folder passed to cache or cache_local; default: the user's own cache.")
]


def about_cache() -> None:
    """Show, check or empty the local cache of remote data, and of rows that cache() keeps.

    What a training run reads from a bucket or server is cached on the local disk, and the next epoch comes from there.
    The cache stays below its limit and needs no care. Nothing in it is the only copy: all of it can be downloaded, or made, again.

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
    opened, rows = _open(path), facts_of_rows(path)
    if opened is None:
        facts: dict[str, Any] = {"folder": rows_folder(path), "rows": rows}
    else:
        facts = {"folder": opened.folder, **asdict(opened.contents), "rows": rows}
    if path is None and opened is not None:
        facts["limit_bytes"] = opened.limit_bytes
    if as_json:
        print_json(facts)
        return
    if opened is None:
        out.print(facts["folder"], soft_wrap=True, markup=False)
        show_rows(rows)
        return
    out.print(opened.folder, soft_wrap=True, markup=False)
    limit = f" of at most {size_text(opened.limit_bytes)}" if path is None else ""
    out.print(f"{size_text(facts['disk_bytes'])}{limit}: {facts['pieces']:,} pieces of {facts['files']:,} remote files")
    if facts["used_at"]:
        out.print(f"last used {time.strftime('%Y-%m-%d %H:%M', time.localtime(facts['used_at']))}")
    if rows:
        out.print(f"{rows_folder(path)}", soft_wrap=True, markup=False)
        show_rows(rows)


def remove(path: Folder = None, as_json: Json = False) -> None:
    """Empty the cache and print how much that freed.

    Removes only what the cache itself made. A training run that uses it meanwhile continues, and downloads or makes what it needs.
    """
    opened = _open(path)
    pieces, freed = (0, 0) if opened is None else (opened.contents.pieces, opened.clear())
    caches, freed_of_rows = remove_rows(path)
    folder = rows_folder(path) if opened is None else opened.folder
    if as_json:
        print_json({"folder": folder, "pieces": pieces, "caches_of_rows": caches, "freed_bytes": freed + freed_of_rows})
        return
    of_rows = f", {caches:,} caches of rows" if caches else ""
    out.print(
        f"{size_text(freed + freed_of_rows)} freed: {pieces:,} pieces{of_rows} in {folder}",
        soft_wrap=True,
        markup=False,
    )


def verify(path: Folder = None, as_json: Json = False) -> None:
    """Read everything in the cache, compare checksums, and evict what is damaged.

    A training run checks every piece whenever it reads it, and every row when it first does, so this is never necessary; it shows whether a disk can be
    trusted. What is evicted is downloaded, or made, again when it is needed. The exit status is 1 if something was damaged.
    """
    opened = _open(path)
    with progress("verify") as report:
        pieces, damaged = (0, 0) if opened is None else opened.verify(report)
        rows, damaged_rows = verify_rows(path, report)
    folder = rows_folder(path) if opened is None else opened.folder
    if as_json:
        figures = {"pieces": pieces, "damaged": damaged, "rows": rows, "damaged_rows": damaged_rows}
        print_json({"folder": folder, **figures})
    else:
        found = "all intact" if not damaged + damaged_rows else f"{damaged + damaged_rows:,} damaged and evicted"
        of_rows = f" and {rows:,} rows" if rows else ""
        out.print(f"{pieces:,} pieces{of_rows} in {folder}: {found}", soft_wrap=True, markup=False)
    if damaged + damaged_rows:
        raise typer.Exit(1)


CACHE_COMMANDS = {"ls": show, "rm": remove, "verify": verify}


def _open(path: str | None) -> RangeCache | None:
    """The cache of remote data; None for a folder that holds rows alone."""
    if path is not None:
        folder = os.path.abspath(os.path.expanduser(path))
        if not os.path.isdir(folder):
            raise SourceError(f"{path}: no such folder; name the folder that was passed to cache_local")
        if not os.path.isfile(os.path.join(folder, JOURNAL)):
            if tables_in(folder):
                return None
            raise SourceError(
                f"{path}: holds no cache; name the folder that was passed to cache_local or cache, once something was read"
            )
        return RangeCache(folder, 1 << 62)
    made = cache_folder(FOLDER)
    if made is None:
        raise SourceError("no cache: its folder cannot be used; the warning above says why")
    cache = RangeCache(made, default_limit(made))
    cache.set_limit(default_limit(made), lambda: room_bytes(made))
    return cache
