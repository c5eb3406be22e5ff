"""What the parts of `make gpu` ask of a device: CUDA's, or a stand-in on which a dry run tries every line of them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch

T = TypeVar("T")


class Cuda:
    """A real device. device: where loaders deliver and models live."""

    device = model_device = "cuda"
    is_dry = False

    def size(self, real: T, dry: T) -> T:
        """How much of something there is to be."""
        return real

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    def sleep(self, cycles: int = 20_000_000) -> None:
        """Keeps the current stream busy, some 10 ms."""
        torch.cuda._sleep(cycles)  # noqa: SLF001  # as PyTorch's own tests do

    def memory(self) -> dict[str, int]:
        """Bytes that PyTorch's allocator has and gave, and how often it had to free its cache."""
        retries = torch.cuda.memory_stats().get("num_alloc_retries", 0)
        return {
            "reserved": torch.cuda.memory_reserved(),
            "allocated": torch.cuda.memory_allocated(),
            "retries": retries,
        }

    def most_reserved(self) -> int | None:
        return torch.cuda.max_memory_reserved()

    def empty_cache(self) -> None:
        torch.cuda.empty_cache()

    def zeros(self) -> torch.Tensor:
        """A number on the device."""
        return torch.zeros((), device=self.device)

    @contextmanager
    def no_waiting(self) -> Iterator[None]:
        """What waits for the device raises, in any thread."""
        try:
            _set_sync_debug_mode("error")
            yield
        finally:
            _set_sync_debug_mode("default")

    def graph(self, work: Callable[[], None], *, thread_local: bool = False) -> Callable[[], None]:
        """Captures work on static tensors as a CUDA graph; what replays it."""
        graph = torch.cuda.CUDAGraph()
        mode = "thread_local" if thread_local else "global"
        with torch.cuda.graph(graph, capture_error_mode=mode):
            work()
        return graph.replay

    @contextmanager
    def little_memory(self, more_bytes: int) -> Iterator[None]:
        """So much more of the device may be taken, and no more."""
        whole = torch.cuda.mem_get_info()[1]
        torch.cuda.set_per_process_memory_fraction(min(1.0, (torch.cuda.memory_reserved() + more_bytes) / whole))
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
            torch.cuda.empty_cache()

    def streams(self, count: int) -> list[Any]:
        return [torch.cuda.Stream() for _ in range(count)]

    def copy_gb_per_s(self, size_bytes: int = 256 << 20) -> float | None:
        """How fast one copy after the other goes from pinned memory."""
        host = torch.empty(size_bytes, dtype=torch.uint8, pin_memory=True)
        there = torch.empty(size_bytes, dtype=torch.uint8, device=self.device)
        seconds = self.seconds(lambda: there.copy_(host, non_blocking=True))
        return None if seconds is None else size_bytes / seconds / 1e9

    def seconds(self, work: Callable[[], object], times: int = 20) -> float | None:
        """How long the device takes for work that a thread queues, one after the other, once it is warm."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        work()
        begin.record()
        for _ in range(times):
            work()
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) / 1e3 / times


class Dry(Cuda):
    """Loaders deliver to the fake driver of the tests, and models work on the host. What cannot be measured so is None."""

    model_device = "cpu"
    is_dry = True

    def __init__(self, patch: Any) -> None:
        tests = str(Path(__file__).parents[1] / "tests")
        if tests not in sys.path:
            sys.path.insert(0, tests)
        from support.fake_cuda import FakeCuda

        self.fake = FakeCuda(patch)
        torch.set_num_threads(1)  # for models that are tiny

    def size(self, real: T, dry: T) -> T:
        return dry

    def synchronize(self) -> None:
        pass

    def sleep(self, cycles: int = 0) -> None:
        pass

    def memory(self) -> dict[str, int]:
        return {"reserved": self.fake.memory.reserved_bytes, "allocated": 0, "retries": 0}

    def most_reserved(self) -> int | None:
        return None

    def empty_cache(self) -> None:
        pass

    def zeros(self) -> torch.Tensor:
        return torch.zeros(())

    @contextmanager
    def no_waiting(self) -> Iterator[None]:
        before = len(self.fake.host_waits)
        yield
        assert "MainThread" not in self.fake.host_waits[before:]

    def graph(self, work: Callable[[], None], *, thread_local: bool = False) -> Callable[[], None]:
        import threading

        self.fake.capturing = None if thread_local else threading.get_ident()
        work()
        self.fake.capturing = None
        assert not self.fake.broken_captures
        return work

    @contextmanager
    def little_memory(self, more_bytes: int) -> Iterator[None]:
        allocate, limit = self.fake.memory.allocate, self.fake.memory.reserved_bytes + more_bytes

        def scarce(size: int, stream: Any) -> Any:
            if self.fake.memory.reserved_bytes + size > limit:
                raise torch.cuda.OutOfMemoryError("CUDA out of memory")
            return allocate(size, stream)

        self.fake.memory.allocate = scarce
        try:
            yield
        finally:
            self.fake.memory.allocate = allocate

    def streams(self, count: int) -> list[Any]:
        device = torch.device("cuda", 0)
        return [type(self.fake.current_stream())(device, number=100 + number) for number in range(count)]

    def copy_gb_per_s(self, size_bytes: int = 0) -> float | None:
        return None

    def seconds(self, work: Callable[[], object], times: int = 0) -> float | None:
        work()
        return None


def _set_sync_debug_mode(mode: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that it is a prototype, and is on by then
        torch.cuda.set_sync_debug_mode(mode)
