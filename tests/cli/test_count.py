from __future__ import annotations

import json
from pathlib import Path

import pytest

import penstock as ps
from support.cli_runner import invoke

PLANS = """
import numpy as np
import penstock as ps

def odd(batch):
    return batch["x"] % 2 == 1

data = ps.read("rows.jsonl").shuffle(seed=0).filter(odd)
plan = data.batch(8, wrap=True)

def make():
    return plan

number = 7
"""


def test_a_plan_is_counted_for_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"x": row}) + "\n" for row in range(101)))
    (tmp_path / "plans_of_test_count.py").write_text(PLANS)
    monkeypatch.chdir(tmp_path)
    found = json.loads(invoke("count", "plans_of_test_count:plan", "--epochs", "2", "--json").stdout)
    assert found["rows"] == [50, 50]
    assert "epoch 0: 50 rows" in invoke("count", "plans_of_test_count:make", "--again").stdout
    monkeypatch.syspath_prepend(tmp_path)
    from plans_of_test_count import odd

    plan = ps.read("rows.jsonl").shuffle(seed=0).filter(odd).batch(8, wrap=True)
    with ps.Loader(plan, rank=0, world_size=2) as loader:
        assert len(loader) == 7
    for wrong, message in (
        ("plans_of_test_count:number", "is a int; name a dataset"),
        ("plans_of_test_count:none", "has no attribute 'none'"),
        ("plan", "write module:name"),
        ("plans_of_test_count:data", "batch"),
    ):
        result = invoke("count", wrong)
        assert result.exit_code == 1
        assert message in " ".join(result.output.split())
