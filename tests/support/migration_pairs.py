"""The pairs of blocks in docs/migration, what they give, and whether that is the same."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "migration"
GOLDEN = ROOT / "tests" / "golden"
#: What the peers that make test does not have gave, when benches/migration.py --golden last ran.
ROWS = GOLDEN / "migration.json"
PAIR = re.compile(r"^### (.*?)\n\n```python\n(.*?)^```\n\n```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Pair:
    """One row of a page: the block of the other library, and ours."""

    title: str
    theirs: str
    ours: str

    @property
    def digest(self) -> str:
        """Of their block: golden rows belong to it."""
        return hashlib.sha256(self.theirs.encode()).hexdigest()[:16]


def peers() -> list[str]:
    """Who has a page."""
    return sorted(page.stem for page in PAGES.glob("*.md"))


def pairs(peer: str) -> list[Pair]:
    """The rows of a peer's page."""
    return [Pair(*found) for found in PAIR.findall((PAGES / f"{peer}.md").read_text(encoding="utf-8"))]


def prepare(folder: Path) -> Path:
    """A copy of the files that the blocks read; the folder must not be there."""
    shutil.copytree(GOLDEN / "migration", folder)
    for name, golden in (("examples.tfrecord", "docs.tfrecord"), ("images.tfrecord", "images.tfrecord")):
        shutil.copy(GOLDEN / "tfrecord" / golden, folder / name)
    return folder


def run(python: str | Path, blocks: Sequence[str], folder: Path, timeout_s: float = 300) -> list[Any]:
    """What each block gives: its rows, or a text that says why there are none. All run in one process, in `folder`."""
    folder = folder.resolve()
    given, out, log = (folder / name for name in ("blocks.json", "rows.json", "log.txt"))
    given.write_text(json.dumps(list(blocks)))
    out.unlink(missing_ok=True)
    script = Path(__file__).with_name("migration_side.py")
    with log.open("w") as written:
        process = subprocess.Popen(
            [str(python), "-P", str(script), str(given), str(out)],
            cwd=folder,
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
            stdout=written,
            stderr=written,
            start_new_session=True,
        )
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return [f"did not end within {timeout_s:.0f} s"] * len(blocks)
    if not out.exists():
        last = (log.read_text(errors="replace").strip().splitlines() or ["no output"])[-1]
        return [f"ended with {process.returncode}: {last}"] * len(blocks)
    rows: list[Any] = json.loads(out.read_text())
    return rows


def agree(theirs: Any, ours: Any) -> bool:
    """The same; floats, which come of images, to about a hundredth. Texts are reasons why there are no rows."""
    return isinstance(theirs, list) and isinstance(ours, list) and bool(theirs) and _alike(theirs, ours)


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=0.01, abs_tol=0.05)
    return type(one) is type(other) and bool(one == other)
