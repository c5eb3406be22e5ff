"""How long this process spent on files that are made of the data before training: indexes, downloads, decompressed shards."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

Setup: TypeAlias = Literal["index", "download", "decompress"]

_spent_s: dict[str, float] = {}


@contextmanager
def timed(what: Setup) -> Iterator[None]:
    """Counts what is done meanwhile."""
    began_at = time.perf_counter()
    try:
        yield
    finally:
        _spent_s[what] = _spent_s.get(what, 0.0) + time.perf_counter() - began_at


def setup_times() -> dict[str, float]:
    """Seconds so far, by kind."""
    return dict(_spent_s)
