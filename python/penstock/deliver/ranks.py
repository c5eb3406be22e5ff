"""A loader's rank and world size: as passed, else from torch.distributed, else from torchrun's environment."""

from __future__ import annotations

import importlib
import itertools
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from penstock.core.errors import PlanError
from penstock.core.given import hold_as_int, is_whole
from penstock.core.quoted import quoted

#: How long ranks wait for the others to report wrong arguments, and how long a wrong one waits until the others have read that.
_AGREE_S, _READ_S = 20.0, 5.0
_POLL_S = 0.02
#: More digits than the number of any rank has.
_MOST_DIGITS = 10

_numbers = itertools.count()


class Store(Protocol):
    """The key-value store of a process group: `torch.distributed.Store`."""

    def set(self, key: str, value: str) -> None:
        """Store a value under the key."""

    def get(self, key: str) -> bytes:
        """The value of the key."""

    def check(self, keys: list[str]) -> bool:
        """Whether all these keys have values."""

    def add(self, key: str, amount: int) -> int:
        """Add to a counter; returns its sum so far."""


class Group(NamedTuple):
    """A process group: the rank of this process in it, its size and its store."""

    rank: int
    world_size: int
    store: Store | None


def _nobody() -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """Finds a loader's rank and world size when they are needed, since the process group may be made after the loader.

    As passed, else from the framework that gets the batches (JAX), else from torch.distributed if it is initialised, else from torchrun's
    environment, else 0 of 1. Arguments must agree with torch.distributed. process_group: the ranks that share the data, if not all of them do.
    """

    rank: int | None = None
    world_size: int | None = None
    process_group: Any = None
    framework: Callable[[], tuple[int, int] | None] = _nobody
    _number: int = field(init=False, default=-1)  # counts the loaders with explicit ranks: the same on all ranks

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
            object.__setattr__(self, "_number", next(_numbers))

    def find(self) -> tuple[int, int]:
        """The current rank and world size; PlanError if the arguments contradict the process group."""
        if self.rank is None and self.process_group is None and (found := self.framework()) is not None:
            return found
        group = self._group()
        if self.rank is None or self.world_size is None:
            return group[:2] if group is not None else _ranks_of_environment()
        if group is not None and (self.rank, self.world_size) != group[:2]:
            wrong = f"rank {group.rank} of the {group.world_size} in the process group was given {self._given}"
            _report(group, self._key, wrong)
            raise _contradiction(self._given, wrong)
        return self.rank, self.world_size

    def agree(self) -> bool:
        """Whether all ranks are known to agree with the process group; PlanError if one does not. Call it once."""
        if self.rank is None:
            return True
        group = self._group()
        if group is None or group.store is None:
            return False
        if wrong := _receive(group, self._key):
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
    if not all(text.isdecimal() and len(text) < _MOST_DIGITS for text in (rank_text, size_text)):
        raise PlanError(
            f"RANK={quoted(rank_text)} and WORLD_SIZE={quoted(size_text)} in the environment are not numbers; unset them, or pass rank and "
            f"world_size"
        )
    return int(rank_text), int(size_text)


def ranks_here(rank: int, world_size: int) -> tuple[int, int]:
    """The ranks [first, last) on this machine, from torchrun's environment; all ranks without it."""
    local_rank, local_size = (os.environ.get(name, "") for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    if all(text.isdecimal() and len(text) < _MOST_DIGITS for text in (local_rank, local_size)) and 0 <= rank - int(
        local_rank
    ) <= world_size - int(local_size):
        return rank - int(local_rank), rank - int(local_rank) + int(local_size)
    return 0, world_size


# How ranks report wrong arguments to each other. Not by a collective: nobody waits forever for a rank that makes no such
# loader, no device is used, and the rank that holds the store stays until the others have read.


def _report(group: Group, key: str, wrong: str) -> None:
    """Report to the other ranks what is wrong on this one, and wait a little until they have read it."""
    if group.store is None:
        return
    group.store.set(f"{key}/wrong", wrong)
    _leave(group, key)


def _receive(group: Group, key: str) -> str:
    """What the first rank reports as wrong; "" once all ranks have arrived, or after a timeout."""
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
