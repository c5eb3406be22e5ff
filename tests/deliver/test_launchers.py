"""Ranks as launchers say them: which counts, what contradicts what, and which look like ranks and are none."""

from __future__ import annotations

import os
import sys

import pytest

import penstock as ps
from penstock.deliver import launchers
from penstock.deliver.ranks import Ranks

TORCH = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
OPEN_MPI = tuple(f"OMPI_COMM_WORLD_{name}" for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"))
MVAPICH = tuple(f"MV2_COMM_WORLD_{name}" for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"))
MPICH = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
HOROVOD = tuple(f"HOROVOD_{name}" for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"))
SLURM = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE")


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.startswith(("SLURM_", "OMPI_", "MV2_", "PMI_", "MPI_", "HOROVOD_", "TORCHELASTIC_")) or name in TORCH:
            monkeypatch.delenv(name)


def put(monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], *values: int) -> None:
    for name, value in zip(names, values, strict=False):
        monkeypatch.setenv(name, str(value))


def contradicts() -> pytest.RaisesExc[ps.PlanError]:
    return pytest.raises(ps.PlanError, match="in the environment contradict each other: this process is either rank")


@pytest.mark.parametrize(
    ("names", "origin"),
    [
        (TORCH, "RANK and WORLD_SIZE"),
        (OPEN_MPI, "Open MPI"),
        (MVAPICH, "MVAPICH"),
        (MPICH, "MPICH or Intel MPI"),
        (HOROVOD, "Horovod"),
        (SLURM, "SLURM"),
    ],
)
def test_each_launcher(names: tuple[str, ...], origin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, names, 5, 8, 1, 4)
    assert Ranks().place() == (5, 8, origin)
    assert launchers.ranks_here(5, 8) == (4, 8)
    assert launchers.ranks_here(0, 2) == (0, 2), "a mesh whose groups share rows"
    assert launchers.processes_here(2) == 4
    assert Ranks(rank=1, world_size=3).place() == (1, 3, "")
    put(monkeypatch, names, 8, 8)
    with pytest.raises(
        ps.PlanError, match=f"{names[0]}='8' and {names[1]}='8' in the environment: ranks are counted from 0"
    ):
        Ranks().find()
    monkeypatch.delenv(names[1])
    assert Ranks().find() == (0, 1)


def test_no_launcher() -> None:
    assert Ranks().place() == (0, 1, "")
    assert launchers.ranks_here(1, 3) == (0, 3)
    assert launchers.processes_here(3) == 3


def test_torchrun_counts_more_than_what_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, SLURM, 1, 2, 0, 1)
    put(monkeypatch, OPEN_MPI, 1, 2, 0, 1)
    put(monkeypatch, TORCH, 5, 8, 1, 4)
    with contradicts():
        Ranks().find()
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    assert Ranks().place() == (5, 8, "torchrun")
    put(monkeypatch, SLURM, 0, 3)  # a node is gone
    assert Ranks().find() == (5, 8)
    assert launchers.ranks_here(5, 8) == (4, 8)


def test_mpi_inside_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open MPI starts its daemons, one a machine, as tasks of SLURM."""
    put(monkeypatch, SLURM, 0, 3)
    put(monkeypatch, OPEN_MPI, 9, 16, 1, 4)
    assert Ranks().place() == (9, 16, "Open MPI")
    assert launchers.ranks_here(9, 16) == (8, 12)


def test_launchers_that_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for names in (TORCH, OPEN_MPI, HOROVOD, SLURM):
        put(monkeypatch, names, 2, 4)
    assert Ranks().find() == (2, 4)


@pytest.mark.parametrize("left_over", [(0, 1), (0, 8), (1, 4)])
def test_what_a_container_has_left_over_is_not_taken(
    left_over: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(monkeypatch, TORCH, *left_over)
    put(monkeypatch, OPEN_MPI, 3, 4)
    with contradicts() as told:
        Ranks().find()
    assert f"RANK={left_over[0]}, WORLD_SIZE={left_over[1]} and OMPI_COMM_WORLD_RANK=3, OMPI_COMM_WORLD_SIZE=4" in str(
        told.value
    )
    assert Ranks(rank=3, world_size=4).find() == (3, 4), "who says it is not asked"
    for name in OPEN_MPI:
        monkeypatch.delenv(name, raising=False)
    put(monkeypatch, SLURM, 3, 4)
    with contradicts():
        Ranks().find()


def test_processes_that_a_task_of_slurm_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, SLURM, 1, 2)
    put(monkeypatch, TORCH, 3, 16, 3)
    assert Ranks().find() == (3, 16), "LOCAL_RANK: a launcher that counts the machines in its own order"
    monkeypatch.delenv("LOCAL_RANK")
    with contradicts():
        Ranks().find()
    put(monkeypatch, TORCH, 11, 16)
    assert Ranks().find() == (11, 16)


def test_an_allocation_is_no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """An sbatch script or an salloc shell: the allocation has eight tasks, and this process is none of them."""
    monkeypatch.setenv("SLURM_NTASKS", "8")
    monkeypatch.setenv("SLURM_PROCID", "0")
    assert Ranks().place() == (0, 1, "SLURM_NTASKS='8', but srun did not start this process")
    put(monkeypatch, SLURM, 0, 1)  # salloc's interactive step, which has one task
    assert Ranks().place() == (0, 1, "SLURM")
    put(monkeypatch, SLURM, 6, 8)  # srun inside it
    assert Ranks().place() == (6, 8, "SLURM")


@pytest.mark.skipif(sys.platform == "win32", reason="no terminals")
def test_a_shell_of_the_first_task(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, SLURM, 0, 8)
    monkeypatch.setenv("SLURM_PTY_PORT", "44263")
    assert Ranks().find() == (0, 8), "srun inside a shell"
    monkeypatch.setattr(os, "isatty", lambda _: True)
    with pytest.raises(
        ps.PlanError, match=r"SLURM_PROCID=0, SLURM_STEP_NUM_TASKS=8: this looks like a shell of the first of 8 tasks"
    ):
        Ranks().find()
    monkeypatch.setenv("SLURM_TASK_PID", str(os.getpid()))
    assert Ranks().find() == (0, 8), "srun --pty python"


@pytest.mark.parametrize(
    ("tasks", "here"), [("2,3", (2, 4)), ("3,2", (2, 4)), ("0,2,4", (0, 8)), ("x", (0, 8)), ("", (0, 8)), ("5", (0, 8))]
)
def test_tasks_of_a_machine(tasks: str, here: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, SLURM, 2, 8)
    monkeypatch.setenv("SLURM_GTIDS", tasks)
    assert launchers.ranks_here(2, 8) == here


def test_horovod_that_is_elastic(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, HOROVOD, 1, 4)
    monkeypatch.setenv("HOROVOD_ELASTIC", "1")
    with pytest.raises(ps.PlanError, match=r"pass rank=hvd\.rank\(\)"):
        Ranks().find()


@pytest.mark.parametrize(
    ("names", "value", "is_half"),
    [("RANK", "3", True), ("RANK", "0", False), ("WORLD_SIZE", "8", True), ("WORLD_SIZE", "1", False)],
)
def test_one_of_two_variables(names: str, value: str, *, is_half: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(names, value)
    loader = ps.Loader(ps.from_arrays({"x": range(4)}).batch(2))
    assert (loader.rank, loader.world_size) == (0, 1)
    if not is_half:
        assert len([*loader]) == 2
        return
    with pytest.warns(
        UserWarning, match=f"{names}='{value}' in the environment without .*, so this process reads all rows"
    ):
        assert len([*loader]) == 2


def test_a_loader_says_where_its_rank_is_from(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, OPEN_MPI, 1, 2)
    loader = ps.Loader(ps.from_arrays({"x": range(4)}).batch(2))
    assert "rank 1 of 2 (Open MPI): 2 steps of 1 rows" in repr(loader)
    assert "rank 1 of 2 (Open MPI)" in loader.report()
    assert "rank 0 of 1: " in repr(ps.Loader(ps.from_arrays({"x": range(4)}).batch(2), rank=0, world_size=1))
