"""The rules on snapshots that `benches/bottlenecks.py --snapshots` recorded of pipelines whose bottleneck is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.observe.snapshot import Identity, Machine, PlanFacts, RankFigures, Snapshot, StageFigures, Times
from penstock.observe.verdict import judge

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.json"))


def snapshot_of(values: dict[str, Any]) -> Snapshot:
    """As `as_dict` wrote it."""
    stages = tuple(StageFigures(**{**one, "item_s": Times(**one["item_s"])}) for one in values["stages"])
    ranks = tuple(RankFigures(**{**one, "step_s": Times(**one["step_s"])}) for one in values["ranks"])
    parts = {"loader": Identity, "machine": Machine, "plan": PlanFacts, "wait": Times, "step": Times}
    made = {name: kind(**values[name]) for name, kind in parts.items()}
    return Snapshot(**{**values, **made, "stages": stages, "ranks": ranks, "gpus": ()})


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_the_verdict_is_right(path: Path) -> None:
    values = json.loads(path.read_text(encoding="utf-8"))
    found = judge(snapshot_of(values["snapshot"]))
    assert found.advice[0].rule == values["rule"], found.text
    assert str(found).isascii()  # every output shows it


def test_there_are_some() -> None:
    assert len(RECORDED) >= 12
