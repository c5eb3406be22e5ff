"""Ranges in traces of torch.profiler, where one runs, and of others that are asked for; PyTorch is not imported."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

_NO_RANGE = nullcontext()

#: What else opens a range of this name in its thread: see exporters/nvtx.
OTHER_RANGES: list[Callable[[str], AbstractContextManager[Any]]] = []


def profiled(name: str) -> AbstractContextManager[Any]:
    """A range "penstock: NAME" in this thread, of the profiler that runs; nothing where none does.

    A profiler sees its own thread, where batches are awaited; stages work in others, seen with profile_all_threads=True.
    """
    profiler: Any = sys.modules.get("torch.autograd.profiler")
    if profiler is None or not getattr(profiler, "_is_profiler_enabled", False):
        return _all_of([open_one(name) for open_one in OTHER_RANGES]) if OTHER_RANGES else _NO_RANGE
    found: AbstractContextManager[Any] = profiler.record_function(f"penstock: {name}")
    return _all_of([found, *(open_one(name) for open_one in OTHER_RANGES)]) if OTHER_RANGES else found


def _all_of(ranges: list[AbstractContextManager[Any]]) -> AbstractContextManager[Any]:
    if len(ranges) == 1:
        return ranges[0]
    stack = ExitStack()
    for one in ranges:
        stack.enter_context(one)
    return stack
