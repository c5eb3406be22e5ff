"""A loader's rank and world size: as passed, by a mesh, else from torch.distributed, else from the launcher's environment."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.core.arguments import hold_as_int, is_whole
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.core.warnings import warn
from penstock.deliver import launchers
from penstock.deliver.agreement import Agreement, GroupStore, Members, RankStatement, WrongError
from penstock.deliver.launchers import FoundRank
from penstock.deliver.mesh import MeshShare, check_mesh, share_in

_GROUP = "the process group"
#: Names of mesh dimensions along which ranks work on the same batch: tensor, pipeline, context (sequence) parallel.
_SHARING = (
    *("tp", "pp", "cp", "sp", "mp", "tensor", "pipeline", "context", "sequence", "model"),
    *("tensor_parallel", "pipeline_parallel", "context_parallel", "sequence_parallel", "model_parallel"),
)


class ProcessGroup(NamedTuple):
    """A process group: the rank of this process in it, its size and its store."""

    rank: int
    world_size: int
    store: GroupStore | None


def _nobody() -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """Finds a loader's rank and world size when they are needed, since the process group may be made after the loader.

    As passed or as a mesh says, else from the framework that gets the batches (JAX), else from torch.distributed if it is initialised, else from
    the launcher's environment, else 0 of 1. Arguments must agree with torch.distributed. process_group: the ranks that share the data, if not all
    of them do. mesh, data_dims: a DeviceMesh, and those of its dimensions along which ranks get different rows.
    """

    rank: int | None = None
    world_size: int | None = None
    process_group: Any = None
    mesh: Any = None
    data_dims: Any = None
    framework: Callable[[], tuple[int, int] | None] = _nobody
    _agreement: Agreement = field(init=False, default_factory=Agreement, repr=False)
    _dims: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        if (self.rank is None) != (self.world_size is None):
            raise PlanError(
                "Loader: rank without world_size, or the reverse; pass both rank and world_size, or neither"
            )
        if self.rank is not None and not (is_whole(self.rank) and is_whole(self.world_size)):
            raise PlanError(
                f"Loader: rank={quoted(self.rank)}, world_size={quoted(self.world_size)}; ranks are whole numbers, counted from 0"
            )
        if self.rank is not None and self.process_group is not None:
            raise PlanError("Loader: rank, world_size and process_group; pass rank and world_size, or process_group")
        if self.rank is not None:
            hold_as_int(self, "rank", "world_size")
        if self.mesh is not None or self.data_dims is not None:
            for name in ("rank", "process_group"):
                if getattr(self, name) is not None:
                    raise PlanError(f"Loader: mesh and {name}; the mesh says which rank this is, so leave {name} out")
            object.__setattr__(self, "_dims", check_mesh(self.mesh, self.data_dims))

    def find(self) -> tuple[int, int]:
        """The current rank and world size; PlanError if the arguments contradict the process group."""
        return self.place()[:2]

    def place(self) -> FoundRank:
        """The same, and who says so."""
        if (share := self._mesh_share) is not None:
            return FoundRank(share.rank, share.world_size, share.shown)
        if self.rank is None and self.process_group is None and (found := self.framework()) is not None:
            return FoundRank(*found, "JAX")
        group = self._group()
        if self.rank is None or self.world_size is None:
            if group is not None:
                return FoundRank(group.rank, group.world_size, _GROUP)
            return launchers.find() or FoundRank(0, 1, "; ".join(launchers.notes()))
        if group is not None and (self.rank, self.world_size) != group[:2]:
            wrong = f"rank {group.rank} of the {group.world_size} in the process group was given {self._given}"
            if (members := self.members()) is not None:
                self._report(members, wrong, is_of_ranks=True)
            raise self._contradiction(wrong)
        return FoundRank(self.rank, self.world_size, "")

    def fail(self, error: Exception) -> None:
        """Tell the other ranks that this one has no loader, and why."""
        if (members := self.members()) is not None:
            self._report(members, str(error), is_of_ranks=False)

    def _report(self, members: Members, wrong: str, *, is_of_ranks: bool) -> None:
        try:
            self._agreement.report(members, wrong, is_of_ranks=is_of_ranks)
        except RuntimeError as error:
            _warn_of_store(error)

    def announce(self, said: Callable[[], RankStatement]) -> None:
        """Tell the other ranks what this one will do, if there is a process group yet."""
        if (members := self.members()) is not None:
            try:
                self._agreement.announce(members, said().text)
            except RuntimeError as error:
                _warn_of_store(error)

    def agree(self, said: Callable[[], RankStatement]) -> bool:
        """Whether there is nothing more to compare: PlanError if the ranks of the process group do not do the same."""
        members = self.members()
        self._warn_of_peers()
        if members is None:
            if self.rank is None and self._group() is None and launchers.is_half_set():
                warn(f"Loader: {launchers.notes()[0]}, so this process reads all rows; set both, or none")
            return False
        try:
            return self._agreement.agree(members, said())
        except WrongError as wrong:
            raise self._contradiction(str(wrong)) from None
        except RuntimeError as error:
            _warn_of_store(error)
            return False

    def _warn_of_peers(self) -> None:
        """Say so where there is a mesh whose ranks usually share batches, and this loader was not given it."""
        if self.rank is not None or self.process_group is not None or self._dims or self._group() is None:
            return
        found = importlib.import_module("penstock.deliver.torch").mesh_dimensions()
        if shared := [name for name in found if name in _SHARING]:
            warn(
                f"Loader: there is a device mesh with the dimension {quoted(shared[0])}, along which ranks get different rows here; if they work on "
                f"the same batch, pass mesh=mesh and data_dims=…, the dimensions along which batches differ"
            )

    def members(self) -> Members | None:
        """Who must agree with this rank; None where nobody must, or there is no store to compare by."""
        group, share = self._group(), self._mesh_share
        if group is None or group.store is None or group.world_size == 1 or (share and len(share.members) == 1):
            return None
        return Members(group.rank, range(group.world_size) if share is None else share.members, group.store)

    def watch(self, began: FoundRank) -> Callable[[], None] | None:
        """A function to call before each batch of a pass: PlanError if there is another process group now, in which ranks get other rows. None where there cannot be one."""
        if began.origin != _GROUP or self.process_group is not None:
            return None
        find_group = importlib.import_module("penstock.deliver.torch").group_of_all
        group = find_group()

        def check() -> None:
            if (now := find_group()) is group or now is None or (place := self.place()) == began:
                return
            raise PlanError(
                f"Loader: this was rank {began.rank} of {began.world_size} when the pass began, and is rank {place.rank} of {place.world_size} "
                f"now; loader.load_state_dict(loader.state_dict()) and a new pass go on with the next step"
            )

        return check

    @property
    def shown(self) -> str:
        """How ranks share the rows, the same on all of them."""
        share = self._mesh_share
        return "all ranks" if share is None else share.shown

    @property
    def records(self) -> bool:
        """Whether this rank writes the ledger: one of those that get the same rows."""
        share = self._mesh_share
        return share is None or share.is_first

    @property
    def _given(self) -> str:
        return f"rank={self.rank}, world_size={self.world_size}"

    @property
    def _mesh_share(self) -> MeshShare | None:
        return share_in(self.mesh, self._dims) if self._dims else None

    def _group(self) -> ProcessGroup | None:
        if "torch.distributed" not in sys.modules and self.process_group is None:
            return None
        found = importlib.import_module("penstock.deliver.torch").distributed_group(self.process_group)
        return None if found is None else ProcessGroup(*found)

    def _contradiction(self, wrong: str) -> PlanError:
        given = "" if self.rank is None else f"({self._given})"
        return PlanError(
            f"Loader{given}: {wrong}; leave both out, or pass the process_group whose ranks share the data (tensor parallel: the "
            f"data-parallel group; one rank alone: a group of it)"
        )


def _warn_of_store(error: RuntimeError) -> None:
    """The rank that held the store is gone, and said itself what is wrong there."""
    warn(f"Loader: the process group's store does not answer, so whether the ranks agree is not known ({error})")
