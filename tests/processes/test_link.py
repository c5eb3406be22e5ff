"""Two ends of a link: what is sent arrives, memory is used again once nobody looks at it, and scarce files are no loss."""

from __future__ import annotations

import gc
import os
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.processes import memory
from penstock.processes.link import Link
from penstock.processes.memory import Regions
from penstock.processes.wire import EndedError
from penstock.runtime.slots import Slots
from support.alone import alone

LARGE = 100_000


@contextmanager
def ends(**options: Any) -> Iterator[tuple[Link, Link]]:
    one, other = socket.socketpair()
    links = Link(one, Regions()), Link(other, Regions(), **options)
    try:
        yield links
    finally:
        for link in links:
            link.close()


def files() -> set[str]:
    """Sockets and shared memory that this process has open."""
    gc.collect()
    found = set[str]()
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # of another thread, which closed it
            found.add(os.readlink(f"/proc/self/fd/{name}") + f" {name}")
    return {one for one in found if one.startswith(("socket:", "/memfd:"))}


def regions_of(link: Link) -> int:
    """Regions that the other end sent to this one."""
    return len(link._theirs)


def numbers(step: int, size: int = LARGE) -> dict[str, Any]:
    return {"x": np.full(size, step % 251, np.uint8), "y": np.full(size // 8, step), "name": f"step {step}"}


def is_step(message: dict[str, Any], step: int, size: int = LARGE) -> bool:
    return all(np.array_equal(message[name], value) for name, value in numbers(step, size).items())


def test_messages_of_any_size_arrive() -> None:
    before = files()
    with ends() as (here, there):
        for size in (0, 8, 1 << 14, LARGE, 3_000_000):
            sender = threading.Thread(target=here.send, args=(numbers(7, size),))
            sender.start()
            assert is_step(there.receive(), 7, size)
            sender.join()
        here.send(None)
        assert there.receive() is None
    assert not files() - before  # what earlier tests left may be closed meanwhile


def test_memory_is_used_again_once_nobody_looks_at_it() -> None:
    with ends() as (here, there):
        for step in range(20):
            here.send(numbers(step))
            assert is_step(there.receive(), step)  # and nothing of it is held
            there.send("an answer")
            here.receive()
        assert regions_of(there) <= 2
        held = []
        for step in range(6):
            here.send(numbers(step))
            held.append(there.receive())
        assert regions_of(there) >= 6
        assert all(is_step(message, step) for step, message in enumerate(held))


def test_a_view_outlives_both_ends() -> None:
    with ends() as (here, there):
        here.send(numbers(3))
        view = there.receive()["y"][5:10]
    gc.collect()
    assert view.tolist() == [3] * 5
    view[:] = 4  # what arrives may be written to
    assert view.tolist() == [4] * 5


def test_what_lies_in_a_region_is_not_copied() -> None:
    one, other = socket.socketpair()
    regions = Regions()
    here, there = Link(one, regions), Link(other, Regions())
    slot = Slots(new_memory=regions).take(LARGE)
    slot[:] = 5
    here.send(slot)
    arrived = there.receive()
    slot[:3] = 6
    assert arrived[:4].tolist() == [6, 6, 6, 5]
    here.close()
    there.close()


def test_whoever_holds_much_gets_copies() -> None:
    before = files()
    with ends(most_held=3) as (here, there):
        held = []
        for step in range(40):
            here.send(numbers(step))
            held.append(there.receive())
            there.send("an answer")
            here.receive()
        assert regions_of(there) <= 5
        assert len(files() - before) < 40
    assert all(is_step(message, step) for step, message in enumerate(held))


def test_sizes_that_change_take_no_more_regions_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_MOST", 4)
    with ends() as (here, there):
        for step, size in enumerate(2**power for power in range(15, 24)):
            sender = threading.Thread(target=here.send, args=(numbers(step, size),))
            sender.start()
            assert is_step(there.receive(), step, size)
            sender.join()
            there.send("an answer")
            here.receive()
            assert regions_of(there) <= 4
        assert regions_of(there) > 0


def test_several_threads_send() -> None:
    with ends() as (here, there):
        threads = [
            threading.Thread(target=lambda first=first: [here.send(numbers(first + step)) for step in range(50)])
            for first in (0, 100, 200)
        ]
        for thread in threads:
            thread.start()
        found = sorted((there.receive() for _ in range(150)), key=lambda message: int(message["y"][0]))
        for thread in threads:
            thread.join()
        steps = [first + step for first in (0, 100, 200) for step in range(50)]
        assert all(is_step(message, step) for message, step in zip(found, steps, strict=True))


def test_an_end_that_is_gone() -> None:
    with ends() as (here, there):
        here.send("last words")
        here.close()
        assert there.receive() == "last words"
        with pytest.raises(EndedError):
            there.receive()
        with pytest.raises(EndedError):
            there.send(numbers(1))


@alone
def test_a_receiver_without_files_says_so_and_goes_on() -> None:
    """Each batch that needs a file is the error; descriptors of later ones are not taken for earlier ones."""
    with ends() as (here, there):
        here.send([numbers(1), "small"])
        assert is_step(there.receive()[0], 1)
        kept = here._copies.take(LARGE)
        here.send(numbers(2, 2 * LARGE))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, hard))
        with pytest.raises(ps.ProcessError, match="ulimit -n"):
            there.receive()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        del kept
        here.send("small")
        assert there.receive() == "small"
        there.send("an answer")
        assert here.receive() == "an answer"
        for step in range(3, 20):
            here.send(numbers(step, 4 * LARGE))
            assert is_step(there.receive(), step, 4 * LARGE)


@alone
def test_a_sender_without_files_sends_all_the_same() -> None:
    with ends() as (here, there):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, hard))
        sender = threading.Thread(target=here.send, args=(numbers(1),))
        sender.start()
        assert is_step(there.receive(), 1)
        sender.join()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert regions_of(there) == 0


def test_what_a_fork_looks_at_is_not_used_again() -> None:
    with ends() as (here, there):
        here.send(numbers(1))
        arrived = there.receive()
        (mapping,) = there._theirs.values()
        looks = np.frombuffer(mapping, np.uint8)  # type: ignore[arg-type]
        there.forks += 1  # as after a fork of the receiver
        del arrived
        there.send("an answer")
        here.receive()
        for step in range(2, 10):
            here.send(numbers(step))
            assert is_step(there.receive(), step)
        assert (looks[:LARGE] == 1).all()
