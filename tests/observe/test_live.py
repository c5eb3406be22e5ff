"""Files of loaders: those that run are found, and what else lies there is ignored, with a reason."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from penstock.observe.folder import VERSION, file_name, host_name
from penstock.observe.live import AllSeen, LoaderSeen, Recent, has_ended, loaders_now
from penstock.observe.process_start import process_ticks
from penstock.observe.snapshot import Identity, Snapshot
from penstock.observe.top_screen import TopScreen
from support.runs import a_run

MARKS = "\x1b[2J[bold]\u202ex\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PENSTOCK_OBSERVE_DIR", str(tmp_path))
    return tmp_path


def told(number: int = 1, pid: int | None = None, **more: Any) -> Snapshot:
    identity = Identity(
        pid=pid or os.getpid(), host=host_name(), number=number, name="data", world_size=4, started_at=time.time()
    )
    return replace(next(a_run(1)), loader=replace(identity, **more))


def put(folder: Path, snapshot: Snapshot, content: bytes | None = None, age_s: float = 0.0) -> Path:
    path = folder / file_name(snapshot.loader)
    path.write_bytes(json.dumps({"version": VERSION, **snapshot.as_dict()}).encode() if content is None else content)
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_those_that_run_are_found(folder: Path) -> None:
    for number in (3, 1, 2):
        put(folder, told(number))
    found = loaders_now()
    assert [seen.snapshot.loader.number for seen in found.loaders] == [1, 2, 3]
    assert found.loaders[0].snapshot.stages == told().stages
    assert found.ignored == []


def test_what_is_no_running_loader_is_ignored(folder: Path) -> None:
    put(folder, told(1, pid=dead_pid()), age_s=60)
    put(folder, told(2), content=b'{"version": 1, "loader": {"pid"')
    put(folder, told(3), content=b"\xff\xfe")
    put(folder, told(4), content=b"[" * 100_000)
    put(folder, told(5), content=json.dumps({"version": 99}).encode())
    put(folder, told(6), content=json.dumps({"version": VERSION, "loader": 3}).encode())
    put(folder, told(7, started_at=time.time() - 1e6), age_s=60)  # a process that began later has its number now
    put(folder, told(8, host="elsewhere"), age_s=120)
    (folder / "x.snapshot.json").mkdir()
    (folder / "y.snapshot.json").symlink_to("/etc/passwd")
    os.mkfifo(folder / "z.snapshot.json")
    with (folder / "large.snapshot.json").open("wb") as large:
        large.truncate(1 << 40)
    (folder / "notes.txt").write_text("not ours")
    found = loaders_now()
    assert found.loaders == []
    assert len(found.ignored) == 12
    assert all(why and "Traceback" not in why for _, why in found.ignored)


def test_files_of_another_user(folder: Path) -> None:
    if os.getuid():
        pytest.skip("only root gives files away")
    path = put(folder, told())
    os.chown(path, 12_345, 12_345)
    assert [why for _, why in loaders_now().ignored] == ["belongs to another user"]


def test_a_folder_of_another_user_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_OBSERVE_DIR", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (own := tmp_path / "own").mkdir()
    put(own, told())
    (tmp_path / "penstock").symlink_to(own)
    found = loaders_now()
    assert (tmp_path / "penstock", "is no folder of this user") in found.ignored
    assert os.getpid() not in [seen.snapshot.loader.pid for seen in found.loaders], "others of this user may run"


def test_a_loader_of_a_container_or_another_machine_lives_by_its_news() -> None:
    gone = told(pid=dead_pid())
    assert not has_ended(gone, age_s=1.0)  # its processes may not be seen from here
    assert has_ended(gone, age_s=6.0)
    assert not has_ended(told(host="elsewhere"), age_s=30.0)
    assert has_ended(told(host="elsewhere"), age_s=61.0)
    assert not has_ended(told(), age_s=1e6)  # it hangs, or is stopped


def test_a_loader_is_found_after_the_clock_was_set(folder: Path) -> None:
    """By when its process began, as the system counts; a process that has its number later is another one."""
    own = process_ticks(os.getpid())
    if not own:
        pytest.skip("this system does not tell when processes began")
    put(folder, told(1, started_at=1.0, process_ticks=own), age_s=1e5)
    put(folder, told(2, process_ticks=own + 1), age_s=60)
    assert [seen.snapshot.loader.number for seen in loaders_now().loaders] == [1]


def test_rates_are_those_of_the_last_seconds() -> None:
    run, recent = [*a_run(60)], Recent()
    slow = [
        replace(
            one,
            samples=run[-1].samples + 10 * place,
            elapsed_s=run[-1].elapsed_s + place,
            waited_s=run[-1].waited_s + place,
            at=2e9 + place,
        )
        for place, one in enumerate(run[:20], 1)
    ]
    for one in (*run, *slow):
        recent.note(AllSeen(loaders=[LoaderSeen(one, 0.0)]))
    assert recent.rates(LoaderSeen(slow[-1], 0.0)) == (pytest.approx(10.0), 1.0, True)
    assert Recent().rates(LoaderSeen(run[-1], 0.0)) == (1000.0, 0.125, False)
    recent.note(AllSeen(loaders=[LoaderSeen(run[0], 0.0)]))  # started anew
    assert recent.rates(LoaderSeen(run[0], 0.0))[2] is False


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (40, 10), (20, 3), (1, 1), (300, 100)])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 300])
def test_the_screen_fits(size: tuple[int, int], count: int) -> None:
    width, height = size
    seen = [
        LoaderSeen(replace(told(number), verdict=MARKS * 50, gpus=told().gpus * 3), 9.0 * (number % 2))
        for number in range(count)
    ]
    found = AllSeen(loaders=seen, ignored=[(Path(MARKS), MARKS)] * (count % 2), looked_in=[Path("/tmp")])
    for is_plain in (False, True):
        lines = TopScreen(Recent(), is_plain=is_plain).lines(found, width, height)
        assert len(lines) <= height
        assert max(line.cell_len for line in lines) <= width
        assert not [line for line in lines if not line.plain.replace("…", "").isprintable()]
        if is_plain:
            assert not set("█░▏▎▍▌▋▊▉") & set("".join(line.plain for line in lines))


def test_what_matters_most_stays_where_there_is_little_room() -> None:
    found = AllSeen(loaders=[LoaderSeen(told(), 0.0)])
    shown = [line.plain for line in TopScreen(Recent()).lines(found, 80, 6)]
    assert "samples/s" in shown[1]
    assert "bottleneck" in shown[2]
    assert any("transform" in line for line in shown[3:])
    assert not any("map look_up" in line for line in shown)
    whole = "\n".join(line.plain for line in TopScreen(Recent()).lines(found, 120, 40))
    for words in (
        "rank 0 of 4",
        "wait for rank 2",
        "map look_up",
        "memory 1 GB of 4 GB",
        "store 200 MB/s",
        "SMs at work 54%",
        "Decode(size=256) (up to 42% more)",
    ):
        assert words in whole, words


def test_the_table_shows_names_as_they_are() -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(TopScreen(Recent()).table(AllSeen(loaders=[LoaderSeen(told(name=MARKS), 9.0)])))
    text = console.export_text()
    assert "\\x1b[2J[bold]\\u202ex" in text
    assert "no news for 9 s" in text


def test_figures_stand_below_their_heads() -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(TopScreen(Recent()).table(AllSeen(loaders=[LoaderSeen(told(), 0.0)])))
    head, row = console.export_text().splitlines()
    assert head.split() == [
        "process",
        "loader",
        "rank",
        "epoch",
        "at",
        "samples/s",
        "waited",
        "ready",
        "step",
        "limited",
        "by",
    ]
    assert row.split() == [
        f"{os.getpid()}",
        "data",
        "0",
        "of",
        "4",
        "1",
        "1",
        "1,000",
        "12%",
        "75%",
        "120",
        "ms",
        "transform",
    ]
