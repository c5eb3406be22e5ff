"""What TensorBoard reads of our events."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from penstock.observe.exporters.opening import open_exporter
from penstock.observe.exporters.protobuf import float32, varint
from support.snapshots import a_snapshot, a_stage
from support.tries import some

# Without TensorFlow, which takes ten seconds to import, TensorBoard reads files by itself.
sys.modules.setdefault("tensorboard.compat.notf", ModuleType("notf"))
accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def read(folder: Path) -> Any:
    found = accumulators.EventAccumulator(str(folder))
    found.Reload()
    return found


def test_scalars_are_read_by_tensorboard(tmp_path: Path) -> None:
    exporter = open_exporter(f"tensorboard:{tmp_path}/runs/x")
    for batches, rate in ((1, 100.0), (2, 0.1), (3, 1e300)):
        exporter.write(a_snapshot(batches=batches, samples_per_s=rate, at=1_700_000_000.5 + batches), [])
        assert len(read(tmp_path / "runs/x").Scalars("penstock/samples_per_second")) == batches  # while it goes on
    exporter.close()
    found = read(tmp_path / "runs/x")
    scalars = found.Scalars("penstock/samples_per_second")
    assert [(one.step, one.wall_time) for one in scalars] == [
        (number, 1_700_000_000.5 + number) for number in (1, 2, 3)
    ]
    assert [one.value for one in scalars[:2]] == [100.0, pytest.approx(0.1)]
    assert found.Scalars("penstock/stage_busy_ratio/transform 2")[0].value == 0.5
    assert found.FirstEventTimestamp() > 1_700_000_000
    assert found.file_version == 2.0


def test_steps_go_on_over_epochs(tmp_path: Path) -> None:
    exporter = open_exporter(f"tensorboard:{tmp_path}")
    for batches, elapsed_s in ((5, 2.0), (10, 1.9), (5, 1.0)):
        exporter.write(a_snapshot(batches=batches, elapsed_s=elapsed_s), [])
    exporter.close()
    assert [one.step for one in read(tmp_path).Scalars("penstock/waited_ratio")] == [5, 10, 15]


def test_loaders_of_a_process_are_told_apart(tmp_path: Path) -> None:
    exporters = [open_exporter(f"tensorboard:{tmp_path}") for _ in range(2)]

    def write(number: int) -> None:
        for batches in range(1, 6):
            exporters[number].write(a_snapshot(batches=batches, samples_per_s=float(number)), [])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for exporter in exporters:
        exporter.close()
    found = read(tmp_path)
    assert [one.value for one in found.Scalars("penstock/samples_per_second")] == [0.0] * 5
    assert [one.value for one in found.Scalars("penstock/loader_1/samples_per_second")] == [1.0] * 5


def test_a_run_that_was_cut_off_is_read_up_to_there(tmp_path: Path) -> None:
    exporter = open_exporter(f"tensorboard:{tmp_path}")
    sizes = []
    path = next(tmp_path.iterdir())
    for batches in range(1, 4):
        exporter.write(a_snapshot(batches=batches, stages=(a_stage("read"),)), [])
        sizes.append(path.stat().st_size)
    exporter.close()
    whole = path.read_bytes()
    for size in some(range(sizes[0], len(whole)), at_least=10, full=40):
        path.write_bytes(whole[:size])
        assert [one.step for one in read(tmp_path).Scalars("penstock/epoch")] == [
            number for number, end in enumerate(sizes, start=1) if end <= size
        ]


def test_numbers_as_protobuf_writes_them() -> None:
    from google.protobuf.internal import encoder

    for number in (0, 1, 127, 128, 300, 1 << 32, (1 << 63) - 1, -1, -(1 << 63)):
        written = bytearray()
        encoder._EncodeSignedVarint(written.extend, number)  # type: ignore[attr-defined]
        assert varint(number) == bytes(written)
    assert len(float32(2, -1e300)) == 5
