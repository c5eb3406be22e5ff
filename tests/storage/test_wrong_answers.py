"""Answers that are none to what was asked: bounded requests, an error that says what was answered, and never a wrong byte."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

import penstock as ps
from penstock.core.errors import PenstockError, StorageError
from penstock.storage.fetch.remote import RemoteStorage
from penstock.storage.fetch.retry import MOST_WRONG, MOST_WRONG_IN_TURN, Retry
from penstock.storage.stores.object import ObjectStore
from servers.scripted import WHEN, Asked, scripted

DATA = b"".join(b"line %05d\n" % number for number in range(2000))
Answers = Callable[[Asked], bytes | None]


def chunks(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def to_ranges(answer: Answers) -> Answers:
    """Well answered but where a range is asked for."""
    return lambda asked: asked.part(DATA) if asked.range is None else answer(asked)


def partial(asked: Asked, body: bytes, *lines: str, shift: int = 0, closes: bool = False) -> bytes | None:
    assert asked.range is not None
    first, end = asked.range[0] + shift, asked.range[1] + shift
    told = (f"content-range: bytes {first}-{end - 1}/{len(DATA)}", 'etag: "a"', f"last-modified: {WHEN}", *lines)
    return asked.answer(206, body, *told, closes=closes)


def bytes_of(asked: Asked) -> bytes:
    assert asked.range is not None
    return DATA[slice(*asked.range)]


def status(code: int, *lines: str, body: bytes = b"") -> Answers:
    return lambda asked: asked.answer(code, body, *lines)


CHUNKED = "transfer-encoding: chunked"
WRONG: dict[str, tuple[Answers, str]] = {
    "200 for 206": (
        lambda asked: asked.answer(200, DATA, 'etag: "a"', f"last-modified: {WHEN}"),
        "the server sends only whole files",
    ),
    "another range": (lambda asked: partial(asked, bytes_of(asked), shift=1), "does not match the request"),
    "no range": (
        lambda asked: asked.answer(206, bytes_of(asked), f"last-modified: {WHEN}"),
        "does not match the request",
    ),
    "too few in chunks": (
        lambda asked: partial(asked, chunks(bytes_of(asked)[1:]), CHUNKED),
        "the server sent",
    ),
    "too many in chunks": (lambda asked: partial(asked, chunks(bytes_of(asked), b"x"), CHUNKED), "the server sent"),
    "packed": (
        lambda asked: partial(asked, bytes_of(asked), "content-encoding: gzip"),
        r"a\.txt: the server sent compressed bytes \(Content-Encoding: gzip\)",
    ),
    "packed in chunks": (
        lambda asked: partial(asked, chunks(bytes_of(asked)), CHUNKED, "content-encoding: gzip"),
        r"a\.txt: the server sent compressed bytes \(Content-Encoding: gzip\)",
    ),
    "a page to log in": (
        lambda asked: partial(asked, bytes_of(asked), "content-type: text/html; charset=utf-8"),
        "the server sent a web page; check whether it requires a login",
    ),
    "204": (status(204, "content-length: 0"), "a.txt"),
    "304": (status(304), "304"),
    "416": (status(416), "416"),
    "600": (status(600), "600"),
    "301 to nowhere": (status(301), "redirect is broken"),
    "302 to a file": (status(302, "location: file:///etc/passwd"), "redirect is broken"),
    "302 by FTP": (status(302, "location: ftp://127.0.0.1/x"), "redirect is broken"),
    "302 to itself": (
        lambda asked: asked.answer(302, b"", f"location: {asked.path}?token=a-secret"),
        r"endless redirects: http://127\.0\.0\.1:\d+/a\.txt → http://127",
    ),
    "302 in a circle": (
        lambda asked: asked.answer(302, b"", "location: /b" if asked.path == "/c" else "location: /c"),
        r"endless redirects: \S+/a\.txt → \S+/c → \S+/b → \S+/c",
    ),
}


def opened(url: str, *, natively: bool = True, deadline_s: float = 60.0) -> RemoteStorage:
    retry = Retry(deadline_s=deadline_s)
    store = ObjectStore.open(f"{url}/a.txt")[0]
    if not natively:
        store.urls = None
    return RemoteStorage(store, list_retry=retry, read_retry=retry)


def read(storage: RemoteStorage, count: int) -> bool:
    """As many pieces of the file, far from each other; whether they are right."""
    shards = storage.list("a.txt")
    offset = np.arange(count) * 10
    length, at, out = np.full(count, 7), np.arange(count) * 7, np.zeros(7 * count, dtype=np.uint8)
    for some in np.array_split(np.arange(count), 4):
        storage.read(shards, np.zeros_like(some), offset[some], length[some], out, at[some])
    return out.tobytes() == b"".join(DATA[first : first + 7] for first in offset.tolist())


@pytest.mark.slow
@pytest.mark.parametrize("natively", [True, False])
@pytest.mark.parametrize("kind", WRONG)
def test_wrong_answers_are_asked_for_a_few_times(kind: str, natively: bool) -> None:
    answer, found = WRONG[kind]
    with scripted(to_ranges(answer)) as server:
        began_at = time.monotonic()
        with pytest.raises(StorageError, match=found) as told:
            read(opened(server.url, natively=natively), 20)
        assert time.monotonic() - began_at < 60
        assert len(server.asked) <= 30
        assert "a-secret" not in str(told.value)
        assert "/etc" not in str(told.value)


def test_many_requests_to_a_server_that_knows_no_better_are_few() -> None:
    """A thousand requests wait, and would each be made some times."""
    size, count = 1000 << 20, 1000

    def answer(asked: Asked) -> bytes | None:
        if asked.range is None:
            return asked.answer(200, b"", f"content-length: {size}", 'etag: "a"', f"last-modified: {WHEN}")
        return asked.answer(206, bytes(7), f"content-range: bytes 3-9/{size}", 'etag: "a"', f"last-modified: {WHEN}")

    with scripted(answer) as server:
        storage = opened(server.url)
        shards, at = storage.list("a.txt"), np.arange(count)
        out = np.zeros(7 * count, np.uint8)
        with pytest.raises(StorageError, match="does not match the request"):
            storage.read(shards, np.zeros(count, np.int64), (at << 20) + 10, np.full(count, 7), out, at * 7)
        assert len(server.asked) < 2 * storage._scheduler.pace.in_flight + MOST_WRONG + MOST_WRONG_IN_TURN


def test_a_server_that_is_wrong_now_and_then_is_read() -> None:
    turns = iter(range(10_000))

    def answer(asked: Asked) -> bytes | None:
        return asked.part(DATA) if asked.range is None or next(turns) % 3 == 2 else WRONG["200 for 206"][0](asked)

    with scripted(answer) as server:
        assert all(read(opened(server.url, natively=natively), 20) for natively in (True, False))


LEGAL: dict[str, Answers] = {
    "chunks": lambda asked: partial(asked, chunks(bytes_of(asked)), CHUNKED),
    "small chunks": lambda asked: partial(asked, chunks(*(bytes_of(asked)[at : at + 1] for at in range(7))), CHUNKED),
    "until the end": lambda asked: partial(asked, bytes_of(asked), closes=True),
    "after 100": lambda asked: b"HTTP/1.1 100 Continue\r\n\r\n" + (asked.part(DATA) or b""),
    "after 103 and 103": lambda asked: 2 * b"HTTP/1.1 103 Early Hints\r\n\r\n" + (asked.part(DATA) or b""),
}


@pytest.mark.parametrize("natively", [True, False])
@pytest.mark.parametrize("kind", LEGAL)
def test_legal_answers_without_a_length_are_read(kind: str, natively: bool) -> None:
    def answer(asked: Asked) -> bytes | None:
        if kind == "small chunks" and asked.range is not None and asked.range[1] - asked.range[0] != 7:
            return LEGAL["chunks"](asked)
        return LEGAL[kind](asked)

    with scripted(to_ranges(answer)) as server:
        storage = opened(server.url, natively=natively)
        assert read(storage, 40)
        assert storage.traffic.retries == 0
        allowed = 2 if kind.startswith("after") else 1
        needed = 1 + allowed * storage.traffic.requests
        assert len(server.asked) <= needed + (0 if natively else 1), "the client that cannot read it is asked once"


def test_a_server_that_never_gives_a_length() -> None:
    def answer(asked: Asked) -> bytes | None:
        if asked.range is None:
            return asked.answer(200, b"", CHUNKED, 'etag: "a"', f"last-modified: {WHEN}")
        return LEGAL["chunks"](asked)

    with scripted(answer) as server:
        assert len(ps.read(f"{server.url}/a.txt")) == 2000


@pytest.mark.parametrize("after", ["1000000000", "-5", "Fri, 31 Dec 2027 23:59:59 GMT", "soon", ""])
@pytest.mark.parametrize("code", [429, 503])
def test_a_store_that_asks_for_patience_gets_as_much_as_there_is(code: int, after: str) -> None:
    with scripted(to_ranges(status(code, f"retry-after: {after}"))) as server:
        began_at = time.monotonic()
        with pytest.raises(StorageError, match=f"{code}.*the last retry failed"):
            read(opened(server.url, deadline_s=0.5), 4)
        assert time.monotonic() - began_at < 40


@pytest.mark.parametrize("kind", ["no answer", "cut short", "no HTTP"])
def test_connections_that_always_break_end_with_the_deadline(kind: str) -> None:
    def answer(asked: Asked) -> bytes | None:
        if kind == "no answer":
            return None
        whole = asked.part(DATA, "connection: close") or b""
        return whole[:-3] if kind == "cut short" else b"SSH-2.0 connection: close\r\n\r\n"

    with scripted(to_ranges(answer)) as server:
        with pytest.raises(PenstockError, match="the last retry failed"):
            read(opened(server.url, deadline_s=0.5), 4)
        assert len(server.asked) < 30


def test_names_of_packed_files_and_pages_may_come_so() -> None:
    def answer(asked: Asked) -> bytes | None:
        kind = "content-encoding: gzip" if asked.path == "/a.gz" else "content-type: text/html"
        return asked.part(DATA, kind)

    with scripted(answer) as server:
        storage = opened(server.url)
        for name in ("a.gz", "a.html"):
            shards = storage.list(name)
            out, zero = np.zeros(7, dtype=np.uint8), np.array([0])
            storage.read(shards, zero, zero, zero + 7, out, zero)
            assert out.tobytes() == DATA[:7]
