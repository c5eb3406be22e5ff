"""Where this user's caches are, and how large they may be together.

All are folders of `$XDG_CACHE_HOME/penstock` (or `~/.cache/penstock`), which only their owner can read.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import re
import shutil
import stat
from typing import Any

from penstock.core.arguments import is_whole
from penstock.core.errors import PlanError
from penstock.core.files.scratch import FOLDER as SCRATCH
from penstock.core.files.scratch import sweep
from penstock.core.messages import quoted
from penstock.core.warnings import warn

#: The environment variable that limits the cache's folders of data together, in bytes.
LIMIT_NAME = "PENSTOCK_CACHE_BYTES"
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)[bB]?")
#: Numbers of more digits mean no limit.
_MOST_DIGITS = 18
#: More bytes than any disk has.
_END = 1 << 63
#: Share of the disk, if the variable is not set.
_SHARE = 0.2
#: The folders that share the limit: blocks of remote files, files made of others, decoded columns, rows of `cache()`.
SHARING = ("remote", "unpacked", "decoded", "rows")


def cache_folder(name: str) -> str | None:
    """The folder `name` of this user's cache, created if needed; None, with a warning, if it cannot be trusted."""
    base = _base()
    folder = os.path.join(base, "penstock")
    try:
        if not os.path.isabs(base):  # never at the root of the file system, nor where the program runs
            raise FileNotFoundError(errno.ENOENT, "no home folder", base)
        os.makedirs(base, mode=0o700, exist_ok=True)
        for path in (folder, os.path.join(folder, name)):
            make_private(path)
    except OSError as error:
        found = "it is no folder" if isinstance(error, FileExistsError) else error.strerror or error
        warn(
            f"no cache: {error.filename or folder}: {found}; every run indexes files and downloads remote "
            "ones again; set XDG_CACHE_HOME to a folder of your own"
        )
        return None
    sweep(os.path.join(folder, name))
    return os.path.join(folder, name)


def found_folder(name: str) -> str | None:
    """The folder `name` of this user's cache if it exists and can be trusted, else None."""
    base = _base()
    is_there = os.path.isabs(base) and os.path.isdir(os.path.join(base, "penstock", name))
    return cache_folder(name) if is_there else None


def _base() -> str:
    base = os.environ.get("XDG_CACHE_HOME", "")
    return base if os.path.isabs(base) else os.path.join(_home(), ".cache")


def _home() -> str:
    """The user's own folder; "" if there is none, as for a service without HOME."""
    for home in (os.environ.get("HOME", ""), _registered_home()):
        if os.path.isabs(home) and home.strip("/"):
            return home
    return ""


def _registered_home() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def make_private(path: str) -> None:
    """Create a folder for this user alone; PermissionError if it exists and others can write to it."""
    if not os.path.isdir(path):
        os.makedirs(path, mode=0o700, exist_ok=True)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(20, "not a folder", path)
    if found.st_uid != os.getuid():
        raise PermissionError(13, f"belongs to user {found.st_uid}, not to you", path)
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(13, "others may write into it (chmod 700 it)", path)


def room_bytes(folder: str) -> int:
    """How many bytes one of the folders may hold: what the others leave of the limit, but at least a quarter of it."""
    above, name = os.path.split(folder.rstrip("/"))
    limit = limit_bytes(folder)
    if name not in SHARING:
        return limit
    others = sum(_held_bytes(os.path.join(above, other)) for other in SHARING if other != name)
    return max(limit // len(SHARING), limit - others)


def _held_bytes(folder: str) -> int:
    """Bytes on disk of a folder's files, including unfinished ones, which may be reserved and not written yet."""
    held = 0
    for place in (folder, os.path.join(folder, SCRATCH)):
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    held += max(found.st_blocks * 512, found.st_size if place != folder else 0)
    return held


def limit_is_said() -> bool:
    """Whether the user set a limit."""
    return bool(os.environ.get(LIMIT_NAME))


def limit_bytes(folder: str) -> int:
    """How many bytes this user's caches of data may hold together: $PENSTOCK_CACHE_BYTES, or a fifth of the disk."""
    text = os.environ.get(LIMIT_NAME, "")
    if not text:
        return int(shutil.disk_usage(folder).total * _SHARE)
    if not (text.isascii() and text.isdecimal()):
        raise PlanError(f"{LIMIT_NAME}={quoted(text)}: not a number of bytes; write for example 20000000000")
    return _END if len(text) > _MOST_DIGITS else int(text)


def size_of(size: Any, name: str = "") -> int:
    """A size in bytes: size_of("100GiB") == 107374182400, size_of("10 GB") == 10000000000, size_of(4e9) == 4000000000, size_of(None) == 0.

    name: the argument's name, for the error.
    """
    if size is None:
        return 0
    is_number = is_whole(size) or (isinstance(size, float) and abs(size) < _END and size == int(size))
    if is_number and not isinstance(size, bool) and size >= 0:
        return int(size)
    found = _SIZE.fullmatch(size.strip()) if isinstance(size, str) else None
    if found is None:
        shown = f"{name}={quoted(size)}" if name else quoted(size)
        raise PlanError(f"{shown} is not a size; write for example '100GiB', '10 GB' or a number of bytes")
    power = " KMGT".index(found[2].upper() or " ")
    return int(min(_END, float(found[1]) * (1024 if found[3] else 1000) ** power))
