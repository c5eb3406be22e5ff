from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from support.cli_runner import invoke
from support.ledgers import at_step, files_of, rewrite, train


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    (tmp_path / "a.jsonl").write_text("".join(f'{{"id": {number}}}\n' for number in range(60)))
    plan = ps.read(tmp_path / "a.jsonl").shuffle(seed=1).batch(8)
    state, _ = train(plan, tmp_path / "ledger", 2, 5)
    train(plan, tmp_path / "ledger", 1, 6, state)
    return tmp_path


def damaged(folder: Path) -> None:
    rewrite(files_of(folder / "ledger")[0].path, at_step(0, 1, lambda ids: np.full_like(ids, ids[0])))


def test_all_is_well(trained: Path) -> None:
    result = invoke("verify", str(trained / "ledger"))
    assert result.exit_code == 0
    assert "3 ledgers of 1 and 2 ranks: 11 steps, 84 rows, epochs 0 … 1" in result.stdout
    assert "resumed at epoch 0, step 5, on 1 rank" in result.stdout
    assert "0 rows lost, 0 repeated; steps that were taken again had the same rows" in result.stdout
    rows = [line.split() for line in result.stdout.splitlines() if line.strip().endswith("complete")]
    assert rows == [["0", "8", "8", "60", "complete"], ["1", "3", "8", "24", "not", "complete"]]


def test_figures(trained: Path) -> None:
    found = json.loads(invoke("verify", str(trained / "ledger"), "--json").stdout)
    assert (found["ok"], found["lost_rows"], found["repeated_rows"], found["files"]) == (True, 0, 0, 3)
    assert found["resumes"] == [{"epoch": 0, "step": 5, "world_size": 1, "is_loaded": True, "steps_again": 0}]
    damaged(trained)
    result = invoke("verify", str(trained / "ledger"), "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert (found["ok"], found["lost_rows"], found["repeated_rows"]) == (False, 3, 3)
    assert {finding["wrong"] for finding in found["wrong"]} == {"lost_rows", "repeated_rows"}


def test_what_is_wrong_comes_first(trained: Path) -> None:
    damaged(trained)
    result = invoke("verify", str(trained / "ledger"))
    assert result.exit_code == 1
    assert "repeated rows: epoch 0: 3 rows came more often than the plan says" in result.stderr
    assert "3 rows lost, 3 repeated; wrong: lost rows, repeated rows" in result.stdout


def test_rows_are_named_by_their_data(trained: Path) -> None:
    damaged(trained)
    result = invoke("verify", str(trained / "ledger"), "--data", str(trained / "a.jsonl"))
    assert result.exit_code == 1
    assert "a.jsonl, record" in result.stderr


def test_other_data_is_refused(trained: Path) -> None:
    (trained / "b.jsonl").write_text('{"id": 1}\n')
    result = invoke("verify", str(trained / "ledger"), "--data", str(trained / "b.jsonl"))
    assert result.exit_code == 1
    assert "--data: its digest is" in result.stderr
    assert "pass the data that was trained on" in result.stderr


def test_nothing_there(tmp_path: Path) -> None:
    for path, message in ((tmp_path, "no .ledger files in this folder"), (tmp_path / "x", "no such file or folder")):
        result = invoke("verify", str(path))
        assert result.exit_code == 1
        assert message in result.stderr


def test_what_is_no_ledger(tmp_path: Path) -> None:
    (tmp_path / "a.ledger").write_text("this is not one")
    result = invoke("verify", str(tmp_path))
    assert result.exit_code == 1
    assert "no ledger of this version of Penstock" in result.stderr


def test_help_teaches() -> None:
    shown = invoke("verify", "--help").stdout
    for words in ("penstock verify runs/ledger", "Loader(dataset, ledger=", "exit status is 1"):
        assert words in " ".join(shown.split()), words
