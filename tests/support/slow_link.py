"""A link that delays, loses and slows down what goes over it, as `tc qdisc add … netem` does, which not every kernel has: between two interfaces of the kind TUN, whose packets it carries.

python -m support.slow_link DESCRIPTOR DESCRIPTOR DELAY_S LOSS BYTES_PER_S
"""

from __future__ import annotations

import fcntl
import os
import random
import select
import struct
import sys
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field

#: From linux/if_tun.h: gives a descriptor an interface; packets of IP, with nothing before them.
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
#: Packets that wait in one direction; what comes then is lost, as at a router.
_MOST, _PACKET_BYTES = 1000, 1 << 16


def new_interface(name: str) -> int:
    """A descriptor from which packets are read that the system sends to a new interface, and to which those are written that come from there."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    return descriptor


@dataclass
class Direction:
    """What goes one way. free_at: when the link can take the next packet."""

    source: int
    target: int
    delay_s: float
    loss: float
    bytes_per_s: float
    waiting: deque[tuple[float, bytes]] = field(default_factory=deque)
    free_at: float = 0.0

    def receive(self, now: float) -> None:
        """Takes all packets that are there."""
        while True:
            try:
                packet = os.read(self.source, _PACKET_BYTES)
            except BlockingIOError:
                return
            if len(self.waiting) >= _MOST or random.random() < self.loss:
                continue
            self.free_at = max(now, self.free_at) + len(packet) / self.bytes_per_s
            self.waiting.append((self.free_at + self.delay_s, packet))

    def send(self, now: float) -> None:
        """Gives on those that are due."""
        while self.waiting and self.waiting[0][0] <= now:
            packet = self.waiting.popleft()[1]
            with suppress(OSError):  # the other end is down
                os.write(self.target, packet)


def carry(one: int, other: int, delay_s: float, loss: float, bytes_per_s: float) -> None:
    """Carries packets until it is ended."""
    there, back = (Direction(*ends, delay_s, loss, bytes_per_s) for ends in ((one, other), (other, one)))
    poll = select.poll()
    for descriptor in (one, other):
        poll.register(descriptor, select.POLLIN)
    while True:
        now = time.monotonic()
        due = [direction.waiting[0][0] - now for direction in (there, back) if direction.waiting]
        poll.poll(max(0, round(1000 * min(due))) if due else None)
        now = time.monotonic()
        for direction in (there, back):
            direction.receive(now)
            direction.send(now)


if __name__ == "__main__":
    carry(int(sys.argv[1]), int(sys.argv[2]), *map(float, sys.argv[3:6]))
