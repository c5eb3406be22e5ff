"""A driver that is not there: PyTorch's own Python code runs, what it would ask of CUDA is noted and done on the host.

Everything is done as late as CUDA may do it: a copy from pinned memory when an event behind it is waited for, from the address that it was given,
to the address that it was given, whoever has that memory by then; one from pageable memory reads it at once. So is what a kernel does. With
`late`, the consumer's streams are as late, and what they are to do is said by `launch`; else a consumer may read on the host at once.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from penstock.deliver import torch_mixes, torch_pixels
from support.fake_memory import FakeMemory

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

GLOBAL, THREAD_LOCAL = 0, 1


class FakeStream:
    """A stream of a device; number 0 is the default one."""

    made = 0
    cuda: Any = None

    def __init__(self, device: Any = None, *, number: int | None = None) -> None:
        FakeStream.made += number is None
        self.device = device
        self.number = FakeStream.made if number is None else number

    def wait_event(self, event: FakeEvent) -> None:
        """What the stream does later comes behind the event."""
        self.cuda.waits.append((self, event.on))
        self.cuda.wait(self, event.before)

    def wait_stream(self, stream: FakeStream) -> None:
        self.cuda.waits.append((self, stream))
        self.cuda.wait(self, self.cuda.pending(stream))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FakeStream) and (self.device, self.number) == (other.device, other.number)

    def __hash__(self) -> int:
        return hash((self.device, self.number))


#: What a stream is to do, and the stream.
Pending = tuple[FakeStream, Callable[[], object]]


class FakeCuda:
    """Three devices. `gate` is what waiting for an event waits for; `fail_at` the number of the copy that fails."""

    def __init__(self, patch: pytest.MonkeyPatch, *, late: bool = False) -> None:
        gc.collect()  # loaders of earlier tests wait for their copies when they are found, and would do so here
        self.late = late
        self.contexts: set[int] = set()
        self.contexts_of: dict[str, set[int]] = {}
        self.copies: list[tuple[FakeStream, bool, str]] = []
        self.sources: list[tuple[int, bool]] = []
        self.events: list[dict[str, Any]] = []
        self.waits: list[tuple[FakeStream, Any]] = []
        self.kernels: list[tuple[FakeStream, str]] = []
        self.host_waits: list[str] = []
        FakeStream.cuda, FakeStream.made = self, 0
        self.pinned: list[dict[str, Any]] = []
        self.used: set[tuple[int, FakeStream]] = set()
        self.fail_at, self.error = -1, RuntimeError("the copy failed")
        self.lost: Exception | None = None
        self.no_pinned: Exception | None = None
        self.capturing: int | None = None
        self.broken_captures: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.waiting = threading.Semaphore(0)
        self._thread = threading.local()
        self._lock = threading.RLock()
        self._pending: list[Pending] = []
        self.memory = FakeMemory(self.pending, self.is_done)
        self._expression, self._mix = torch_pixels.expression, torch_mixes.mix
        self._empty, self._pinned_spans = torch.empty, list[tuple[int, Any]]()
        self._put_in_place(patch)

    def _put_in_place(self, patch: pytest.MonkeyPatch) -> None:
        for name in ("current_device", "current_stream", "set_stream", "_exchange_device", "_maybe_exchange_device"):
            patch.setattr(torch.cuda, name, getattr(self, name))
        patch.setattr(torch.cuda, "is_available", lambda: True)
        patch.setattr(torch.cuda, "device_count", lambda: 3)
        patch.setattr(torch.cuda, "Stream", FakeStream)
        patch.setattr(torch.cuda, "Event", lambda **options: FakeEvent(self, options))
        patch.setattr(torch, "empty", self.empty)
        patch.setattr("penstock.deliver.torch_cuda._streams", {})
        patch.setattr("penstock.deliver.torch_cuda._exchange", lambda: self._exchange_capture_mode)

        original = torch.Tensor.to

        def to(tensor: Any, *arguments: Any, **options: Any) -> Any:
            device = arguments[0] if arguments else None
            if isinstance(device, str | torch.device) and torch.device(device).type != "cpu":
                return self.copy(tensor, device, non_blocking=options.get("non_blocking", False))
            return original(tensor, *arguments, **options)

        def record_stream(tensor: Any, stream: FakeStream) -> None:
            self.record_stream(tensor, stream)

        patch.setattr(torch.Tensor, "to", to)
        patch.setattr(torch.Tensor, "record_stream", record_stream)
        triton = ModuleType("penstock.deliver.triton_pixels")
        triton.fused = self.kernel  # type: ignore[attr-defined]
        patch.setattr(torch_pixels, "expression", self.kernel)
        patch.setattr(torch_mixes, "mix", self.mix)
        patch.setitem(sys.modules, triton.__name__, triton)

    @property
    def alive(self) -> int:
        """Pieces of the device's memory that someone holds."""
        return self.memory.alive

    # What PyTorch's Python code calls

    def current_device(self) -> int:
        return getattr(self._thread, "device", 0)

    def current_stream(self, device: Any = None) -> FakeStream:
        device = torch.device("cuda", self.current_device()) if device is None else device
        return getattr(self._thread, "streams", {}).get(device, FakeStream(device, number=0))

    def set_stream(self, stream: FakeStream) -> None:
        self._exchange_device(stream.device.index)
        self._thread.streams = {**getattr(self._thread, "streams", {}), stream.device: stream}

    def _exchange_device(self, index: int) -> int:
        before, self._thread.device, self._thread.driver_device = self.current_device(), index, index
        self.call()
        return before

    def _maybe_exchange_device(self, index: int) -> int:
        """Where there is no context, PyTorch remembers the device, and leaves the driver's as it is."""
        if index in self.contexts:
            return self._exchange_device(index)
        before, self._thread.device = self.current_device(), index
        return before

    def call(self, *, unsafe: bool = False) -> None:
        """Any call makes a context on the thread's device. unsafe: one that a capture of another thread forbids to those that say nothing."""
        device = getattr(self._thread, "driver_device", 0)
        self.contexts.add(device)
        self.contexts_of.setdefault(threading.current_thread().name, set()).add(device)
        here = threading.get_ident()
        if unsafe and self.capturing not in (None, here) and getattr(self._thread, "mode", GLOBAL) == GLOBAL:
            self.broken_captures.append(threading.current_thread().name)
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    def _exchange_capture_mode(self, pointer: Any) -> int:
        before, self._thread.mode = getattr(self._thread, "mode", GLOBAL), pointer._obj.value
        pointer._obj.value = before
        return 0

    def empty(self, *size: Any, **options: Any) -> Any:
        if not options.pop("pin_memory", False):
            return self._empty(*size, **options)
        self.call(unsafe=True)
        if self.no_pinned is not None:
            raise self.no_pinned
        self.pinned.append(options)
        made = self._empty(*size, **options)
        self._pinned_spans.append((made.data_ptr(), made))  # kept for good: copies that are late read from it
        return made

    def is_pinned(self, tensor: Any) -> bool:
        return any(begin <= tensor.data_ptr() < begin + memory.nbytes for begin, memory in [*self._pinned_spans])

    def record_stream(self, tensor: Any, stream: FakeStream) -> None:
        self.used.add((tensor.untyped_storage().data_ptr(), stream))
        self.memory.use(tensor, stream)

    def allocate(self, like: Any) -> Any:
        """A tensor on the device."""
        self.call(unsafe=True)
        stream = self.current_stream(torch.device("cuda", self.current_device()))
        bytes_ = torch.from_numpy(self.memory.allocate(max(1, like.nbytes), stream))[: like.nbytes]
        dense = bytes_.view(like.dtype)
        return dense.as_strided(like.size(), torch.empty_like(like, device="meta").stride()).data

    def copy(self, tensor: Any, device: Any, *, non_blocking: bool) -> Any:
        if len(self.copies) == self.fail_at:
            raise self.error
        stream, dense = self.current_stream(device), tensor
        made = self.allocate(tensor) if torch.device(device).type == "cuda" else torch.empty_like(tensor)
        if made.stride() != tensor.stride():
            dense = torch.empty_like(tensor).copy_(tensor)
        is_pinned = self.is_pinned(dense)
        source = dense.data_ptr() if is_pinned else ctypes.string_at(dense.data_ptr(), dense.nbytes)
        to, size = made.data_ptr(), tensor.nbytes
        with self._lock:
            self.copies.append((stream, non_blocking, threading.current_thread().name))
            self.sources.append((size, is_pinned))
            self._pending.append((stream, lambda: ctypes.memmove(to, source, size)))
        return made

    def kernel(self, pixels: Any, flags: Any, patches: Any, ops: Any, *constants: Any) -> Any:
        """The kernel for images, done behind the copies that are before it on the stream."""
        stream = self.current_stream(torch.device("cuda", self.current_device()))
        made = self.allocate(self._expression(pixels, flags, patches, ops, *constants))
        later = [None if one is None else self.memory.seen(one) for one in (pixels, flags, patches, *constants)]
        to = self.memory.seen(made)

        def do() -> None:
            found, drawn, erased, *numbers = (None if one is None else one() for one in later)
            to().copy_(self._expression(found, drawn, erased, ops, *numbers))

        with self._lock:
            self.kernels.append((stream, threading.current_thread().name))
            self._pending.append((stream, do))
        return made

    def mix(self, images: Any, layout: Any, *drawn: Any) -> None:
        """MixUp or CutMix of images, in place, done behind what is before it on the stream."""
        stream = self.current_stream(torch.device("cuda", self.current_device()))
        later = [None if one is None else self.memory.seen(one) for one in (images, *drawn)]

        def do() -> None:
            found, *numbers = (None if one is None else one() for one in later)
            self._mix(found, layout, *numbers)

        self.call(unsafe=True)
        with self._lock:
            self.kernels.append((stream, threading.current_thread().name))
            self._pending.append((stream, do))

    # What streams are to do

    def launch(self, do: Callable[[], object], stream: FakeStream | None = None) -> None:
        """Work of the consumer's."""
        with self._lock:
            self._pending.append((self.current_stream() if stream is None else stream, do))

    def wait(self, stream: FakeStream, before: list[Pending]) -> None:
        if self.late:
            self.launch(lambda: self.do(before), stream)
        else:
            self.do(before)

    def pending(self, stream: FakeStream) -> list[Pending]:
        """What a stream has not done."""
        return [one for one in [*self._pending] if one[0] == stream]

    def is_done(self, some: list[Pending]) -> bool:
        open_ = {id(one) for one in [*self._pending]}
        return not any(id(one) in open_ for one in some)

    def do(self, some: list[Pending]) -> None:
        """Does what nobody has done yet."""
        with self._lock:
            mine = {id(one) for one in some}
            for one in [one for one in self._pending if id(one) in mine]:
                one[1]()
            self._pending = [one for one in self._pending if id(one) not in mine]


class FakeEvent:
    """A point in a stream."""

    def __init__(self, cuda: FakeCuda, options: dict[str, Any]) -> None:
        self._cuda = cuda
        self.on: FakeStream | None = None
        self.before: list[Pending] = []
        cuda.events.append(options)

    def record(self, stream: FakeStream) -> None:
        self.on, self.before = stream, self._cuda.pending(stream)

    def query(self) -> bool:
        self._cuda.call(unsafe=True)
        if self._cuda.lost is not None:
            raise self._cuda.lost
        return self._cuda.is_done(self.before)

    def synchronize(self) -> None:
        self._cuda.call()
        self._cuda.host_waits.append(threading.current_thread().name)
        self._cuda.waiting.release()
        assert self._cuda.gate.wait(100)
        self._cuda.do(self.before)
