"""Keras with each of its back ends, in processes of their own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.trainers
@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("keras") is None, reason="Keras is not installed")
@pytest.mark.parametrize(
    "back_end",
    [pytest.param("jax", marks=pytest.mark.long), "tensorflow", pytest.param("torch", marks=pytest.mark.long)],
)
def test_keras(back_end: str) -> None:
    if importlib.util.find_spec(back_end) is None:
        pytest.skip(f"{back_end} is not installed")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", HERE / "keras_cases.py"]
    done = subprocess.run(
        command,
        cwd=HERE.parent,
        env={**os.environ, "KERAS_BACKEND": back_end},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
