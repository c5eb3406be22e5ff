"""Pages of profiles and drift: small, of one file, with everything that is not ours escaped."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from support.tags import tags_of

MARKS = "<script>alert(1)</script>\"'&\x1b[2J\u202e"


def written(shown: Any, path: Path) -> str:
    shown.html(path)
    return path.read_text(encoding="utf-8")


def hostile(rows: int = 50) -> dict[str, Any]:
    """Names and values that would be code, or do things to a terminal."""
    return {
        MARKS: pa.array([MARKS, None, "é漢🦀", "", " "] * (rows // 5)),
        "x" * 5000: pa.array([f"{MARKS * 30}{number % 7}" for number in range(rows)]),
        "{{7*7}}": np.arange(float(rows)),
        "l": pa.array([[MARKS]] * rows),
    }


def test_what_is_not_ours_is_escaped(tmp_path: Path) -> None:
    found = ps.profile(ps.from_arrays(hostile(), nulls="arrow"), label=MARKS)
    other = {**hostile(), MARKS: pa.array([f"{MARKS}2"] * 50)}
    drift = found.compare(ps.from_arrays(other, nulls="arrow"))
    for number, shown in enumerate((found, drift)):
        page = written(shown, tmp_path / f"{number}.html")
        tags = tags_of(page)
        assert "script" not in tags.tags
        assert tags.links == []
        assert "\x1b" not in page
        assert "\u202e" not in page
        assert "\x1b" not in repr(shown)


@pytest.mark.parametrize("columns", [1, 20, pytest.param(120, marks=pytest.mark.slow)])
def test_a_page_is_small(tmp_path: Path, columns: int) -> None:
    random = np.random.default_rng(0)
    base, wide = random.normal(size=3000), ["<&\">'" * 200 + str(number % 999) for number in range(3000)]
    table: dict[str, Any] = {f"{'<&' * 50}{number}": base + random.normal(size=3000) / 9 for number in range(columns)}
    table |= {'"' * 100 + str(number): pa.array(wide) for number in range(columns // 2)}
    found = ps.profile(ps.from_arrays(table))
    drift = found.compare(ps.from_arrays({name: column[:900] for name, column in table.items()}))
    for shown in (found, drift):
        assert len(written(shown, tmp_path / "page.html").encode()) <= 100_000 + 5_000 * len(table)


def test_two_runs_write_the_same_bytes(tmp_path: Path) -> None:
    pages = [written(ps.profile(ps.from_arrays(hostile(), nulls="arrow")), tmp_path / "page.html") for _ in range(2)]
    assert pages[0] == pages[1]


def test_a_page_needs_nothing_else(tmp_path: Path) -> None:
    page = written(ps.profile(ps.from_arrays({"x": np.arange(9.0), "y": np.arange(9.0)})), tmp_path / "page.html")
    assert not re.search(r"https?://|@import|url\(", page)
    assert page.count("<svg") == 3  # two histograms, and the correlations


def test_where_a_page_cannot_be_written(tmp_path: Path) -> None:
    found = ps.profile(ps.from_arrays({"x": [1, 2]}))
    with pytest.raises(ps.PlanError, match="name a file that can be written"):
        found.html(tmp_path / "none" / "page.html")
