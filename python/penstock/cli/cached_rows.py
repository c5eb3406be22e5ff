"""What `penstock cache` says and does about the rows that `cache()` keeps."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from penstock.cli.console import Report, out, size_text
from penstock.core.files.cache_dirs import found_folder
from penstock.derived.row_cache.disk import FOLDER, remove
from penstock.derived.row_cache.listing import listed_in, tables_in, verify


def rows_folder(path: str | None) -> str | None:
    """The folder of rows: of the user's cache, or the one that is named."""
    return found_folder(FOLDER) if path is None else os.path.abspath(os.path.expanduser(path))


def facts_of_rows(path: str | None) -> list[dict[str, Any]]:
    """Of each cache its key, what was done to its rows, how many there are, and their bytes."""
    folder = rows_folder(path)
    return [] if folder is None else [asdict(one) for one in listed_in(folder)]


def show_rows(facts: list[dict[str, Any]]) -> None:
    """The same in words."""
    for one in facts:
        held = f"{one['held']:,} of {one['rows']:,} rows"
        out.print(
            f"{one['key'][:12]}  {size_text(one['size_bytes'])}, {held}: {one['about']}", soft_wrap=True, markup=False
        )


def remove_rows(path: str | None) -> tuple[int, int]:
    """Removes all caches of rows; how many, and the bytes that this freed."""
    folder = rows_folder(path)
    keys = [] if folder is None else tables_in(folder)
    return len(keys), sum(remove(folder or "", key) for key in keys)


def verify_rows(path: str | None, report: Report) -> tuple[int, int]:
    """How many rows there are, and how many were damaged."""
    folder = rows_folder(path)
    found = [verify(folder or "", key, report) for key in ([] if folder is None else tables_in(folder))]
    return sum(rows for rows, _ in found), sum(bad for _, bad in found)
