"""Which epochs a ledger knows to have how many steps."""

from __future__ import annotations

import pytest

from penstock.observe.ledger.findings import Wrong
from penstock.observe.ledger.format import EpochSize, LedgerHeader
from penstock.observe.ledger.reader import FoundRecord, LedgerFile
from penstock.observe.ledger.sizes import EpochSizes


def file_of(*sizes: EpochSize, steps: int = 0) -> LedgerFile:
    header = LedgerHeader(rank=0, world_size=1, node=None, place=0, places=1, batch_size=4, last_rows=2 if steps else 0, steps=steps, rows=4 * steps, runs=None, sources=(), unique=True, plan="p", data="d")  # fmt: skip
    records = tuple(FoundRecord(at=0, length=0, size=size) for size in sizes)
    return LedgerFile(path="one.ledger", header=header, records=records, torn_bytes=0)


def test_a_plan_whose_epochs_are_all_alike() -> None:
    sizes = EpochSizes([file_of(steps=3)])
    assert (sizes.steps(0), sizes.steps(7), sizes.of(7).last_rows) == (3, 3, 2)
    assert sizes.normal((2, 3)) == (3, 0)
    assert sizes.between((0, 1), (2, 2)) == 7
    assert sizes.between((2, 2), (0, 1)) == -7


def test_epochs_that_end_with_their_data() -> None:
    sizes = EpochSizes(
        [file_of(EpochSize(epoch=0, steps=3, rows=9, last_rows=1)), file_of(EpochSize(epoch=1, steps=0, rows=0, last_rows=0))]
    )  # fmt: skip
    assert [sizes.steps(epoch) for epoch in range(3)] == [3, 0, None]
    assert (sizes.normal((0, 2)), sizes.normal((0, 3)), sizes.normal((1, 0)), sizes.normal((2, 900))) == ((0, 2), (1, 0), (2, 0), (2, 900))  # fmt: skip
    assert sizes.between((0, 1), (2, 5)) == 7
    assert not sizes.wrong


def test_files_that_say_different_things() -> None:
    one, other = (file_of(EpochSize(epoch=0, steps=steps, rows=9, last_rows=1)) for steps in (3, 4))
    (found,) = EpochSizes([one, other]).wrong
    assert (found.wrong, found.epoch) == (Wrong.DIFFERENT_ROWS, 0)
    assert "4 steps of 9 rows" in found.words


def test_what_is_written_is_read() -> None:
    size = EpochSize(epoch=5, steps=3, rows=9, last_rows=1)
    assert EpochSize.decode(size.encode()) == size
    for body in (b"", size.encode()[:-1], b"\xff" * 32):
        with pytest.raises(ValueError):  # noqa: PT011  # the reader names the place
            EpochSize.decode(body)
