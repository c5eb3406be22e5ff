"""benches/migration.py with peers that are not there: what it says, and how it ends."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHES = Path(__file__).parents[2] / "benches"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, whose environments are made at once and whose goldens go elsewhere."""
    monkeypatch.syspath_prepend(BENCHES)
    monkeypatch.setenv("PENSTOCK_BENCH_DIR", str(tmp_path / "work"))
    module = importlib.import_module("migration")
    monkeypatch.setattr(module.environments, "ensure", lambda peer: "")
    monkeypatch.setattr(module, "ROWS", tmp_path / "rows.json")
    return module


def started(bench: ModuleType, monkeypatch: pytest.MonkeyPatch, given: Callable[[bool], Any], *options: str) -> Any:
    """Its exit status, where each block gives what `given(it is theirs)` says."""
    sides: dict[str, Any] = {"theirs": given(True), "ours": given(False)}
    monkeypatch.setattr(bench, "run", lambda python, blocks, folder: [sides[folder.name]] * len(blocks))
    monkeypatch.setattr(sys, "argv", ["migration.py", *options])
    return bench.main()


def test_the_same(bench: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "found.json"
    assert started(bench, monkeypatch, lambda _: [1], "grain", "pytorch", "--golden", "--json", str(out)) == 0
    assert "grain: Two ranks: the same\n" in capsys.readouterr().out
    assert json.loads(out.read_text())["grain"]["pairs"][0]["ours"] == [1]
    kept = json.loads(bench.ROWS.read_text())
    assert list(kept) == ["grain"]
    assert {pair.title: pair.digest for pair in bench.pairs("grain")} == {
        title: rows["block"] for title, rows in kept["grain"].items()
    }


def test_a_difference(bench: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    assert started(bench, monkeypatch, lambda theirs: [1] if theirs else "ValueError: no", "grain", "--golden") == 1
    said = capsys.readouterr().out
    assert "grain: Two ranks: DIFFERENT\n    theirs: [1]\n    ours: ValueError: no\n" in said
    assert not bench.ROWS.exists()


def test_a_peer_that_cannot_be_installed(bench: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(bench.environments, "ensure", lambda peer: "could not be installed: no wheel")
    assert started(bench, monkeypatch, lambda _: [1], "dali") == 0
    assert capsys.readouterr().out == "dali: skipped, it could not be installed: no wheel\n"


def test_a_peer_without_a_page(bench: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    with pytest.raises(SystemExit, match="2"):
        started(bench, monkeypatch, lambda _: [1], "ffcv")
    assert "no page for ffcv; there are dali, " in capsys.readouterr().err
