"""What the child of a fork must not use: clients whose threads are in its parent, and locks that one of those may have held.

The child must not use a client (obstore, hdfs-native) that its parent has used. The client's threads are missing, so that a request
would hang. Worse, both processes share the list of ready sockets: events of the child would reach the parent as an invalid memory
address, and crash it.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

from penstock.core.errors import ProcessError

_used, _lost = set[str](), set[str]()


def use_client(client: str, path: str) -> None:
    """Note that this process uses a client; ProcessError if its parent has used it before the fork."""
    if client in _lost:
        raise ProcessError(
            f"{path}: this process was forked from one that uses {client}, whose threads are missing here; start it "
            f"by multiprocessing's 'spawn' or 'forkserver'"
        )
    _used.add(client)


def is_lost(client: str) -> bool:
    """Whether a client cannot be used here."""
    return client in _lost


os.register_at_fork(after_in_child=lambda: _lost.update(_used))


class Renewed(Protocol):
    """An object with locks."""

    def forked(self) -> None:
        """Renew the locks in the child of a fork, before anything else runs there."""


_renewed: weakref.WeakSet[Renewed] = weakref.WeakSet()


def renew_in_children(one: Renewed) -> None:
    """Renew an object's locks in every forked child, as long as it exists."""
    _renewed.add(one)


def _renew() -> None:
    for one in list(_renewed):
        one.forked()


os.register_at_fork(after_in_child=_renew)
