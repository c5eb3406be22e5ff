"""A driver that is not there: PyTorch's own Python code runs, what it would ask of CUDA is noted and done on the host.

A copy is done as late as CUDA may do it: when an event behind it is waited for, from the address that it was given. So is what a kernel does.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from penstock.deliver import torch_pixels

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


class FakeStream:
    """A stream of a device; number 0 is the default one."""

    made = 0
    cuda: Any = None

    def __init__(self, device: Any = None, *, number: int | None = None) -> None:
        FakeStream.made += number is None
        self.device = device
        self.number = FakeStream.made if number is None else number

    def wait_event(self, event: FakeEvent) -> None:
        """What the stream does later comes behind the event; here the consumer reads on the host, at once."""
        self.cuda.waits.append((self, event.on))
        self.cuda.do(event.before)

    def wait_stream(self, stream: FakeStream) -> None:
        self.cuda.waits.append((self, stream))
        self.cuda.do(self.cuda.pending(stream))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FakeStream) and (self.device, self.number) == (other.device, other.number)

    def __hash__(self) -> int:
        return hash((self.device, self.number))


#: What a stream is to do, and the stream.
Pending = tuple[FakeStream, Callable[[], object]]


class FakeCuda:
    """Three devices. `gate` is what waiting for an event waits for; `fail_at` the number of the copy that fails."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.contexts: set[int] = set()
        self.copies: list[tuple[FakeStream, bool, str]] = []
        self.events: list[dict[str, Any]] = []
        self.waits: list[tuple[FakeStream, Any]] = []
        self.kernels: list[tuple[FakeStream, str]] = []
        self.host_waits: list[str] = []
        FakeStream.cuda = self
        self.pinned: list[dict[str, Any]] = []
        self.used: set[tuple[int, FakeStream]] = set()
        self.fail_at, self.error = -1, RuntimeError("the copy failed")
        self.lost: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.waiting = threading.Semaphore(0)
        self._thread = threading.local()
        self._lock = threading.Lock()
        self._pending: list[Pending] = []
        self._made: list[weakref.ref[Any]] = []
        self._empty = torch.empty
        for name in ("current_device", "current_stream", "set_stream", "_exchange_device", "_maybe_exchange_device"):
            patch.setattr(torch.cuda, name, getattr(self, name))
        patch.setattr(torch.cuda, "is_available", lambda: True)
        patch.setattr(torch.cuda, "device_count", lambda: 3)
        patch.setattr(torch.cuda, "Stream", FakeStream)
        patch.setattr(torch.cuda, "Event", lambda **options: FakeEvent(self, options))
        patch.setattr(torch, "empty", self.empty)

        def to(tensor: Any, device: Any, **options: Any) -> Any:
            return self.copy(tensor, device, **options)

        def kernel(*arguments: Any) -> Any:
            return self.kernel(*arguments)

        patch.setattr(torch_pixels.PixelKernel, "__call__", lambda _, *arguments: kernel(*arguments))
        patch.setattr(torch.Tensor, "to", to)
        patch.setattr(
            torch.Tensor,
            "record_stream",
            lambda tensor, stream: self.used.add((tensor.untyped_storage().data_ptr(), stream)),
        )

    @property
    def alive(self) -> int:
        """Tensors on the device that someone holds."""
        return sum(made() is not None for made in self._made)

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
        before, self._thread.device = self.current_device(), index
        self.contexts.add(index)
        return before

    def _maybe_exchange_device(self, index: int) -> int:
        return self._exchange_device(index) if index in self.contexts else self.current_device()

    def empty(self, *size: Any, **options: Any) -> Any:
        if options.pop("pin_memory", False):
            self.pinned.append(options)
        return self._empty(*size, **options)

    def copy(self, tensor: Any, device: Any, *, non_blocking: bool) -> Any:
        if len(self.copies) == self.fail_at:
            raise self.error
        stream = self.current_stream(device)
        made = torch.empty_like(tensor)
        with self._lock:
            self.copies.append((stream, non_blocking, threading.current_thread().name))
            address, room = tensor.data_ptr(), tensor.nbytes
            held = weakref.ref(made)  # whoever drops a tensor on the device frees it, whatever is to be done with it
            self._pending.append(
                (stream, lambda: (to := held()) is None or ctypes.memmove(to.data_ptr(), address, room))
            )
            self._made.append(held)
        return made

    def kernel(self, pixels: Any, flags: Any, ops: Any) -> Any:
        """The kernel for images, done behind the copies that are before it on the stream."""
        stream = self.current_stream(torch.device("cuda", self.current_device()))
        affine = torch_pixels.affine_of(ops)
        made = torch.empty_like(torch_pixels.expression(pixels, flags, ops, affine))
        with self._lock:
            self.kernels.append((stream, threading.current_thread().name))
            held = weakref.ref(made)
            self._pending.append(
                (
                    stream,
                    lambda: (to := held()) is None or to.copy_(torch_pixels.expression(pixels, flags, ops, affine)),
                )
            )
            self._made.append(held)
        return made

    def pending(self, stream: FakeStream) -> list[Pending]:
        """What a stream has not done."""
        with self._lock:
            return [one for one in self._pending if one[0] == stream]

    def do(self, some: list[Pending]) -> None:
        """Does what nobody has done yet."""
        with self._lock:
            mine = {id(one) for one in some}
            for _, do in (one for one in self._pending if id(one) in mine):
                do()
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
        if self._cuda.lost is not None:
            raise self._cuda.lost
        open_ = {id(one) for one in self._cuda._pending}
        return not any(id(one) in open_ for one in self.before)

    def synchronize(self) -> None:
        self._cuda.host_waits.append(threading.current_thread().name)
        self._cuda.waiting.release()
        assert self._cuda.gate.wait(20)
        self._cuda.do(self.before)
