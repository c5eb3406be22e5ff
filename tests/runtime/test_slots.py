"""Slots: memory is used again, but never while someone looks into it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.core.columns.spec import Field
from penstock.core.errors import ProcessError
from penstock.runtime import slots as slots_module
from penstock.runtime.slots import Slots

SIZE = 100_000


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def test_memory_is_used_again_once_it_is_free() -> None:
    slots = Slots()
    first = slots.take(SIZE)
    place = address(first)
    del first
    for size in (SIZE, SIZE - 1, SIZE + 100):
        again = slots.take(size)
        assert address(again) == place
        assert again.shape == (size,)
        del again
    assert slots.made_bytes < 2 * SIZE


@pytest.mark.parametrize(
    "look", [lambda a: a, lambda a: a[5:7], lambda a: a.view(np.int16).reshape(-1, 5)[3:4], memoryview]
)
def test_whoever_looks_into_memory_keeps_it(look) -> None:
    slots = Slots()
    array = slots.take(SIZE)
    array[:] = 7
    kept = look(array)
    copy = bytes(np.asarray(kept).tobytes())
    place = address(array)
    del array
    other = slots.take(SIZE)
    assert address(other) != place
    other[:] = 9
    assert np.asarray(kept).tobytes() == copy
    del kept
    assert address(slots.take(SIZE)) == place


def test_arrays_are_writable_aligned_and_of_their_field() -> None:
    slots = Slots()
    for field, shape in {
        Field("float32", (3, 5)): (700, 3, 5),
        Field("bfloat16", (2,)): (700, 2),
        Field("bool"): (700,),
        Field("int64", (4, 0)): (700, 4, 0),
        Field("complex128", (9,)): (700, 9),
    }.items():
        array = slots.array(field, 700)
        assert array.shape == shape
        assert array.dtype == field.numpy_dtype
        assert array.flags.writeable
        assert array.flags.c_contiguous
        assert array.flags.aligned
    assert slots.array(Field("int8"), 0).shape == (0,)


def test_memory_begins_with_a_line_of_the_cache() -> None:
    slots = Slots()
    kept = [slots.take(size) for size in (SIZE, SIZE + 1, 5_000_000)]
    assert [address(array) % 64 for array in kept] == [0, 0, 0]


def test_a_steady_user_makes_memory_once() -> None:
    slots = Slots()
    held: list[np.ndarray] = []
    for _ in range(200):
        held.append(slots.take(SIZE))
        if len(held) > 3:
            held.pop(0)
    assert slots.made_bytes <= 5 * slots_module._size_class(SIZE)


def test_free_memory_is_bounded() -> None:
    slots = Slots(keep_bytes=3 * slots_module._size_class(SIZE))
    held = [slots.take(SIZE) for _ in range(10)]
    held.clear()
    slots._take_back()
    assert slots._free_bytes <= 3 * slots_module._size_class(SIZE)
    slots.drop()
    assert slots._free_bytes == 0
    kept = slots.take(SIZE)
    slots.clear()
    del kept
    assert slots._free_bytes == 0


def test_batches_outlive_their_slots() -> None:
    slots = Slots()
    kept = slots.take(SIZE)
    kept[:] = 3
    slots.clear()
    del slots
    gc.collect()
    assert (kept == 3).all()


def test_garbage_collected_inside_take_does_not_deadlock() -> None:
    """A batch in a reference cycle may end at any allocation, also while this thread holds the lock."""
    slots = Slots()
    held = [slots.take(SIZE)]

    class Free(dict):
        def __getitem__(self, room: int):
            held.clear()
            return self.setdefault(room, [])

    slots._free = Free()  # type: ignore[assignment]
    done = threading.Thread(target=lambda: slots.take(SIZE), daemon=True)
    done.start()
    done.join(60)
    assert not done.is_alive()
    assert not held


def test_the_end_of_a_batch_runs_no_python_code() -> None:
    """Else a Ctrl-C that arrives just then would be raised where nobody can catch it, and be lost."""
    slots = Slots()
    held = [slots.take(SIZE)]
    called: list[str] = []
    gc.disable()  # what earlier tests left may run some
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        held.clear()
    finally:
        sys.setprofile(None)
        gc.enable()
    assert called == []
    place = slots.made_bytes
    slots.take(SIZE)
    assert slots.made_bytes == place, "its memory was not used again"


def test_many_threads() -> None:
    slots = Slots()
    bad: list[int] = []

    def work(mark: int) -> None:
        for turn in range(300):
            array = slots.take(4096 + 1000 * (turn % 3))
            array[:] = mark
            if not (array == mark).all():
                bad.append(mark)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bad == []
    slots._take_back()
    assert slots._free_bytes == sum(room * len(free) for room, free in slots._free.items()) == slots.made_bytes


def test_memory_of_the_users_choice() -> None:
    made: list[int] = []

    def new_memory(size: int) -> np.ndarray:
        made.append(size)
        return np.zeros(size, dtype=np.uint8)

    slots = Slots(new_memory=new_memory)
    assert len(slots.take(SIZE)) == SIZE
    assert len(made) == 1
    assert made[0] >= SIZE


def test_pinned_memory_is_counted_as_it_is_made() -> None:
    slots = Slots(new_memory=new_array)
    held = [slots.take(size) for size in (5000, 8192, 8193)]
    assert [array.nbytes for array in held] == [5000, 8192, 8193]
    assert slots.made_bytes == 8192 + 8192 + 16384


def new_array(size: int) -> np.ndarray:
    return np.zeros(size, dtype=np.uint8)


def test_memory_that_is_refused_once_comes_after_what_is_free_was_dropped() -> None:
    refused: list[int] = []

    def new_memory(size: int) -> np.ndarray:
        if size > 1 << 20 and slots._free_bytes:
            refused.append(size)
            raise RuntimeError("out of memory")
        return new_array(size)

    slots = Slots(new_memory=new_memory)
    slots.take(SIZE)
    slots._take_back()
    assert slots._free_bytes == 1 << 17
    assert len(slots.take(2 << 20)) == 2 << 20
    assert refused == [2 << 20]
    assert slots._free_bytes == 0
    assert slots.made_bytes == (1 << 17) + (2 << 20)


def test_without_pinned_memory_the_usual_does() -> None:
    def new_memory(size: int) -> np.ndarray:
        raise RuntimeError("out of memory")

    slots = Slots(new_memory=new_memory)
    with pytest.warns(UserWarning, match=r"could be pinned \(out of memory\).*smaller prefetch=") as warned:
        held = [slots.take(SIZE) for _ in range(3)]
    assert len(warned) == 1
    assert [len(array) for array in held] == [SIZE] * 3
    assert slots.made_bytes == 3 << 17


FORKED = """
import gc, os
import numpy as np
from penstock.runtime.slots import Slots

freed = []

class Pinned(np.ndarray):
    def __del__(self):
        if self.base is not None:
            freed.append(os.getpid())

slots = Slots(new_memory=lambda size: np.zeros(size, dtype=np.uint8).view(Pinned))
held = [slots.take(100_000), slots.take(100_000)]
held.pop()
child = os.fork()
held.clear()
slots.drop()
slots.clear()
del slots
gc.collect()
if child == 0:
    os._exit(len(freed))
assert os.waitpid(child, 0)[1] == 0
assert freed == [os.getpid()] * 2, freed
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_frees_no_pinned_memory() -> None:
    """Its driver does not work there; PyTorch would end the process."""
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr


@given(st.integers(1, 2**40))
def test_size_classes_waste_little(size: int) -> None:
    room = slots_module._size_class(size)
    assert size <= room
    assert room <= max(slots_module._SMALLEST * 2, size * 1.25 + slots_module._SMALLEST)
    assert slots_module._size_class(room) == room


def test_kept_memory_is_an_error_before_none_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots_module, "_CHECKED_BYTES", 0)
    monkeypatch.setattr(slots_module, "allowed_memory", lambda: 50 * SIZE)
    monkeypatch.setattr(slots_module, "free_memory", lambda: 50 * SIZE)
    slots = Slots()
    kept = [slots.take(SIZE) for _ in range(20)]
    monkeypatch.setattr(slots_module, "free_memory", lambda: SIZE)
    with pytest.raises(ProcessError, match=r"batches that are still held take 2,.* bytes"):
        slots.take(SIZE)
    del kept[5:]
    assert len(slots.take(SIZE)) == SIZE, "of what came back"
    few = Slots()
    assert len(few.take(SIZE)) == SIZE, "others have the memory"


def test_a_loop_that_keeps_every_batch_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.zeros((400, 100_000), dtype=np.uint8)
    monkeypatch.setattr(slots_module, "_CHECKED_BYTES", 1 << 20)
    monkeypatch.setattr(slots_module, "allowed_memory", lambda: 60 << 20)
    monkeypatch.setattr(slots_module, "free_memory", lambda: 1 << 20)
    with ps.Loader(ps.from_arrays({"x": rows}).shuffle(seed=0).batch(4), memory="10MB") as loader:
        with pytest.raises(ProcessError, match="batches that are still held"):
            _ = [*loader]
        monkeypatch.setattr(slots_module, "free_memory", lambda: 50 << 20)
        assert sum(len(batch["x"]) for batch in loader) == 400


def test_an_error_of_a_device_is_no_lack_of_memory() -> None:
    class DeviceError(RuntimeError):
        pass

    errors = [DeviceError("CUDA error: unspecified launch failure")]

    def pinned(size: int) -> np.ndarray:
        if errors:
            raise errors.pop()
        return np.empty(size, np.uint8)

    slots = Slots(new_memory=pinned)
    with pytest.raises(DeviceError):
        slots.take(10_000)
    errors.append(DeviceError("CUDA error: out of memory"))
    assert len(slots.take(10_000)) == 10_000
