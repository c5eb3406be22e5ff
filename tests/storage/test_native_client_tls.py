"""First tries over HTTP by native threads, with TLS."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from penstock.storage.fetch.remote import RemoteStorage
from penstock.storage.fetch.retry import Retry
from penstock.storage.stores.object import ObjectStore
from servers.https import certificates, https_server

DATA = np.random.default_rng(0).bytes(300_000)
LARGE = np.random.default_rng(1).bytes(6 << 20)


def read(
    folder: Path,
    data: bytes,
    monkeypatch: pytest.MonkeyPatch,
    send: Callable[[ssl.SSLSocket, bytes], None],
    times: int = 1,
) -> tuple[bytes, RemoteStorage]:
    """A whole file, from a server that sends bodies with `send`; read again some times, once after the other."""
    with https_server(folder, {"a.bin": data}, send) as (url, authority, _):
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        store, where = ObjectStore.open(f"{url}a.bin")
        storage, zero = (
            RemoteStorage(store, read_retry=Retry(first_s=0.01, deadline_s=5.0)),
            np.zeros(1, dtype=np.int64),
        )
        out = np.zeros(len(data), dtype=np.uint8)
        shards = storage.list(where)
        for _ in range(times):
            out[:] = 0
            storage.read(shards, zero, zero, zero + len(data), out, zero)
        return out.tobytes(), storage


@pytest.fixture
def only_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    def get(*_: object) -> None:
        raise AssertionError("obstore was asked")

    monkeypatch.setattr(ObjectStore, "get", get)


@pytest.mark.usefixtures("only_natively")
def test_tls_in_tiny_pieces_lands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def send(stream: ssl.SSLSocket, body: bytes) -> None:
        for begin in range(0, len(body), 99):
            stream.sendall(body[begin : begin + 99])

    assert read(tmp_path, DATA, monkeypatch, send)[0] == DATA


@pytest.mark.usefixtures("only_natively")
def test_megabytes_over_tls_are_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are waited for in large pieces, of which the session holds some back."""
    assert read(tmp_path, LARGE, monkeypatch, ssl.SSLSocket.sendall)[0] == LARGE


@pytest.mark.usefixtures("only_natively")
def test_what_comes_after_an_answer_over_tls_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was decrypted together with the end of the answer."""
    connections = set()

    def send(stream: ssl.SSLSocket, body: bytes) -> None:
        connections.add(stream.getpeername())
        stream.sendall(body + b"HTTP/1.1 200 .\r\ncontent-length: 0\r\n\r\n")

    assert read(tmp_path, DATA[:9_000], monkeypatch, send, times=3)[0] == DATA[:9_000]
    assert len(connections) == 3


def test_tls_that_is_cut_short_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = []

    def send(stream: ssl.SSLSocket, body: bytes) -> None:
        if len(cut) < 3:
            cut.append(len(body))
            stream.sendall(body[: len(body) // 2])
            stream.shutdown(socket.SHUT_RDWR)  # without a word of TLS that this is the end
        else:
            stream.sendall(body)

    found, storage = read(tmp_path, LARGE, monkeypatch, send)
    assert found == LARGE
    assert len(cut) == 3
    assert storage.traffic.retries > 0


SIGNALLED = """
import signal
import sys
import numpy as np
from penstock.core.kernels import HttpLanding, HttpRunner

signal.signal(signal.SIGPIPE, signal.SIG_DFL)
runner, zero, four = HttpRunner(5.0), np.zeros(1, dtype=np.int64), np.array([4])
landing = HttpLanding(np.zeros(4, dtype=np.uint8), np.array([0, 1]), zero, zero, four)
for number in range(20):
    runner.submit([(number, sys.argv[1], "", 4, 0, [(landing, 0, 0, 4)])], 1)
    print([done[1] for done in runner.wait(20.0)])
"""


@pytest.mark.slow
def test_a_server_that_goes_in_the_handshake_does_not_end_the_process(tmp_path: Path) -> None:
    """Where SIGPIPE is not ignored, as in a program that Python is embedded in."""
    authority, certificate, key = certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def serve() -> None:
        for _ in range(20):
            stream, _ = listening.accept()
            come, go = ssl.MemoryBIO(), ssl.MemoryBIO()
            session = context.wrap_bio(come, go, server_side=True)
            while not go.pending:
                come.write(stream.recv(4096))
                with contextlib.suppress(ssl.SSLWantReadError):
                    session.do_handshake()
            stream.sendall(go.read())
            stream.shutdown(socket.SHUT_WR)
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # the end is a reset
            stream.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        done = subprocess.run(
            [sys.executable, "-c", SIGNALLED, f"https://127.0.0.1:{listening.getsockname()[1]}/"],
            env=os.environ | {"SSL_CERT_FILE": str(authority)},
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
        thread.join(5)
    assert done.returncode != -signal.SIGPIPE
    assert done.stdout.splitlines() == ["['unreachable']"] * 20, done.stderr


OVER_TLS = """
import sys
import numpy as np
from penstock.core.errors import StorageError
from penstock.storage.stores.object import ObjectStore
from penstock.storage.fetch.remote import RemoteStorage
from penstock.storage.fetch.retry import Retry

store, where = ObjectStore.open(sys.argv[1])
patience = Retry(deadline_s=0.5)
storage, zero = RemoteStorage(store, list_retry=patience, read_retry=patience), np.zeros(1, dtype=np.int64)
try:
    out = np.zeros(300_000, dtype=np.uint8)
    storage.read(storage.list(where), zero, zero, zero + 300_000, out, zero)
    print(int(out.sum()))
except StorageError:
    print("refused")
"""


@pytest.mark.slow
@pytest.mark.parametrize("is_trusted", [True, False])
def test_certificates_are_those_that_the_system_trusts(tmp_path: Path, is_trusted: bool) -> None:
    """In a process of its own, since what is trusted is looked up once."""
    with https_server(tmp_path, {"a.bin": DATA}) as (url, authority, agents):
        trusted = {"SSL_CERT_FILE": str(authority)} if is_trusted else {}
        command = [sys.executable, "-c", OVER_TLS, f"{url}a.bin"]
        done = subprocess.run(
            command, env=os.environ | trusted, capture_output=True, text=True, timeout=110, check=True
        )
    assert done.stdout.strip() == (str(sum(DATA)) if is_trusted else "refused"), done.stderr
    assert {agent.partition("/")[0] for agent in agents} == ({"penstock"} if is_trusted else set())
