"""Files of snapshots, and exporters that are slow, fail, or block: training goes on."""

from __future__ import annotations

import gc
import json
import logging
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.core.errors import PlanError, StorageError
from penstock.loader.observing import Observing
from penstock.observe import machine, outlets, reporter
from penstock.observe.events import Event
from penstock.observe.folder import file_name, read_snapshots, snapshots_folder, write_snapshot
from penstock.observe.process_start import process_ticks
from penstock.observe.snapshot import Identity, Snapshot
from penstock.runtime.run import Run

DATA = ps.from_arrays({"x": np.arange(4000)}).batch(4)


def begun(loader: ps.Loader) -> Iterator[Any]:
    """A pass, whose first batch was taken. It lasts as long as somebody holds it."""
    batches = iter(loader)
    next(batches)
    return batches


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PENSTOCK_OBSERVE_DIR", str(tmp_path / "observe"))
    monkeypatch.setattr(reporter, "EVERY_S", 0.02)
    monkeypatch.setattr(reporter, "_ENDS_S", 60.0)  # a loaded machine gives nothing up
    gc.collect()
    reporter.reporter().end_all()  # of loaders that earlier tests left
    monkeypatch.setattr(reporter.reporter(), "_folder_rests_until", 0.0)  # after an error of an earlier test's folder
    yield tmp_path / "observe"
    until(lambda: "penstock-reporter" not in {thread.name for thread in threading.enumerate()})


def until(holds: Callable[[], Any], patience_s: float = 20.0) -> Any:
    deadline = time.monotonic() + patience_s
    while not (found := holds()):
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)
    return found


class Keeps:
    """An exporter that keeps what it is given."""

    def __init__(self) -> None:
        self.snapshots, self.events, self.closed = list[Snapshot](), list[Event](), 0

    def write(self, snapshot: Snapshot, events: list[Event]) -> None:
        self.snapshots.append(snapshot)
        self.events += events

    def close(self) -> None:
        self.closed += 1


# Files


def test_a_loader_that_is_freed_in_the_midst_of_a_snapshot_has_ended_when_it_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Files that it reads may be changed from then on: their mapped pages would be read by threads that still run."""
    looks, ended_in = threading.Event(), list[str]()
    whole, close = Observing.whole, Run.close

    def slow(observing: Observing, made: Snapshot) -> Snapshot:
        if threading.current_thread().name == "penstock-reporter":
            looks.set()
            time.sleep(0.2)
        return whole(observing, made)

    def noted(run: Run) -> None:
        ended_in.append(threading.current_thread().name)
        close(run)

    monkeypatch.setattr(Observing, "whole", slow)
    monkeypatch.setattr(Run, "close", noted)
    batches = iter(ps.Loader(DATA))
    next(batches)
    assert looks.wait(20)
    del batches
    assert ended_in, "the loader still runs"
    assert "penstock-reporter" not in ended_in


class Cycle:
    """What only the garbage collector frees."""

    def __init__(self) -> None:
        self.itself, self.loader = self, ps.Loader(DATA)
        self.batches = begun(self.loader)


@pytest.mark.parametrize("where", ["penstock-reporter", "MainThread"])
def test_the_garbage_collector_may_find_a_loader_while_its_figures_are_read(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever memory is asked for: also in the midst of what is locked."""
    before = {*threading.enumerate()}
    times, is_dropped, collects = machine.cpu_times, threading.Event(), threading.Event()

    def collected() -> machine.CpuTimes:
        if is_dropped.is_set() and threading.current_thread().name == where and not collects.is_set():
            collects.set()
            gc.collect()
        return times()

    monkeypatch.setattr(machine, "cpu_times", collected)
    monkeypatch.setattr(machine, "_LEAST_S", 0.0)
    cycle = Cycle()
    rank = weakref.ref(cycle.loader._rank)
    gc.disable()
    try:
        del cycle
        is_dropped.set()
        if where == "MainThread":
            reporter.reporter().end_all()
        assert collects.wait(20)
    finally:
        gc.enable()
    until(lambda: rank() is None and not threads_since(before, "penstock-read", "penstock-gather", "penstock-deliver"))


def threads_since(before: set[threading.Thread], *names: str) -> list[threading.Thread]:
    """Threads with these beginnings of names that are new: what earlier tests of this process left may end when it will."""
    return [one for one in threading.enumerate() if one not in before and one.name.startswith(names)]


def test_a_look_at_the_machine_that_takes_long_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a fork meanwhile had a lock that nobody releases there."""
    times, looks, goes_on = machine.cpu_times, threading.Event(), threading.Event()

    def slow() -> machine.CpuTimes:
        if threading.current_thread() is thread:
            looks.set()
            goes_on.wait(60)
        return times()

    watch = machine.MachineWatch()
    thread = threading.Thread(target=watch.look)
    monkeypatch.setattr(machine, "cpu_times", slow)
    monkeypatch.setattr(machine, "_LEAST_S", 0.0)
    watch.begin()
    thread.start()
    assert looks.wait(60)
    begins = threading.Thread(target=watch.begin, daemon=True)
    begins.start()
    begins.join(60)
    assert not begins.is_alive()
    assert watch.look().mean_cpu >= 0
    goes_on.set()
    thread.join()


def test_a_loader_that_runs_has_a_file_and_one_that_ended_has_none(folder: Path) -> None:
    loader = ps.Loader(DATA)
    assert not folder.exists(), "nothing runs yet"
    _batches = begun(loader)
    (found,) = until(lambda: [one for one in read_snapshots() if one["samples"]])
    assert found["loader"]["pid"] == os.getpid()
    assert found["loader"]["name"] == "memory"
    assert found["samples"] >= 4
    assert [stage["name"] for stage in found["stages"]] == [stage.name for stage in loader.stats().stages]
    until(lambda: read_snapshots()[0]["at"] > found["at"])
    loader.close()
    assert [*folder.iterdir()] == []
    _again = begun(loader)
    assert len(until(read_snapshots)) == 1
    loader.close()


@pytest.mark.parametrize("how", ["break", "drop", "close in the midst"])
def test_ends_of_all_kinds_leave_nothing(folder: Path, how: str) -> None:
    loader = ps.Loader(DATA)
    if how == "break":
        for _ in loader:
            until(read_snapshots)
            break
    else:
        batches = begun(loader)
        until(read_snapshots)
        if how != "drop":
            loader.close()
        del batches
    del loader
    assert [*folder.iterdir()] == []


def test_two_loaders_have_two_files(folder: Path) -> None:
    with ps.Loader(DATA) as one, ps.Loader(DATA) as other:
        _passes = begun(one), begun(other)
        until(lambda: len(read_snapshots()) == 2)
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("penstock-reporter") == 1
    assert [*folder.iterdir()] == []


def test_the_folder_is_of_this_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_OBSERVE_DIR")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    snapshot = Snapshot(loader=Identity(pid=os.getpid(), host="h", number=1, started_at=time.time()))
    path = write_snapshot(snapshot)
    assert path.parent == tmp_path / "penstock"
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600
    path.parent.chmod(0o777)
    with pytest.raises(StorageError, match="PENSTOCK_OBSERVE_DIR"):
        write_snapshot(snapshot)


def test_a_link_in_the_place_of_the_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else may make /tmp/penstock-1000 before us, and lead it to our own files."""
    monkeypatch.delenv("PENSTOCK_OBSERVE_DIR")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "penstock").symlink_to(tmp_path / "mine")
    with pytest.raises(StorageError, match="not a folder of this user's alone"):
        write_snapshot(Snapshot())
    with ps.Loader(DATA) as loader:
        assert len([*loader]) == 1000, "training goes on"
    assert [*(tmp_path / "mine").iterdir()] == []


def test_without_a_runtime_folder_it_lies_in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_OBSERVE_DIR")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "nonesuch"))
    assert snapshots_folder().name == f"penstock-{os.getuid()}"


def test_a_folder_that_cannot_be_written_stops_no_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("PENSTOCK_OBSERVE_DIR", str(tmp_path / "file"))
    keeps = Keeps()
    with ps.Loader(DATA, observe=[keeps]) as loader:
        for _ in loader:
            time.sleep(0.0001)
    assert keeps.snapshots[-1].batches == 1000, "exporters have them all the same"


def test_a_full_disk_leaves_no_half_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = json.dumps

    def full(*_: Any, **__: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("penstock.observe.folder.json.dumps", full)
    with pytest.raises(OSError, match="No space"):
        write_snapshot(Snapshot())
    monkeypatch.setattr("penstock.observe.folder.json.dumps", real)
    assert [*folder.iterdir()] == []


def test_files_of_processes_that_ended_are_removed(folder: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    host = reporter_host()
    old = write_snapshot(Snapshot(at=1.0, loader=Identity(pid=ended.pid, host=host, number=1, started_at=time.time())))
    # Its number belongs to another process by now: to this one, which began later.
    reused = write_snapshot(Snapshot(at=1.0, loader=Identity(pid=os.getpid(), host=host, number=9, started_at=1.0)))
    away = write_snapshot(Snapshot(at=time.time(), loader=Identity(pid=ended.pid, host="another", number=1)))
    gone = write_snapshot(Snapshot(loader=Identity(pid=1, host="another", number=2)))
    os.utime(gone, (time.time() - 1000,) * 2)
    (folder / "x.snapshot.json").write_text("{half a file")
    assert [one["loader"]["host"] for one in read_snapshots()] == ["another"]
    assert [path.exists() for path in (old, reused, away, gone)] == [False, False, True, False]


def reporter_host() -> str:
    from penstock.observe.folder import host_name

    return host_name()


@pytest.mark.parametrize("word", ["off", "OFF", "0"])
def test_the_files_are_switched_off(word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written, asked, writes = list[Snapshot](), list[str](), reporter.writes_snapshots

    def noted() -> bool:
        asked.append(word)
        return writes()

    monkeypatch.setattr(reporter, "write_snapshot", written.append)
    monkeypatch.setattr(reporter, "writes_snapshots", noted)
    with ps.Loader(DATA) as loader:
        _batches = begun(loader)
        until(lambda: written)
        monkeypatch.setenv("PENSTOCK_OBSERVE_DIR", word)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        count = len(asked)
        until(lambda: len(asked) > count)  # whoever asked before the word was there is done
        written.clear()
        count = len(asked)
        until(lambda: len(asked) >= count + 3)
        assert written == []
    assert snapshots_folder() == tmp_path / "penstock", "where loaders with other environments tell"
    assert not (tmp_path / "penstock").exists()
    assert not Path(word).exists()


def in_the_way(kind: str, path: Path, victim: Path) -> None:
    """What somebody else puts where a file of ours is to be."""
    if kind == "link":
        path.symlink_to(victim)
    elif kind == "dangling link":
        path.symlink_to(victim.parent / "made by us")
    elif kind == "hard link":
        path.hardlink_to(victim)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_text("x" * 100_000)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
@pytest.mark.parametrize("kind", ["link", "dangling link", "hard link", "pipe", "file"])
def test_what_lies_in_the_way_of_a_file_is_replaced_and_never_written_to(
    kind: str, folder: Path, tmp_path: Path
) -> None:
    snapshot = Snapshot(loader=Identity(pid=os.getpid(), host="h", number=1))
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder.mkdir()
    name = file_name(snapshot.loader)
    for place in (folder / f".{name}.{os.getpid()}", folder / name):
        in_the_way(kind, place, victim)
    assert json.loads(write_snapshot(snapshot).read_text())["loader"]["host"] == "h"
    assert victim.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["observe", "victim"]
    assert [path.name for path in folder.iterdir()] == [name]


def test_a_file_names_no_secret_of_a_url(folder: Path) -> None:
    path = write_snapshot(Snapshot(verdict="read s3://me:hunter22@data/a?sig=abc123 is slow"))
    assert "read s3://data/a is slow" in path.read_text()
    assert "hunter22" not in path.read_text()


def test_what_was_half_written_by_a_process_that_was_killed_goes(folder: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    folder.mkdir()
    half = [folder / f".{reporter_host()}-{pid}-0.snapshot.json.{pid}" for pid in (ended.pid, os.getpid())]
    for path in (*half, folder / f".elsewhere-1-1.snapshot.json.{ended.pid}"):
        path.write_text("{")
    with ps.Loader(DATA) as loader:
        reporter.reporter()._is_clean = False
        _batches = begun(loader)
        until(lambda: not half[0].exists())
    assert half[1].exists()
    assert len([*folder.iterdir()]) == 2, "of this machine's processes alone"


def test_clocks_that_jump_while_a_loader_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on to tell, by its own time, and its file stays, also for a process that begins after the jump."""
    jump_s, real = 0.0, time.time
    monkeypatch.setattr(time, "time", lambda: real() + jump_s)
    began_at = time.monotonic()

    def tells(jump_s: float, taken: int) -> bool:
        return any(abs(one.at - real() - jump_s) < 3000 and one.batches >= taken - 1 for one in read_snapshots())

    with ps.Loader(DATA) as loader:
        batches, taken = iter(loader), 0
        for jump_s in (0.0, 7200.0, -86_400.0, 30.0):
            for _ in range(100):
                next(batches)
                taken += 1
            until(lambda jump_s=jump_s, taken=taken: tells(jump_s, taken))
        stats, took_s = loader.stats(), time.monotonic() - began_at
        assert 0 < stats.elapsed_s <= took_s + 1
        assert 0 < stats.steady_s <= took_s + 1
        assert stats.samples_per_s == pytest.approx(stats.samples / stats.elapsed_s, rel=0.01)
        assert max(stats.wait.most_s, stats.step.most_s) <= took_s + 1
        history = loader._rank.recorder.history
        assert history.seconds <= took_s + 1
        assert any("s ahead of the loader's own time" in note for note in history.notes)
        assert any("behind the loader's own time" in note for note in history.notes)


def test_a_process_is_known_by_its_beginning_whatever_clocks_say(folder: Path) -> None:
    ticks = process_ticks(os.getpid())
    if not ticks:
        pytest.skip("this system does not tell when processes began")
    own = Identity(pid=os.getpid(), host=reporter_host(), number=1, started_at=1.0, process_ticks=ticks)
    write_snapshot(Snapshot(loader=own))  # the clock was set by years since
    reused = write_snapshot(Snapshot(loader=replace(own, number=2, process_ticks=ticks + 1, started_at=time.time())))
    assert [one.loader.number for one in read_snapshots()] == [1]
    assert not reused.exists()
    assert process_ticks(2**22 + 1) == 0


# Exporters


def test_an_exporter_gets_every_event_once_and_the_last_figures() -> None:
    keeps = Keeps()
    with ps.Loader(DATA, observe=[keeps], epochs=1) as loader:
        for _ in loader:
            pass
        assert loader.stats()["exporters"][next(iter(loader.stats()["exporters"]))]["state"] == "running"
    assert keeps.closed == 1
    assert keeps.snapshots[-1].batches == 1000
    for name in ("step", "wait", "deliver"):
        told = sorted(one.first_step + n for one in keeps.events if one.what == name for n in range(one.steps))
        assert told == [*range(1000)], name


def test_loaders_that_name_the_same_exporter_share_it() -> None:
    keeps = Keeps()
    with ps.Loader(DATA, observe=[keeps]) as one:
        _of_one = begun(one)
        with ps.Loader(DATA, observe=[keeps]) as other:
            _of_other = begun(other)
            until(lambda: len({found.loader.number for found in keeps.snapshots}) == 2)
        assert keeps.closed == 0
    assert keeps.closed == 1


def test_one_that_raises_is_given_up_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    class Raises(Keeps):
        def write(self, snapshot: Snapshot, events: list[Event]) -> None:
            raise OSError(28, "No space left on device")

    with caplog.at_level(logging.WARNING, "penstock"), ps.Loader(DATA, observe=[Raises()]) as loader:
        batches = begun(loader)
        found = until(lambda: [one for one in loader.stats().exporters.values() if one["state"] == "dropped"])
        assert len([*batches]) == 999
    assert found[0]["failures"] == 3
    assert "No space left" in found[0]["error"]
    (line,) = [one for one in caplog.messages if "is given up" in one]
    assert "training goes on without it" in line


def refuses(text: str, *, rank: int) -> None:
    raise OSError(98, f"Address already in use: {text}, rank {rank}")


def test_one_that_cannot_be_opened_is_an_error_where_the_loader_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.observe.exporters.open_exporter", refuses, raising=False)
    with pytest.raises(OSError, match="Address already in use: prometheus:9464, rank 1"):
        ps.Loader(DATA, observe="prometheus:9464", rank=1, world_size=2)


def test_one_of_the_environment_that_cannot_be_opened_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was named for all programs of a shell, and none must end for it."""
    monkeypatch.setattr("penstock.observe.exporters.open_exporter", refuses, raising=False)
    monkeypatch.setenv("PENSTOCK_OBSERVE", " prometheus:9464, ")
    with pytest.warns(UserWarning, match="PENSTOCK_OBSERVE: prometheus:9464 cannot be opened.*Address already in use"):
        loader = ps.Loader(DATA)
    assert len([*loader]) == 1000
    loader.close()


def test_each_loader_opens_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = list[Keeps]()

    def opens(text: str, *, rank: int) -> Keeps:
        opened.append(Keeps())
        return opened[-1]

    monkeypatch.setattr("penstock.observe.exporters.open_exporter", opens, raising=False)
    with ps.Loader(DATA, observe="keeps") as one, ps.Loader(DATA, observe=["keeps"]) as other:
        assert len(opened) == 2
        assert [len([*one]), len([*other])] == [1000, 1000]
    assert [keeps.closed for keeps in opened] == [1, 1]
    assert [len({found.loader.number for found in keeps.snapshots}) for keeps in opened] == [1, 1]
    next(iter(one))
    assert len(opened) == 3, "a closed loader begins anew"
    one.close()
    assert opened[2].closed == 1


def test_one_of_a_loader_that_never_ran_is_closed() -> None:
    closed, dropped = Keeps(), Keeps()
    ps.Loader(DATA, observe=[closed]).close()
    loader = ps.Loader(DATA, observe=[dropped])
    del loader
    until(lambda: (closed.closed, dropped.closed) == (1, 1))
    assert closed.snapshots == []


def test_one_that_blocks_is_waited_for_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "_ENDS_S", 0.1)
    free, before = threading.Event(), {*threading.enumerate()}

    class Blocks(Keeps):
        def write(self, snapshot: Snapshot, events: list[Event]) -> None:
            free.wait()

    with ps.Loader(DATA, observe=[Blocks()]) as loader:
        batches = begun(loader)
        until(lambda: next(iter(loader.stats().exporters.values()))["left_out"] > 0)
        assert len([*batches]) == 999
    free.set()
    until(lambda: not threads_since(before, "penstock-observe"))


def test_events_of_snapshots_that_were_left_out_go_with_later_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlets, "_QUEUED", 2)
    free, keeps = threading.Event(), Keeps()

    class Slow(Keeps):
        def write(self, snapshot: Snapshot, events: list[Event]) -> None:
            free.wait()
            keeps.write(snapshot, events)

    with ps.Loader(DATA, observe=[Slow()], epochs=1) as loader:
        for number, _ in enumerate(loader):
            time.sleep(0.0002)
            if number == 900:
                until(lambda: next(iter(loader.stats().exporters.values()))["left_out"] > 0)
        free.set()
    told = sorted(one.first_step + n for one in keeps.events if one.what == "step" for n in range(one.steps))
    assert told == [*range(1000)]


@pytest.mark.parametrize("observe", [7, [object()], [None]])
def test_what_is_no_exporter_is_refused_at_once(observe: Any) -> None:
    with pytest.raises(PlanError, match="observe="):
        ps.Loader(DATA, observe=observe)


# Forks and ends


ENDS = """
import os, sys, time, numpy as np, penstock as ps
class Prints:
    def write(self, snapshot, events): self.last = snapshot
    def close(self): print("closed after", self.last.step_number, flush=True)
data = ps.from_arrays({"x": np.arange(400)}).batch(4)
loader = ps.Loader(data, observe=[Prints()])
batches = iter(loader)
next(batches)
def files(): return [one for one in os.listdir(os.environ["PENSTOCK_OBSERVE_DIR"]) if not one.startswith(".")]
while not os.path.exists(os.environ["PENSTOCK_OBSERVE_DIR"]) or not files(): time.sleep(0.01)
"""


#: A pass that ends while the interpreter takes modules apart, as PyTorch has it.
LAST = """
from penstock.observe import recorder
class Last:
    def __init__(self, batches): self.batches = batches
    def __del__(self): self.batches.close()
recorder.last = Last(batches)
"""


def ran(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PENSTOCK_OBSERVE_DIR": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=110, check=False
    )


def test_the_interpreter_ends_while_a_pass_runs(folder: Path) -> None:
    found = ran(ENDS + LAST, folder)
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout == "closed after 1\n"
    assert [*folder.iterdir()] == []


def test_a_fork_has_a_reporter_of_its_own(folder: Path) -> None:
    code = """
assert len(files()) == 1
sys.stdout.flush()
pid = os.fork()
if pid == 0:
    loader = batches = None
    assert len(files()) == 1, "the parent's is not ours to remove"
    other = ps.Loader(data)
    of_other = iter(other)
    next(of_other)
    deadline = time.monotonic() + 20
    while len(files()) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(files()) == 2
    other.close()
    print("in the fork", flush=True)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert len([*batches]) == 99
loader.close()
"""
    found = ran(ENDS + code, folder)
    assert found.returncode == 0, found.stderr
    assert found.stdout == "in the fork\nclosed after 0\n"
    assert [*folder.iterdir()] == []


class BlocksAtTheEnd(Keeps):
    """free: until then close() does not return."""

    def __init__(self, free: threading.Event, all_are_there: threading.Barrier) -> None:
        super().__init__()
        self._free, self._all_are_there = free, all_are_there

    def close(self) -> None:
        self._all_are_there.wait(20)  # raises where another one is not being closed
        super().close()
        self._free.wait()


def test_exporters_end_at_once_and_the_figures_say_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "_ENDS_S", 1.0)
    free, barrier, before = threading.Event(), threading.Barrier(3), {*threading.enumerate()}
    blocked = [BlocksAtTheEnd(free, barrier) for _ in range(3)]
    loader = ps.Loader(DATA, observe=blocked)
    assert len([*loader]) == 1000
    loader.close()
    until(lambda: [one.closed for one in blocked] == [1, 1, 1])
    assert [one["state"] for one in loader.stats().exporters.values()] == ["dropped"] * 3
    assert "in time" in next(iter(loader.stats().exporters.values()))["error"]
    free.set()
    until(lambda: not threads_since(before, "penstock-observe"))


def test_an_object_is_closed_once_and_takes_nothing_of_a_later_pass() -> None:
    keeps = Keeps()
    loader = ps.Loader(DATA, observe=[keeps, keeps])
    assert len([*loader]) == 1000
    loader.close()
    told = [(one.at, one.batches) for one in keeps.snapshots]
    assert len([*loader]) == 1000
    loader.close()
    assert keeps.closed == 1
    assert [(one.at, one.batches) for one in keeps.snapshots] == told
    (found,) = loader.stats().exporters.values()
    assert (found["state"], found["written"]) == ("ended", len(told))


def test_one_that_was_opened_is_closed_where_the_next_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, passed = list[Keeps](), Keeps()

    def opens(text: str, *, rank: int) -> Keeps:
        if text == "nope":
            refuses(text, rank=rank)
        opened.append(Keeps())
        return opened[-1]

    monkeypatch.setattr("penstock.observe.exporters.open_exporter", opens, raising=False)
    with pytest.raises(OSError, match="nope"):
        ps.Loader(DATA, observe=["a", passed, "b", "nope", "c"])
    assert [one.closed for one in opened] == [1, 1]
    assert passed.closed == 0


def test_one_that_is_named_twice_is_opened_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = f"jsonl:{tmp_path}/run.jsonl"
    monkeypatch.setenv("PENSTOCK_OBSERVE", f"{name},{name}")
    with ps.Loader(DATA, observe=[name, name]) as loader:
        assert len([*loader]) == 1000
    lines = (tmp_path / "run.jsonl").read_text().splitlines()
    assert len({json.loads(one)["at"] for one in lines}) == len(lines) > 0


def test_without_a_thread_for_an_exporter_training_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keeps, start = Keeps(), threading.Thread.start

    def refused(thread: threading.Thread) -> None:
        if thread.name.startswith("penstock-observe"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)
    with caplog.at_level(logging.WARNING, "penstock"), ps.Loader(DATA, observe=[keeps]) as loader:
        assert len([*loader]) == 1000
        (found,) = loader.stats().exporters.values()
    assert (found["state"], keeps.closed, keeps.snapshots) == ("dropped", 1, [])
    assert "can't start new thread" in found["error"]
    assert "is given up" in caplog.text


def test_one_that_ends_the_interpreter_ends_itself_alone() -> None:
    class Exits(Keeps):
        def write(self, snapshot: Snapshot, events: list[Event]) -> None:
            raise SystemExit(3)

        def close(self) -> None:
            super().close()
            raise KeyboardInterrupt

    exits = Exits()
    with ps.Loader(DATA, observe=[exits]) as loader:
        assert len([*loader]) == 1000
    (found,) = loader.stats().exporters.values()
    assert (found["state"], exits.closed) == ("dropped", 1)
    assert "KeyboardInterrupt" in found["error"]


UNCLOSED = """
import sys
import numpy as np
import penstock as ps
loader = ps.Loader(ps.from_arrays({"x": np.arange(640)}).batch(16), observe=sys.argv[1])
for batch in loader:
    pass
"""


def test_a_script_that_ends_without_close_tells_its_last_figures(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "run.jsonl"
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", UNCLOSED, f"jsonl:{path}"],
        capture_output=True,
        text=True,
        env=os.environ | paths,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    last = json.loads(path.read_text().splitlines()[-1])
    assert (last["batches"], last["samples"]) == (40, 640)
    assert [stage["items"] > 0 for stage in last["stages"]] == [True] * len(last["stages"])
    assert [*folder.glob("*")] == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_what_is_no_file_of_a_loader_is_never_waited_for(folder: Path) -> None:
    folder.mkdir()
    os.mkfifo(folder / "a.snapshot.json")
    (folder / "b.snapshot.json").symlink_to(folder / "a.snapshot.json")
    (folder / "c.snapshot.json").write_text('{"version": 1, "loader": {"host": 3}}')
    (folder / "d.snapshot.json").write_text("[" * 100_000)
    (folder / "e.snapshot.json").mkdir()
    assert read_snapshots() == []
    with ps.Loader(DATA) as loader:
        _batches = begun(loader)
        (found,) = until(read_snapshots)
    assert found["loader"]["pid"] == os.getpid()


def test_an_empty_name_of_the_folder_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default folder, which must then be of this user alone."""
    monkeypatch.setenv("PENSTOCK_OBSERVE_DIR", "")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "penstock").mkdir()
    (tmp_path / "penstock").chmod(0o777)
    with pytest.raises(StorageError, match="is not a folder of this user's alone"):
        write_snapshot(Snapshot(loader=Identity(pid=os.getpid(), host="h", number=1, started_at=time.time())))
