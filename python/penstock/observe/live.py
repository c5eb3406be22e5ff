"""The loaders of this user on this machine, as they told last: what `penstock top` looks at. Nothing of what runs is touched or asked."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from penstock.core.errors import DataError
from penstock.observe.folder import STALE_S, SUFFIX, chosen_folder, host_name, read_file, snapshots_folder
from penstock.observe.process_start import is_another
from penstock.observe.snapshot import Snapshot
from penstock.observe.snapshot_of import snapshot_of

#: So many files are looked at.
_MOST_FILES = 4_096
#: A loader that told nothing for so long hangs, is stopped, or holds the interpreter.
SILENT_S = 5.0


@dataclass(frozen=True)
class LoaderSeen:
    """A loader. age_s: how long ago it told."""

    snapshot: Snapshot
    age_s: float

    @property
    def key(self) -> tuple[Any, ...]:
        """Which it is."""
        loader = self.snapshot.loader
        return loader.host, loader.pid, loader.number, loader.started_at


@dataclass
class AllSeen:
    """What was found. ignored: files, and why they are no running loader's of this user."""

    loaders: list[LoaderSeen] = field(default_factory=list)
    ignored: list[tuple[Path, str]] = field(default_factory=list)
    looked_in: list[Path] = field(default_factory=list)


def folders() -> list[Path]:
    """Where loaders put their snapshots: the folder that PENSTOCK_OBSERVE_DIR names; else all those that processes with other environments choose."""
    if (chosen := chosen_folder()) is not None:
        return [chosen]
    user = os.getuid()
    temporary = dict.fromkeys(("/tmp", tempfile.gettempdir()))  # noqa: S108  # where they are
    others = (Path(f"/run/user/{user}/penstock"), *(Path(each, f"penstock-{user}") for each in temporary))
    return list(dict.fromkeys([snapshots_folder(), *others]))


def loaders_now() -> AllSeen:
    """All of them, by process and number."""
    found = AllSeen(looked_in=folders())
    for folder in found.looked_in:
        for path in _files(folder, found):
            try:
                seen = _seen(path)
            except FileNotFoundError:  # it has ended meanwhile
                continue
            except (OSError, DataError) as error:
                found.ignored.append((path, (isinstance(error, OSError) and error.strerror) or str(error)))
            else:
                found.loaders.append(seen)
    newest = {seen.key: seen for seen in sorted(found.loaders, key=lambda one: -one.age_s)}
    found.loaders = [newest[key] for key in sorted(newest)]
    return found


def _files(folder: Path, found: AllSeen) -> Iterator[Path]:
    is_chosen = chosen_folder() is not None  # and may be shared with others
    try:
        status = folder.lstat()
        if not is_chosen and (status.st_uid != os.getuid() or not stat.S_ISDIR(status.st_mode)):
            found.ignored.append((folder, "is no folder of this user"))
            return
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.name.endswith(SUFFIX) and entry.name[0] != ".")
    except FileNotFoundError:
        return
    except OSError as error:
        found.ignored.append((folder, error.strerror or "cannot be read"))
        return
    yield from (folder / name for name in names[:_MOST_FILES])


def _seen(path: Path) -> LoaderSeen:
    """What one file says. DataError for what is no running loader of this user."""
    values, status = read_file(path, owner=os.getuid())
    snapshot = snapshot_of(values)
    age_s = max(0.0, time.time() - status.st_mtime)
    if has_ended(snapshot, age_s):
        raise DataError(f"its process {snapshot.loader.pid} has ended")
    return LoaderSeen(snapshot, age_s)


def has_ended(snapshot: Snapshot, age_s: float) -> bool:
    """Whether its process is gone; of another machine, or of a container whose processes are not seen here, by how old its news are."""
    loader = snapshot.loader
    if loader.host != host_name():
        return age_s > STALE_S
    try:
        if psutil.Process(loader.pid).status() == psutil.STATUS_ZOMBIE:
            return True
        return age_s > SILENT_S and is_another(loader.pid, loader.process_ticks, loader.started_at)
    except (psutil.NoSuchProcess, ValueError, OverflowError):
        return age_s > SILENT_S
    except psutil.Error:
        return False


class Recent:
    """What loaders did in the last seconds, between what was seen of them; where there is only one sight, since they were started."""

    _SECONDS = 5.0

    def __init__(self) -> None:
        self._sights: dict[tuple[Any, ...], list[Snapshot]] = {}

    def note(self, found: AllSeen) -> None:
        """What is seen now."""
        kept = {}
        for seen in found.loaders:
            sights = self._sights.get(seen.key, [])
            if not sights or sights[-1].at != seen.snapshot.at:
                sights = [*sights, seen.snapshot]
            if any(one.elapsed_s > seen.snapshot.elapsed_s for one in sights):
                sights = [seen.snapshot]  # its pipeline was started anew
            while len(sights) > 2 and sights[-1].elapsed_s - sights[1].elapsed_s >= self._SECONDS:
                sights = sights[1:]
            kept[seen.key] = sights
        self._sights = kept

    def rates(self, seen: LoaderSeen) -> tuple[float, float, bool]:
        """Samples a second, the share of the time that the consumer waited, and whether that is now or since the beginning."""
        first, *_, last = [*self._sights.get(seen.key, [seen.snapshot]), seen.snapshot]
        seconds = last.elapsed_s - first.elapsed_s
        if seconds <= 0:
            return seen.snapshot.samples_per_s, seen.snapshot.waited, False
        waited = max(0.0, last.waited_s - first.waited_s) / seconds
        return max(0, last.samples - first.samples) / seconds, min(1.0, waited), True
