"""Makes first tries by a native HTTP client, for stores that give URLs.

Without this folder, and its entry in `remote.CLIENTS`, threads make all requests.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.storage.fetch.native.client import NativeClient
    from penstock.storage.fetch.scheduler import Scheduler


def open_client(store: Any) -> Callable[[Scheduler], NativeClient] | None:
    """Opens a client for a store's requests; None if it gives no URLs for them."""
    urls = getattr(store, "urls", None)
    if urls is None:
        return None
    from penstock.storage.fetch.native.client import NativeClient  # which imports obstore, for its signatures

    return partial(NativeClient, urls)
