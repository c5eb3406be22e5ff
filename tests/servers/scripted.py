"""An HTTP server on loopback whose every answer a function writes, byte by byte: for answers that no real server would give twice."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

WHEN = "Sat, 21 Nov 2026 00:00:00 GMT"


@dataclass
class Asked:
    """A request: its method, path with query, and headers by lower-case names."""

    method: str
    path: str
    headers: Mapping[str, str]

    @property
    def range(self) -> tuple[int, int] | None:
        """The bytes that are asked for, [first, end)."""
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
        return None if found is None else (int(found[1]), int(found[2]) + 1)

    def answer(self, status: int, body: bytes = b"", *lines: str, closes: bool = False) -> bytes | None:
        """An answer with its length, unless `lines` say how it ends."""
        head = [f"HTTP/1.1 {status} .", *lines, *(["connection: close"] if closes else [])]
        if not any(line.startswith(("transfer-encoding", "content-length")) for line in lines) and not closes:
            head.append(f"content-length: {len(body)}")
        return "\r\n".join([*head, "", ""]).encode() + (b"" if self.method == "HEAD" else body)

    def part(self, data: bytes, *lines: str) -> bytes | None:
        """What a good server answers for a file."""
        told = (f"last-modified: {WHEN}", 'etag: "a"', *lines)
        if self.range is None:
            return self.answer(200, data, f"content-length: {len(data)}", *told)
        first, end = self.range[0], min(self.range[1], len(data))
        return self.answer(206, data[first:end], f"content-range: bytes {first}-{end - 1}/{len(data)}", *told)


@dataclass
class Script:
    """A server that runs: its port, and what it was asked so far."""

    port: int
    asked: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        """What its URLs begin with."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def seen(self) -> str:
        """All that it was sent, as one text."""
        return "\n".join(f"{one.method} {one.path} {dict(one.headers)}" for one in self.asked)


@contextlib.contextmanager
def scripted(answer: Callable[[Asked], bytes | None]) -> Iterator[Script]:
    """Runs a server that sends what `answer` gives, and closes the connection after None or "connection: close"."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=512)
    script = Script(listening.getsockname()[1])

    def serve(stream: socket.socket) -> None:
        with stream, contextlib.suppress(OSError, ValueError), stream.makefile("rb") as reader:
            while line := reader.readline():
                method, path, _ = line.decode().split(" ")
                headers = {}
                while (line := reader.readline()) not in (b"\r\n", b""):
                    name, _, value = line.decode("latin-1").partition(":")
                    headers[name.lower()] = value.strip()
                reader.read(int(headers.get("content-length", 0)))
                asked = Asked(method, path, headers)
                script.asked.append(asked)
                sent = answer(asked)
                if sent is None:
                    return
                stream.sendall(sent)
                if b"connection: close" in sent:
                    return

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=accept, name="scripted", daemon=True)
    thread.start()
    try:
        yield script
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(10)
