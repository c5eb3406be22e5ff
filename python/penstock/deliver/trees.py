"""Registers batches as pytree nodes: PyTorch and JAX treat an unknown dict class as a leaf."""

from __future__ import annotations

import sys
import threading
from typing import Any

from penstock.deliver.batch_dict import BatchDict

_registering = threading.Lock()
_registered: set[str] = set()
_modules_seen = 0


def register_batches() -> None:
    """Register `BatchDict` with each of these libraries that was imported since the last call; imports none."""
    global _modules_seen
    if len(sys.modules) == _modules_seen:
        return
    with _registering:
        _modules_seen = len(sys.modules)
        for name, register in _LIBRARIES.items():
            if name not in _registered and register(sys.modules.get(name)):
                _registered.add(name)


def _with_torch(library: Any) -> bool:
    if not hasattr(library, "register_pytree_node") or not hasattr(library, "MappingKey"):
        return False
    library.register_pytree_node(
        BatchDict,
        lambda batch: (list(batch.values()), list(batch.keys())),
        lambda columns, names: _of_names(names, columns),
        serialized_type_name="penstock.BatchDict",
        flatten_with_keys_fn=lambda batch: (
            [(library.MappingKey(name), column) for name, column in batch.items()],
            list(batch.keys()),
        ),
    )
    return True


def _with_jax(library: Any) -> bool:
    if not hasattr(library, "register_pytree_with_keys"):
        return False

    def flatten(batch: BatchDict) -> Any:
        names = tuple(sorted(batch.keys()))
        return [(library.DictKey(name), batch[name]) for name in names], names

    library.register_pytree_with_keys(BatchDict, flatten, _of_names)
    return True


def _of_names(names: Any, columns: Any) -> BatchDict:
    return BatchDict(zip(names, columns, strict=True))


_LIBRARIES = {"torch.utils._pytree": _with_torch, "jax.tree_util": _with_jax}
