"""The pairs of blocks in docs/migration: both sides of PyTorch's and tf.data's give the same; ours of the others gives what theirs gave in benches/migration.py."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from support.migration_pairs import PAGES, ROWS, agree, pairs, peers, prepare, run
from support.migration_side import rows_of

#: By page, the library that its blocks import; the tests have it.
HERE = {"pytorch": "torch", "tfdata": "tensorflow"}
EXPECTED: dict[str, dict[str, Any]] = json.loads(ROWS.read_text(encoding="utf-8"))


def test_every_peer_is_compared() -> None:
    assert sorted([*HERE, *EXPECTED]) == peers()


@pytest.mark.parametrize("peer", peers())
def test_every_block_is_of_a_pair(peer: str) -> None:
    found = pairs(peer)
    assert 2 * len(found) == (PAGES / f"{peer}.md").read_text(encoding="utf-8").count("```python") >= 10
    assert len({pair.title for pair in found}) == len(found)


@pytest.mark.slow
@pytest.mark.trainers
@pytest.mark.parametrize("peer", HERE)
def test_both_sides_give_the_same(peer: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(HERE[peer]) is None:
        pytest.skip(f"{HERE[peer]} is not installed")
    found = pairs(peer)
    blocks = [pair.theirs for pair in found] + [pair.ours for pair in found]
    given = run(sys.executable, blocks, prepare(tmp_path / "files"))
    for pair, theirs, ours in zip(found, given[: len(found)], given[len(found) :], strict=True):
        assert agree(theirs, ours), (pair.title, theirs, ours)


@pytest.mark.parametrize("peer", EXPECTED)
def test_what_the_tests_expect_came_of_these_blocks(peer: str) -> None:
    """Where it did not, run benches/migration.py --golden."""
    kept = {title: given["block"] for title, given in EXPECTED[peer].items()}
    assert kept == {pair.title: pair.digest for pair in pairs(peer)}


@pytest.mark.parametrize("peer", EXPECTED)
def test_ours_gives_what_theirs_gave(peer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(prepare(tmp_path / "files"))
    for pair in pairs(peer):
        ours = rows_of(pair.ours)
        assert agree(EXPECTED[peer][pair.title]["rows"], ours), (pair.title, ours)


@pytest.mark.slow
def test_blocks_that_fail_say_why(tmp_path: Path) -> None:
    folder = prepare(tmp_path / "files")
    blocks = ["print('{}')\nrows = [(1, 2.5)]", "1 / 0", "import os\nos.environ['RANK'] = '1'", "rows = [{1}]"]
    asks = "import os\nrows = ['RANK' in os.environ]"
    given = run(sys.executable, [*blocks, asks], folder)
    assert given[0] == [[1, 2.5]]
    assert given[1] == "ZeroDivisionError: division by zero"
    assert given[2] == "KeyError: 'rows'"
    assert given[3].startswith("TypeError")
    assert given[4] == [False]
    (ended,) = run(sys.executable, ["import os\nprint('so', flush=True)\nos._exit(3)"], folder)
    assert ended == "ended with 3: so"
    (late,) = run(sys.executable, ["import time\ntime.sleep(60)"], folder, timeout_s=1)
    assert late == "did not end within 1 s"


@pytest.mark.parametrize(
    ("theirs", "ours", "same"),
    [
        ([1, "a", [2.0]], [1, "a", [2.01]], True),
        ([100.0], [100.9], True),
        ([100.0], [102.0], False),
        ([1], [1, 2], False),
        ([1], [2], False),
        ([1], [True], False),
        ([1], [1.0], False),
        ([float("nan")], [float("nan")], False),
        ([], [], False),
        ("ImportError: no", "ImportError: no", False),
    ],
)
def test_what_agrees(theirs: Any, ours: Any, *, same: bool) -> None:
    assert agree(theirs, ours) is same
