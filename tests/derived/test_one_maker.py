"""Ranks that start together download, index and decompress each file once, not once each."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

from penstock.core.cancel import StoppedError, work_for
from penstock.core.files.scratch import sweep
from penstock.derived import lock
from penstock.derived.lock import one_maker
from servers.http import http_server
from support import tfrecords
from support.faulty_proxy import Faults, proxy

RANKS = 4
OPEN = """
import sys
import penstock as ps
print("here", flush=True)
sys.stdin.read()  # until all ranks are
with ps.Loader(ps.read(sys.argv[1]).cache_local(0).batch(50), epochs=1) as loader:
    print(sum(len(batch["x"]) for batch in loader))
"""


def write(path: Path) -> None:
    if path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            file["x"] = np.random.default_rng(0).random((500, 100))
    else:
        texts = [bytes(1000)] * 500
        path.write_bytes(b"".join(tfrecords.frame(tfrecords.example(x=tfrecords.texts(text))) for text in texts))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.h5", pytest.param("a.tfrecord", marks=pytest.mark.long)])
def test_ranks_that_start_together_read_a_file_whole_once(tmp_path: Path, name: str) -> None:
    (tmp_path / "data").mkdir()
    write(tmp_path / "data" / name)
    size = os.stat(tmp_path / "data" / name).st_size
    asked: list[dict[str, str]] = []
    slow = Faults(latency_s=0.5)
    with http_server(tmp_path / "data", asked=asked) as url, proxy(int(url.rpartition(":")[2]), slow) as port:
        environment = os.environ | {"PYTHONPATH": ":".join(sys.path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", OPEN, f"http://127.0.0.1:{port}/{name}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
            for _ in range(RANKS)
        ]
        assert [rank.stdout and rank.stdout.readline() for rank in ranks] == ["here\n"] * RANKS
        for rank in ranks:
            assert rank.stdin is not None
            rank.stdin.close()
            rank.stdin = None
        rows = [rank.communicate()[0] for rank in ranks]
    assert rows == ["500\n"] * RANKS
    whole = [request["range"] for request in asked if request.get("range") == f"bytes=0-{size - 1}"]
    reads = 1 if name == "a.h5" else 1 + RANKS  # every rank trains on the records; one reads them for their index
    assert len(whole) <= reads


def test_who_comes_second_waits(tmp_path: Path) -> None:
    entered, log = threading.Event(), []

    def second() -> None:
        entered.wait()
        with one_maker(str(tmp_path), ["b", "a"]):
            log.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with one_maker(str(tmp_path), ["a", "b"]):
        entered.set()
        with one_maker(str(tmp_path), ["c"]):  # others are not waited for
            sweep(str(tmp_path))
            time.sleep(0.2)
        log.append("first")
    thread.join()
    assert log == ["first", "second"]
    assert [*(tmp_path / "scratch").iterdir()] == []


def test_many_take_turns(tmp_path: Path) -> None:
    inside, most = [0], [0]

    def work() -> None:
        for _ in range(5):
            with one_maker(str(tmp_path), ["a"]):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.001)
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_where_nothing_can_be_locked_nobody_waits(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with one_maker(str(tmp_path / "file"), ["a"]), one_maker(str(tmp_path / "file"), ["a"]):
        pass


MAKER = """
import sys, time
from penstock.derived import lock
lock._ALIVE_S = 0.05  # so that it shows its life in time also where it waits for a CPU
with lock.one_maker(sys.argv[1], ["a"]):
    print("here", flush=True)
    time.sleep(float(sys.argv[2]))
"""


@contextlib.contextmanager
def maker(folder: Path, seconds: float) -> Iterator[subprocess.Popen[str]]:
    environment = os.environ | {"PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", MAKER, str(folder), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_a_stopped_process_is_named_and_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_WARN_S", 0.0)
    monkeypatch.setattr(lock, "_GIVE_UP_S", 1.5)
    with maker(tmp_path, 60) as process:
        process.send_signal(signal.SIGSTOP)
        begin = time.monotonic()
        with pytest.warns(UserWarning, match="process") as warned, one_maker(str(tmp_path), ["a"]):
            assert time.monotonic() - begin < 50
        told = [str(one.message) for one in warned]
        assert len(told) == 2
        assert f"process {process.pid} on " in told[0]
        assert "is making the same files; waiting for it" in told[0]
        assert "they are made here again" in told[1]


@pytest.mark.slow
def test_a_slow_process_is_waited_for_however_long_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows that it lives."""
    monkeypatch.setattr(lock, "_GIVE_UP_S", 3.0)
    begin = time.monotonic()
    with maker(tmp_path, 4), one_maker(str(tmp_path), ["a"]):
        assert time.monotonic() - begin >= 3.5


@pytest.mark.slow
def test_a_killed_process_blocks_nobody(tmp_path: Path) -> None:
    with maker(tmp_path, 60) as process:
        process.kill()
        with one_maker(str(tmp_path), ["a"]):
            pass


def test_who_wants_nothing_any_more_does_not_wait(tmp_path: Path) -> None:
    flag = threading.Event()

    def wait() -> None:
        work_for(flag)
        with pytest.raises(StoppedError), one_maker(str(tmp_path), ["a"]):
            pass

    with one_maker(str(tmp_path), ["a"]):
        thread = threading.Thread(target=wait)
        thread.start()
        flag.set()
        thread.join(60)
        assert not thread.is_alive()
