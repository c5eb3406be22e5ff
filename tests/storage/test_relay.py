"""Behind a proxy of the user's, too, credentials stay with the store's hosts."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

import obstore
import pytest
from obstore.store import HTTPStore

import penstock as ps
from penstock.core.errors import StorageError
from penstock.storage.stores.auth.relay import REFUSALS, can_relay, relay_url
from servers.s3 import CREDENTIALS, Server, served
from servers.scripted import Asked, Script, scripted

TOKEN = "a-session-token-of-the-store"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in getproxies():
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name.upper()}_PROXY", raising=False)
    for name, value in (CREDENTIALS | {"AWS_SESSION_TOKEN": TOKEN}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture(scope="module")
def store() -> Iterator[Server]:
    with served({"train/a.txt": b"1\n2\n3\n"}) as found:
        yield found


def forwarded(asked: Asked) -> bytes:
    """What the host that a proxy is asked for answers."""
    url = urlsplit(asked.path)
    with socket.create_connection(("127.0.0.1", url.port or 80)) as there:
        lines = [f"{name}: {value}" for name, value in asked.headers.items() if not name.startswith("proxy-")]
        path = f"{url.path}?{url.query}" if url.query else url.path
        there.sendall("\r\n".join([f"{asked.method} {path} HTTP/1.1", *lines, "", ""]).encode("latin-1"))
        answer = b""
        while piece := there.recv(1 << 16):
            answer += piece
    return answer


def proxied(monkeypatch: pytest.MonkeyPatch, proxy: Script, user: str = "") -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://{user}127.0.0.1:{proxy.port}")
    monkeypatch.setenv("http_proxy", f"http://{user}127.0.0.1:{proxy.port}")


def test_a_store_is_read_through_the_users_proxy(store: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(forwarded) as proxy:
        proxied(monkeypatch, proxy, "me:its-password@")
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://localhost:{store.port}")
        assert len(ps.read("s3://data/train")) == 3
        assert proxy.asked
        wanted = f"Basic {base64.b64encode(b'me:its-password').decode()}"
        assert all(one.headers.get("proxy-authorization") == wanted for one in proxy.asked)


def test_a_redirect_takes_no_token_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(asked: Asked) -> bytes | None:
        return asked.answer(307, b"", "location: http://thief.invalid/x")

    with scripted(answer) as proxy:
        proxied(monkeypatch, proxy)
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store.invalid:9000")
        for where in ("s3://data/train/a.txt", "s3://data/train/"):
            with pytest.raises(StorageError, match="redirects this request to another host") as told:
                ps.read(where)
            assert TOKEN not in str(told.value)
        assert {urlsplit(one.path).hostname for one in proxy.asked} == {"store.invalid"}


def test_hosts_that_need_no_proxy_get_none(store: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(forwarded) as proxy:
        proxied(monkeypatch, proxy)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{store.port}")
        assert len(ps.read("s3://data/train")) == 3
        assert not proxy.asked


def said_by(relay: str, target: str, password: str = "") -> bytes:
    """What a relay answers to CONNECT, and a tunnel to "ping"."""
    url = urlsplit(relay)
    key = base64.b64encode(f"penstock:{password or url.password}".encode()).decode()
    with socket.create_connection(("127.0.0.1", url.port or 0), 10) as stream:
        stream.sendall(f"CONNECT {target} HTTP/1.1\r\nproxy-authorization: Basic {key}\r\n\r\n".encode())
        found = stream.recv(1 << 16)
        if found.startswith(b"HTTP/1.1 200"):
            stream.sendall(b"ping")
            return stream.recv(1 << 16)
        return found


def test_tunnels_lead_to_the_stores_hosts_only() -> None:
    echo = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with echo.accept()[0] as stream:
            stream.sendall(stream.recv(100).upper())

    threading.Thread(target=serve, daemon=True).start()
    port = echo.getsockname()[1]
    with echo:
        relay = relay_url(frozenset({"127.0.0.1", "amazonaws.com"}), {})
        assert said_by(relay, f"127.0.0.1:{port}") == b"PING"
        for other in ("localhost:1", "amazonaws.com.evil:443", "xamazonaws.com:443", "0.0.0.0:1"):
            assert said_by(relay, other).startswith(b"HTTP/1.1 407 ")
        assert b"403" in said_by(relay, f"127.0.0.1:{port}", "a-guess"), "other users of this machine get nothing"
        assert b"502" in said_by(relay, "127.0.0.1:1")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_refusals_are_told_from_other_errors(scheme: str) -> None:
    options = {"proxy_url": relay_url(frozenset({"own.invalid"}), {}), "allow_http": True}
    refused = HTTPStore(f"{scheme}://other.invalid/", client_options=options, retry_config={"max_retries": 0})  # type: ignore[arg-type]
    with pytest.raises(Exception, match=r"other\.invalid") as told:
        obstore.get(refused, "x")
    assert any(mark in str(told.value) for mark in REFUSALS)


def test_a_proxy_that_gives_no_tunnel_is_no_redirect() -> None:
    with scripted(lambda asked: asked.answer(407)) as proxy:
        relay = relay_url(frozenset({"own.invalid"}), {"https": f"http://127.0.0.1:{proxy.port}"})
        assert said_by(relay, "own.invalid:443").startswith(b"HTTP/1.1 502 ")
        assert proxy.asked[0].path == "own.invalid:443"


def test_which_proxies_there_can_be_a_relay_before() -> None:
    assert can_relay({"http": "http://a:1", "https": "proxy:3128", "all": "https://a"})
    assert not can_relay({"all": "socks5://a:1"})
