"""The only file that blocks: order, bounds, closing, failing."""

from __future__ import annotations

import random
import threading
import time

import pytest

from penstock.runtime.channel import Channel, Closed, Joined, Tickets


def run(*works) -> Joined:
    threads = Joined()
    for number, work in enumerate(works):
        threads.start(f"test-{number}", work)
    return threads


def drain(channel: Channel[int]) -> list[tuple[int, int]]:
    found = []
    try:
        while True:
            found.append(channel.take())
    except Closed:
        return found


@pytest.mark.parametrize("capacity", [1, 2, 5])
def test_items_leave_in_the_order_of_their_numbers(capacity: int) -> None:
    channel: Channel[int] = Channel(capacity)
    tickets = Tickets(iter(range(300)))

    def work() -> None:
        try:
            while True:
                number, item = tickets.take()
                if random.random() < 0.1:
                    time.sleep(0.001)
                channel.put(number, item * 2)
        except Closed:
            assert tickets.end is not None
            channel.finish(tickets.end)

    threads = run(work, work, work)
    assert drain(channel) == [(number, number * 2) for number in range(300)]
    assert threads.join(60) == []


def test_several_takers_get_every_item_once() -> None:
    channel: Channel[int] = Channel(4)
    found: list[list[tuple[int, int]]] = [[], []]
    threads = run(*(lambda place=place: found[place].extend(drain(channel)) for place in range(2)))
    for number in range(200):
        channel.put(number, number)
    channel.finish(200)
    assert threads.join(60) == []
    assert sorted(found[0] + found[1]) == [(number, number) for number in range(200)]


def test_put_waits_for_room_but_the_next_item_always_enters() -> None:
    channel: Channel[str] = Channel(2)
    channel.put(1, "b")
    late = run(lambda: channel.put(2, "c"))
    assert late.join(0.1) == ["test-0"], "number 2 is 2 ahead of number 0"
    channel.put(0, "a")
    assert [channel.take(), channel.take(), channel.take()] == [(0, "a"), (1, "b"), (2, "c")]
    assert late.join(60) == []


def test_a_larger_capacity_lets_more_in_from_the_next_take_on() -> None:
    channel: Channel[int] = Channel(1)
    channel.put(0, 0)
    waiting = run(lambda: channel.put(1, 1), lambda: channel.put(2, 2))
    assert len(waiting.join(0.05)) == 2
    channel.capacity = 3
    channel.take()
    assert waiting.join(60) == []
    assert len(channel) == 2


def test_close_wakes_all_and_drops_what_was_not_taken() -> None:
    channel: Channel[int] = Channel(1)
    results: list[str] = []

    def closed(act) -> None:
        try:
            act()
        except Closed:
            results.append("closed")

    threads = run(*(lambda: closed(channel.take) for _ in range(2)), lambda: closed(lambda: channel.put(7, 7)))
    assert len(threads.join(0.05)) == 3
    channel.close()
    channel.close()
    assert threads.join(60) == []
    assert results == ["closed"] * 3
    with pytest.raises(Closed):
        channel.put(0, 0)
    with pytest.raises(Closed):
        channel.take()
    assert len(channel) == 0
    assert channel.end is None


def test_an_error_reaches_whoever_takes() -> None:
    channel: Channel[int] = Channel(1)
    channel.put(0, 0)
    channel.fail(ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        channel.take()
    with pytest.raises(Closed):
        channel.put(1, 1)


def test_tickets_end_once_and_close() -> None:
    tickets = Tickets(iter("ab"))
    assert [tickets.take(), tickets.take()] == [(0, "a"), (1, "b")]
    for _ in range(2):
        with pytest.raises(Closed):
            tickets.take()
    assert tickets.end == 2
    closed = Tickets(iter("ab"))
    closed.close()
    with pytest.raises(Closed):
        closed.take()
    assert closed.end is None


def test_joining_has_one_deadline_for_all() -> None:
    stop = threading.Event()
    threads = run(*[stop.wait] * 100)
    began = time.monotonic()
    assert len(threads.join(0.2)) == 100
    assert time.monotonic() - began < 15
    stop.set()
    assert threads.join(60) == []


def test_whoever_takes_is_held_while_they_wait() -> None:
    """`hold_taker` begins when somebody waits, and lets nobody leave `take` before it ends."""
    channel: Channel[int] = Channel(2)
    events: list[str] = []

    def hold() -> None:
        with channel.hold_taker():
            channel.put(0, 10)
            time.sleep(0.05)
            events.append("held")

    threads = run(hold)
    time.sleep(0.02)
    assert channel.take() == (0, 10)
    events.append("taken")
    assert threads.join(60) == []
    assert events == ["held", "taken"]


def test_closing_ends_every_wait_for_a_taker() -> None:
    channel: Channel[int] = Channel(2)
    ended: list[str] = []

    def hold() -> None:
        try:
            with channel.hold_taker():
                pass
        except Closed:
            ended.append("closed")

    threads = run(hold, hold)
    time.sleep(0.02)
    channel.close()
    assert threads.join(60) == []
    assert ended == ["closed", "closed"]
