"""penstock profile."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.cli_runner import invoke


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Rows, and others that have drifted from them."""
    random = np.random.default_rng(0)
    for name, mean in (("before", 0.0), ("after", 2.0)):
        columns = {"x": random.normal(mean, 1, 500), "city": pa.array(["Rome", None] * 250), "y": [0, 1] * 250}
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    return str(tmp_path / "before.parquet"), str(tmp_path / "after.parquet")


def test_columns_are_shown(files: tuple[str, str]) -> None:
    text = invoke("profile", files[0], "--label", "y").stdout
    assert "500 rows, 3 columns" in text
    assert "250 (50.0%)" in text
    assert "Classes of y: 2" in text


def test_json_and_a_page(files: tuple[str, str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    facts = json.loads(invoke("profile", files[0], "--json", "--rows", "100", "--html", str(page)).stdout)
    assert facts["rows"] == 100
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_drift_and_its_exit_status(files: tuple[str, str], tmp_path: Path) -> None:
    found = invoke("profile", *files, "--check")
    assert "strong drift" in found.stdout
    assert found.exit_code == 1
    assert invoke("profile", *files).exit_code == 0
    kept = str(tmp_path / "kept.json")
    assert invoke("profile", files[0], "--save", kept).exit_code == 0
    assert invoke("profile", kept, files[0], "--check").exit_code == 0
    assert invoke("profile", kept, files[1], "--check").stdout == found.stdout


def test_a_plan_is_code(files: tuple[str, str]) -> None:
    code = invoke("profile", files[0], "--recipe").stdout
    compile(code, "plan.py", "exec")
    assert "x=[T.Standardize()],  # mean" in code


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--label", "z"], "no column 'z'"),
        (["--check"], "--check: compares with OTHER"),
        (["--images", "no"], "images='no'"),
        (["--html", "/nowhere/page.html"], "name a file that can be written"),
    ],
)
def test_errors_have_no_traceback(files: tuple[str, str], arguments: list[str], says: str) -> None:
    found = invoke("profile", files[0], *arguments)
    assert found.exit_code == 1
    assert says in found.stderr
    assert "Traceback" not in found.stderr


def test_what_is_not_there() -> None:
    found = invoke("profile", "/nowhere/at/all.parquet")
    assert found.exit_code == 1
    assert found.stderr.startswith("penstock: ")
