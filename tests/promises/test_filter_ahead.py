"""A function that looks at all rows once: the same rows as in lanes, of known length, kept until files or code change."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps

ROWS = 500


def lines(folder: Path) -> ps.Dataset:
    path = folder / "a.jsonl"
    path.write_text("".join(json.dumps({"n": row, "text": "x" * (row % 7)}) + "\n" for row in range(ROWS)))
    return ps.read(path)


def test_the_rows_that_stay(tmp_path: Path) -> None:
    plan = lines(tmp_path).filter(lambda batch: batch["n"] % 3 == 0, ahead=True)
    assert len(plan) == 167
    with ps.Loader(plan.shuffle(seed=1).batch(8)) as loader:
        for _ in range(2):
            assert sorted(np.concatenate([batch["n"] for batch in loader]).tolist()) == list(range(0, ROWS, 3))


def test_what_was_looked_at_is_kept_until_the_code_changes(tmp_path: Path) -> None:
    log, limit = str(tmp_path / "log"), 3

    def short(batch: Any) -> Any:
        with Path(log).open("a") as file:
            file.write(f"{len(batch['n'])}\n")
        return np.array([len(text) for text in batch["text"].to_pylist()]) < limit

    def asked() -> int:
        return sum(map(int, Path(log).read_text().split()))

    assert len(lines(tmp_path).filter(short, ahead=True)) == sum(row % 7 < 3 for row in range(ROWS))
    assert asked() == ROWS
    assert len(ps.read(tmp_path / "a.jsonl").filter(short, ahead=True)) == sum(row % 7 < 3 for row in range(ROWS))
    assert asked() == ROWS
    limit = 5
    assert len(ps.read(tmp_path / "a.jsonl").filter(short, ahead=True)) == sum(row % 7 < 5 for row in range(ROWS))
    assert asked() == 2 * ROWS


def test_a_state_of_another_function_is_refused(tmp_path: Path) -> None:
    data = lines(tmp_path)
    with ps.Loader(data.filter(lambda batch: batch["n"] % 3 == 0, ahead=True).batch(4)) as loader:
        state = loader.state_dict()
    with (
        ps.Loader(data.filter(lambda batch: batch["n"] % 5 == 0, ahead=True).batch(4)) as loader,
        pytest.raises(ps.StateError, match="another plan"),
    ):
        loader.load_state_dict(state)


WRONG: dict[str, tuple[Callable[[ps.Dataset], Any], str]] = {
    "a mask": (lambda data: data.filter(lambda batch: batch["n"], ahead=True), "dtype int64.*return a mask"),
    "random": (lambda data: data.filter(lambda batch, rng: batch["n"] > 0, ahead=True), "draws random numbers"),
    "no row": (lambda data: data.filter(lambda batch: batch["n"] < 0, ahead=True), "true for none of the 500 rows"),
    "no function": (lambda data: data.filter("n > 3", ahead=True), "cannot be called"),
    "after map": (lambda data: data.map(dict).filter(lambda batch: batch["n"] > 3, ahead=True), "filter"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be(wrong: str, tmp_path: Path) -> None:
    make, message = WRONG[wrong]
    with pytest.raises(ps.PlanError, match=message):
        make(lines(tmp_path))
