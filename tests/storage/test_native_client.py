"""First tries over HTTP by native threads: who makes which request, and that nothing wrong ever lands."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from obstore.store import HTTPStore, MemoryStore, S3Store

from penstock.core.errors import StorageError
from penstock.core.files.shards import Shards
from penstock.core.kernels import HttpRunner
from penstock.storage import forked
from penstock.storage.fetch.native import client as native_client
from penstock.storage.fetch.pace import Pace
from penstock.storage.fetch.plan import plan
from penstock.storage.fetch.remote import RemoteStorage
from penstock.storage.fetch.retry import Retry
from penstock.storage.fetch.scheduler import Scheduler
from penstock.storage.fetch.transfer import FetchCall
from penstock.storage.stores.auth import signed_urls
from penstock.storage.stores.auth.signed_urls import SignedUrls
from penstock.storage.stores.object import ObjectStore
from servers.s3 import CREDENTIALS, Server, served
from support.faulty_proxy import Faults, proxy

DATA = np.random.default_rng(0).bytes(300_000)
KEYS: dict[str, Any] = {"access_key_id": "key", "secret_access_key": "secret", "region": "us-east-1"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served({"some/a b%41ü.bin": DATA}) as found:
        yield found


@pytest.fixture
def opened(server: Server, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], RemoteStorage]:
    def open_at(port: int) -> RemoteStorage:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        return RemoteStorage(ObjectStore.open("s3://data/")[0], read_retry=Retry(first_s=0.01, deadline_s=1.0))

    return open_at


def read(storage: RemoteStorage, shards: Shards, seed: int = 0) -> bool:
    """Random ranges, some of them twice; whether every byte is right."""
    rng = np.random.default_rng(seed)
    offset, length = rng.integers(0, 250_000, 40), rng.integers(0, 50_000, 40)
    offset[1], length[1] = offset[0], length[0]
    at = np.cumsum(length) - length
    out = np.zeros(int(length.sum()), dtype=np.uint8)
    storage.read(shards, np.zeros(40, dtype=np.int64), offset, length, out, at)
    return out.tobytes() == b"".join(DATA[o : o + n] for o, n in zip(offset, length, strict=True))


def urls_of(storage: RemoteStorage) -> SignedUrls:
    urls = getattr(storage._store, "urls", None)
    assert isinstance(urls, SignedUrls)
    return urls


def only_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    def get(*_: object) -> None:
        raise AssertionError("obstore was asked")

    monkeypatch.setattr(ObjectStore, "get", get)


def test_requests_are_made_natively(
    server: Server, opened: Callable[[int], RemoteStorage], monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = opened(server.port)
    shards = storage.list("some")
    only_natively(monkeypatch)
    assert all(read(storage, shards, seed) for seed in range(5))
    assert storage.traffic.requests > 0


def test_what_is_not_answered_as_hoped_is_left_to_obstore(
    server: Server, opened: Callable[[int], RemoteStorage], monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = opened(server.port)
    shards = storage.list("some")
    faults = Faults(share=1.0, kinds=("403",))
    with proxy(server.port, faults) as port:
        urls = urls_of(storage)
        monkeypatch.setattr(urls, "url_of", lambda name: f"http://127.0.0.1:{port}/data/{name}".replace(" ", "%20"))
        assert all(read(storage, shards, seed) for seed in range(12))
    asked = faults.counts["403"]
    assert asked >= signed_urls._IN_TURN
    assert urls.url("a") is None, "after so many in turn, obstore makes them all for a while"
    assert asked < storage.traffic.requests
    monkeypatch.setattr(signed_urls, "_DECLINED_S", 0.0)
    monkeypatch.setattr(urls, "_again_at", 0.0)
    assert urls.url("a") is not None


def test_a_store_that_asks_for_less_gets_less_and_no_signature_is_shown(
    server: Server, opened: Callable[[int], RemoteStorage]
) -> None:
    faults = Faults(share=0.0, kinds=("503",))
    with proxy(server.port, faults) as port:
        storage = opened(port)
        shards = storage.list("some")
        faults.share = 1.0
        before = storage._scheduler.pace.in_flight
        with pytest.raises(StorageError, match="503") as told:
            read(storage, shards)
    assert storage._scheduler.pace.in_flight < before
    for secret in ("Signature", *CREDENTIALS.values()):
        assert secret not in str(told.value) or secret == "us-east-1"
    assert storage.traffic.retries > 0


def test_a_line_that_is_too_slow_for_so_many_gets_fewer(
    server: Server, opened: Callable[[int], RemoteStorage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_client, "ATTEMPT_TIMEOUT_S", 0.3)
    faults = Faults(share=0.0, kinds=("stall",), stall_s=1.0)
    with proxy(server.port, faults) as port:
        storage = opened(port)
        shards = storage.list("some")
        before = storage._scheduler.pace.in_flight
        faults.share = 1.0
        threading.Timer(0.35, lambda: setattr(faults, "share", 0.0)).start()
        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(lambda seed: read(storage, shards, seed), range(4)))
    assert storage._scheduler.pace.in_flight < before
    assert storage.traffic.retries > 0


def test_an_error_that_none_expects_fails_calls_and_hangs_none(
    server: Server, opened: Callable[[int], RemoteStorage], monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = opened(server.port)
    shards = storage.list("some")
    with monkeypatch.context() as patch:
        patch.setattr(urls_of(storage), "url", Mock(side_effect=ZeroDivisionError("unexpected")))
        with pytest.raises(ZeroDivisionError, match="unexpected"):
            read(storage, shards)
    only_natively(monkeypatch)
    assert read(storage, shards), "the client goes on"
    assert storage._scheduler._first.in_flight == 0, "and so a long range may be shared by all connections"


CHILD = """
import gc, os, threading
import numpy as np
from penstock.storage import open_storage

storage, where = open_storage("s3://data/some")
shards, zero = storage.list(where), np.zeros(1, dtype=np.int64)

def digest():
    out = np.zeros(300_000, dtype=np.uint8)
    storage.remote.read(shards, zero, zero, zero + 300_000, out, zero)
    return int(out.sum())

before = digest()
child = os.fork()
if not child:
    os._exit(0 if digest() == before else 1)
status = os.waitpid(child, 0)[1]
print(status, before, digest())

reading = threading.Thread(target=lambda: [digest() for _ in range(20)])
reading.start()
for _ in range(5):
    child = os.fork()
    if not child:
        del storage, shards
        gc.collect()
        os._exit(0)
    print(os.waitpid(child, 0)[1])
reading.join()
"""


def test_a_child_asks_by_connections_of_its_own(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own, since a fork of this one would count all its memory twice."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.port}")
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=110, check=True)
    right = sum(DATA)
    assert done.stdout.split() == ["0", str(right), str(right), *5 * "0"]


LOST = """
import os, sys
import penstock as ps
from penstock.storage import open_storage

storage, where = open_storage("s3://data/some")
storage.list(where)
child = os.fork()
if not child:
    try:
        ps.read("s3://data/some")
    except ps.ProcessError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


def test_a_child_whose_client_has_no_threads_is_told_at_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it asked for would hang, and end its parent: they share the list of sockets that the client waits for."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.port}")
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=110, check=True)
    assert "s3://data/some: this process was forked from one that uses obstore" in done.stdout


def test_a_child_makes_no_request_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one would be the client's that has no threads there."""
    monkeypatch.setattr(forked, "_lost", {"obstore"})
    call = Mock(late=Mock(return_value=[Mock()]))
    for open_first, hedges in ((Mock(), 0), (None, 1)):
        scheduler = Scheduler(Pace(), Retry(), open_first)
        monkeypatch.setattr(scheduler, "_make_again", Mock())
        scheduler._hedge(call)
        assert scheduler.pace.traffic.hedges == hedges


FORKS = """
import gc, os, socket, threading, time
import numpy as np
from penstock.core.kernels import HttpLanding, HttpRunner

SIZE = 32 << 20
HEAD = f"HTTP/1.1 206 .\\r\\ncontent-range: bytes 0-{SIZE - 1}/{SIZE}\\r\\ncontent-length: {SIZE}\\r\\n\\r\\n"
listening = socket.create_server(("127.0.0.1", 0))

def serve():
    stream, _ = listening.accept()
    while stream.recv(4096):
        stream.sendall(HEAD.encode() + bytes(SIZE))

threading.Thread(target=serve, daemon=True).start()
url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
runner, zero, whole = HttpRunner(20.0), np.zeros(1, dtype=np.int64), np.array([SIZE])
for number in range(8):
    landing = HttpLanding(np.empty(SIZE, dtype=np.uint8), np.array([0, 1]), zero, zero, whole)
    runner.submit([(number, url, "", SIZE, 0, [(landing, 0, 0, SIZE)])], 1)
    time.sleep(0.001 * number)
    child = os.fork()
    if not child:
        del landing
        gc.collect()
        os._exit(0)
    print(os.waitpid(child, 0)[1], [done[1] for done in runner.wait(20.0)])
"""


def test_a_child_of_a_fork_in_the_middle_of_reading_ends() -> None:
    """Its parent's threads are not there, and may have held any lock."""
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=110, check=True)
    assert done.stdout.splitlines() == ["0 ['landed']"] * 8


LEFT = """
import gc, os, socket, threading
import numpy as np
from penstock.core.kernels import HttpLanding, HttpRunner

HEAD = b"HTTP/1.1 206 .\\r\\ncontent-range: bytes 0-3/4\\r\\ncontent-length: 4\\r\\n\\r\\n"
listening = socket.create_server(("127.0.0.1", 0))

def serve():
    stream, _ = listening.accept()
    while stream.recv(4096):
        stream.sendall(HEAD + b"abcd")

threading.Thread(target=serve, daemon=True).start()
url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
runner, zero, whole = HttpRunner(20.0), np.zeros(1, dtype=np.int64), np.array([4])
for number in range(4):
    landing = HttpLanding(np.empty(4, dtype=np.uint8), np.array([0, 1]), zero, zero, whole)
    runner.submit([(number, url, "", 4, 0, [(landing, 0, 0, 4)])], 1)
    ended = [done[1] for done in runner.wait(20.0)]
    child = os.fork()
    if not child:
        del runner, landing
        gc.collect()
        os._exit(0)
    print(os.waitpid(child, 0)[1], ended)
"""


def test_a_child_that_lets_go_of_a_runner_takes_no_connection_from_its_parent() -> None:
    """They share the list of sockets that the parent's threads wait for. The server has one connection to give."""
    done = subprocess.run([sys.executable, "-c", LEFT], capture_output=True, text=True, timeout=110, check=True)
    assert done.stdout.splitlines() == ["0 ['landed']"] * 4


def test_what_was_answered_elsewhere_before_a_landing_is_made_is_not_written_natively() -> None:
    size, out = np.array([4, 4]), np.zeros(8, dtype=np.uint8)
    call = FetchCall(Mock(), plan(np.array([0, 1]), np.array([0, 0]), size, np.array([0, 4])), out)
    call.put(1, b"abcd")
    landing = native_client._landing(call)
    assert (landing.close(0), landing.close(1)) == (True, False)
    assert out.tobytes() == bytes(4) + b"abcd"


def test_what_waits_for_a_connection_is_not_late() -> None:
    size, zero = np.array([4, 4]), np.zeros(2, dtype=np.int64)
    call = FetchCall(Mock(), plan(np.array([0, 1]), zero, size, np.array([0, 4])), np.zeros(8, dtype=np.uint8))
    for number in range(2):
        call.submit(number, 4)
    landing = native_client._landing(call)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        native, url = HttpRunner(20.0), f"http://127.0.0.1:{silent.getsockname()[1]}/"
        native.submit([(number, url, "", 4, 0, [(landing, number, 0, 4)]) for number in range(2)], 1)
        with silent.accept()[0] as stream:
            assert stream.recv(4096)
            time.sleep(0.02)
            assert [one.number for one in call.late(lambda _: 0.01)] == [0]
            call.begin(1, 4)  # by another thread of ours
            time.sleep(0.02)
            assert [one.number for one in call.late(lambda _: 0.01)] == [1]
            native.close()


@pytest.mark.parametrize(
    ("store", "options", "environment", "wanted"),
    [
        (S3Store, KEYS, {}, True),
        (S3Store, KEYS | {"client_options": {"timeout": "9s", "allow_http": True}}, {}, True),
        (S3Store, KEYS | {"client_options": {"proxy_url": "http://proxy:1"}}, {}, False),
        (S3Store, KEYS | {"client_options": {"default_headers": {"a": "b"}}}, {}, False),
        (S3Store, KEYS, {"HTTPS_PROXY": "http://proxy:1"}, False),
        (S3Store, KEYS, {"AWS_REQUEST_PAYER": "true"}, False),
        (S3Store, KEYS | {"request_payer": True}, {}, False),
        (S3Store, {"region": "us-east-1", "skip_signature": True}, {}, False),
        (HTTPStore, {}, {}, True),
        (MemoryStore, {}, {}, False),
    ],
)
def test_which_stores_are_asked_natively(
    store: Any, options: dict[str, Any], environment: dict[str, str], wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", *environment):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    place = {S3Store: ("bucket",), HTTPStore: ("http://host/",)}.get(store, ())
    assert (SignedUrls.of(store(*place, **options), "http://host/") is not None) == wanted


def test_names_in_urls_and_names_of_people() -> None:
    found = SignedUrls.of(HTTPStore("http://host/"), "http://host/")
    assert found is not None
    assert found.url("a b/ü%41#?.bin") == "http://host/a%20b/%C3%BC%2541%23%3F.bin"
    assert SignedUrls.of(HTTPStore("http://me@host/"), "http://me@host/") is None
