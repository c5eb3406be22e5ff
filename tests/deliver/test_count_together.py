"""Ranks of gloo that count ahead together: all know what one rank counts alone, and none waits for ever for another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.derived.row_counts import kept_count

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SCRIPT = Path(__file__).with_name("count_run.py")
ROWS = 3_000


@pytest.fixture(scope="module", params=[2, pytest.param(3, marks=pytest.mark.long)])
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each rank saw."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    folder = tmp_path_factory.mktemp("count")
    unset = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    ended = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), str(request.param)],
        capture_output=True,
        check=False,
        encoding="utf-8",
        env={**environment, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
    )
    assert ended.returncode == 0, ended.stderr
    return [{**json.loads((folder / f"{rank}.json").read_text()), "folder": folder} for rank in range(request.param)]


def wanted() -> int:
    return sum(n % 7 < 3 for n in range(ROWS))


def kept(folder: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a cache has of counts, by their names."""
    patch.setenv("XDG_CACHE_HOME", str(folder))
    found = {path.stem: kept_count(path.stem) for path in folder.rglob("*.counts")}
    assert found
    return found


@pytest.mark.parametrize("name", ["filter", "natural", "few", "one lane", "nested", "joined"])
def test_all_know_what_one_rank_counts(seen: list[dict[str, Any]], name: str) -> None:
    (rows, _), _ = seen[0]["all_count"][name]
    assert [rank["all_count"][name][0][0] for rank in seen] == [rows] * len(seen)
    exact = {"filter": wanted(), "natural": wanted(), "one lane": wanted(), "few": 500, "joined": wanted() + 500}
    assert rows == seen[0]["alone"][name]
    assert name == "nested" or rows == [exact[name]] * 2
    every = [rank["all_count"][name] for rank in seen]
    shares = [one[0][1] for one in every]
    if name in ("filter", "natural"):  # a part each, of both epochs where these differ
        epochs = 2 if name == "filter" else 1
        assert ROWS * epochs <= sum(shares) < 1.3 * ROWS * epochs + 4_000
        assert max(shares) < 0.8 * sum(shares)
    if name == "one lane":
        assert sorted(bool(share) for share in shares)[:-1] == [False] * (len(seen) - 1)
    assert len({len(one[1]) for one in every}) == 1  # and all take as many steps
    if name == "filter":
        assert sorted(row for one in every for step in one[1] for row in step) == [n for n in range(ROWS) if n % 7 < 3]


def test_caches_have_the_same_as_one_rank_keeps(
    seen: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = [kept(seen[0]["folder"] / f"all count-{rank}", monkeypatch) for rank in range(len(seen))]
    assert all(one == every[0] for one in every)
    assert all(count.step is None for count in every[0].values())

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    plan = ps.from_arrays({"x": np.arange(ROWS)}).filter(seventh).batch(48)
    plan.count_rows()
    (alone,) = kept(tmp_path, monkeypatch).values()
    assert any(count.ends == alone.ends and count.left.keys() == alone.left.keys() for count in every[0].values())


def seventh(batch: Any) -> Any:
    return batch["x"] % 7 < 3


def test_ranks_of_one_machine_share_what_is_kept(seen: list[dict[str, Any]]) -> None:
    assert [rank["same_cache"][0] for rank in seen] == [[wanted()]] * len(seen)


def test_one_rank_alone_counts_all(seen: list[dict[str, Any]]) -> None:
    rows, called = seen[0]["one_rank_counts"]
    assert rows == [wanted()]
    assert called >= ROWS


def test_a_rank_that_comes_late_gets_what_the_others_made(seen: list[dict[str, Any]]) -> None:
    assert [rank["one_comes_late"][0] for rank in seen] == [[wanted()]] * len(seen)
    assert seen[-1]["one_comes_late"][1] == 0


def test_where_one_rank_fails_all_do_and_say_why(seen: list[dict[str, Any]]) -> None:
    for rank, one in enumerate(seen):
        for words, _ in one["one_fails"][0]:
            if rank == 1:
                assert words.startswith("ValueError: what only rank 1 meets")
            else:
                assert (
                    words
                    == "ProcessError: count_rows: rank 1 could not do its part: ValueError: what only rank 1 meets"
                )


def test_a_rank_that_is_lost_is_said(seen: list[dict[str, Any]]) -> None:
    for rank, one in enumerate(seen):
        if rank != 1:
            assert "rank 1 has given no sign of life for 2 s" in one["one_is_lost"][0]


def test_counting_that_was_interrupted_goes_on(seen: list[dict[str, Any]]) -> None:
    for one in seen:
        (before, _), (rows, _), files = one["interrupted"]
        assert before == "KeyboardInterrupt: " or before.startswith("ProcessError: count_rows: rank")
        assert rows == [wanted()]
        assert files == [1]  # of all lanes; those of parts are gone
    assert sum(one["interrupted"][1][1] for one in seen) < 0.9 * ROWS
