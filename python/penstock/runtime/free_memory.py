"""How much memory there is to take: what the machine and the process's control group have, and what of it is free."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

#: The parts of what there is, and of what is free, that loaders of one machine hold together unless it is given.
_SHARE, _FREE_SHARE = 4, 2
#: Where next to nothing is free, this much: less would make loaders slow and not the machine's memory larger.
LEAST_BYTES = 64 << 20


def default_memory(ranks: int) -> int:
    """Bytes that a loader may hold: a quarter of what there is, or half of what is free now if that is less, shared by so many ranks of this machine.

    At least 64 MiB.
    """
    return max(LEAST_BYTES, min(allowed_memory() // _SHARE, free_memory() // _FREE_SHARE) // max(1, ranks))


def allowed_memory(root: Path = Path("/")) -> int:
    """Bytes that the machine has, or that a control group which this process is in may have. root: as of `free_memory`."""
    import psutil

    total: int = psutil.virtual_memory().total
    return min([total, *(most for most, _ in _groups_of(root))])


def free_memory(root: Path = Path("/")) -> int:
    """Bytes that can be taken without swapping, by the system, and by every control group that this process is in.

    root: where /proc and /sys lie.
    """
    import psutil

    available: int = psutil.virtual_memory().available
    return min([available, *(max(0, most - max(0, taken)) for most, taken in _groups_of(root))])


def _groups_of(root: Path) -> Iterator[tuple[int, int]]:
    """What each control group with a limit may have, and has: files in the page cache give way, and count as free."""
    for folder, limit, used, stat, cached in _groups(root):
        try:
            most = int((folder / limit).read_text())  # "max" where there is no limit
            taken = int((folder / used).read_text()) - _figure(folder / stat, cached)
        except (OSError, ValueError):
            continue
        yield most, taken


def _groups(root: Path) -> Iterator[tuple[Path, str, str, str, str]]:
    """The folders of the process's control groups, up to the topmost, with the names of their files and of a figure there."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "":
            top, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "memory.stat", "inactive_file")
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat", "total_inactive_file")
        else:
            continue
        # In a container the path may be the host's, and only the top is there.
        parts = [part for part in PurePosixPath(path).parts if part not in ("/", "..")]
        for depth in range(len(parts), -1, -1):
            yield (top.joinpath(*parts[:depth]), *names)


def _figure(stat: Path, name: str) -> int:
    for line in stat.read_text().splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0
