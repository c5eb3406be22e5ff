"""What JAX and XProf read of our spaces."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.observe.exporters.opening import open_exporter
from penstock.observe.exporters.xprof import ProfileSpace
from support.snapshots import a_snapshot, some_events

READ_BY_JAX = """
import json, sys
from jax.profiler import ProfileData
found = {}
for plane in ProfileData.from_file(sys.argv[1]).planes:
    found[plane.name] = [
        (line.name, [(event.name, event.start_ns, event.duration_ns, dict(event.stats)) for event in line.events]) for line in plane.lines
    ]
print(json.dumps(found))
"""


def read_by_jax(path: Path) -> Any:
    if importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    shown = subprocess.run([sys.executable, "-c", READ_BY_JAX, str(path)], check=True, capture_output=True, text=True)
    return json.loads(shown.stdout)


def written(folder: Path) -> Path:
    found = list(folder.glob("plugins/profile/*/*.xplane.pb"))
    assert len(found) == 1
    return found[0]


@pytest.mark.slow
def test_jax_reads_it(tmp_path: Path) -> None:
    before_ns = time.time_ns()
    exporter = open_exporter(f"xprof:{tmp_path}")
    events = some_events()
    exporter.write(a_snapshot(), events)
    exporter.close()
    found = read_by_jax(written(tmp_path))
    assert [*found] == ["/device:CUSTOM:penstock"]
    lines = dict(found["/device:CUSTOM:penstock"])
    assert [*lines] == ["read", "transform", "training"]
    assert [(name, took) for name, _, took, _ in lines["read"]] == [("read", 1_000_000), ("read", 1_000_000)]
    assert [(name, took) for name, _, took, _ in lines["training"]] == [("wait", 500_000)]
    assert lines["transform"][1][3] == {"epoch": 0, "first_step": 3, "steps": 1, "samples": 256, "bytes": 1000}
    assert lines["training"][0][3]["first_step"] == -1
    begins = [begin for _, begin, _, _ in lines["read"]]
    assert before_ns - 50_000_000 < begins[0] < time.time_ns()
    assert begins[1] - begins[0] == pytest.approx(4_000_000, abs=256)  # floats since 1970, which are rounded


def test_a_space_is_what_the_published_description_says(tmp_path: Path) -> None:
    """Read by the classes that TensorFlow has made of xplane.proto."""
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or spec.origin is None:
        pytest.skip("TensorFlow is not installed")
    path = Path(spec.origin).parent / "tsl" / "profiler" / "protobuf" / "xplane_pb2.py"
    made = importlib.util.spec_from_file_location("xplane_pb2", path)
    assert made is not None
    assert made.loader is not None
    module = importlib.util.module_from_spec(made)
    made.loader.exec_module(module)
    exporter = open_exporter(f"xprof:{tmp_path}")
    exporter.write(a_snapshot(), some_events(10))
    exporter.close()
    space = module.XSpace.FromString(written(tmp_path).read_bytes())
    size = space.ByteSize()
    space.DiscardUnknownFields()
    assert space.ByteSize() == size
    (plane,) = space.planes
    assert {number: one.name for number, one in plane.event_metadata.items()} == {1: "read", 2: "transform", 3: "wait"}
    assert {one.name for one in plane.stat_metadata.values()} == {"epoch", "first_step", "steps", "samples", "bytes"}
    assert sum(len(line.events) for line in plane.lines) == 11
    assert {line.timestamp_ns for line in plane.lines} == {plane.lines[0].timestamp_ns}


CONVERTED = """
import sys
from xprof.convert.raw_to_tool_data import xspace_to_tool_data
for tool, options in (("trace_viewer@", {}), ("trace_viewer", {})):
    try:
        data, _ = xspace_to_tool_data([sys.argv[1]], tool, options)
    except Exception as error:
        print(tool, error, file=sys.stderr)
        continue
    if data:
        sys.stdout.buffer.write(data if isinstance(data, bytes) else data.encode())
        break
"""


@pytest.mark.long
def test_xprof_shows_it_in_its_trace_viewer(tmp_path: Path) -> None:
    if importlib.util.find_spec("xprof") is None:
        pytest.skip("xprof is not installed; `make exporters` runs these tests beside it")
    exporter = open_exporter(f"xprof:{tmp_path}")
    exporter.write(a_snapshot(), some_events())
    exporter.close()
    shown = subprocess.run([sys.executable, "-c", CONVERTED, str(written(tmp_path))], check=True, capture_output=True)
    found = json.loads(shown.stdout)
    slices = [one for one in found["traceEvents"] if one.get("ph") == "X"]
    assert sorted(one["name"] for one in slices) == ["read", "read", "transform", "transform", "wait"], shown.stderr
    assert [round(one["dur"]) for one in slices if one["name"] == "read"] == [1000, 1000]
    names = {one["args"]["name"] for one in found["traceEvents"] if one.get("name") in ("process_name", "thread_name")}
    assert {"read", "transform", "training"} <= names
    assert any("penstock" in name for name in names)


def test_the_newest_events_are_kept(tmp_path: Path) -> None:
    space = ProfileSpace(str(tmp_path), most_events=100)
    for _ in range(10):
        space.add(some_events(99))
    space.end()
    one = Path(space.path).stat().st_size
    space.add(some_events(99))
    space.end()
    assert abs(Path(space.path).stat().st_size - one) < 200
    assert os.listdir(Path(space.path).parent) == [Path(space.path).name]


def test_loaders_of_a_process_share_a_file(tmp_path: Path) -> None:
    first, second = (open_exporter(f"xprof:{tmp_path}") for _ in range(2))
    first.write(a_snapshot(), some_events())
    first.close()
    second.write(a_snapshot(), some_events())
    second.close()
    assert written(tmp_path).stat().st_size > 500
