"""The table of figures, and counters that never go back."""

from __future__ import annotations

import math
import re

from penstock.observe.exporters.figures import FIGURES
from penstock.observe.exporters.readings import FigureRead, Readings
from penstock.observe.snapshot import Gpu, Snapshot
from support.snapshots import a_snapshot, a_stage


def by_name(readings: list[FigureRead]) -> dict[tuple[str, ...], float]:
    return {(one.figure.full_name, *(value for _, value in one.labels)): one.value for one in readings}


def test_names_stand_once_and_say_their_unit() -> None:
    names = [figure.full_name for figure in FIGURES]
    assert len({*names}) == len(names)
    assert len({name.removesuffix("_total") for name in names}) == len(names)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", name) for name in names)
    for figure in FIGURES:
        assert figure.full_name.endswith("_total") == (figure.kind == "counter")
        assert not figure.unit or f"_{figure.unit}" in figure.full_name
        assert figure.about.endswith(".")


def test_no_file_and_no_folder_is_a_label() -> None:
    values = {value for one in Readings().read(a_snapshot()) for _, value in one.labels}
    assert values <= {"read", "transform", "transform 2", "map <lambda>", "io", "cpu", "python", "p50", "p95", "p99", "max", "jpeg", "other", "0"}  # fmt: skip


def test_each_reading_stands_once() -> None:
    keys = [(one.figure.full_name, one.labels) for one in Readings().read(a_snapshot())]
    assert len({*keys}) == len(keys)
    assert {name for name, _ in keys} == {figure.full_name for figure in FIGURES} - {"gpu_tensor_active_ratio"}


def test_an_endless_name_of_a_function_is_cut() -> None:
    found = Readings().read(a_snapshot(stages=(a_stage("map " + "f" * 5_000),), bottleneck="map " + "f" * 5_000))
    assert max(len(value) for one in found for _, value in one.labels) <= 80


def test_a_loader_that_has_made_nothing_has_figures() -> None:
    found = by_name(Readings().read(Snapshot()))
    assert found["samples_total",] == 0
    assert not any(name.startswith(("gpu", "machine", "storage", "stage")) for name, *_ in found)


def test_what_is_no_number_is_left_out() -> None:
    strange = Gpu(index=0, name="", kernel_time=math.nan, memory_bytes=1, memory_limit_bytes=1, power_w=math.inf)
    found = by_name(Readings().read(a_snapshot(gpus=(strange,), samples_per_s=math.nan)))
    assert {name for name, *_ in found if name.startswith("gpu")} == {"gpu_memory_bytes", "gpu_memory_limit_bytes"}
    assert "samples_per_second" not in found


def test_counters_go_on_when_a_pipeline_begins_anew() -> None:
    readings = Readings()
    totals = []
    for samples, elapsed_s in (
        (5, 1.0),
        (9, 2.0),
        (2, 0.5),
        (7, 0.4),  # a time that is told a little shorter is no new pipeline
    ):
        found = readings.read(
            a_snapshot(samples=samples, elapsed_s=elapsed_s, stages=(a_stage("read", samples=samples),))
        )
        totals.append((by_name(found)["samples_total",], by_name(found)["stage_samples_total", "read", "cpu"]))
    assert totals == [(value, value) for value in (5, 9, 11, 16)]


def test_a_figure_that_comes_later_begins_with_its_own_value() -> None:
    readings = Readings()
    readings.read(a_snapshot(stages=()))
    found = by_name(readings.read(a_snapshot(stages=(a_stage("read", samples=7),))))
    assert found["stage_samples_total", "read", "cpu"] == 7


def test_charts_have_names_for_every_tracker() -> None:
    readings = Readings()
    found = readings.charts(a_snapshot())
    assert readings.batches == 10
    assert found["penstock/samples_per_second"] == 2560
    assert found["penstock/stage_busy_ratio/map _lambda_"] == 0.5
    assert all(re.fullmatch(r"[\w\-. /]+", name, re.ASCII) for name in found)
    assert len(found) < 60
    assert all(name.startswith("penstock/loader_2/") for name in Readings(2).charts(a_snapshot()))
