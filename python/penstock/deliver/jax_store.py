"""The key-value store of `jax.distributed`, as process groups of PyTorch have one. Nothing imports JAX here: who has begun its processes did."""

from __future__ import annotations

import sys
from typing import Any

from penstock.deliver.agreement import Members

#: What JAX's client must have; older ones lack some.
_NEEDED = ("key_value_set", "key_value_try_get", "key_value_increment")


class JaxStore:
    """See `agreement.GroupStore`. client: JAX's, of its coordination service."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def set(self, key: str, value: str) -> None:
        """Store a value under the key."""
        self._client.key_value_set(key, value, allow_overwrite=True)

    def get(self, key: str) -> bytes:
        """The value of the key."""
        return str(self._client.key_value_try_get(key)).encode()

    def check(self, keys: list[str]) -> bool:
        """Whether all these keys have values."""
        return all(map(self._has, keys))

    def _has(self, key: str) -> bool:
        try:
            self._client.key_value_try_get(key)
        except RuntimeError as error:
            if "NOT_FOUND" in str(error):
                return False
            raise  # the service is gone
        return True

    def add(self, key: str, amount: int) -> int:
        """Add to a counter; returns its sum so far."""
        return int(self._client.key_value_increment(key, amount))


def jax_processes() -> Members | None:
    """The processes that `jax.distributed.initialize` joined, if there are several; None without, and where JAX's client cannot do this."""
    state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    client, processes = getattr(state, "client", None), getattr(state, "num_processes", None)
    if state is None or not processes or processes < 2 or not all(hasattr(client, name) for name in _NEEDED):
        return None
    return Members(state.process_id, range(processes), JaxStore(client))
