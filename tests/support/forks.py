"""A child that has imported what tests need and calls functions in forks of itself: a crash ends only the fork, and nothing is imported twice.

python -m support.forks MODULE: for each line of JSON {"call": NAME, "arguments": […], "environment": {…}} it calls that function of the module in a fork, and
prints a line of JSON: {"returned": …, "status": …, "stderr": …}.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

TESTS = Path(__file__).parent.parent
#: A fork that takes longer is ended by SIGALRM.
LONGEST_S = 250


class Forks:
    """The child, seen from the tests."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child

    def call(self, name: str, *arguments: Any, environment: Mapping[str, str] | None = None) -> Any:
        """What the function returned, as JSON gives it; AssertionError if the fork ended in any other way."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        request = {"call": name, "arguments": arguments, "environment": dict(environment or {})}
        print(json.dumps(request), file=self._child.stdin, flush=True)
        ended = json.loads(self._child.stdout.readline() or '{"status": "the child of all forks ended", "stderr": ""}')
        assert ended["status"] == 0, f"{name}{arguments}: {ended['status']}, {ended['stderr'][-2_000:]}"
        return ended["returned"]


@contextmanager
def forks(module: str) -> Iterator[Forks]:
    """A child with this module; warnings do not matter there."""
    command = [sys.executable, "-W", "ignore", "-m", "support.forks", module]
    with subprocess.Popen(command, cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield Forks(child)
        finally:
            child.communicate()


# In the child


def import_all() -> None:
    """What reading takes of ours and of others, with what PyArrow imports for its first NumPy array (pandas, where it is); starts no thread."""
    import h5py  # noqa: F401
    import numpy as np
    import pyarrow as pa
    import zarr  # noqa: F401

    import penstock.format.zarr.bounded
    import penstock.format.zarr.store
    import penstock.loader
    import penstock.lower
    import penstock.open  # noqa: F401
    from penstock.format import known_formats

    known_formats()
    pa.array(np.arange(1))


def _serve(module: ModuleType) -> None:
    import_all()
    for line in sys.stdin:
        print(json.dumps(_forked(module, **json.loads(line))), flush=True)


def _forked(module: ModuleType, call: str, arguments: list[Any], environment: dict[str, str]) -> dict[str, Any]:
    with tempfile.TemporaryFile("w+") as returned, tempfile.TemporaryFile("w+") as errors:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.dup2(errors.fileno(), 2)
                signal.alarm(LONGEST_S)
                os.environ.update(environment)
                json.dump(getattr(module, call)(*arguments), returned)
                returned.flush()
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        for file in (returned, errors):
            file.seek(0)
        return {
            "returned": json.load(returned) if status == 0 else None,
            "status": status,
            "stderr": errors.read(),
        }


if __name__ == "__main__":
    _serve(importlib.import_module(sys.argv[1]))
