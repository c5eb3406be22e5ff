"""A store that is as slow as it is told: just enough of S3 for a loader, for benches/bottlenecks.py. It runs in a process of its own.

    python benches/bottleneck_store.py '{"latency_s": 0.05, "bytes_per_s": 0, "requests_per_s": 0}'

prints its port. It holds, in the bucket "data": tokens/0.bin … 3.bin (4 MB each), large/0.bin (64 MB), huge/0.bin (8 GB, zeros that nobody keeps), small/00000.jpg … (32 KB each), packed/small.tar (the same), text/lines.jsonl (20 MB).
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np

SMALL, SMALL_BYTES = 2000, 32 << 10
#: Bytes that the line brings at once.
_PART = 256 << 10
_RANGE = re.compile(rb"\r\nrange: *bytes=(\d+)-(\d*)", re.IGNORECASE)


class Zeros:
    """So many zeros, made where they are asked for."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        first, last, _ = part.indices(self._size)
        return bytes(last - first)


def objects() -> dict[str, bytes | Zeros]:
    """What it holds."""
    rng = np.random.default_rng(0)
    small = {f"{number:05}.jpg": b"\xff\xd8\xff" + rng.bytes(SMALL_BYTES - 3) for number in range(SMALL)}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in small.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    lines = "".join(json.dumps({"x": number, "text": rng.bytes(150).hex()}) + "\n" for number in range(60_000))
    return {
        **{f"tokens/{number}.bin": rng.bytes(4 << 20) for number in range(4)},
        "huge/0.bin": Zeros(8 << 30),
        "large/0.bin": rng.bytes(64 << 20),
        **{f"small/{name}": content for name, content in small.items()},
        "packed/small.tar": packed.getvalue(),
        "text/lines.jsonl": lines.encode(),
    }


class SlowStore:
    """Answers after `latency_s`; all answers together come at `bytes_per_s`; what is more than `requests_per_s` is refused. 0: no limit."""

    def __init__(self, latency_s: float = 0.0, bytes_per_s: float = 0.0, requests_per_s: float = 0.0) -> None:
        self._latency_s, self._bytes_per_s, self._requests_per_s = latency_s, bytes_per_s, requests_per_s
        self._objects = objects()
        self._line, self._tokens_at = asyncio.Lock(), 0.0
        self._tokens = requests_per_s / 10

    async def serve(self) -> None:
        """For ever."""
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=1024)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await self._answer(head, reader, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _answer(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
        url = urlsplit(target)
        key = unquote(url.path).removeprefix("/data").removeprefix("/")
        await asyncio.sleep(self._latency_s)
        if not key:
            writer.write(_response("200 OK", self._listing(parse_qs(url.query)), "application/xml"))
            return
        found = self._objects.get(key)
        if found is None:
            writer.write(_response("404 Not Found", b"<Error><Code>NoSuchKey</Code></Error>", "application/xml"))
            return
        if method == "GET" and self._is_refused():
            writer.write(_response("503 Slow Down", b"<Error><Code>SlowDown</Code></Error>", "application/xml"))
            return
        asked = _RANGE.search(head)
        first, last = (int(asked[1]), int(asked[2] or len(found) - 1)) if asked else (0, len(found) - 1)
        body = found[first : last + 1]
        where = f"Content-Range: bytes {first}-{first + len(body) - 1}/{len(found)}\r\n" if asked else ""
        status = "206 Partial Content" if asked else "200 OK"
        if method == "HEAD":
            writer.write(_response("200 OK", b"", "application/octet-stream", length=len(found)))
            return
        await self._send(len(body), reader)
        writer.write(_response(status, body, "application/octet-stream", where, tag=len(found)))

    async def _send(self, size: int, reader: asyncio.StreamReader) -> None:
        """Waits until the line has brought so many bytes, after those of all others; none for who hung up."""
        if self._bytes_per_s:
            async with self._line:
                sent = 0
                while sent < size and not reader.at_eof():
                    part = min(_PART, size - sent)
                    await asyncio.sleep(part / self._bytes_per_s)
                    sent += part

    def _is_refused(self) -> bool:
        if not self._requests_per_s:
            return False
        now = time.monotonic()
        if self._tokens_at:
            self._tokens += (now - self._tokens_at) * self._requests_per_s
        self._tokens_at = now
        self._tokens = min(self._tokens, max(1.0, self._requests_per_s / 10))
        if self._tokens < 1:
            return True
        self._tokens -= 1
        return False

    def _listing(self, query: dict[str, list[str]]) -> bytes:
        prefix = query.get("prefix", [""])[0]
        entries = "".join(
            f'<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>"{len(content):x}"</ETag><Size>{len(content)}</Size></Contents>'
            for key, content in sorted(self._objects.items())
            if key.startswith(prefix)
        )
        return f'<?xml version="1.0"?><ListBucketResult><Name>data</Name><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>'.encode()


def _response(status: str, body: bytes, kind: str, more: str = "", *, length: int | None = None, tag: int = 0) -> bytes:
    size = len(body) if length is None else length
    head = f'HTTP/1.1 {status}\r\nContent-Length: {size}\r\nContent-Type: {kind}\r\nETag: "{tag or size:x}"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nAccept-Ranges: bytes\r\n{more}\r\n'
    return head.encode() + body


@contextlib.contextmanager
def running(commands: list[list[str]]) -> Iterator[list[subprocess.Popen[str]]]:
    """Other programs, which are no children of the process that is measured."""
    started = [subprocess.Popen(one, stdout=subprocess.PIPE, text=True) for one in commands]
    try:
        yield started
    finally:
        for one in started:
            one.kill()
            one.wait()


@contextlib.contextmanager
def slow_store(told: dict[str, float]) -> Iterator[dict[str, str]]:
    """The store that a pipeline reads from, if it does, in a process of its own, and the variables by which it is found."""
    if not told:
        yield {}
        return
    with running([[sys.executable, __file__, json.dumps(told)]]) as (server,):
        assert server.stdout is not None
        port = int(server.stdout.readline())
        keys = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "penstock")
        where = {"AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ALLOW_HTTP": "true"}
        yield {**keys, **where}


if __name__ == "__main__":
    asyncio.run(SlowStore(**json.loads(sys.argv[1])).serve())
