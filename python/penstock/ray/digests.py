"""What identifies an item's content, and what identifies all that decides what actors make."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.dataset import Dataset
from penstock.loader.child.messages import SentColumn
from penstock.loader.child.sent import Setup, setup_dumps
from penstock.plan.saved import SavedPlan
from penstock.processes.functions import dumps_as_new

_BYTES = 16


class SentPlan(NamedTuple):
    """A setup on its way to actors: pickled, and beside it what is large. digest: 32 hex digits of both, and of the code that functions of other files have here."""

    pickled: bytes
    buffers: tuple[npt.NDArray[np.uint8], ...]
    digest: str


def packed(setup: Setup, *others: str) -> SentPlan:
    """A setup, as it is sent. Its digest, with `others`, names the actors: two trainings share them only if all of it is the same."""
    buffers: list[npt.NDArray[np.uint8]] = []

    def travels(buffer: Any) -> bool:
        buffers.append(np.frombuffer(buffer.raw(), dtype=np.uint8))
        return False

    pickled = setup_dumps(setup, travels, pickles=dumps_as_new)
    state = hashlib.blake2b(digest_size=_BYTES)
    for text in (pickled, *(other.encode() for other in (code_digest(setup.dataset), *others))):
        state.update(len(text).to_bytes(8, "little") + text)
    for large in buffers:
        state.update(large.nbytes.to_bytes(8, "little"))
        state.update(large.data)
    return SentPlan(pickled, tuple(buffers), state.hexdigest())


def code_digest(dataset: Dataset) -> str:
    """32 hex digits of the code of a plan's functions and of those they use, also where only their names are sent."""
    state = hashlib.blake2b(digest_size=_BYTES)
    for verb in SavedPlan.of(dataset.root).described:
        for part in verb.parts:
            if part.is_code:
                state.update(part.name.encode() + b"\0" + part.digest)
    return state.hexdigest()


def item_digest(columns: Mapping[str, SentColumn]) -> bytes:
    """16 bytes of the names, types and contents of columns, however these lie in memory."""
    state = hashlib.blake2b(digest_size=_BYTES)
    for name in sorted(columns):
        state.update(f"{name}\0".encode())
        for part in _parts(columns[name].values):
            state.update(part)
    return state.digest()


def _parts(values: Any) -> Iterator[Any]:
    """What is hashed of a column: its type, then what it holds."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        yield f"{values.dtype} {values.shape}".encode()
        yield np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
    elif not isinstance(values, pa.Array):
        yield repr(values.tolist() if isinstance(values, np.ndarray) else values).encode("utf-8", "surrogatepass")
    elif isinstance(values, pa.ExtensionArray):
        yield str(values.type).encode()
        yield from _parts(values.storage)
    elif isinstance(values, (pa.ListArray, pa.LargeListArray)):
        yield f"list {len(values)}".encode()
        yield np.asarray(values.is_valid()).tobytes()
        yield np.asarray(values.value_lengths().fill_null(0), dtype=np.int64).tobytes()
        yield from _parts(values.flatten())
    else:
        yield f"{values.type} {len(values)}".encode()
        yield repr(values.to_pylist()).encode("utf-8", "surrogatepass")
