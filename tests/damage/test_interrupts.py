"""Ctrl-C in the midst of long work ends it, and the process where nobody catches it; exceptions that end a process end a loop at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import Context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.core.cancel import StoppedError, work_for
from penstock.format import hdf5_chunks
from support.interrupts import CASES, LONG_S

TESTS = Path(__file__).parent.parent
BAD = 50


def test_ctrl_c(tmp_path: Path) -> None:
    """Judged by the work that is still done, and where a function sleeps, by a fraction of its sleep."""
    ran = subprocess.run(
        [sys.executable, "-m", "support.interrupts", str(tmp_path), *CASES],
        cwd=TESTS, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    found = dict(zip(CASES, ran.stdout.splitlines(), strict=True))
    for case, line in found.items():
        ended_by, work_s, took_s = line.split()
        assert ended_by == "KeyboardInterrupt", (case, line, ran.stderr[-2_000:])
        assert float(work_s) < 1.0, (case, line)
        assert case.startswith("batch_at decodes") or float(took_s) < LONG_S / 3, (case, line)
    assert ran.returncode == -signal.SIGINT, ran.stderr
    assert ran.stderr.rstrip().endswith("KeyboardInterrupt")
    assert "Exception ignored" not in ran.stderr
    assert [
        path for path in tmp_path.rglob("*") if path.is_file() and path.suffix not in (".png", ".jpg", ".index")
    ] == []


def fails(kind: type[BaseException]) -> Callable[[Any], Any]:
    def call(batch: Any) -> Any:
        if BAD in np.atleast_1d(batch["id"]):
            raise kind("bad")
        return batch

    return call


def drawn(kind: type[BaseException]) -> Iterator[Any]:
    yield from map(fails(kind), ({"id": row} for row in range(100)))


def numbers() -> ps.Dataset:
    return ps.from_arrays({"id": np.arange(100)})


PLANS: dict[str, Callable[[type[BaseException]], ps.Dataset]] = {
    "map": lambda kind: numbers().batch(4).map(fails(kind)),
    "map_rows": lambda kind: numbers().map_rows(fails(kind)).batch(4),
    "filter": lambda kind: numbers().filter(lambda batch: fails(kind)(batch)["id"] >= 0).batch(4, steps=25),
    "flat_map": lambda kind: numbers().flat_map(fails(kind), rows=4).batch(4, steps=25),
    "map below filter": lambda kind: numbers().map(fails(kind)).filter(lambda batch: batch["id"] >= 0).batch(4, steps=25),
    "generator": lambda kind: ps.from_iterable(drawn, arguments={"kind": kind}, spool=False, samples=100).batch(4),
}  # fmt: skip


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_raised_by_a_users_function(kind: type[BaseException], plan: str, on_error: Any) -> None:
    """As the same exception, never as a bad sample; what is delivered before are the first batches."""
    came: list[int] = []
    loader = ps.Loader(PLANS[plan](kind), on_error=on_error, cpus=2)

    def consume() -> None:
        for batch in loader:
            came.extend(batch["id"].tolist())

    with loader, pytest.raises(kind, match="bad"):
        consume()
    assert came == list(range(len(came)))
    assert len(came) <= BAD
    if plan == "map" and on_error == "raise":
        assert len(came) == BAD // 4 * 4, "all that came before was delivered"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_raised_in_batch_at_and_while_a_dataset_is_made(kind: type[BaseException]) -> None:
    for call in (
        lambda: ps.Loader(PLANS["map"](kind)).batch_at(0, BAD // 4),
        lambda: ps.from_iterable(drawn, arguments={"kind": kind}, name=kind.__name__),
        lambda: numbers().filter(lambda batch: fails(kind)(batch)["id"] >= 0, ahead=True),
    ):
        with pytest.raises(kind, match="bad"):
            call()


def test_chunks_are_read_in_short_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are those of one long call; a run that was stopped reads no more of them."""
    h5py, rng = pytest.importorskip("h5py"), np.random.default_rng(0)
    wide, text = rng.random((50, 7)), [b"x" * int(size) for size in rng.integers(0, 9, 50)]
    with h5py.File(tmp_path / "0.h5", "w") as file:
        file.create_dataset("wide", data=wide, chunks=(3, 2))
        file.create_dataset("text", data=text, dtype=h5py.string_dtype(), chunks=(2,))
        file.create_dataset("pairs", dtype=np.dtype("(2,)f8"), shape=(50,), chunks=(4,))[:] = wide[:, :2]
        file.create_dataset("whole", data=wide)
    monkeypatch.setattr(hdf5_chunks, "_CHUNKS_TOGETHER", 9)
    with h5py.File(tmp_path / "0.h5") as file:
        for dataset in file.values():
            for first, last in [(0, 50), (0, 1), (1, 49), (7, 32), (49, 50), (30, 30)]:
                read = hdf5_chunks.BlockedDataset(dataset).take(first, last)()
                assert read.dtype == dataset[first:last].dtype
                assert (read == dataset[first:last]).all()
        stopped = threading.Event()
        stopped.set()
        with pytest.raises(StoppedError):
            Context().run(_read_stopped, stopped, file["wide"])


def _read_stopped(stopped: threading.Event, dataset: Any) -> None:
    work_for(stopped)
    hdf5_chunks.BlockedDataset(dataset).take(0, 50)
