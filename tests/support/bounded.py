"""Reading in a child with limits on memory and time: many datasets in one child, each in a fork of it that has everything imported.

python -m support.bounded < cases.jsonl: runs each case, a line of JSON (see `Case`), and prints what came of it, a line of JSON each.
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support.forks import TESTS, import_all

#: Seconds of CPU that a case may take; a case that hangs without work is ended by the time limit of them all.
_CPU_S = 20
_ALL_S = 240


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A dataset to read, a few batches of it.

    path: what `ps.read` gets. limits: of `ps.Limits`. options: further arguments of `ps.read`. images: whether they are decoded. asked_mb: address
    space that the child may ask for beyond what it has.
    """

    path: str
    limits: Mapping[str, int] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    images: bool = False
    asked_mb: int = 3 << 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a case: the class of the error and what it says, or "read"; memory that it took; files that it left in the cache.

    status: how the process ended, 0 if by itself. is_ours: whether the error is a PenstockError.
    """

    said: str = ""
    is_ours: bool = False
    used_mb: int = 0
    left: Sequence[str] = ()
    status: int = 0


def read_bounded(cases: Mapping[str, Case], cache: Path) -> dict[str, Outcome]:
    """The outcome of each case; `cache` becomes the user's cache, a folder a case."""
    lines = "".join(
        json.dumps({**dataclasses.asdict(case), "cache": str(cache / name)}) + "\n" for name, case in cases.items()
    )
    child = subprocess.run(
        [sys.executable, "-m", "support.bounded"],
        cwd=TESTS, env={**os.environ, "MALLOC_ARENA_MAX": "2"}, input=lines, capture_output=True, text=True, timeout=_ALL_S, check=False,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    outcomes = [Outcome(**json.loads(line)) for line in child.stdout.splitlines()]
    return dict(zip(cases, outcomes, strict=True))


# In the child


def _serve() -> None:
    import_all()
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        print(json.dumps(_forked(json.loads(line))), flush=True)


def _forked(case: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, json.dumps(_limited(case)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    status = os.waitpid(child, 0)[1]
    return {**(json.loads(said) if said else {}), "status": status}


def _limited(case: dict[str, Any]) -> dict[str, Any]:
    import penstock as ps

    os.environ["XDG_CACHE_HOME"] = case["cache"]
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (case["asked_mb"] << 20),) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    before_kb, is_ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, False
    try:
        said = _read(case)
    except Exception as error:
        said, is_ours = f"{type(error).__name__}: {error}", isinstance(error, ps.PenstockError)
    used_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    left = [str(path) for path in Path(case["cache"]).rglob("*") if path.is_file() and path.stat().st_size > 1 << 20]
    return {"said": said[:4_000], "is_ours": is_ours, "used_mb": used_kb >> 10, "left": left}


def _read(case: dict[str, Any]) -> str:
    import penstock as ps

    dataset = ps.read(case["path"], limits=ps.Limits(**case["limits"]), **case["options"])
    if case["images"]:
        dataset = dataset.transform(image=[ps.image.Decode(), ps.image.Resize((32, 32))])
    with ps.Loader(dataset.batch(1), memory=case["asked_mb"] << 17) as loader:
        for number, _ in enumerate(loader):
            if number == 3:
                break
    return f"read, of {len(dataset)} rows"


if __name__ == "__main__":
    _serve()
