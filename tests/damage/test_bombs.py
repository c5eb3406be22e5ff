"""Small files that ask for much memory: errors that say so, or the right rows, in little memory, with nothing left in the cache."""

from __future__ import annotations

import re

import pytest

from support.bombs import BOMBS
from support.bounded import Outcome, read_bounded

#: Memory that a case may take beyond what the child has with everything imported: its threads, zarr's loop, a few copies of its longest line.
USED_MB = 320


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    folder = tmp_path_factory.mktemp("bombs")
    cases = {name: bomb.case_in(folder, name) for name, bomb in BOMBS.items()}
    return read_bounded(cases, tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize("name", BOMBS)
def test_what_asks_for_much_memory(name: str, outcomes: dict[str, Outcome]) -> None:
    found, wanted = outcomes[name], BOMBS[name].said
    assert found.status == 0, f"ended by signal or limit: {found.status}"
    assert re.search(wanted, found.said) if wanted else found.said.startswith("read"), found.said
    assert found.is_ours == bool(wanted)
    assert len(found.said) < 1_000
    assert found.used_mb < USED_MB
    assert bool(found.left) == BOMBS[name].leaves, "what was unpacked of a refused file is still there"
