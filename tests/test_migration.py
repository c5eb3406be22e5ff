"""Both sides of every row of docs/migration.md run, and give the same rows."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAIRS = {
    title: (theirs, ours)
    for title, theirs, ours in re.findall(
        r"^### (.*?)\n\n```python\n(.*?)^```\n\n```python\n(.*?)^```",
        (ROOT / "docs" / "migration.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
}
#: Run by a process of its own: both sides of all pairs with a library, whose rows it compares.
SCRIPT = """
import sys
for title, theirs, ours in {pairs!r}:
    found = []
    for side in (theirs, ours):
        names = {{}}
        exec(compile(side, title, "exec"), names)
        found.append(names["rows"])
    shuffled = "shuffle" in theirs
    assert (sorted(found[0]) == sorted(found[1])) if shuffled else found[0] == found[1], (title, found)
    assert found[0], title
    print(title)
"""


def test_every_block_is_of_a_pair() -> None:
    assert 2 * len(PAIRS) == (ROOT / "docs" / "migration.md").read_text().count("```python")


@pytest.mark.slow
@pytest.mark.trainers
@pytest.mark.parametrize("library", ["torch", "tensorflow"])
def test_both_sides_give_the_same(library: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    pairs = [
        (title, *sides)
        for title, sides in PAIRS.items()
        if f"import {library}" in sides[0] or f"from {library}" in sides[0]
    ]
    assert len(pairs) >= 5
    shutil.copy(ROOT / "tests" / "golden" / "tfrecord" / "docs.tfrecord", tmp_path / "examples.tfrecord")
    script = tmp_path / "pairs.py"
    script.write_text(SCRIPT.format(pairs=pairs))
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [title for title, *_ in pairs]
