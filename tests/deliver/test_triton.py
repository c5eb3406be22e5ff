"""The Triton kernel for images: its numbers by Triton's interpreter, its rounding by the code that it compiles to. No GPU is needed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")


@pytest.mark.slow
def test_the_kernel_gives_what_tensors_give_and_rounds_as_the_cpu_does(tmp_path: Path) -> None:
    command = [sys.executable, str(Path(__file__).parent / "triton_run.py")]
    environment = os.environ | {"TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["32 cases", "separate, nearest"]
