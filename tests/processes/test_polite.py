"""Processes that nobody waits for yet import at the lowest priority, and work at full priority."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import penstock as ps
from penstock.processes import auto
from penstock.processes.auto import CallAuto
from penstock.processes.polite import politely
from penstock.torch import DataLoader, fetching

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads have no priority of their own"),
]

MODULE = """
import os, threading

def nice():
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

AT_IMPORT, WHERE = nice(), {where!r}

def note():
    with open(WHERE, "a") as file:
        file.write(f"{{os.getpid()}} {{AT_IMPORT}} {{nice()}}\\n")

def function(batch):
    note()
    return batch

class Squares:
    def __len__(self):
        return 40

    def __getitem__(self, index):
        note()
        return index * index
"""


class Noted:
    """A module that notes with which priority it is imported, and works: (at import, at work) of all processes but this one."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "notes"
        (folder / "polite_module.py").write_text(MODULE.format(where=str(self._path)))
        self.module: Any = importlib.import_module("polite_module")

    def found(self) -> set[tuple[int, int]]:
        lines = [[int(word) for word in line.split()] for line in self._path.read_text().splitlines()]
        return {(imported, works) for process, imported, works in lines if process != os.getpid()}


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Noted:
    for name in ("OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "polite_module", raising=False)
    return Noted(tmp_path)


def nice() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


def wait_for_start(workers: Any, *given: Any, begin: Any = fetching.Workers.begin) -> None:
    begin(workers, *given)
    workers._starting.join()


@pytest.mark.long
def test_the_drop_in_starts_at_the_lowest_priority_and_fetches_at_full(
    noted: Noted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the dataset changes between epochs: it is waited for then."""
    monkeypatch.setattr(fetching, "_WORTH_S", 0.0)
    monkeypatch.setattr(fetching, "_SOON_S", 0.0)
    monkeypatch.setattr(fetching, "usable_cpus", lambda: 2)
    monkeypatch.setattr(fetching.Workers, "begin", wait_for_start)
    loader = DataLoader(noted.module.Squares(), batch_size=4)
    assert len(list(loader)) == 10
    assert "2 processes" in loader.explain(), loader.explain()
    for child in psutil.Process().children():
        if "penstock.torch" in " ".join(child.cmdline()):
            assert child.nice() == nice()
    loader.choice.close()
    assert noted.found() == {(19, nice())}


@pytest.mark.parametrize("workers", ["auto", "process"])
def test_functions_start_at_the_lowest_priority_beside_threads_alone(
    noted: Noted, monkeypatch: pytest.MonkeyPatch, workers: Any
) -> None:
    for name, value in (("_SECONDS", 0.0), ("_BUSY", 0.0), ("_FEWEST_CPUS", 0.0), ("_MOST_CPUS", 99.0)):
        monkeypatch.setattr(auto, name, value)

    def tried(call: CallAuto, *rows: Any, compared: Any = CallAuto._compared) -> Any:
        made = compared(call, *rows)
        call.wait()
        return made

    monkeypatch.setattr(CallAuto, "_compared", tried)
    plan = ps.from_arrays({"x": np.arange(400)}).map(noted.module.function, workers=workers).batch(4)
    with ps.Loader(plan, cpus=2) as loader:
        assert len([*loader]) == 100
    assert noted.found() == {(19 if workers == "auto" else nice(), nice())}


def test_what_fails_politely_is_left_to_whoever_does_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    seen = list[int]()

    def fails() -> None:
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        raise SystemExit(3)

    politely(fails)
    assert seen == [19]
    assert nice() == os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_threads_that_imports_start_keep_their_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where somebody wants several threads of a library that starts them as it is imported, all is done at full priority."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "4")
    seen = list[int]()
    politely(lambda: seen.append(1))
    assert seen == []
