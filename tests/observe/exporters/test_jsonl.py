"""Files of snapshots: what is written is read back, also after a kill, by several loaders and on a full disk."""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

from penstock.core.errors import DataError, PlanError, SourceError
from penstock.observe.exporters.opening import open_exporter
from penstock.observe.figure_groups import CacheFigures, ErrorFigures
from penstock.observe.run_file import each_snapshot, run_line
from penstock.observe.snapshot import Advice, Identity
from support.snapshots import a_snapshot
from support.tries import some


def plain_json(value: object) -> object:
    return json.loads(json.dumps(value))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    snapshots = [a_snapshot(batches=number) for number in range(3)]
    exporter = open_exporter(f"jsonl:{tmp_path}/runs/a.jsonl")
    for one in snapshots:
        exporter.write(one, [])
    assert len(list(each_snapshot(tmp_path / "runs" / "a.jsonl"))) == 3  # while it goes on
    exporter.close()
    assert list(each_snapshot(tmp_path / "runs" / "a.jsonl")) == [plain_json(one.as_dict()) for one in snapshots]
    text = (tmp_path / "runs" / "a.jsonl").read_text()
    assert [json.loads(line)["batches"] for line in text.splitlines()] == [0, 1, 2]


def test_numbers_that_json_has_not_are_null() -> None:
    line = run_line(a_snapshot(samples_per_s=math.nan, waited=math.inf))
    found = json.loads(line, parse_constant=pytest.fail)
    assert found["samples_per_s"] is None
    assert found["waited"] is None


def test_no_secret_of_a_url_is_written() -> None:
    urls = [
        "s3://AKIAKEY:se/cret99@bucket/train-*.tar",
        "https://me:hunter22@host/a?X-Amz-Signature=abc123#frag77",
        "hdfs://someone77@name/a",
    ]
    snapshot = a_snapshot(
        loader=Identity(name=urls[0]),
        verdict=f"read is slow: {urls[1]}; and {urls[2]}",
        errors=ErrorFigures(samples=1, met=1, sources={urls[1]: 1}),
        cache=(CacheFigures(where=urls[1]),),
        advice=(Advice(rule="copy", evidence=f"'{urls[0]}'", remedy="", change=f"cp {urls[1]} ."),),
    )
    line = run_line(snapshot).decode()
    for secret in ("AKIAKEY", "cret99", "hunter22", "abc123", "frag77", "someone77", "@"):
        assert secret not in line
    found = json.loads(line)
    assert found["loader"]["name"] == "s3://bucket/train-*.tar"
    assert found["verdict"] == "read is slow: https://host/a and hdfs://name/a"
    assert found["advice"][0]["change"] == "cp https://host/a ."


def test_a_file_that_was_cut_anywhere_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    whole = b"".join(run_line(a_snapshot(batches=number)) for number in range(3))
    for size in some(range(len(whole) + 1)):
        path.write_bytes(whole[:size])
        lines = whole[:size].split(b"\n")
        complete = [json.loads(line) for line in lines if line in whole.split(b"\n") and line]
        assert [one["batches"] for one in each_snapshot(path)] == [one["batches"] for one in complete]


def test_a_run_that_goes_on_leaves_no_broken_line(tmp_path: Path) -> None:
    path, one = tmp_path / "a.jsonl", run_line(a_snapshot(batches=1))
    for size in some(range(len(one))):
        path.write_bytes(one + one[:size])
        exporter = open_exporter(f"jsonl:{path}")
        exporter.write(a_snapshot(batches=2), [])
        exporter.close()
        assert [found["batches"] for found in each_snapshot(path)] == [1, 2]


@pytest.mark.parametrize("content", [b"my notes", b"my notes\n", b"{}\n", b'{"penstock', b'{"samples": 1}\n' * 9])
def test_another_file_is_left_as_it_is(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    if content == b'{"penstock':  # of a process that was killed while it wrote the first line
        open_exporter(f"jsonl:{path}").close()
        assert path.read_bytes() == b""
        return
    with pytest.raises(PlanError, match=r"notes\.txt holds something else; name a file that is not there"):
        open_exporter(f"jsonl:{path}")
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "line", [b"{}", b"nothing", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"penstock_run": 1', b'{"penstock_ran": 1}', b"7"]
)
def test_a_line_of_something_else_is_named(line: bytes, tmp_path: Path) -> None:
    path, one = tmp_path / "a.jsonl", run_line(a_snapshot())
    path.write_bytes(one + line + b"\n" + one)
    with pytest.raises(
        DataError, match=r"a.jsonl, line 2: is no line of a run file; pass what observe='jsonl:FILE' wrote"
    ):
        list(each_snapshot(path))


def test_files_that_are_not_there_or_of_another_version(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"no run file is there; Loader\(…, observe='jsonl:"):
        list(each_snapshot(tmp_path / "none.jsonl"))
    (tmp_path / "new.jsonl").write_bytes(b'{"penstock_run": 99}\n')
    with pytest.raises(DataError, match=r"new\.jsonl, line 1: .*version"):
        list(each_snapshot(tmp_path / "new.jsonl"))
    (tmp_path / "empty.jsonl").write_bytes(b"")
    assert list(each_snapshot(tmp_path / "empty.jsonl")) == []


def test_loaders_in_many_threads_write_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"

    def write(rank: int) -> None:
        exporter = open_exporter(f"jsonl:{path}")
        for number in range(20):
            exporter.write(a_snapshot(loader=Identity(rank=rank), batches=number), [])
        exporter.close()

    threads = [threading.Thread(target=write, args=(rank,)) for rank in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = list(each_snapshot(path))
    for rank in range(4):
        assert [one["batches"] for one in found if one["loader"]["rank"] == rank] == list(range(20))


WRITES = """
import sys
from penstock.observe.exporters.opening import open_exporter
from support.snapshots import a_snapshot
exporter = open_exporter(sys.argv[1])
number = 0
while True:
    exporter.write(a_snapshot(batches=number), [])
    number += 1
    if number == 3:
        print("goes on", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("target", ["jsonl:{}/run.jsonl"])
def test_a_process_that_is_killed_leaves_a_file_that_can_be_read(target: str, tmp_path: Path) -> None:
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", WRITES, target.format(tmp_path)], stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"goes on\n"
        time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    found = [one["batches"] for one in each_snapshot(tmp_path / "run.jsonl")]
    assert found.count(0) == 3
    assert all(later in (0, one + 1) for one, later in pairwise(found))


def test_a_full_disk_takes_back_what_it_has_no_room_for(tmp_path: Path) -> None:
    """A limit of the size of files stands for the disk: the kernel writes what fits, then fails."""
    path, size = tmp_path / "a.jsonl", len(run_line(a_snapshot(at=1.5)))
    exporter = open_exporter(f"jsonl:{path}")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(size * 2.5), hard))
    try:
        for _ in range(2):
            exporter.write(a_snapshot(at=1.5), [])
        for _ in range(2):
            with pytest.raises(OSError, match="File too large"):
                exporter.write(a_snapshot(at=1.5), [])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert path.stat().st_size == 2 * size
    exporter.write(a_snapshot(at=1.5), [])
    exporter.close()
    assert len(list(each_snapshot(path))) == 3
