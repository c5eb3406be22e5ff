"""What tests of the DataLoader share."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.torch import fetching
from support.dataloader_cases import fetchers


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Batches are worth a process however short they are, and two of these are waited for."""
    monkeypatch.setattr(fetching, "_WORTH_S", 0.0)
    monkeypatch.setattr(fetching, "_SOON_S", 0.0)
    monkeypatch.setattr(fetching, "_MEASURED", 10**9)
    monkeypatch.setattr(fetching, "_MOST_PICKLE_S", 60.0)
    monkeypatch.setattr(fetching, "usable_cpus", lambda: 2)
    monkeypatch.setenv("NUMEXPR_NUM_THREADS", "2")  # and so they start at full priority, since they are waited for here
    begin = fetching.Workers.begin

    def begin_and_wait(workers: Any, *given: Any) -> None:
        begin(workers, *given)
        workers._starting.join()

    monkeypatch.setattr(fetching.Workers, "begin", begin_and_wait)
    before = fetchers()
    yield
    gc.collect()
    until = time.monotonic() + 60
    while left := [one for one in fetchers() if one not in before]:
        assert time.monotonic() < until, left
        time.sleep(0.05)
