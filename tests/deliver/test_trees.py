"""XGBoost, LightGBM and scikit-learn learn the same from a loader as from arrays. In a process of their own, which nobody forks."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("xgboost", "lightgbm"))), reason="XGBoost and LightGBM are not installed"
    ),
]


def test_trees_are_those_of_the_table_in_memory(tmp_path: Path) -> None:
    script = Path(__file__).with_name("trees_run.py")
    done = subprocess.run(
        [sys.executable, script, tmp_path], capture_output=True, text=True, timeout=280, check=False, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for kind in ("QuantileDMatrix", "ExtMemQuantileDMatrix", "LightGBM", "scikit-learn"):
        assert found[kind] == 0, kind
    assert found["rows"] == [1000, True, True, True]
    said = (
        "'text' is of large_string",
        "column 'z': a batch has",
        "'text' is of large_string",
        "takes a Loader",
        "takes a Loader",
    )
    for error, wanted in zip(found["errors"], said, strict=True):
        assert wanted in error, found["errors"]
