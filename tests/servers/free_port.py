"""Ports of the loopback interface that nobody uses right now."""

from __future__ import annotations

import socket


def free_port() -> int:
    """For servers that cannot choose one themselves."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])
