"""Ranges in traces of torch.profiler, where one runs; PyTorch is not imported."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

_NO_RANGE = nullcontext()


def profiled(name: str) -> AbstractContextManager[Any]:
    """A range "penstock: NAME" in this thread, of the profiler that runs; nothing where none does.

    A profiler sees its own thread, where batches are awaited; stages work in others, seen with profile_all_threads=True.
    """
    profiler: Any = sys.modules.get("torch.autograd.profiler")
    if profiler is None or not getattr(profiler, "_is_profiler_enabled", False):
        return _NO_RANGE
    found: AbstractContextManager[Any] = profiler.record_function(f"penstock: {name}")
    return found
