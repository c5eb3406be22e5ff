"""Tests that run in an interpreter of their own: those that fork, or that bring a library which forbids that to others."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).parent.parent


def alone(test: Callable[[], None]) -> Callable[[], None]:
    """The test, which takes no fixture, in a fresh interpreter."""

    @functools.wraps(test)
    def runs() -> None:
        paths = [str(TESTS), str(TESTS.parent)]
        program = f"import sys; sys.path[:0] = {paths}; from {test.__module__} import {test.__name__} as test; test.__wrapped__()"
        done = subprocess.run([sys.executable, "-c", program], cwd=TESTS, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    return runs
