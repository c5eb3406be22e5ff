"""Traces for Perfetto: complete after each write, bounded, on PyTorch's time base, and joined with PyTorch's."""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import DataError, PlanError, SourceError
from penstock.observe.events import Event
from penstock.observe.exporters.opening import open_exporter
from penstock.observe.exporters.trace import TraceFile
from penstock.observe.trace_merge import merged, read_trace
from support.cli_runner import invoke
from support.snapshots import a_snapshot, some_events
from support.tries import some

OURS = 1_000_000_000


def slices(trace: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in trace["traceEvents"] if one["ph"] == "X"]


def test_what_happened_is_on_the_timeline(tmp_path: Path) -> None:
    before_ns = time.time_ns()
    exporter = open_exporter(f"trace:{tmp_path}/run.json")
    exporter.write(a_snapshot(), some_events())
    found = json.loads((tmp_path / "run.json").read_text())  # while it goes on
    exporter.write(a_snapshot(), some_events(2))
    exporter.close()
    whole = json.loads((tmp_path / "run.json").read_text())
    assert len(slices(found)) == 5
    assert len(slices(whole)) == 8
    assert [one["name"] for one in slices(found)] == ["read", "transform", "read", "transform", "wait"]
    assert slices(found)[0]["args"] == {"kind": "cpu", "epoch": 0, "first_step": 0, "steps": 1, "samples": 256, "bytes": 1000, "loader": 0}  # fmt: skip
    assert slices(found)[0]["dur"] == 1000.0
    begins = [found["baseTimeNanoseconds"] + one["ts"] * 1000 for one in slices(found)]
    assert before_ns - 50_000_000 < begins[0] < time.time_ns()
    assert [round((later - one) / 1e6) for one, later in pairwise(begins)] == [2, 2, 2, 2]
    names = {one["tid"]: one["args"]["name"] for one in whole["traceEvents"] if one["name"] == "thread_name"}
    assert names == {100: "read", 101: "transform", 99: "training"}
    assert {one["pid"] for one in whole["traceEvents"]} == {OURS + os.getpid()}
    counters = [one for one in found["traceEvents"] if one["ph"] == "C"]
    assert {one["name"] for one in counters} == {"penstock: samples/s", "penstock: queues", "penstock: memory"}
    assert {"read", "transform", "transform 2"} <= next(one for one in counters if "queues" in one["name"])[
        "args"
    ].keys()


def test_loaders_of_a_process_share_a_file(tmp_path: Path) -> None:
    first, second = (open_exporter(f"trace:{tmp_path}/run.json") for _ in range(2))
    first.write(a_snapshot(), some_events())
    second.write(a_snapshot(), some_events())
    first.close()
    second.write(a_snapshot(), some_events())
    second.close()
    found = json.loads((tmp_path / "run.json").read_text())
    assert {one["args"]["loader"] for one in slices(found)} == {0, 1}
    assert len(slices(found)) == 15


def test_a_run_before_is_kept_and_other_files_are_left(tmp_path: Path) -> None:
    for number in range(3):
        exporter = open_exporter(f"trace:{tmp_path}/run.json")
        exporter.write(a_snapshot(), some_events(number))
        exporter.close()
    assert [len(slices(json.loads((tmp_path / name).read_text()))) for name in ("run.before.json", "run.json")] == [
        2,
        3,
    ]
    (tmp_path / "torch.json").write_text('{"traceEvents": []}')
    with pytest.raises(PlanError, match=r"torch\.json holds something else; name a file that is not there"):
        open_exporter(f"trace:{tmp_path}/torch.json")
    assert (tmp_path / "torch.json").read_text() == '{"traceEvents": []}'


def test_a_long_run_keeps_its_end(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    file = TraceFile(str(path), large_bytes=20_000)
    for number in range(60):
        file.add(a_snapshot(), [Event("read", "io", number * 1000, number * 1000 + 1, 7, 0, number, 1)] * 10, 0)
    file.end()
    kept = [json.loads((tmp_path / name).read_text()) for name in ("run.before.json", "run.json")]
    assert sorted(os.listdir(tmp_path)) == ["run.before.json", "run.json"]
    assert all((tmp_path / name).stat().st_size < 30_000 for name in os.listdir(tmp_path))
    steps = [one["args"]["first_step"] for trace in kept for one in slices(trace)]
    assert steps[-1] == 59
    assert steps == sorted(steps)
    assert all(any(one["name"] == "thread_name" for one in trace["traceEvents"]) for trace in kept)


def test_a_file_that_another_process_writes(tmp_path: Path) -> None:
    code = f"from penstock.observe.exporters.opening import open_exporter; open_exporter('trace:{tmp_path}/run.json'); print('', flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(
            PlanError, match=r"written by another process; each needs a file of its own, as 'trace:run-\{rank\}.json'"
        ):
            open_exporter(f"trace:{tmp_path}/run.json")
    finally:
        process.communicate(b"\n", timeout=110)
    open_exporter(f"trace:{tmp_path}/run.json").close()


def in_a_process(code: str, target: object) -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-c", code, str(target)], stdout=subprocess.PIPE, env=environment)


KILLED = """
import sys
from penstock.observe.exporters.opening import open_exporter
from support.snapshots import a_snapshot, some_events
exporter = open_exporter(sys.argv[1])
for number in range(3):
    exporter.write(a_snapshot(), some_events(20))
print("goes on", flush=True)
while True:
    exporter.write(a_snapshot(), some_events(20))
"""


@pytest.mark.slow
def test_a_process_that_is_killed_leaves_a_trace(tmp_path: Path) -> None:
    process = in_a_process(KILLED, f"trace:{tmp_path}/run.json")
    assert process.stdout is not None
    assert process.stdout.readline() == b"goes on\n"
    time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert len(slices({"traceEvents": read_trace(str(tmp_path / "run.json")).events})) >= 63


def test_a_full_disk_leaves_complete_json(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    exporter = open_exporter(f"trace:{path}")
    exporter.write(a_snapshot(), some_events())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 100, hard))
    try:
        for _ in range(2):
            with pytest.raises(OSError, match="File too large"):
                exporter.write(a_snapshot(), some_events())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert len(slices(json.loads(path.read_text()))) == 5
    exporter.write(a_snapshot(), some_events())
    exporter.close()
    assert len(slices(json.loads(path.read_text()))) == 10


def test_a_trace_that_was_cut_anywhere_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    exporter = open_exporter(f"trace:{path}")
    head = path.stat().st_size
    exporter.write(a_snapshot(), some_events())
    exporter.close()
    whole, events = path.read_bytes(), json.loads(path.read_bytes())["traceEvents"]
    for size in some(range(head, len(whole) + 1)):
        path.write_bytes(whole[:size])
        found = read_trace(str(path)).events
        assert found == events[: len(found)]
        assert len(found) >= whole[:size].count(b"\n{") - 1


PROFILES = """
import sys, time
import torch
from penstock.observe.events import Event
from penstock.observe.exporters.opening import open_exporter
from support.snapshots import a_snapshot
exporter = open_exporter(f"trace:{sys.argv[1]}/run.json")
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler, torch.profiler.record_function("around"):
    time.sleep(0.01)
    begin_ns = time.perf_counter_ns()
    time.sleep(0.01)
    end_ns = time.perf_counter_ns()
    time.sleep(0.01)
profiler.export_chrome_trace(f"{sys.argv[1]}/torch.json")
exporter.write(a_snapshot(), [Event("wait", "wait", begin_ns, end_ns, 1)])
exporter.close()
"""


@pytest.mark.slow
def test_times_are_those_of_the_profiler_of_pytorch(tmp_path: Path) -> None:
    """A range of the profiler around an event of ours stays around it."""
    pytest.importorskip("torch")
    in_a_process(PROFILES, tmp_path).communicate()
    paths = [str(tmp_path / name) for name in ("run.json", "torch.json", "both.json")]
    result = invoke("trace", "merge", *paths[:2], "-o", paths[2])
    assert result.exit_code == 0, result.output
    assert re.search(r"both.json: \d+ events, 0.0\d\d s of all of them at once", result.output)
    both = json.loads((tmp_path / "both.json").read_text())
    outer = next(one for one in slices(both) if one["name"] == "around")
    wait = next(one for one in slices(both) if one["name"] == "wait")
    assert outer["ts"] < wait["ts"]
    assert wait["ts"] + wait["dur"] < outer["ts"] + outer["dur"]
    assert "schemaVersion" in both


def test_traces_of_several_bases_and_of_none(tmp_path: Path) -> None:
    one = {"baseTimeNanoseconds": 5_000_000, "traceEvents": [{"ph": "X", "name": "a", "ts": 1.0, "dur": 2}], "x": 1}
    two = {"baseTimeNanoseconds": 7_000_000, "traceEvents": [{"ph": "X", "name": "b", "ts": 1}, {"ph": "M", "name": "m"}], "x": 2, "y": 3}  # fmt: skip
    three = [{"ph": "i", "name": "c", "ts": 5_001.0}]  # a list, whose times count from 1970
    (tmp_path / "1.json").write_text(json.dumps(one))
    (tmp_path / "2.json").write_bytes(gzip.compress(json.dumps(two).encode()))
    (tmp_path / "3.json").write_text(json.dumps(three))
    found = merged([read_trace(str(tmp_path / f"{number}.json")) for number in (1, 2, 3)])
    assert (found["baseTimeNanoseconds"], found["x"], found["y"]) == (5_000_000, 1, 3)
    assert [event.get("ts") for event in found["traceEvents"]] == [1.0, 2001, None, 1.0]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is no JSON"),
        (b"nothing", "is no JSON"),
        (b"{}", "no list of traceEvents"),
        (b'{"traceEvents": 7}', "no list of traceEvents"),
        (b'{"traceEvents": [], "baseTimeNanoseconds": "x"}', "which is no time"),
        (b'{"traceEvents": [], "baseTimeNanoseconds": 1e400}', "which is no time"),
        (b'{"traceEvents": [], "baseTimeNanoseconds": -1}', "which is no time"),
        (b"[" * 100_000, "is no JSON"),
        (b"\x1f\x8bnot gzip", "damaged gzip"),
    ],
)
def test_what_is_no_trace(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_bytes(content)
    with pytest.raises(DataError, match=rf"bad.json: .*{says}"):
        read_trace(str(tmp_path / "bad.json"))
    with pytest.raises(SourceError, match="no trace is there"):
        read_trace(str(tmp_path / "none.json"))


def test_events_without_a_usable_time_are_kept_as_they_are(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "ts": "soon"},
        {"ph": "X", "ts": None},
        {"ph": "X", "ts": True},
        7,
        {"ph": "X", "ts": 1, "dur": "x"},
    ]
    for number, base in enumerate((1000, 4000)):
        (tmp_path / f"{number}.json").write_text(json.dumps({"traceEvents": events, "baseTimeNanoseconds": base}))
    traces = [read_trace(str(tmp_path / f"{number}.json")) for number in range(2)]
    assert [one.get("ts") for one in merged(traces)["traceEvents"]] == ["soon", None, True, 1, "soon", None, True, 4.0]
    assert traces[0].span_ns() == (2000, 2000)


def test_merging_says_what_is_odd(tmp_path: Path) -> None:
    for number, base in enumerate((0, 10**18)):
        trace = {"traceEvents": [{"ph": "X", "ts": 1, "dur": 1}], "baseTimeNanoseconds": base}
        (tmp_path / f"{number}.json").write_text(json.dumps(trace))
    paths = [str(tmp_path / f"{number}.json") for number in range(2)]
    alone = invoke("trace", "merge", paths[0], "-o", str(tmp_path / "out.json"))
    assert alone.exit_code == 1
    assert "name two or more" in alone.output
    with pytest.warns(UserWarning, match="do not overlap in time"):
        invoke("trace", "merge", *paths, "-o", str(tmp_path / "out.json"))
    refused = invoke("trace", "merge", *paths, "-o", str(tmp_path / "none" / "out.json"))
    assert refused.exit_code == 1
    assert "name a file that can be written" in refused.output
