"""Datasets, samplers and collate functions for the tests of the DataLoader; a module, so that other processes can import it."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import psutil
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info


class Squares(Dataset[Any]):
    """Cheap samples without random numbers."""

    def __init__(self, size: int = 50) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < self.size:
            raise IndexError(index)
        return {"x": torch.full((2, 3), float(index)), "y": index * index, "name": f"n{index}", "z": np.float32(index)}


class Slow(Squares):
    """Samples that take a while."""

    def __getitem__(self, index: int) -> Any:
        until = time.thread_time() + 0.001
        while time.thread_time() < until:
            pass
        return super().__getitem__(index)


class Draws(Slow):
    """Samples that draw from all generators."""

    def __getitem__(self, index: int) -> Any:
        drawn = torch.rand(()) + np.random.rand() + random.random()
        return {**super().__getitem__(index), "drawn": drawn}


class Counts(Slow):
    """Fetching changes it."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched = 0

    def __getitem__(self, index: int) -> Any:
        self.fetched += 1
        return {**super().__getitem__(index), "fetched": self.fetched}


class InProcess(Slow):
    """Another process makes other samples."""

    def __getitem__(self, index: int) -> Any:
        return {**super().__getitem__(index), "process": os.getpid()}


class Locked(Slow):
    """Cannot be sent."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


class Fails(Slow):
    """One sample is bad."""

    def __getitem__(self, index: int) -> Any:
        if index == 33:
            raise KeyError("no such picture")
        return super().__getitem__(index)


class Exits(Slow):
    """One sample ends a process that is not the first."""

    def __init__(self, here: int) -> None:
        super().__init__()
        self.here = here

    def __getitem__(self, index: int) -> Any:
        if index == 33 and os.getpid() != self.here:
            os._exit(5)
        return super().__getitem__(index)


class Together(Slow):
    """A whole batch by one call."""

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


class Stream(IterableDataset[Any]):
    """Numbers, divided among workers."""

    def __init__(self, size: int = 50) -> None:
        self.size = size

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, self.size, step))


class Pair(NamedTuple):
    a: Any
    b: Any


class Pairs(Slow):
    """Samples that are named tuples with ragged text."""

    def __getitem__(self, index: int) -> Any:
        return Pair(super().__getitem__(index), (index, [index + 1, "x" * (index % 3)]))


class Custom:
    """A batch of the user's own class."""

    def __init__(self, samples: list[Any]) -> None:
        self.x = torch.stack([one["x"] for one in samples])
        self.names = [one["name"] for one in samples]
        self.half = self.x.to(torch.bfloat16)

    def pin_memory(self) -> Custom:
        return self


def as_list(samples: list[Any]) -> Any:
    return samples


def as_generator(samples: list[Any]) -> Any:
    return (one for one in samples)


class OutOfRange:
    """A sampler that does not know the dataset."""

    def __iter__(self) -> Iterator[int]:
        return iter([0, 1, 99])

    def __len__(self) -> int:
        return 3


class Endless:
    """Batches of indices, how many is not known before."""

    def __iter__(self) -> Iterator[list[int]]:
        return iter([[number, number + 1] for number in range(0, 20, 2)])


class Stateful:
    """A sampler with a state of its own: it goes through the samples once in all, over epochs."""

    def __init__(self, size: int = 48) -> None:
        self.size, self.place = size, 0

    def __iter__(self) -> Iterator[int]:
        for _ in range(self.size // 2):
            self.place += 1
            yield self.place % self.size

    def __len__(self) -> int:
        return self.size // 2

    def state_dict(self) -> dict[str, int]:
        return {"place": self.place}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.place = state["place"]


class Strided(Slow):
    """Samples that are not contiguous."""

    def __getitem__(self, index: int) -> Any:
        images = torch.full((2, 3, 4, 5), float(super().__getitem__(index)["y"]))
        return (
            images.contiguous(memory_format=torch.channels_last),
            torch.arange(index + 5)[1:-1].expand(2, -1),
            images[0, :, :, 1:],
        )


class TwoWordsError(Exception):
    """Cannot be pickled: its arguments are not those of its constructor."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} {other}")
        self.one = one


class FailsOddly(Slow):
    """A sample raises an error that cannot be pickled, for a reason."""

    def __getitem__(self, index: int) -> Any:
        if index == 33:
            try:
                {}["absent"]
            except KeyError as error:
                raise TwoWordsError("no", "picture") from error
        return super().__getitem__(index)


class FailsElsewhere(Slow):
    """A sample that is found in one process only."""

    def __init__(self, home: int) -> None:
        super().__init__()
        self.home = home

    def __getitem__(self, index: int) -> Any:
        if index == 33 and os.getpid() != self.home:
            raise FileNotFoundError(index)
        return super().__getitem__(index)


def fetchers() -> list[psutil.Process]:
    """Processes that fetch batches for this one."""
    found = []
    for one in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # it has just ended, or nobody has asked what it ended by
            if "penstock.torch" in " ".join(one.cmdline()):
                found.append(one)
    return found
