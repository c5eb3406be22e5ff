"""CPUs that the process may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.core import cpus as workers


@pytest.mark.parametrize(
    ("text", "most"), [("max 100000", 10**6), ("150000 100000", 2), ("50000 100000", 1), ("", 10**6)]
)
def test_the_quota_of_the_control_group_counts(
    text: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "cpu.max"
    limit.write_text(text)
    monkeypatch.setattr(workers, "_CGROUP_LIMIT", limit)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    assert workers.usable_cpus() == min(16, most)


def test_no_control_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_CGROUP_LIMIT", Path("/nowhere/cpu.max"))
    assert workers.usable_cpus() >= 1
