"""A plan as stages: which have threads of their own, and how runs above and below lane stages share memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.deliver import open_deliver
from penstock.lower import lower
from penstock.lower.lowered import Lowered
from penstock.resolve.ordering import RankSettings

MEMORY_BYTES = 64 << 20


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file of 4 MB, whose records are read in windows of blocks."""
    path = tmp_path_factory.mktemp("lower") / "rows.jsonl"
    path.write_text("\n".join(f'{{"x": {row}, "text": "{"a" * 1000}"}}' for row in range(4_000)) + "\n")
    return path


def lowered_of(plan: ps.Dataset) -> Lowered:
    return lower(plan.root, open_deliver("numpy", None), RankSettings(cpus=4), memory_bytes=MEMORY_BYTES)


def names_of(plan: ps.Dataset) -> list[str]:
    return [stage.name for stage in lowered_of(plan).stages]


def is_small(batch: dict[str, np.ndarray]) -> np.ndarray:
    return batch["x"] < 10


def test_what_plans_and_reads_is_known_by_what_it_does(records: Path) -> None:
    for plan in (ps.read(str(records)).batch(8), ps.read(str(records)).shuffle(seed=0).batch(8)):
        stages = lowered_of(plan).stages
        assert [stage.is_reading for stage in stages] == [stage.name in ("plan", "read") for stage in stages]
        assert stages[0].is_reading
    assert not any(stage.is_reading for stage in lowered_of(ps.from_arrays({"x": np.arange(8)}).batch(2)).stages)


def test_a_selection_has_no_threads_of_its_own() -> None:
    arrays = ps.from_arrays({"x": np.arange(8), "y": np.arange(8)})
    assert "select" not in names_of(arrays.map(lambda batch: batch).select("x").batch(2))


def test_stages_of_one_kind_are_numbered() -> None:
    image = ps.from_arrays({"image": np.zeros((4, 8, 8, 3), np.uint8)}).transform(image=[ps.image.Resize((2, 2))])
    assert names_of(ps.concat([image, image]).batch(2)) == ["gather", "transform", "transform 2", "concat", "deliver"]


def test_runs_share_memory_by_their_windows(records: Path) -> None:
    """What is below a filter holds the blocks of open windows; of what is left both have as much."""
    lowered = lowered_of(ps.read(str(records)).shuffle(seed=0).filter(is_small).batch(8, steps=4))
    _, below = lowered.budgets
    assert 0 < lowered.window_bytes < MEMORY_BYTES // 2
    assert below.limit_bytes - lowered.budget.limit_bytes == pytest.approx(lowered.window_bytes, rel=0.01)
    assert MEMORY_BYTES - 4 <= below.limit_bytes + lowered.budget.limit_bytes <= MEMORY_BYTES


def test_windows_leave_half_of_the_memory(records: Path) -> None:
    plan = ps.read(str(records)).shuffle(seed=0, window_blocks=64).filter(is_small).batch(8, steps=4)
    lowered = lower(plan.root, open_deliver("numpy", None), RankSettings(cpus=4), memory_bytes=1 << 20)
    assert lowered.window_bytes > 1 << 20
    assert lowered.budget.limit_bytes == pytest.approx(1 << 18, rel=0.01)


def test_runs_without_windows_have_equal_parts() -> None:
    arrays = ps.from_arrays({"x": np.arange(8)})
    lowered = lowered_of(arrays.filter(is_small).filter(is_small).batch(2, steps=2))
    parts = [budget.limit_bytes for budget in lowered.budgets]
    assert parts == pytest.approx([MEMORY_BYTES / 3] * 3, rel=0.01)
