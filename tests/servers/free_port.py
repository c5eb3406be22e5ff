"""Ports of the loopback interface that nobody uses right now."""

from __future__ import annotations

import socket
from contextlib import suppress
from random import SystemRandom

#: None of those that the system gives to connections, which might take one before the server does.
_PORTS = range(20_000, 32_000)


def free_port() -> int:
    """For servers that cannot choose one themselves."""
    while True:
        port = SystemRandom().choice(_PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
