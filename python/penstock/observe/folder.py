"""The folder in which each process of this user puts the snapshots of its loaders, for `penstock top` and for the other ranks."""

from __future__ import annotations

import json
import os
import socket
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.core.errors import DataError, StorageError
from penstock.observe.snapshot import Identity, Snapshot

#: What the content of a file is; another one is not read.
VERSION = 1
SUFFIX = ".snapshot.json"
#: A larger file is none of a loader's.
_MOST_BYTES = 16 << 20
#: Another machine's file that was written so long ago is of a process that has ended.
STALE_S = 60.0
#: A process that began so much later than a loader is another one of the same number.
_CLOCK_S = 2.0


def snapshots_folder() -> Path:
    """Where they are: $PENSTOCK_OBSERVE_DIR, else penstock in $XDG_RUNTIME_DIR, else /tmp/penstock-UID."""
    if told := os.environ.get("PENSTOCK_OBSERVE_DIR"):
        return Path(told)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        return Path(runtime) / "penstock"
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    return Path(tempfile.gettempdir()) / f"penstock-{user}"


def write_snapshot(snapshot: Snapshot) -> Path:
    """Writes a loader's snapshot, whole or not at all; where. OSError or StorageError where that cannot be."""
    folder = _own_folder()
    path = folder / file_name(snapshot.loader)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    text = json.dumps({"version": VERSION, **snapshot.as_dict()}, default=str)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    try:
        with os.fdopen(os.open(aside, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        aside.replace(path)
    except BaseException:
        with suppress(OSError):
            aside.unlink()
        raise
    return path


def remove_snapshot(loader: Identity) -> None:
    """The loader has ended."""
    with suppress(OSError):
        (snapshots_folder() / file_name(loader)).unlink()


def read_snapshots(folder: Path | None = None) -> list[dict[str, Any]]:
    """What loaders of this user say now, by process and number: the values of `Snapshot.as_dict()`. Files of processes that have ended are removed."""
    found = []
    for path in sorted((folder or snapshots_folder()).glob(f"*{SUFFIX}")):
        try:
            values, _ = read_file(path)
            loader, is_over = values["loader"], _is_over(values)
            place = str(loader["host"]), int(loader["pid"]), int(loader["number"])
        except (
            OSError,
            DataError,
            ValueError,
            KeyError,
            TypeError,
            OverflowError,
        ):  # removed meanwhile, or no file of ours
            continue
        if is_over:
            with suppress(OSError):
                path.unlink()
        else:
            found.append((place, values))
    return [values for _, values in sorted(found, key=lambda one: one[0])]


def read_file(path: Path, *, owner: int | None = None) -> tuple[dict[str, Any], os.stat_result]:
    """What one file says, and the file's state; never waits, whatever lies there. owner: whose it must be. DataError for what is no file of a loader."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if owner is not None and status.st_uid != owner:
            raise DataError("belongs to another user")
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            raise DataError("is no file of a loader")
        content = file.read(_MOST_BYTES)
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        raise DataError("is half-written, or no file of a loader") from None
    if not isinstance(values, dict) or values.pop("version", None) != VERSION:
        raise DataError("is of another version of Penstock, or no file of a loader")
    return values, status


def file_name(loader: Identity) -> str:
    """Of a loader's file."""
    host = "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in loader.host)
    return f"{host}-{loader.pid}-{loader.number}{SUFFIX}"


def host_name() -> str:
    """This machine's name."""
    return socket.gethostname()


def _own_folder() -> Path:
    """The folder, made where it was not there. StorageError where others could write there, or it is somebody else's."""
    folder = snapshots_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.environ.get("PENSTOCK_OBSERVE_DIR") or not hasattr(os, "getuid"):
        return folder  # chosen by the user, who may share it with other machines
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise StorageError(
            f"{folder}: is not a folder of this user's alone, so that no snapshots are written for `penstock top`; remove it, or name another one in PENSTOCK_OBSERVE_DIR"
        )
    return folder


def _is_over(values: dict[str, Any]) -> bool:
    import psutil

    loader = values["loader"]
    if loader["host"] != host_name():
        return bool(time.time() - values["at"] > STALE_S)
    try:
        return bool(psutil.Process(loader["pid"]).create_time() > loader["started_at"] + _CLOCK_S)
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False
