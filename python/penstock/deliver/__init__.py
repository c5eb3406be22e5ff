"""Where batches go: one file a framework, each the only importer of it."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any, Protocol

from penstock.errors import PlanError
from penstock.spec import Field


class Deliver(Protocol):
    """Turns the columns of an item into what the user's framework works with."""

    @property
    def new_memory(self) -> Any:
        """How the slots get memory (see `engine.slots`); None for the usual."""

    @property
    def copies(self) -> bool:
        """Whether `finish` copies into a device's own memory."""

    def convert(self, column: Any, field: Field) -> Any:
        """One column, in a worker thread."""

    def finish(self, columns: dict[str, Any]) -> dict[str, Any]:
        """All converted columns, in a worker thread."""

    def receive(self, columns: dict[str, Any]) -> dict[str, Any]:
        """All columns, in the consumer's thread, before its first batch is handed out."""

    def parts(self, column: Any, rows: int) -> Callable[[], Any]:
        """What gives a received column's parts of so many rows, one a call; they share its memory, and nothing else keeps it."""


def open_deliver(to: str, device: Any) -> Deliver:
    """The delivery to a framework: "numpy" or "torch"; PlanError if it is not installed."""
    if to == "numpy":
        if device is not None and str(device).partition(":")[0] != "cpu":
            raise PlanError(f"to='numpy' delivers to the CPU, not to device={device!r}; use to='torch'")
        from penstock.deliver.numpy import ToNumpy

        return ToNumpy()
    if to == "torch":
        module = importlib.import_module("penstock.deliver.torch")
        return module.ToTorch(device)  # type: ignore[no-any-return]
    close = difflib.get_close_matches(str(to), ("numpy", "torch"), n=1)
    raise PlanError(f"to={to!r}; choose 'numpy' or 'torch'{f'; did you mean {close[0]!r}?' if close else ''}")


def find_ranks(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Rank and world size: as given, else of torch.distributed if it is initialised, else of torchrun's environment, else 0, 1."""
    if (rank is None) != (world_size is None):
        raise PlanError("pass both rank and world_size, or neither")
    if rank is not None and world_size is not None:
        return rank, world_size
    if "torch.distributed" in sys.modules:
        found = importlib.import_module("penstock.deliver.torch").distributed_rank()
        if found is not None:
            return found  # type: ignore[no-any-return]
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        rank_text, size_text = os.environ["RANK"], os.environ["WORLD_SIZE"]
        if not (rank_text.isdecimal() and size_text.isdecimal()):
            raise PlanError(
                f"RANK={rank_text!r} and WORLD_SIZE={size_text!r} in the environment are no numbers; unset them, or pass rank and "
                f"world_size"
            )
        return int(rank_text), int(size_text)
    return 0, 1


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
