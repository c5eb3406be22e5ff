"""Damaged files of every format: a clear error or samples that may come, never a crash, a hang or much memory."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.core.errors import PenstockError
from penstock.source.checks.build import build_checksums
from penstock.source.checks.ranges import CheckedRanges
from support import damage, damage_arrays

SMALL = [*damage.SMALL, *damage_arrays.SMALL]

each = pytest.mark.parametrize("small", SMALL, ids=lambda small: small.name)


@pytest.fixture(autouse=True)
def no_other_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """zarr hands every small file to a thread, which takes longer than all else that it does."""

    async def call(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        return function(*args, **named)

    monkeypatch.setattr(asyncio, "to_thread", call)


@pytest.fixture
def victim(small: damage.Small, tmp_path: Path) -> damage.Victim:
    return damage.Victim(small.make(tmp_path))


def outcome(small: damage.Small, victim: damage.Victim) -> damage.Rows | None:
    """The rows, or None for a clear error."""
    try:
        found = damage.read_rows(small, victim.path)
    except PenstockError as error:
        text = str(error)
    else:
        return found
    assert len(text) > 20, f"an error that says little: {text!r}"
    return None


@each
def test_what_is_whole_is_read_again_and_again(small: damage.Small, victim: damage.Victim) -> None:
    wanted = damage.read_rows(small, victim.path)
    assert len(wanted) > 1
    assert damage.read_rows(small, victim.path) == wanted


@each
def test_cut_anywhere(small: damage.Small, victim: damage.Victim) -> None:
    wanted = damage.read_rows(small, victim.path)
    told = 0
    with damage.bounded_memory():
        for size in damage.cuts(len(victim.whole)):
            victim.write(victim.whole[:size])
            found = outcome(small, victim)
            told += found is None
            if found is not None:
                assert small.cut != "told" or found == wanted, f"cut to {size} bytes and not told"
                if small.cut == "short":
                    found.pop()
                assert found == wanted[: len(found)], f"cut to {size} bytes: wrong samples"
                assert size > 0
    assert told > 0


@pytest.mark.filterwarnings("ignore:.*loses what it begins with")  # a flipped bit makes 08 of a number in CSV
@each
def test_flipped_bits(small: damage.Small, victim: damage.Victim) -> None:
    wanted = damage.read_rows(small, victim.path)
    told = 0
    with damage.bounded_memory():
        for number, content in enumerate(damage.flips(victim.whole)):
            victim.write(content)
            found = outcome(small, victim)
            told += found is None
            if found is not None and small.sees == "all":
                assert found == wanted, f"flip {number}: wrong samples"
    assert told > damage.FLIPS // 100 or small.sees == "nothing"


@each
def test_with_checksums_no_flipped_bit_is_unseen(
    small: damage.Small,
    victim: damage.Victim,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Size and time stay as they were, as when a disk forgets; with the index of records that was made before, and without."""
    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    wanted = damage.read_rows(small, victim.path)
    dataset = ps.read(small.where(victim.path), **small.options)
    assert isinstance(dataset.read_ranges, CheckedRanges)
    build_checksums(dataset.source.manifest, dataset.read_ranges)
    assert damage.read_rows(small, victim.path) == wanted
    told = 0
    with damage.bounded_memory():
        for number, content in enumerate(damage.flips(victim.whole)):
            if number == damage.FLIPS // 2:
                for folder in ("index", "unpacked"):
                    shutil.rmtree(cache / "penstock" / folder, ignore_errors=True)
            victim.damage(content)
            found = outcome(small, victim)
            told += found is None
            assert found in (None, wanted), f"flip {number}: wrong samples"
    assert told > damage.FLIPS // 4


@each
def test_garbage_behind_the_end(small: damage.Small, victim: damage.Victim) -> None:
    wanted = damage.read_rows(small, victim.path)
    rng = random.Random(3)
    with damage.bounded_memory():
        for size in (1, 7, 8, 64, 512, 4096):
            for garbage in (rng.randbytes(size), bytes(size), b"\n" * size):
                victim.write(victim.whole + garbage)
                found = outcome(small, victim)
                if found is not None and small.sees != "all":  # garbage may go on with the last value, or be values
                    found = [*found[: len(wanted) - 1], wanted[-1]]
                assert found in (None, wanted), f"{size} bytes like {garbage[:8]!r} were appended"


@pytest.mark.slow
@each
def test_hostile_files(small: damage.Small, victim: damage.Victim) -> None:
    with damage.bounded_memory():
        for name, content in {"nothing": b"", **small.hostile()}.items():
            victim.write(content)
            assert outcome(small, victim) is None, name


@each
def test_a_file_that_is_gone_or_changed_after_it_was_opened(small: damage.Small, victim: damage.Victim) -> None:
    wanted = damage.read_rows(small, victim.path)
    dataset = ps.read(small.where(victim.path), **small.options)
    victim.path.rename(victim.path.with_suffix(".away"))
    try:
        assert damage.rows_of(damage.load_all(dataset)) == wanted
    except PenstockError as error:
        assert victim.path.name in str(error)  # noqa: PT017
