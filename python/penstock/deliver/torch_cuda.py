"""A CUDA device as all loaders of a process share it: the stream for copies, pinned memory, and how a thread works on it."""

from __future__ import annotations

import bisect
import ctypes
import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

#: Of `cuThreadExchangeStreamCaptureMode`: captures of CUDA graphs in other threads forbid this one nothing.
_THREAD_LOCAL = 1

#: By class, which tests replace, process and device.
_streams: dict[tuple[Any, int, int], Any] = {}
_lock = threading.Lock()


def copy_stream(device: torch.device) -> Any:
    """The stream for copies to a device, one in a process: PyTorch keeps freed memory by stream, and would keep that of each loader that is gone."""
    key = torch.cuda.Stream, os.getpid(), device.index
    with _lock:
        if key not in _streams:
            _streams[key] = torch.cuda.Stream(device)
        return _streams[key]


@contextmanager
def working_on(device: torch.device) -> Iterator[None]:
    """The calling thread works on the device meanwhile.

    A thread that never chose one would ask its events of device 0, and make a context there, of hundreds of MB. And while any thread
    captures a CUDA graph, others may neither allocate nor ask for events, unless they say that they have nothing to do with it.
    """
    with torch.cuda.device(device):
        before = _exchange_capture_mode(_THREAD_LOCAL)
        try:
            yield
        finally:
            if before is not None:
                _exchange_capture_mode(before)


def work_on(device: torch.device) -> None:
    """The calling thread works on the device from now on; so do users' functions in it."""
    torch.cuda.device(device).__enter__()  # which nothing leaves
    _exchange_capture_mode(_THREAD_LOCAL)


def _exchange_capture_mode(mode: int) -> int | None:
    """Sets this thread's mode; the one before, None where the driver does not say."""
    exchange, found = _exchange(), ctypes.c_int(mode)
    if exchange is None or exchange(ctypes.byref(found)):
        return None
    return found.value


@functools.cache
def _exchange() -> Callable[..., int] | None:
    """The driver's function; PyTorch has none for it."""
    hip = bool(torch.version.hip)
    names = ("libamdhip64.so",) if hip else ("libcuda.so.1", "nvcuda.dll")
    for name in names:
        try:
            library = ctypes.CDLL(name)
            found: Callable[..., int] = getattr(
                library, "hipThreadExchangeStreamCaptureMode" if hip else "cuThreadExchangeStreamCaptureMode"
            )
        except (OSError, AttributeError):
            continue
        return found
    return None


class Pinned:
    """Gives pinned memory of the host, whatever the default device, and knows what it gave."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._given: list[tuple[int, weakref.ref[Any]]] = []
        self._lock = threading.Lock()

    def __call__(self, size: int) -> Any:
        """An array of `size` bytes. If there is none left, PyTorch's cache of it is emptied first; then RuntimeError."""
        with working_on(self._device):
            try:
                made = _pinned(size)
            except RuntimeError:
                if not hasattr(torch, "accelerator") or not hasattr(torch.accelerator, "empty_host_cache"):
                    raise
                torch.accelerator.empty_host_cache()
                made = _pinned(size)
        with self._lock:
            self._given.append((made.ctypes.data, weakref.ref(made)))
        return made

    def spans(self) -> PinnedSpans:
        """Where what it gave lies now."""
        with self._lock:
            known = [(begin, given, memory) for begin, given in self._given if (memory := given()) is not None]
            self._given = [(begin, given) for begin, given, _ in known]
        return PinnedSpans(sorted((begin, begin + memory.nbytes) for begin, _, memory in known))


class PinnedSpans:
    """Addresses of pinned memory, ascending."""

    def __init__(self, spans: list[tuple[int, int]]) -> None:
        self._spans = spans

    def __contains__(self, tensor: torch.Tensor) -> bool:
        place = bisect.bisect_right(self._spans, (tensor.data_ptr(), 1 << 64)) - 1
        return place >= 0 and tensor.data_ptr() < self._spans[place][1]


def _pinned(size: int) -> Any:
    return torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=True).numpy()
