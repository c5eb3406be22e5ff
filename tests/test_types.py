"""What mypy and Pyright make of users' code: batches have a type, misspelt words are errors."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent

GOOD = """
from dataclasses import dataclass
from typing import Any, assert_type
import numpy as np
import polars as pl
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
assert_type(ps.Loader(plan, structure="tuple", isolation="process").batch_at(0, 0), tuple[Any, ...])
assert_type(ps.Loader(plan, structure="polars").batch_at(0, 0), pl.DataFrame)
for sample in ps.Loader(plan, structure=Sample):
    assert_type(sample, Sample)
ps.Loader(plan, structure="namedtuple").batch_at(0, 0).image.cuda()

def train(loader: ps.Loader) -> None:
    for batch in loader:
        assert_type(batch, dict[str, Any])

train(loader)

async def asked(row: Any, rng: Any) -> dict[str, Any]:
    return {"x": 1}

plan.map_rows(asked).map(lambda batch: batch)
assert_type(ps.concat([plan, plan], source="source").split({"a": 0.5, "b": 0.5}, seed=1)["a"].take(2), ps.Dataset)
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
plan.shuffle(1000)
plan.take(3, 4)
ps.Loader(plan, 32)
ps.mix([plan], [1.0])
plan.map(lambda batch: batch, 8)
ps.Dataset("folder", 3)
"""


def mypy(folder: Path) -> list[str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "good.py", "bad.py"]
    out = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout
    return [line for line in out.splitlines() if ": error:" in line]


def pyright(folder: Path) -> list[str]:
    return user_code().complaints({name: (folder / name).read_text() for name in ("good.py", "bad.py")})


def user_code() -> Any:
    spec = importlib.util.spec_from_file_location("check_user_code", ROOT / "scripts" / "check_user_code.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize(
    ("checker", "module"), [pytest.param(mypy, "mypy", marks=pytest.mark.long), (pyright, "basedpyright")]
)
def test_as_users_write_it(checker: Callable[[Path], list[str]], module: str, tmp_path: Path) -> None:
    pytest.importorskip(module)
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text(BAD)
    mistakes = checker(tmp_path)
    assert [line for line in mistakes if line.startswith("good.py")] == []
    lines = {int(line.split(":")[1]) for line in mistakes}
    wrong = {number for number, line in enumerate(BAD.splitlines(), 1) if number > 5}
    assert lines == wrong, mistakes


@pytest.mark.slow
def test_pyright_takes_the_documentation_and_sees_its_mistakes() -> None:
    pytest.importorskip("basedpyright")
    checking = user_code()
    guide = checking.user_code(ROOT / "docs" / "guide.md")
    assert len(guide.splitlines()) <= len((ROOT / "docs" / "guide.md").read_text().splitlines())
    assert 'structure="tuple"' in guide
    mistaken = guide.replace('structure="tuple"', 'structure="tupel"', 1)
    found = checking.complaints({"guide.py": guide, "mistaken.py": mistaken})
    assert len(found) >= 1
    assert all(one.startswith("mistaken.py:") for one in found)
