"""A small HTTP proxy that goes wrong on purpose, seeded: statuses, resets, stalls, drips, cut bodies, wrong ranges, latency,
limited bandwidth. It runs in a thread of its own on the loopback interface.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_CHUNK = 64 << 10
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)

#: What can go wrong with one answer.
KINDS = ("500", "503", "429", "reset", "reset in body", "stall", "drip", "cut", "wrong range")


@dataclass
class Faults:
    """What goes wrong: `share` of the GET requests with one of `kinds`; every answer waits `latency_s` and comes at
    `bytes_per_s` a connection. `answers`: header lines and body for a status that is a kind. Counts requests by what was done
    to them."""

    share: float = 0.0
    kinds: tuple[str, ...] = KINDS
    seed: int = 0
    latency_s: float = 0.0
    bytes_per_s: float = 0.0
    stall_s: float = 3.0
    answers: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def draw(self) -> str:
        kind = self._random.choice(self.kinds) if self._random.random() < self.share else "none"
        self.counts[kind] += 1
        return kind


@contextlib.contextmanager
def proxy(upstream: int, faults: Faults) -> Iterator[int]:
    """Runs the proxy before the server at port `upstream`; gives its port."""
    started = threading.Event()
    state: dict[str, object] = {}

    async def serve() -> None:
        stop = asyncio.Event()
        running = set()  # the loop itself would let go of a task that waits

        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(_connection(reader, writer, upstream, faults))
            running.add(task)
            task.add_done_callback(running.discard)

        server = await asyncio.start_server(accepted, "127.0.0.1", 0, backlog=1024)
        state.update(port=server.sockets[0].getsockname()[1], loop=asyncio.get_running_loop(), stop=stop)
        started.set()
        await stop.wait()
        for listening in server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        await _turns()  # connections accepted just now get their transports, which a closed server would refuse
        server.close()
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await _turns()  # those that the tasks closed are gone, and what was accepted meanwhile has its task

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="fault-proxy", daemon=True)
    thread.start()
    started.wait()
    try:
        yield int(str(state["port"]))
    finally:
        state["loop"].call_soon_threadsafe(state["stop"].set)  # type: ignore[attr-defined]
        thread.join(60)


async def _turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def _connection(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, upstream: int, faults: Faults
) -> None:
    back: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
        back = await asyncio.open_connection("127.0.0.1", upstream)
        while await _exchange(reader, writer, *back, faults):
            pass
    ending = asyncio.current_task()
    for each in (writer, *([back[1]] if back else [])):
        with contextlib.suppress(Exception):
            # At the proxy's end nobody waits until what was written is read.
            each.transport.abort() if ending is not None and ending.cancelling() else each.close()


async def _exchange(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    server_reader: asyncio.StreamReader,
    server_writer: asyncio.StreamWriter,
    faults: Faults,
) -> bool:
    """One request and its answer; whether the connection goes on."""
    head = await reader.readuntil(b"\r\n\r\n")
    body = await reader.readexactly(_length(head))
    kind = faults.draw() if head.startswith(b"GET") else "none"
    if faults.latency_s:
        await asyncio.sleep(faults.latency_s)
    if kind.isdigit():
        header, text = faults.answers.get(kind, ("", ""))
        length = f"content-length: {len(text.encode())}\r\n"
        writer.write(f"HTTP/1.1 {kind} On Purpose\r\n{length}{header}\r\n{text}".encode())
        return True
    if kind == "reset":
        writer.transport.abort()
        return False
    if kind == "stall":
        await asyncio.sleep(faults.stall_s)
    server_writer.write(head + body)
    answer = await server_reader.readuntil(b"\r\n\r\n")
    left = 0 if head.startswith(b"HEAD") else _length(answer)
    if kind == "wrong range":
        answer = re.sub(rb"(?i)(content-range: bytes )(\d+)", lambda m: m[1] + str(int(m[2]) + 1).encode(), answer)
    writer.write(answer)
    whole = left
    while left:
        chunk = await server_reader.read(min(_CHUNK, left))
        if not chunk:
            return False
        left -= len(chunk)
        if kind in ("cut", "reset in body") and left < whole // 2:
            writer.write(chunk[: len(chunk) // 2])
            await writer.drain()
            writer.transport.abort() if kind == "reset in body" else writer.close()
            return False
        writer.write(chunk)
        await writer.drain()
        if kind == "drip":
            await asyncio.sleep(0.05)
        if faults.bytes_per_s:
            await asyncio.sleep(len(chunk) / faults.bytes_per_s)
    return b"connection: close" not in answer.lower()


def _length(head: bytes) -> int:
    found = _LENGTH.search(head)
    return int(found[1]) if found else 0
