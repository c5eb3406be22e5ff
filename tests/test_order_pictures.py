"""The pictures of docs/order.md claim that curves coincide: their script, on a short training."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

SCRIPT = Path(__file__).parents[1] / "benches" / "order_pictures.py"
PICTURES = {"order_kill_and_resume.svg", "order_ranks.svg", "order_lanes.svg"}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("pictures")
    command = [sys.executable, str(SCRIPT), "--small", "--out", str(folder), "--json", str(folder / "figures.json")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder


@pytest.fixture(scope="module")
def figures(drawn: Path) -> Any:
    return json.loads((drawn / "figures.json").read_text())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_killed_training_goes_on_bit_for_bit(figures: Any) -> None:
    found = figures["kill_and_resume"]
    whole, starts = found["uninterrupted"], found["starts"]
    assert len(whole) == figures["training"]["epochs"] * figures["training"]["steps"]
    assert [start["killed"] for start in starts] == [True, True, False]
    for start in starts:
        assert start["losses"] == whole[start["first"] : start["last"] + 1]
    for killed, resumed in pairwise(starts):  # at a checkpoint, no further ahead than the kill
        assert resumed["first"] % figures["training"]["checkpoint_every"] == 0
        assert 0 < resumed["first"] <= killed["last"] + 1
    assert starts[-1]["last"] == len(whole) - 1
    assert whole[-1] < whole[0] - 1  # it learns


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_without_the_loaders_state_it_is_another_training(figures: Any) -> None:
    found = figures["kill_and_resume"]
    apart = [abs(one - other) for one, other in zip(found["uninterrupted"], found["without_loader_state"], strict=True)]
    assert max(apart) > 0.01


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_any_number_of_ranks_trains_the_same(figures: Any) -> None:
    found = figures["ranks"]
    curves = [*found["losses"].values(), found["changing"]["losses"]]
    assert list(found["losses"]) == ["1", "2", "4"]
    assert found["changing"]["ranks"] == [4, 2, 1]
    assert [start["killed"] for start in found["changing"]["starts"]] == [True, True, False]
    for losses in curves:
        assert losses == pytest.approx(curves[0], rel=0, abs=1e-12)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_picture_is_drawn(drawn: Path) -> None:
    assert {path.name for path in drawn.glob("*.svg")} == PICTURES
    for name in PICTURES:
        assert ET.parse(drawn / name).getroot().tag.endswith("svg")
