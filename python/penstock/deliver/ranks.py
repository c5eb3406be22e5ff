"""Which rank a loader is of how many: as given, else of torch.distributed, else of torchrun's environment."""

from __future__ import annotations

import importlib
import itertools
import os
import sys
import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from penstock.core.errors import PlanError

#: So long ranks wait for the others to say whether their share was given rightly, and a wrong one for the others to have read it.
_AGREE_S, _READ_S = 20.0, 5.0
_POLL_S = 0.02

_numbers = itertools.count()


class Store(Protocol):
    """What the processes of a group have in common: `torch.distributed.Store`."""

    def set(self, key: str, value: str) -> None:
        """Sets a value."""

    def get(self, key: str) -> bytes:
        """A value that was set."""

    def check(self, keys: list[str]) -> bool:
        """Whether all these were set."""

    def add(self, key: str, amount: int) -> int:
        """Counts; the sum so far."""


class Group(NamedTuple):
    """A process group as this process sees it."""

    rank: int
    world_size: int
    store: Store | None


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """How a loader finds its rank and the world size, whenever it needs them: a process group may come after the loader.

    As given, else of torch.distributed if it is initialised, else of torchrun's environment, else 0 of 1. What was given must
    be what torch.distributed says. process_group: the ranks that share the data where these are not all.
    """

    rank: int | None = None
    world_size: int | None = None
    process_group: Any = None
    _number: int = field(init=False, default=-1)  # of the loaders that were given theirs: the same on all ranks

    def __post_init__(self) -> None:
        if (self.rank is None) != (self.world_size is None):
            raise PlanError("pass both rank and world_size, or neither")
        if self.rank is not None and self.process_group is not None:
            raise PlanError("pass rank and world_size, or process_group, which says both")
        if self.rank is not None:
            object.__setattr__(self, "_number", next(_numbers))

    def find(self) -> tuple[int, int]:
        """Rank and world size as they are now; PlanError where those given are not the process group's."""
        group = self._group()
        if self.rank is None or self.world_size is None:
            return group[:2] if group is not None else _ranks_of_environment()
        if group is not None and (self.rank, self.world_size) != group[:2]:
            wrong = f"rank {group.rank} of the {group.world_size} in the process group was given {self._given}"
            _tell(group, self._key, wrong)
            raise _contradiction(self._given, wrong)
        return self.rank, self.world_size

    def agree(self) -> bool:
        """Whether all ranks are known to be given what the process group says; PlanError where one is not. Ask once."""
        if self.rank is None:
            return True
        group = self._group()
        if group is None or group.store is None:
            return False
        if wrong := _hear(group, self._key):
            raise _contradiction(self._given, wrong)
        return True

    @property
    def _given(self) -> str:
        return f"rank={self.rank}, world_size={self.world_size}"

    @property
    def _key(self) -> str:
        return f"penstock/ranks/{self._number}"

    def _group(self) -> Group | None:
        if "torch.distributed" not in sys.modules and self.process_group is None:
            return None
        found = importlib.import_module("penstock.deliver.torch").distributed_group(self.process_group)
        return None if found is None else Group(*found)


def _contradiction(given: str, wrong: str) -> PlanError:
    return PlanError(
        f"Loader({given}): {wrong}; leave both out, or pass the process_group whose ranks share the data (tensor parallel: the "
        f"data-parallel group; one rank alone: a group of it)"
    )


def _ranks_of_environment() -> tuple[int, int]:
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return 0, 1
    rank_text, size_text = os.environ["RANK"], os.environ["WORLD_SIZE"]
    if not (rank_text.isdecimal() and size_text.isdecimal()):
        raise PlanError(
            f"RANK={rank_text!r} and WORLD_SIZE={size_text!r} in the environment are no numbers; unset them, or pass rank and "
            f"world_size"
        )
    return int(rank_text), int(size_text)


def ranks_here(rank: int, world_size: int) -> tuple[int, int]:
    """The ranks [first, last) on this machine, by torchrun's environment; all of them where that does not say it."""
    local_rank, local_size = (os.environ.get(name, "") for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    if (
        local_rank.isdecimal()
        and local_size.isdecimal()
        and 0 <= rank - int(local_rank) <= world_size - int(local_size)
    ):
        return rank - int(local_rank), rank - int(local_rank) + int(local_size)
    return 0, world_size


# What one rank has to tell the others. No collective: a rank that makes no such loader is not waited for without end, no
# device is touched, and the rank that holds the store stays until the others have read.


def _tell(group: Group, key: str, wrong: str) -> None:
    """Lets the other ranks know what is wrong here, and waits a little until they do."""
    if group.store is None:
        return
    group.store.set(f"{key}/wrong", wrong)
    _leave(group, key)


def _hear(group: Group, key: str) -> str:
    """What is wrong on any rank, as soon as one says so; "" when all are here, or have not come for a while."""
    store, until = group.store, time.monotonic() + _AGREE_S
    assert store is not None
    here = store.add(f"{key}/right", 1)
    while not store.check([f"{key}/wrong"]):
        if here == group.world_size or time.monotonic() > until:
            return ""
        time.sleep(_POLL_S)
        here = store.add(f"{key}/right", 0)
    wrong = store.get(f"{key}/wrong").decode()
    _leave(group, key)
    return wrong


def _leave(group: Group, key: str) -> None:
    assert group.store is not None
    left, until = group.store.add(f"{key}/left", 1), time.monotonic() + _READ_S
    while left < group.world_size and time.monotonic() < until:
        time.sleep(_POLL_S)
        left = group.store.add(f"{key}/left", 0)
