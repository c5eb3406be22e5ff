"""Ranks as launchers say them in the environment: torchrun, MPI, Horovod, SLURM.

torchrun counts most, since it may run inside all others. The others say what `mpirun`, `horovodrun` or a script of the user's started; of those
that are set, all must say the same. SLURM counts last, and only inside `srun`: an `sbatch` script and an `salloc` shell have SLURM_PROCID=0 and the
allocation's SLURM_NTASKS, without being one of so many processes. SLURM_STEP_NUM_TASKS is what `srun` started.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NamedTuple

from penstock.core.errors import PlanError
from penstock.core.messages import quoted

#: More digits than the number of any rank has.
_MOST_DIGITS = 10


class FoundRank(NamedTuple):
    """A rank, how many ranks there are, and who says so."""

    rank: int
    world_size: int
    origin: str


@dataclass(frozen=True, kw_only=True)
class Launcher:
    """The variables of a launcher: of all processes, and of those of this machine."""

    name: str
    rank: str
    world_size: str
    local_rank: str
    local_size: str

    def find(self) -> FoundRank | None:
        """What it says; None where it did not start this process. PlanError for what is no rank."""
        if self.rank not in os.environ or self.world_size not in os.environ:
            return None
        texts = os.environ[self.rank], os.environ[self.world_size]
        said = f"{self.rank}={quoted(texts[0])} and {self.world_size}={quoted(texts[1])} in the environment"
        if not all(map(_is_number, texts)):
            raise PlanError(f"{said} are not numbers; unset them, or pass rank and world_size")
        rank, world_size = map(int, texts)
        if rank >= world_size:
            raise PlanError(f"{said}: ranks are counted from 0; unset them, or pass rank and world_size")
        return FoundRank(rank, world_size, self.name)

    def said(self, found: FoundRank) -> str:
        """The variables, as one would write them."""
        return f"{self.rank}={found.rank}, {self.world_size}={found.world_size}"

    def here(self) -> tuple[int, int] | None:
        """The local rank and the number of processes of this machine; None where it does not say."""
        texts = [os.environ.get(name, "") for name in (self.local_rank, self.local_size)]
        if not all(map(_is_number, texts)) or int(texts[0]) >= int(texts[1]):
            return None
        return int(texts[0]), int(texts[1])


TORCHRUN = Launcher(
    name="RANK and WORLD_SIZE",
    rank="RANK",
    world_size="WORLD_SIZE",
    local_rank="LOCAL_RANK",
    local_size="LOCAL_WORLD_SIZE",
)
SLURM = Launcher(
    name="SLURM",
    rank="SLURM_PROCID",
    world_size="SLURM_STEP_NUM_TASKS",
    local_rank="SLURM_LOCALID",
    local_size="SLURM_NTASKS_PER_NODE",
)
HOROVOD = Launcher(
    name="Horovod",
    rank="HOROVOD_RANK",
    world_size="HOROVOD_SIZE",
    local_rank="HOROVOD_LOCAL_RANK",
    local_size="HOROVOD_LOCAL_SIZE",
)
_STARTING = (
    TORCHRUN,
    Launcher(
        name="Open MPI",
        rank="OMPI_COMM_WORLD_RANK",
        world_size="OMPI_COMM_WORLD_SIZE",
        local_rank="OMPI_COMM_WORLD_LOCAL_RANK",
        local_size="OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    Launcher(
        name="MVAPICH",
        rank="MV2_COMM_WORLD_RANK",
        world_size="MV2_COMM_WORLD_SIZE",
        local_rank="MV2_COMM_WORLD_LOCAL_RANK",
        local_size="MV2_COMM_WORLD_LOCAL_SIZE",
    ),
    Launcher(
        name="MPICH or Intel MPI",
        rank="PMI_RANK",
        world_size="PMI_SIZE",
        local_rank="MPI_LOCALRANKID",
        local_size="MPI_LOCALNRANKS",
    ),
    HOROVOD,
)


def find() -> FoundRank | None:
    """The rank of this process as its launcher says it, None where none did; PlanError where launchers contradict each other."""
    if "TORCHELASTIC_RUN_ID" in os.environ and (found := TORCHRUN.find()) is not None:
        return found._replace(origin="torchrun")
    said = [(launcher, found) for launcher in _STARTING if (found := launcher.find()) is not None]
    for launcher, found in said[1:]:
        if found[:2] != said[0][1][:2]:
            raise _contradiction(said[0], (launcher, found))
    task = SLURM.find()
    if said:
        if task is not None and said[0][0] is TORCHRUN and not _goes_with(said[0][1], task):
            raise _contradiction(said[0], (SLURM, task))
        if said[0][0] is HOROVOD and os.environ.get("HOROVOD_ELASTIC", "0") not in ("", "0"):
            raise PlanError(
                "HOROVOD_ELASTIC: the environment's ranks are out of date once workers came or went; pass rank=hvd.rank() and "
                "world_size=hvd.size(), in a new Loader after each reset"
            )
        return said[0][1]
    if task is not None and task.world_size > 1 and _is_shell():
        raise PlanError(
            f"{SLURM.said(task)}: this looks like a shell of the first of {task.world_size} tasks (srun --pty), where one process alone would "
            f"get its share of the rows; start all with srun python …, or pass rank=0 and world_size=1"
        )
    return task


def notes() -> list[str]:
    """What in the environment looks like ranks, and does not count: as ["WORLD_SIZE='8' without RANK"]."""
    found = []
    given = [name for name in (TORCHRUN.rank, TORCHRUN.world_size) if name in os.environ]
    alone = {TORCHRUN.rank: ("", "0"), TORCHRUN.world_size: ("", "1")}
    if len(given) == 1 and os.environ[given[0]] not in alone[given[0]]:
        missing = next(name for name in alone if name not in given)
        found.append(f"{given[0]}={quoted(os.environ[given[0]])} in the environment without {missing}")
    if "SLURM_STEP_NUM_TASKS" not in os.environ and os.environ.get("SLURM_NTASKS", "1") != "1":
        found.append(f"SLURM_NTASKS={quoted(os.environ['SLURM_NTASKS'])}, but srun did not start this process")
    return found


def is_half_set() -> bool:
    """Whether RANK or WORLD_SIZE is set without the other, to something that one process alone does not have."""
    return any(" without " in note for note in notes())


def ranks_here(rank: int, world_size: int) -> tuple[int, int]:
    """The ranks [first, last) on this machine, as the launcher says; all ranks where it does not, or they do not follow each other."""
    if (here := _local()) is None or not 0 <= rank - here[0] <= world_size - here[1]:
        return 0, world_size
    return rank - here[0], rank - here[0] + here[1]


def processes_here(world_size: int) -> int:
    """How many processes this machine has, as the launcher says; all ranks where it does not."""
    return world_size if (here := _local()) is None else here[1]


def local_rank() -> int:
    """The number of this process on its machine, as its launcher says; 0 where none does."""
    if (here := _local()) is not None:
        return here[0]
    said = [os.environ.get(launcher.local_rank, "") for launcher in _STARTING]  # some say it alone, without the number
    return next((int(text) for text in said if _is_number(text)), 0)


def _local() -> tuple[int, int] | None:
    """The local rank and the number of processes on this machine."""
    for launcher in _STARTING:
        if (here := launcher.here()) is not None:
            return here
    if any(launcher.rank in os.environ for launcher in _STARTING) or (task := SLURM.find()) is None:
        return None
    given = os.environ.get("SLURM_GTIDS", "").split(",")
    tasks = sorted(map(int, given)) if all(map(_is_number, given)) else []
    if task.rank in tasks and tasks[-1] - tasks[0] + 1 == len(tasks):
        return task.rank - tasks[0], len(tasks)
    return None if tasks else SLURM.here()


def _goes_with(found: FoundRank, task: FoundRank) -> bool:
    """Whether a rank may be one of those that a task of SLURM started on its machine, or is that task itself."""
    if found.world_size % task.world_size:
        return False
    # Who starts several processes on each machine sets LOCAL_RANK, and may count the machines in another order.
    is_nested = TORCHRUN.local_rank in os.environ and found.world_size > task.world_size
    return is_nested or found.rank // (found.world_size // task.world_size) == task.rank


def _is_shell() -> bool:
    """Whether somebody types here: a terminal of `srun --pty`, which the first of its tasks alone has."""
    if "SLURM_PTY_PORT" not in os.environ or os.environ.get("SLURM_TASK_PID") == str(os.getpid()):
        return False
    try:
        return os.isatty(0)
    except OSError:
        return False


def _contradiction(one: tuple[Launcher, FoundRank], other: tuple[Launcher, FoundRank]) -> PlanError:
    return PlanError(
        f"{one[0].said(one[1])} and {other[0].said(other[1])} in the environment contradict each other: this process is either rank "
        f"{one[1].rank} of {one[1].world_size} or rank {other[1].rank} of {other[1].world_size}; unset what is left over from another "
        f"launcher, pass rank and world_size, or call init_process_group before the Loader is made"
    )


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) < _MOST_DIGITS
