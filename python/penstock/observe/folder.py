"""The folder in which each process of this user puts the snapshots of its loaders, for `penstock top` and for the other ranks."""

from __future__ import annotations

import json
import os
import socket
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.core.errors import DataError, StorageError
from penstock.observe.process_start import is_another
from penstock.observe.secrets import plain
from penstock.observe.snapshot import Identity, Snapshot
from penstock.observe.snapshot_of import snapshot_of

#: What the content of a file is; another one is not read.
VERSION = 1
SUFFIX = ".snapshot.json"
#: A larger file is none of a loader's.
_MOST_BYTES = 16 << 20
#: Another machine's file that was written so long ago is of a process that has ended.
STALE_S = 60.0
#: Names the folder, or one of these words: no files are written.
_NAME, _OFF = "PENSTOCK_OBSERVE_DIR", ("off", "0")


def writes_snapshots() -> bool:
    """Whether loaders write them: PENSTOCK_OBSERVE_DIR=off says no."""
    return os.environ.get(_NAME, "").strip().lower() not in _OFF


def chosen_folder() -> Path | None:
    """What $PENSTOCK_OBSERVE_DIR names."""
    told = os.environ.get(_NAME)
    return Path(told) if told and writes_snapshots() else None


def snapshots_folder() -> Path:
    """Where they are: $PENSTOCK_OBSERVE_DIR, else penstock in $XDG_RUNTIME_DIR, else /tmp/penstock-UID."""
    if (chosen := chosen_folder()) is not None:
        return chosen
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        return Path(runtime) / "penstock"
    user = os.environ.get("USERNAME", "user") if (uid := _user()) is None else uid
    return Path(tempfile.gettempdir()) / f"penstock-{user}"


def _user() -> int | None:
    """None where the system has no numbers of users."""
    return os.getuid() if hasattr(os, "getuid") else None


def write_snapshot(snapshot: Snapshot) -> Path:
    """Writes a loader's snapshot, whole or not at all; where. URLs in it have no logins and no queries. OSError or StorageError where that cannot be."""
    folder = _own_folder()
    path = folder / file_name(snapshot.loader)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    text = json.dumps({"version": VERSION, **plain(snapshot.as_dict())})
    with suppress(FileNotFoundError):
        aside.unlink()
    # A new file: never what somebody else put there, a link, a pipe or a file of theirs.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    handle = os.open(aside, flags, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
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


def read_snapshots(folder: Path | None = None) -> list[Snapshot]:
    """What loaders of this user say now, by process and number. Files of processes that have ended are removed; those of other users are left alone."""
    found = []
    for path in (folder or snapshots_folder()).glob(f"*{SUFFIX}"):
        try:
            values, status = read_file(path, owner=_user())
            found.append((snapshot_of(values), status.st_mtime, path))
        except (OSError, DataError):  # removed meanwhile, or no file of ours
            continue
    # The time of the folder's own machine, which is not this one where several share it.
    now = max((changed_at for _, changed_at, _ in found), default=0.0)
    running = []
    for snapshot, changed_at, path in found:
        if _is_over(snapshot.loader, now - changed_at):
            with suppress(OSError):
                path.unlink()
        else:
            running.append(snapshot)
    return sorted(running, key=lambda one: (one.loader.host, one.loader.pid, one.loader.number))


def remove_leftovers() -> None:
    """What processes of this machine left half-written when they were killed."""
    import psutil

    for path in snapshots_folder().glob(f".{_host_part(host_name())}-*{SUFFIX}.*"):
        with suppress(OSError, ValueError, OverflowError):
            if not psutil.pid_exists(int(path.suffix[1:])):
                path.unlink()


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
    return f"{_host_part(loader.host)}-{loader.pid}-{loader.number}{SUFFIX}"


def _host_part(host: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in host)


def host_name() -> str:
    """This machine's name."""
    return socket.gethostname()


def _own_folder() -> Path:
    """The folder, made where it was not there. StorageError where others could write there, or it is somebody else's."""
    folder = snapshots_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if chosen_folder() is not None or (user := _user()) is None:
        return folder  # chosen by the user, who may share it with other machines
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != user or found.st_mode & 0o077:
        raise StorageError(
            f"{folder}: is not a folder of this user's alone, so that no snapshots are written for `penstock top`; remove it, or name another one in PENSTOCK_OBSERVE_DIR (off: none)"
        )
    return folder


def _is_over(loader: Identity, age_s: float) -> bool:
    import psutil

    if loader.host != host_name():
        return age_s > STALE_S
    try:
        return is_another(loader.pid, loader.process_ticks, loader.started_at)
    except (psutil.NoSuchProcess, ValueError, OverflowError):
        return True
    except psutil.Error:
        return False
