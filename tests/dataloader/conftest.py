"""What tests of the DataLoader share."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from penstock.torch import fetching


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Batches are worth a process however short they are, and two of these are waited for."""
    monkeypatch.setattr(fetching, "_WORTH_S", 0.0)
    monkeypatch.setattr(fetching, "_SOON_S", 0.0)
    monkeypatch.setattr(fetching, "_MEASURED", 10**9)
    monkeypatch.setattr(fetching, "usable_cpus", lambda: 2)
    monkeypatch.setenv("NUMEXPR_NUM_THREADS", "2")  # and so they start at full priority, since they are waited for here
    begin = fetching.Workers.begin

    def begin_and_wait(workers: Any, *given: Any) -> None:
        begin(workers, *given)
        workers._starting.join()

    monkeypatch.setattr(fetching.Workers, "begin", begin_and_wait)
    yield
    gc.collect()
    assert not [one for one in psutil.Process().children() if "penstock.torch" in " ".join(one.cmdline())]
