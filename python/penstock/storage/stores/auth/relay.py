"""A proxy in this process, between a store's client and the user's proxy, that forwards requests to the store's hosts only.

The client follows redirects by itself, and has no setting against that. Behind a proxy it would send a session token to any host
that a store names; so it uses this one.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import os
import secrets
import selectors
import socket
import socketserver
import ssl
import threading
from collections.abc import Mapping
from urllib.parse import SplitResult, unquote, urlsplit

#: The responses to refused requests and tunnels, which no server here would send, and how obstore's errors show them.
_REFUSED, _REFUSED_TUNNEL = "492 Another Host", "407 Another Host"
REFUSALS = ("status code: 492", "ProxyAuthRequired")
_HEAD_BYTES = 64 << 10
_PIECE_BYTES = 256 << 10
_CONNECT_S = 30.0


@functools.lru_cache
def _started(process: int, hosts: frozenset[str], proxies: frozenset[tuple[str, str]]) -> str:
    del process  # a forked child lacks its parent's threads
    server = _Server(hosts, dict(proxies))
    threading.Thread(target=server.serve_forever, name="penstock-relay", daemon=True).start()
    return f"http://penstock:{server.password}@127.0.0.1:{server.server_address[1]}"


def relay_url(hosts: frozenset[str], proxies: Mapping[str, str]) -> str:
    """The URL of a proxy that forwards to `proxies` (by scheme, as from `urllib.request.getproxies`), for these hosts only."""
    return _started(os.getpid(), hosts, frozenset(proxies.items()))


def can_relay(proxies: Mapping[str, str]) -> bool:
    """Whether all of the proxies speak HTTP."""
    return all(
        urlsplit(url if "://" in url else f"http://{url}").scheme in ("http", "https") for url in proxies.values()
    )


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads, request_queue_size = True, 256

    def __init__(self, hosts: frozenset[str], proxies: Mapping[str, str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hosts, self.proxies, self.password = hosts, proxies, secrets.token_hex(16)

    def is_own(self, host: str) -> bool:
        """Whether requests may go to a host."""
        host = host.lower().strip("[]")
        return any(host == one or host.endswith(f".{one}") for one in self.hosts)

    def proxy(self, scheme: str) -> SplitResult | None:
        """The user's proxy."""
        url = self.proxies.get(scheme) or self.proxies.get("all") or ""
        return urlsplit(url if "://" in url else f"http://{url}") if url else None


class _Handler(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        """One connection: a tunnel, or a single request."""
        with contextlib.suppress(OSError, ValueError):
            head, _, rest = _head(self.request).partition(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            method, target, _ = first.split(" ")
            url = urlsplit(f"https://{target}" if method == "CONNECT" else target)
            if not self.server.is_own(url.hostname or ""):
                # First, since a redirected client drops the password.
                self._answer(_REFUSED_TUNNEL if method == "CONNECT" else _REFUSED)
            elif not self._is_allowed(lines):
                self._answer("403 Wrong Password")
            else:
                self._pass_on(method, url, lines, rest)

    def _is_allowed(self, lines: list[str]) -> bool:
        wanted = f"proxy-authorization: {_basic('penstock', self.server.password)}"
        return any(secrets.compare_digest(line[:20].lower() + line[20:], wanted) for line in lines)

    def _answer(self, status: str) -> None:
        self.request.sendall(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())

    def _pass_on(self, method: str, url: SplitResult, lines: list[str], rest: bytes) -> None:
        is_tunnel, proxy = method == "CONNECT", self.server.proxy(url.scheme)
        try:
            there = _connected(proxy or url, is_tls=proxy is not None and proxy.scheme == "https")
        except OSError:
            self._answer("502 No Connection")
            return
        with there:
            if proxy is not None or not is_tunnel:
                there.sendall(_request(method, url, proxy, lines))
            if is_tunnel:
                answer = b"x 200 x" if proxy is None else _head(there)
                if answer.split(b" ")[1:2] != [b"200"]:
                    self._answer("502 No Tunnel")
                    return
                self.request.sendall(b"HTTP/1.1 200 Connected\r\n\r\n" + answer.partition(b"\r\n\r\n")[2])
            there.sendall(rest)
            _join(self.request, there)


def _head(stream: socket.socket) -> bytes:
    """The bytes received up to the end of a request's or response's head, and any after it."""
    head = b""
    while b"\r\n\r\n" not in head and len(head) < _HEAD_BYTES:
        piece = stream.recv(_HEAD_BYTES)
        if not piece:
            break
        head += piece
    return head


def _basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def _connected(url: SplitResult, *, is_tls: bool) -> socket.socket:
    port = url.port or (443 if url.scheme == "https" else 80)
    stream = socket.create_connection((url.hostname or "", port), _CONNECT_S)
    stream.settimeout(None)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ssl.create_default_context().wrap_socket(stream, server_hostname=url.hostname) if is_tls else stream


def _request(method: str, url: SplitResult, proxy: SplitResult | None, lines: list[str]) -> bytes:
    """The head to send: to the user's proxy with its own password, one request a connection, so that every request is checked."""
    kept = [line for line in lines if not line.lower().startswith(("proxy-", "connection:"))]
    if proxy is not None and proxy.username is not None:
        kept.append(f"Proxy-Authorization: {_basic(unquote(proxy.username), unquote(proxy.password or ''))}")
    if method == "CONNECT":
        return "\r\n".join([f"CONNECT {url.netloc} HTTP/1.1", *kept, "", ""]).encode("latin-1")
    path = f"{url.path or '/'}{'?' if url.query else ''}{url.query}"
    target = path if proxy is None else f"http://{url.netloc}{path}"
    return "\r\n".join([f"{method} {target} HTTP/1.1", *kept, "Connection: close", "", ""]).encode("latin-1")


def _join(one: socket.socket, other: socket.socket) -> None:
    """Forward what either side sends, until one ends."""
    with selectors.DefaultSelector() as ready:
        ready.register(one, selectors.EVENT_READ, other)
        ready.register(other, selectors.EVENT_READ, one)
        while True:
            for key, _ in ready.select():
                source: socket.socket = key.fileobj  # type: ignore[assignment]
                piece = source.recv(_PIECE_BYTES)
                if not piece:
                    return
                key.data.sendall(piece)
                while isinstance(source, ssl.SSLSocket) and source.pending():
                    key.data.sendall(source.recv(_PIECE_BYTES))
