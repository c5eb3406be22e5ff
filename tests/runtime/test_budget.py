"""The budget of a run: items begin in order, as there is room, and what is held is counted until it is gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from penstock.core.cancel import StoppedError
from penstock.order.steps.cursor import Work
from penstock.runtime.budget import Budget
from penstock.runtime.slots import Slots, room_of

WORKS = [Work(0, step, 1) for step in range(8)]


def begun(budget: Budget) -> list[Work]:
    """Work that was drawn, in order."""
    return list(budget.follow(iter(WORKS)))


class Waiting:
    """A thread that waits to be admitted."""

    def __init__(self, budget: Budget, work: Work, asked_bytes: int, block_bytes: int = 0) -> None:
        self.share = self.error = None
        self._arguments = budget, work, asked_bytes, block_bytes
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self._thread.start()

    def _wait(self) -> None:
        budget, work, asked_bytes, block_bytes = self._arguments
        try:
            self.share = budget.admit(work, asked_bytes=asked_bytes, block_bytes=block_bytes, ends_turn=True)
        except StoppedError as error:
            self.error = error

    def ended(self, timeout_s: float = 60.0) -> bool:
        self._thread.join(timeout_s)
        return not self._thread.is_alive()


@pytest.fixture
def budget() -> Iterator[Budget]:
    made = Budget(100)
    yield made
    made.close()


def test_an_item_waits_until_there_is_room(budget: Budget) -> None:
    first, second, third, *_ = begun(budget)
    shares = [budget.admit(work, asked_bytes=50, ends_turn=True) for work in (first, second)]
    late = Waiting(budget, third, 1)
    assert not late.ended(0.3)
    budget.release(shares[0])
    assert late.ended()


def test_items_are_admitted_in_the_order_of_their_work(budget: Budget) -> None:
    first, second, *_ = begun(budget)
    late = Waiting(budget, second, 1)
    assert not late.ended(0.3), "there is room, but what comes before it was not admitted yet"
    budget.admit(first, asked_bytes=1, ends_turn=True)
    assert late.ended()


def test_a_turn_that_fails_lets_the_next_in(budget: Budget) -> None:
    first, second, *_ = begun(budget)
    late = Waiting(budget, second, 1)
    with pytest.raises(KeyError), budget.turn(first):
        raise KeyError
    assert late.ended()


def test_an_item_that_is_too_large_goes_alone(budget: Budget) -> None:
    first, second, third, *_ = begun(budget)
    budget.has_warned = True
    small = budget.admit(first, asked_bytes=1, ends_turn=True)
    large = Waiting(budget, second, 1000)
    assert not large.ended(0.3)
    budget.release(small)
    assert large.ended()
    late = Waiting(budget, third, 1)
    assert not late.ended(0.3)
    budget.release(large.share)
    assert late.ended()


def test_blocks_count_until_they_are_gone(budget: Budget) -> None:
    slots = Slots()
    budget.limit_bytes = 3 * room_of(10_000)
    first, second, *_ = begun(budget)
    budget.admit(first, asked_bytes=1, ends_turn=True)
    blocks = [budget.take(slots, 10_000) for _ in range(2)]
    assert budget.figures()["held_bytes"] == 2 * room_of(10_000)
    late = Waiting(budget, second, 1, block_bytes=room_of(10_000))
    assert not late.ended(0.3)
    blocks.pop()
    assert late.ended(), "nobody tells it of what is gone: it looks"
    assert budget.figures()["held_bytes"] == room_of(10_000)
    assert budget.figures()["most_bytes"] == 2 * room_of(10_000)


def test_an_item_takes_what_it_was_seen_to_hold(budget: Budget) -> None:
    first, second, third, *_ = begun(budget)
    share = budget.admit(first, asked_bytes=10, ends_turn=True)
    budget.note(share, 90)
    late = Waiting(budget, second, 20)
    assert not late.ended(0.3)
    budget.finish(share, 20)
    assert not late.ended(0.3), "items grow nine times: it would take 180"
    budget.release(share)
    assert late.ended()
    assert late.share.reserved_bytes == 180
    budget.finish(late.share, 20)
    budget.release(late.share)
    assert budget.admit(third, asked_bytes=20, ends_turn=True).reserved_bytes < 180


def test_what_is_not_known_is_supposed_to_grow_until_it_was_seen() -> None:
    budget = Budget(100, is_exact=False)
    first, second, third, *_ = begun(budget)
    share = budget.admit(first, asked_bytes=10, ends_turn=True)
    late = Waiting(budget, second, 10)
    assert not late.ended(0.3)
    budget.finish(share, 10)
    assert late.ended()
    assert budget.admit(third, asked_bytes=10, ends_turn=True).reserved_bytes == 10


def test_what_is_on_its_way_is_supposed_to_grow_as_the_first_one_did(budget: Budget) -> None:
    """As soon as a stage made it larger, however long it then takes to be finished."""
    first, second, third, *_ = begun(budget)
    shares = [budget.admit(work, asked_bytes=2, ends_turn=True) for work in (first, second)]
    budget.note(shares[0], 40)
    assert shares[1].reserved_bytes == 40
    late = Waiting(budget, third, 2)
    assert not late.ended(0.3)
    budget.finish(shares[0], 40)
    budget.release(shares[0])
    assert late.ended()


def test_the_end_of_a_run_wakes_whoever_waits(budget: Budget) -> None:
    first, second, *_ = begun(budget)
    budget.admit(first, asked_bytes=100, ends_turn=True)
    late = Waiting(budget, second, 1)
    time.sleep(0.05)
    budget.close()
    assert late.ended()
    assert isinstance(late.error, StoppedError)
    begun(budget)
    assert budget.admit(first, asked_bytes=100, ends_turn=True)


def test_free_memory_goes_where_items_need_room() -> None:
    slots = Slots()
    budget = Budget(10 * room_of(10_000), (slots,))
    held = [slots.take(10_000) for _ in range(8)]
    held.clear()
    first, *_ = begun(budget)
    budget.admit(first, asked_bytes=5 * room_of(10_000))
    budget.trim()
    assert slots.free_bytes == 8 * room_of(10_000), "all that was ever made fits"
    held = [slots.take(20_000) for _ in range(5)]
    budget.trim()
    assert slots.free_bytes <= 5 * room_of(10_000)
    assert all(isinstance(array, np.ndarray) for array in held)


def test_what_is_held_is_never_more_than_the_most_that_was() -> None:
    """Memory that waits to be used again counts in both."""
    slots = Slots()
    budget = Budget(10 * room_of(10_000), (slots,))
    block = budget.take(slots, 10_000)
    del block
    assert budget.figures()["held_bytes"] == budget.figures()["most_bytes"] == room_of(10_000)
    kept = [slots.take(10_000) for _ in range(3)]  # as the consumer's batches, which count when they are let go
    kept.clear()
    assert budget.figures()["held_bytes"] == budget.figures()["most_bytes"] == 3 * room_of(10_000)
    slots.drop()
    assert budget.figures() == {"held_bytes": 0, "most_bytes": 3 * room_of(10_000), "budget_bytes": budget.limit_bytes}


def test_memory_of_blocks_that_nobody_has_room_for_is_released() -> None:
    """Items do not use it again, unlike that of columns."""
    columns, blocks = Slots(), Slots()
    budget = Budget(1 << 20, (columns, blocks))
    first, *_ = begun(budget)
    block = budget.take(blocks, 500_000)
    column = columns.take(100_000)
    share = budget.admit(first, asked_bytes=400_000, ends_turn=True)
    del block, column
    budget.trim()
    assert blocks.free_bytes >= 500_000, "there is room for it"
    budget.note(share, 900_000)
    budget.trim()
    assert blocks.free_bytes == 0
    assert columns.free_bytes >= 100_000
    budget.close()
