"""What type checkers make of users' code: batches have a type, misspelt words are errors."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import penstock as ps
from penstock.loader_types import LoaderOptions

pytest.importorskip("mypy", reason="mypy is not installed")

GOOD = """
from dataclasses import dataclass
from typing import Any, assert_type
import numpy as np
import penstock as ps

@dataclass
class Sample:
    image: Any
    label: Any

chain = [ps.image.Normalize([0.5, 0.5, 0.5], [0.1, 0.2, 0.3]), ps.image.Normalize(0.5, 0.5)]
chain += [ps.image.Normalize(ps.image.IMAGENET), ps.image.Normalize((0.5,), (0.5,))]
plan = ps.from_arrays({"x": np.arange(4)}).shuffle(seed=1, mode="global").transform(x=chain).batch(2)
loader = ps.Loader(plan, to="torch", device="cpu", memory="4GB", rank=0, world_size=1, cpus=1, prefetch=2, epochs=3)
for batch in loader:
    assert_type(batch, dict[str, Any])
assert_type(loader.batch_at(0, 0), dict[str, Any])
for image, label in ps.Loader(plan, structure="tuple"):
    image.cuda()
for sample in ps.Loader(plan, structure=Sample):
    assert_type(sample, Sample)
ps.Loader(plan, structure="namedtuple").batch_at(0, 0).image.cuda()

def train(loader: ps.Loader) -> None:
    for batch in loader:
        assert_type(batch, dict[str, Any])

train(loader)
"""
BAD = """
import numpy as np
import penstock as ps

plan = ps.from_arrays({"x": np.arange(4)}).batch(2)
ps.Loader(plan, to="pytorch")
ps.Loader(plan, structure="tupel")
ps.Loader(plan, prefetches=1)
ps.Loader([1])
plan.shuffle(mode="rows")
ps.Loader(plan).batch_at(0, 0)[0]
"""


@pytest.mark.slow
def test_as_users_write_it(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text(BAD)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "good.py", "bad.py"]
    out = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    mistakes = [line for line in out.splitlines() if ": error:" in line]
    assert [line for line in mistakes if line.startswith("good.py")] == []
    lines = {int(line.split(":")[1]) for line in mistakes}
    wrong = {number for number, line in enumerate(BAD.splitlines(), 1) if number > 5}
    assert lines == wrong, out


def test_options_are_those_of_the_loader() -> None:
    parameters = set(inspect.signature(ps.Loader.__init__).parameters)
    assert parameters - {"self", "dataset", "misplaced", "structure"} == set(LoaderOptions.__annotations__)
