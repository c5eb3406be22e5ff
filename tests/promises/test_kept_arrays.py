"""Whoever keeps a part of a batch, in whatever way, keeps what it was: no later batch is written over it."""

from __future__ import annotations

import gc
import gzip
import itertools
import json
import pickle
import random
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import penstock as ps
from conftest import jpeg
from penstock.runtime.slots import Slots
from support import tfrecords
from support.tries import tries

SIZE = 50_000
#: Of its own, since the global one is seeded for every batch.
DRAW = random.Random(0)
STEPS = tries(600, at_least=10)
#: What is kept, and how to read it later.
Kept = tuple[Any, Callable[[Any], bytes]]


def bytes_of(kept: Any) -> bytes:
    return np.ascontiguousarray(kept).tobytes()


def tensor_bytes(kept: torch.Tensor) -> bytes:
    return kept.contiguous().numpy().tobytes()


def arrow_bytes(kept: pa.Array) -> bytes:
    return repr(kept.to_pylist()).encode()


class ByInterface:
    """As libraries pass memory on: a pointer, and an object that keeps it."""

    def __init__(self, array: np.ndarray) -> None:
        self._array, self.__array_interface__ = array, array.__array_interface__


def out_of_band(array: np.ndarray) -> Kept:
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(array, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(data, buffers=buffers), bytes_of


def kept_in_a_closure(array: np.ndarray) -> Kept:
    return (lambda: array[3:4]), lambda kept: bytes_of(kept())


def kept_in_a_cycle(array: np.ndarray) -> Kept:
    """Only the collector of garbage lets go of it."""
    cycle: dict[str, Any] = {"array": array[1:]}
    cycle["self"] = cycle
    return cycle, lambda kept: bytes_of(kept["array"])


#: Ways to keep a part of an array of numbers.
WAYS: dict[str, Callable[[np.ndarray], Kept]] = {
    "the array": lambda array: (array, bytes_of),
    "a slice": lambda array: (array[1:3], bytes_of),
    "every other row": lambda array: (array[::-2], bytes_of),
    "one row": lambda array: (array[0:1].reshape(-1), bytes_of),
    "another dtype": lambda array: (array.reshape(-1).view(np.uint8)[3:9], bytes_of),
    "transposed": lambda array: (array.T, bytes_of),
    "a broadcast": lambda array: (np.broadcast_to(array[:1], (3, *array.shape[1:])), bytes_of),
    "a base of a view": lambda array: (array[2:].base, bytes_of),
    "an iterator": lambda array: (array[1:].flat, lambda kept: bytes_of(kept.base)),
    "memoryview": lambda array: (memoryview(array), lambda kept: kept.tobytes()),
    "a slice of a memoryview": lambda array: (memoryview(array.reshape(-1))[2:5], lambda kept: kept.tobytes()),
    "frombuffer": lambda array: (np.frombuffer(array, dtype=np.uint8)[5:], bytes_of),
    "as_strided": lambda array: (np.lib.stride_tricks.as_strided(array.reshape(-1), (4,), (0,)), bytes_of),
    "__array_interface__": lambda array: (np.asarray(ByInterface(array))[:2], bytes_of),
    "NumPy by DLPack": lambda array: (np.from_dlpack(array)[1:2], bytes_of),
    "out-of-band pickle": out_of_band,
    "a closure": kept_in_a_closure,
    "a cycle": kept_in_a_cycle,
    "a tensor": lambda array: (torch.from_numpy(array), tensor_bytes),
    "a slice of a tensor": lambda array: (torch.from_numpy(array)[1:2], tensor_bytes),
    "a tensor's array": lambda array: (torch.from_numpy(array).numpy()[2:], bytes_of),
    "a tensor's storage": lambda array: (torch.from_numpy(array).untyped_storage(), lambda kept: bytes(kept[:64])),
    "split tensors": lambda array: (torch.from_numpy(array).unsafe_split(2)[-1], tensor_bytes),
    "a tensor by DLPack": lambda array: (torch.from_dlpack(array)[:1], tensor_bytes),
    "a tensor of a buffer": lambda array: (torch.frombuffer(array, dtype=torch.uint8)[4:], tensor_bytes),
    "as_tensor": lambda array: (torch.as_tensor(array)[-1:], tensor_bytes),
    "an Arrow buffer": lambda array: (pa.py_buffer(array)[8:32], lambda kept: kept.to_pybytes()),
    "an Arrow array": lambda array: (pa.array(array.reshape(-1))[2:9], arrow_bytes),
    "an Arrow array of buffers": lambda array: (
        pa.Array.from_buffers(pa.uint8(), 40, [None, pa.py_buffer(array)])[7:],
        arrow_bytes,
    ),
    "an Arrow tensor": lambda array: (pa.Tensor.from_numpy(array), lambda kept: bytes_of(kept.to_numpy())),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape", [pytest.param((SIZE // 4,), id="flat", marks=pytest.mark.long), pytest.param((50, SIZE // 200), id="rows")]
)
@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_keep_a_part_keeps_its_memory(way: str, shape: tuple[int, ...]) -> None:
    slots = Slots()
    array = slots.take(SIZE).view(np.float32).reshape(shape)
    array[...] = np.arange(array.size, dtype=np.float32).reshape(shape)
    kept, read = WAYS[way](array)
    before = read(kept)
    del array
    for _ in range(3):
        slots.take(SIZE)[:] = 255
    assert read(kept) == before
    made = slots.made_bytes
    del kept
    gc.collect()
    held = [slots.take(SIZE) for _ in range(2)]
    assert slots.made_bytes == made, "what nobody keeps is used again"
    assert len(held) == 2


def ways_of_arrow(column: pa.Array) -> list[Kept]:
    found: list[Kept] = [
        (column, arrow_bytes),
        (column[1:3], arrow_bytes),
        (column[0], lambda kept: repr(kept).encode()),
    ]
    values = column[0]
    if hasattr(values, "as_buffer") and values.as_buffer() is not None:
        found.append((values.as_buffer(), lambda kept: kept.to_pybytes()))
    found += [(buffer, lambda kept: kept.to_pybytes()) for buffer in column.buffers()[1:] if buffer is not None]
    if hasattr(column, "values"):
        found.append((column.values.to_numpy(zero_copy_only=False), bytes_of))
    return found


def keep_some(column: Any) -> Kept:
    """A part of a column of a batch, kept in a way that is drawn."""
    if isinstance(column, pa.Array):
        return DRAW.choice(ways_of_arrow(column))
    if isinstance(column, torch.Tensor):
        return column[len(column) // 2 :], tensor_bytes
    numbers = column.dtype.kind in "fiu" and column.flags.writeable and column.size >= 40
    ways = list(WAYS) if numbers else ["the array", "a slice", "a closure", "a cycle"]
    return WAYS[DRAW.choice(ways)](np.ascontiguousarray(column))


def _tfrecord(root: Path, rng: np.random.Generator) -> None:
    def record(row: int) -> bytes:
        numbers, text = rng.random(20), rng.bytes(int(rng.integers(8, 200))).hex().encode()
        ragged = rng.random(int(rng.integers(1, 9)))
        return tfrecords.example(
            id=tfrecords.integers(row),
            x=tfrecords.floats(*numbers),
            text=tfrecords.texts(text),
            y=tfrecords.floats(*ragged),
        )

    for shard in range(2):
        tfrecords.write(root / f"{shard}.tfrecord", map(record, range(60)))


def _jsonl(root: Path, rng: np.random.Generator) -> None:
    rows = [{"id": row, "text": "x" * int(rng.integers(1, 900)), "v": rng.random(80).tolist()} for row in range(500)]
    (root / "0.jsonl").write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    (root / "1.jsonl.gz").write_bytes(gzip.compress((root / "0.jsonl").read_bytes()))


def _parquet(root: Path, rng: np.random.Generator) -> None:
    texts = [rng.bytes(int(rng.integers(1, 900))) for _ in range(1000)]
    lists = [rng.random(int(rng.integers(1, 50))) for _ in range(1000)]
    table = pa.table({"id": np.arange(1000), "x": rng.random(1000), "bytes": texts, "list": lists})
    pq.write_table(table, root / "0.parquet", row_group_size=100)


def _npy(root: Path, rng: np.random.Generator) -> None:
    np.save(root / "0.npy", rng.random((1000, 300)).astype(np.float32))


def _tokens(root: Path, rng: np.random.Generator) -> None:
    rng.integers(0, 60_000, 500_000).astype(np.uint16).tofile(root / "0.bin")


def _images(root: Path, _: np.random.Generator) -> None:
    for number in range(120):
        (root / f"{number:03}.jpg").write_bytes(jpeg(number, 30 + number % 9, 40))


WRITERS = {
    "tfrecord": (_tfrecord, {}),
    "jsonl": (_jsonl, {}),
    "parquet": (_parquet, {}),
    "npy": (_npy, {}),
    "tokens": (_tokens, {"format": "tokens", "dtype": "uint16", "window": 512}),
    "images": (_images, {}),
}
ARRAYS = {
    "rows": {
        "x": np.arange(500_000, dtype=np.float32).reshape(1000, 500),
        "text": ["a" * (row % 300) for row in range(1000)],
    },
    "short": {"x": np.arange(100_000), "y": np.arange(100_000, dtype=np.float32)},
}


def opened(kind: str, root: Path) -> ps.Dataset:
    if kind in ARRAYS:
        return ps.from_arrays(ARRAYS[kind]).shuffle(seed=1)
    write, options = WRITERS[kind]
    write(root, np.random.default_rng(0))
    dataset = ps.read(str(root), **options).shuffle(seed=1)
    if kind != "images":
        return dataset
    ops = [ps.image.Decode(), ps.image.RandomResizedCrop(24), ps.image.ToDtype("float32")]
    return dataset.transform(image=ops)


@pytest.fixture(params=[pytest.param(False, marks=pytest.mark.long), True], ids=["", "no gc"])
def collector(request: pytest.FixtureRequest) -> Iterator[None]:
    """Without the collector of garbage too, and with threads that give way to each other all the time."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(2e-5)
    if request.param:
        gc.disable()
    yield
    gc.enable()
    sys.setswitchinterval(interval)


@pytest.mark.slow
@pytest.mark.usefixtures("collector")
@pytest.mark.parametrize("to", ["numpy", "torch"])
@pytest.mark.parametrize("kind", [*WRITERS, *ARRAYS])
def test_what_a_map_keeps_is_never_written_over(kind: str, to: str, tmp_path: Path) -> None:
    """Functions keep parts of what they get and of what they give, in many threads; the loop keeps parts of batches."""
    DRAW.seed(0)
    kept: list[tuple[Any, Callable[[Any], bytes], bytes]] = []
    lock = threading.Lock()

    def keep(batch: dict[str, Any]) -> dict[str, Any]:
        for column in batch.values():
            thing, read = keep_some(column)
            entry = thing, read, read(thing)
            with lock:  # as one: a thing and its copy in two lists would be mixed up by other threads
                kept.append(entry)
                if len(kept) > 40:
                    kept.pop(DRAW.randrange(len(kept)))
        return {name: column[:] if DRAW.random() < 0.5 else column for name, column in batch.items()}

    def double(batch: dict[str, Any]) -> dict[str, Any]:
        return {name: column * 2 if isinstance(column, np.ndarray) else column for name, column in batch.items()}

    plan = opened(kind, tmp_path).batch(12, drop_last=True).map(keep).map(double).map(keep)
    steps = 0
    with ps.Loader(plan, to=to, cpus=4) as loader:
        while steps < STEPS:
            for batch in loader:
                keep(batch)
                steps += 1
                if steps % 5 == 0:
                    with lock:
                        entries = list(kept)
                    assert all(read(thing) == copy for thing, read, copy in entries)
                    del entries
                if steps == STEPS:
                    break


ROWS = 160


def _numbers() -> ps.Dataset:
    return ps.from_arrays({"id": np.arange(ROWS), "x": np.arange(ROWS * 500, dtype=np.float32).reshape(ROWS, 500)})


def _ragged() -> ps.Dataset:
    lengths = [100 + row * 37 % 700 for row in range(ROWS)]
    return ps.from_arrays({"length": lengths, "t": [np.full(size, size, dtype=np.int32) for size in lengths]})


def _said_of_all(batch: dict[str, Any]) -> np.ndarray:
    return np.ones(len(next(iter(batch.values()))), dtype=bool)


Keep = Callable[[dict[str, Any]], dict[str, Any]]
#: Plans whose functions keep what they get.
VERBS: dict[str, Callable[[Keep, Path], ps.Dataset]] = {
    "map before shuffle": lambda keep, _: _numbers().map(keep).shuffle(seed=0).batch(16),
    "filter": lambda keep, _: _numbers().filter(lambda batch: _said_of_all(keep(batch))).batch(16, steps=8),
    "flat_map": lambda keep, _: _numbers().flat_map(
        lambda batch: {name: column[::2] for name, column in keep(batch).items()}, rows=32
    ).batch(16, steps=4),
    "pad": lambda keep, _: _ragged().map(keep).batch_padded(16).map(keep),
    "bucket": lambda keep, _: _ragged().map(keep).batch_bucketed(16, by="length", boundaries=[300, 600]).map(keep),
    "tokens": lambda keep, _: _ragged().batch_tokens(9_000, by="length").map(keep),
    "pack": lambda keep, _: _ragged().pack("t", length=1000).batch(8, steps=8).map(keep),
    "zip": lambda keep, _: ps.zip([_numbers().map(keep), ps.from_arrays({"z": np.ones((ROWS, 300))})]).batch(16).map(keep),
    "mix": lambda keep, _: ps.mix(
        [_numbers().map(keep), _numbers()], weights=[0.5, 0.5], source="source"
    ).batch(16).map(keep),
    "images": lambda keep, root: opened("images", root).map(keep).batch(16).map(keep),
    "stream": lambda keep, _: ps.from_iterable(
        lambda: ({"x": np.full(3000, row)} for row in range(ROWS)), spool=False, samples=ROWS
    ).shuffle(window=64, seed=0).batch(8).map(keep),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "to"), [*zip(VERBS, itertools.cycle(["numpy", "torch"]), strict=False)])
def test_what_functions_and_loops_keep_outlives_passes_and_loaders(verb: str, to: str, tmp_path: Path) -> None:
    """Through a pass, one that is broken off and begun anew, closing, another loader, and after the first is gone."""
    DRAW.seed(1)
    kept: list[tuple[Any, Callable[[Any], bytes], bytes]] = []
    lock = threading.Lock()

    def keep(batch: dict[str, Any]) -> dict[str, Any]:
        for column in batch.values():
            if len(column) > 1:
                thing, read = keep_some(column)
                with lock:
                    kept.append((thing, read, read(thing)))
                    if len(kept) > 60:
                        kept.pop(DRAW.randrange(len(kept)))
        return batch

    def check() -> None:
        with lock:
            entries = list(kept)
        assert entries
        assert all(read(thing) == copy for thing, read, copy in entries)

    plan = VERBS[verb](keep, tmp_path)
    loader, other = ps.Loader(plan, to=to, cpus=2), ps.Loader(plan, to=to, cpus=2)
    for most in (5, ROWS):
        for _, batch in zip(range(most), loader, strict=False):
            keep(batch)
        check()
    loader.close()
    check()
    for _, batch in zip(range(10), other, strict=False):
        keep(batch)
    check()
    del loader
    gc.collect()
    for _ in zip(range(10), other, strict=False):
        pass
    other.close()
    check()
