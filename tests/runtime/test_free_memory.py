"""What memory there is to take: files as Linux has them, made up."""

from __future__ import annotations

import numpy as np
import pytest

import penstock as ps
from penstock.runtime import free_memory as module
from penstock.runtime.free_memory import allowed_memory, default_memory, free_memory
from support.seams import lowered_of

MIB = 1 << 20


def write(root, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def test_without_control_groups_it_is_what_the_machine_has(tmp_path) -> None:
    assert free_memory(tmp_path) > MIB


V2 = {
    "proc/self/cgroup": "0::/job/task\n",
    "sys/fs/cgroup/job/task/memory.max": "max\n",
    "sys/fs/cgroup/job/task/memory.current": f"{20 * MIB}\n",
    "sys/fs/cgroup/job/task/memory.stat": f"anon {10 * MIB}\ninactive_file {10 * MIB}\n",
    "sys/fs/cgroup/job/memory.max": f"{50 * MIB}\n",
    "sys/fs/cgroup/job/memory.current": f"{30 * MIB}\n",
    "sys/fs/cgroup/job/memory.stat": f"anon {20 * MIB}\ninactive_file {4 * MIB}\n",
}
V1 = {
    "proc/self/cgroup": "5:cpu,cpuacct:/job\n4:memory:/job\n0::/\n",
    "sys/fs/cgroup/memory/job/memory.limit_in_bytes": f"{64 * MIB}\n",
    "sys/fs/cgroup/memory/job/memory.usage_in_bytes": f"{60 * MIB}\n",
    "sys/fs/cgroup/memory/job/memory.stat": f"cache 1\ntotal_inactive_file {30 * MIB}\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{60 * MIB}\n",
    "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 0\n",
}
#: In a container the path is the host's, and the group itself is mounted at the top.
CONTAINER = {
    "proc/self/cgroup": "0::/system.slice/docker-12ab.scope\n",
    "sys/fs/cgroup/memory.max": f"{40 * MIB}\n",
    "sys/fs/cgroup/memory.current": f"{10 * MIB}\n",
    "sys/fs/cgroup/memory.stat": "inactive_file 0\n",
}


@pytest.mark.parametrize(("files", "left"), [(V2, 24 * MIB), (V1, 34 * MIB), (CONTAINER, 30 * MIB)])
def test_the_limit_of_a_control_group_counts(tmp_path, files, left) -> None:
    write(tmp_path, files)
    assert free_memory(tmp_path) == left


def test_a_group_that_is_full_leaves_nothing(tmp_path) -> None:
    write(tmp_path, CONTAINER | {"sys/fs/cgroup/memory.current": f"{99 * MIB}\n"})
    assert free_memory(tmp_path) == 0


@pytest.mark.parametrize("broken", ["", "no number", "-"])
def test_files_that_say_nothing_are_no_limit(tmp_path, broken) -> None:
    write(tmp_path, CONTAINER | {"sys/fs/cgroup/memory.max": broken, "proc/self/cgroup": f"0::/x\n{broken}\n"})
    assert free_memory(tmp_path) > 40 * MIB


@pytest.mark.parametrize(("files", "most"), [(V2, 50 * MIB), (V1, 64 * MIB), (CONTAINER, 40 * MIB)])
def test_what_may_be_had_is_the_smallest_limit_whatever_is_taken(tmp_path, files, most) -> None:
    write(tmp_path, files)
    assert allowed_memory(tmp_path) == most


def test_ranks_of_a_machine_share_a_quarter_of_it(monkeypatch) -> None:
    monkeypatch.setattr(module, "allowed_memory", lambda: 64 << 30)
    monkeypatch.setattr(module, "free_memory", lambda: 48 << 30)
    assert default_memory(1) == 16 << 30
    assert default_memory(8) == 2 << 30
    monkeypatch.setattr(module, "free_memory", lambda: 8 << 30)
    assert default_memory(1) == 4 << 30, "others need half of what is free"
    monkeypatch.setattr(module, "free_memory", lambda: 0)
    assert default_memory(8) == 64 * MIB


def test_a_loader_takes_its_part_of_the_machine(monkeypatch) -> None:
    """By torchrun's environment; what is given is a loader's own."""
    monkeypatch.setattr(module, "allowed_memory", lambda: 32 << 30)
    monkeypatch.setattr(module, "free_memory", lambda: 64 << 30)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_RANK", "1")
    dataset = ps.from_arrays({"x": np.arange(64)}).batch(16, lanes=16)

    def budget(**options: int) -> int:
        return lowered_of(ps.Loader(dataset, rank=5, world_size=8, **options)).budget.limit_bytes

    assert budget() == 2 << 30
    assert budget(memory=MIB) == MIB
