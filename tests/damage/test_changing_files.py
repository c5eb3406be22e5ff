"""Files that change while they are read, in a child process: the rows as they were, as they are, or an error; never a signal or a mixture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.changing_files import WRITERS
from support.forks import Forks, forks
from support.tries import tries

CHANGES = ["cut", "replaced", "replaced in time", "overwritten", "pipes", "linked"]
MAPPED = ["npy", "npz", "tokens", "hdf5", "arrow", "arrow lists", "arrow joined"]


@pytest.fixture(scope="module")
def child() -> Iterator[Forks]:
    with forks("support.changing_files") as child:
        yield child


def outcomes(child: Forks, tmp_path: Path, kind: str, tried: list[tuple[str, str]]) -> list[str]:
    """What came of (when, change), one after the other."""
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    found: list[str] = child.call("tried", kind, str(tmp_path / "files"), tried, environment=environment)
    return found


@pytest.mark.parametrize("kind", WRITERS)
def test_between_epochs_and_reopened(child: Forks, tmp_path: Path, kind: str) -> None:
    tried = [*(("between", change) for change in CHANGES), ("reopened", "replaced in time")]
    for number, ((when, change), found) in enumerate(zip(tried, outcomes(child, tmp_path, kind, tried), strict=True)):
        if when == "reopened":  # no index of other files is used
            assert found == "new"
        elif change == "linked" or kind == "parquet":  # whose rows are in memory
            assert found == "old", change
        else:  # also where what is read lies in the cache, made of these files
            assert found not in ("old", "new", "mixed"), f"{change}: {found}"
            assert "Error: " in found, change
            assert str(tmp_path / "files" / str(number)) in found, change


@pytest.mark.parametrize("kind", WRITERS)
def test_in_mid_epoch(child: Forks, tmp_path: Path, kind: str) -> None:
    tried = [("during", change) for change in CHANGES]
    for (_, change), found in zip(tried, outcomes(child, tmp_path, kind, tried), strict=True):
        assert found == "old" or (change != "linked" and "Error: " in found), f"{change}: {found}"


@pytest.mark.parametrize("kind", MAPPED)
def test_cut_at_any_moment(child: Forks, tmp_path: Path, kind: str) -> None:
    for found in outcomes(child, tmp_path, kind, [("any moment", "cut")] * tries(20, at_least=2)):
        assert found == "old" or "Error: " in found, found
