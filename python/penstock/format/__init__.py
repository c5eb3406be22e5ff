"""Formats: bytes to columns. One file each and one row in `known`; a folder's layout, a file's suffix, then its first bytes, choose."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.errors import PenstockError, PlanError, SourceError
from penstock.core.files.byte_ranges import ByteRanges, read_range
from penstock.core.files.shards import Shards
from penstock.core.messages import quoted
from penstock.core.verbs.options import Options
from penstock.core.warnings import warn
from penstock.format.known import FORMATS
from penstock.source.protocol import AnySource, Format

_HEAD_BYTES = 512

#: Formats of this process's users, which are asked before the others.
_registered: list[Format] = []


def register_format(format: Format) -> None:
    """Makes `penstock.read` find a format of your own: by name, suffix and content, before the built-in ones.

    docs/own_format.md shows how one is written. Registering another of the same name replaces it.

    Args:
        format: what it is called, how its files are recognised, and how they are opened.

    Raises:
        PlanError: for the name of a built-in format.

    Example:
        from penstock.source import Access, Field, Format, Manifest

        class Squares:
            access, block_rows, spec = Access.BLOCKS, None, {"square": Field("int64")}

            def __init__(self, shards):
                self.manifest = Manifest("squares", shards, np.array([0, 100]))

            def load(self, first, rows):
                return {"square": np.arange(first, first + rows) ** 2}

        ps.register_format(Format(name="squares", suffixes=(".sq",), open=lambda shards, read, options: Squares(shards)))
        with open("some.sq", "w") as file:
            print(100, file=file)
        ps.read("some.sq").head(4)["square"] == [0, 1, 4, 9]
    """
    if format.name in [known.name for known in FORMATS]:
        raise PlanError(f"register_format: {format.name!r} is a built-in format; choose another name")
    _registered[:] = [format, *(known for known in _registered if known.name != format.name)]


def known_formats() -> tuple[Format, ...]:
    """Your own formats, then the built-in ones."""
    return (*_registered, *FORMATS)


def open_source(
    where: str, shards: Shards, read: ByteRanges, options: Options, forced: str | Format | None = None
) -> AnySource:
    """Opens files as one dataset; `forced` is a format or the name of one."""
    if forced is None:
        format, chosen = _choose(where, shards, read)
    else:
        format, chosen = (forced if isinstance(forced, Format) else _by_name(forced)), shards
    options = _checked(format, options)
    try:
        return format.open(chosen, read, options)
    except PenstockError:
        raise
    except (FileNotFoundError, PermissionError) as error:
        if error.filename is None:
            raise
        found = f"{error.filename}: {error.strerror}"
        raise SourceError(f"{found}; make it readable, or fetch what a link leads to, or remove it") from None


def format_named(name: str, options: Options) -> Format:
    """The format of that name; PlanError for options that it does not have."""
    format = _by_name(name)
    _checked(format, options)
    return format


def _checked(format: Format, options: Options) -> Options:
    """The options, if the format has them; arrays, and what can be gone through once, as lists."""
    if unknown := set(options.own) - set(format.options):
        known = "; ".join(f"{option}: {text}" for option, text in format.options.items()) or "none"
        raise PlanError(f"read: {format.name} has no option {', '.join(sorted(unknown))}; its options: {known}")
    is_listed = {name: isinstance(value, (Iterator, np.ndarray)) for name, value in options.own.items()}
    return replace(options, own={name: [*value] if is_listed[name] else value for name, value in options.own.items()})


def _choose(where: str, shards: Shards, read: ByteRanges) -> tuple[Format, Shards]:
    """The format of files, and those of them that are of it."""
    formats = known_formats()
    for format in formats:
        if format.claims(shards):
            return format, shards
    matches = {format.name: shards.ending_with(*format.suffixes, any_case=True) for format in formats}
    best = max(formats, key=lambda format: int(matches[format.name].sum()))
    if matches[best.name].any():
        if matches[best.name].all():
            return best, shards
        lost = shards.ending_with(*best.unread, any_case=True) | np.any(
            [matches[one.name] for one in formats if not one.is_beside], axis=0
        )
        _warn_of_lost(where, shards, best, lost & ~matches[best.name])
        return best, shards.take(np.flatnonzero(matches[best.name]))
    head = read_head(shards, read)
    for format in formats:
        if format.matches(head):
            return format, shards
    known = ", ".join(format.name for format in formats)
    raise SourceError(
        f"{where}: {shards.path(0)} begins with {head[:8].hex(' ') or 'nothing (it is empty)'}, which no format claims; "
        f"formats: {known}; pass format='…' if you know better"
    )


def _warn_of_lost(where: str, shards: Shards, chosen: Format, lost: npt.NDArray[np.bool_]) -> None:
    """Warns of files that look like samples and are none of the format."""
    if not lost.any():
        return
    paths = shards.paths.filter(pa.array(lost)).to_pylist()
    suffixes = ", ".join(sorted({os.path.splitext(path)[1].lower() for path in paths}))
    warn(
        f"read({where}): {len(paths):,} of {len(shards):,} files ({suffixes}) are left out, the first {paths[0]}; {chosen.name} reads "
        f"{', '.join(chosen.suffixes)}: convert them, read them apart, or move them away"
    )


def read_head(shards: Shards, read: ByteRanges, shard: int | None = None) -> bytes:
    """The first bytes (up to 512) of a shard, by default of the first that is not empty."""
    if shard is None:
        shard = int(np.argmax(shards.sizes > 0))
    return read_range(read, shards, shard, 0, min(int(shards.sizes[shard]), _HEAD_BYTES)).tobytes()


def _by_name(name: Any) -> Format:
    for format in known_formats():
        if isinstance(name, str) and format.name == name:
            return format
    raise SourceError(
        f"format={quoted(name)} is not known; formats: {', '.join(format.name for format in known_formats())}"
    )
