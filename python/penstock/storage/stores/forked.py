"""What the child of a fork must not go on with: clients whose threads its parent has, and locks that one of those may have held.

It must leave a client alone (obstore, hdfs-native) that its parent has used.

The client's threads are not there, so that a request would hang. Worse, both processes share what tells the client of sockets that are
ready: what the child asks for would reach its parent as an address of memory that is not there, and end it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Protocol

from penstock.core.errors import ProcessError

_used, _lost = set[str](), set[str]()


def use_client(client: str, path: str) -> None:
    """Says that a client is used from now on; ProcessError in the child of a process that has."""
    if client in _lost:
        raise ProcessError(
            f"{path}: this process was forked from one that has read with {client}, whose threads live in that one; start it "
            f"by multiprocessing's 'spawn' or 'forkserver'"
        )
    _used.add(client)


def is_lost(client: str) -> bool:
    """Whether a client cannot be used here."""
    return client in _lost


os.register_at_fork(after_in_child=lambda: _lost.update(_used))


class Renewed(Protocol):
    """Something with locks."""

    def forked(self) -> None:
        """In the child of a fork, before anything else runs there: makes locks anew."""


def renew_in_children(those: Iterable[Renewed]) -> None:
    """Has all that are there at a fork make their locks anew in the child."""

    def renew() -> None:
        for one in list(those):
            one.forked()

    os.register_at_fork(after_in_child=renew)
