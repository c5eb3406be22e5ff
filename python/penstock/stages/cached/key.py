"""What a cache holds, as one key: the data, and everything below the cache that makes rows of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.columns.spec import Ids
from penstock.core.cpus import usable_cpus
from penstock.core.kernels import crc32c_sums, native_version
from penstock.plan.function_parts import function_parts
from penstock.plan.nodes import Cache, Node, Read, describe, digest
from penstock.plan.plain_values import digest_of
from penstock.plan.tree import inputs_of
from penstock.plan.verb_parts import parts_of

#: Another way to hold rows, or to name them, gets another number.
_VERSION = 1
_PIECE = 1 << 20


def cache_key(node: Cache, seed: int, *, has_draws: bool) -> str:
    """32 hex digits. Verbs that only say which rows come when are no part of it, nor are random ops behind the cache."""
    frozen = f"frozen {seed} {has_draws}" if node.freeze_random else ""
    return digest_of([f"{_VERSION} {native_version} {frozen}".encode(), *_pieces(node.input, in_zip=False)]).hex()


def about(node: Cache) -> str:
    """The same for people: "read photos → transform → map"."""
    below: Node = node.input
    words: list[str] = []
    while not isinstance(below, Read) and len(inputs_of(below)) == 1:
        if below.column_effect != "same":
            words.insert(0, below.verb)
        (below,) = inputs_of(below)
    words.insert(0, f"read {below.where}" if isinstance(below, Read) else f"{below.verb} of {len(inputs_of(below))}")
    return " → ".join(words)


def _pieces(node: Node, *, in_zip: bool) -> Iterator[bytes]:
    for below in node.below:
        yield from _pieces(below, in_zip=in_zip or node.joins == "columns")
    if isinstance(node, Read):
        yield from pieces_of_source(node)
    elif node.joins:
        yield f"{'zip' if node.joins == 'columns' else 'rows'} {len(node.below)}".encode()
    elif node.column_effect != "same":
        yield node.verb.encode()
        for part in parts_of(node):
            yield part.name.encode()
            yield part.digest
    elif in_zip and not isinstance(node, Cache):  # which rows belong together follows from it
        yield f"{describe(node)} {digest(node)}".encode("utf-8", "surrogatepass")


def pieces_of_source(leaf: Read) -> Iterator[bytes]:
    """What identifies a source with all that it holds, and how it is read."""
    source: Any = leaf.opened.source
    spec = ", ".join(f"{name} {field}" for name, field in source.spec.items())
    yield f"read {leaf.format} {leaf.columns} {leaf.opened.asked} {spec}".encode("utf-8", "surrogatepass")
    yield source.manifest.digest.encode()
    for shards in source.manifest.listings[:1]:  # a file that was written again is another one, and a copy may be
        yield np.ascontiguousarray(shards.versions).tobytes()
        yield b"" if shards.etags is None else "\n".join(shards.etags.to_pylist()).encode()
    if isinstance(held := getattr(source, "columns", None), dict):
        for name, column in held.items():
            yield f"{name} {_checksum(column)}".encode()
    if (data := getattr(source, "data", None)) is not None and hasattr(data, "__getitem__"):
        for part in function_parts(getattr(data, "__getitems__", data.__getitem__)):
            yield part.name.encode()
            yield part.digest


def _checksum(column: Any) -> str:
    """Of all bytes of a column in memory, since its digest looks at some of them."""
    if isinstance(column, pa.Array):
        found = [np.frombuffer(buffer, dtype=np.uint8) for buffer in column.buffers() if buffer is not None]
        return " ".join(map(_sum, found)) + f" {column.offset} {len(column)}"
    return _sum(np.ascontiguousarray(column).reshape(-1).view(np.uint8)) if isinstance(column, np.ndarray) else ""


def _sum(data: Any) -> str:
    begin: Ids = np.arange(0, max(1, len(data)), _PIECE, dtype=np.int64)
    length = np.minimum(begin + _PIECE, len(data)) - begin
    return digest_of([crc32c_sums(data, begin, length, usable_cpus()).tobytes()]).hex()
