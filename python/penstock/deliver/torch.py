"""Batches as torch tensors: on the CPU without a copy, on CUDA by asynchronous copies from pinned slots."""

from __future__ import annotations

import difflib
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import PlanError, ProcessError
from penstock.core.installing import pip_install
from penstock.core.pixel_ops import PixelOps
from penstock.core.quoted import quoted
from penstock.core.spec import Field
from penstock.deliver.in_flight import InFlight
from penstock.deliver.numpy import parts_of

try:
    import torch
except ImportError as missing:
    raise PlanError(f"to='torch': PyTorch cannot be imported ({missing}); {pip_install('torch')}") from missing

from penstock.deliver.torch_pixels import PixelKernel, Pixels  # which imports it

#: Items whose copies may be under way at once: those in the hands of two threads, and two that wait for the consumer.
_MOST_IN_FLIGHT = 4

#: The class of errors on a device; older versions have none.
_DeviceError: Any = getattr(torch, "AcceleratorError", ())


class ToTorch:
    """Tensors on a device; text and ragged columns stay Arrow arrays on the host.

    CUDA: the slots are pinned. A worker thread starts the copies of an item on the loader's own stream, and behind them the kernel for
    images (see `torch_pixels`), and waits for neither: slots are used again once an event behind the copies has passed. The stream on
    which the consumer takes a batch waits for that event, on the device, and is recorded for the batch's memory
    (`record_stream`), which is not reused before the work queued there is done. "cuda" is the device that is current at
    construction.

    Not pinned, and slower to copy: columns made by a map, and columns of less than 4 KiB an item. Copies to other devices
    block.
    """

    def __init__(self, device: Any = None) -> None:
        self.device = _device("cpu" if device is None else device)
        self.copies, self.on_cuda = self.device.type != "cpu", self.device.type == "cuda"
        self._stream = torch.cuda.Stream(self.device) if self.on_cuda else None
        self._process = os.getpid()
        self._pixels = PixelKernel(self.device)
        self._in_flight = InFlight(_MOST_IN_FLIGHT)
        if self.on_cuda:
            # Copies that are under way when the loader is dropped still read from its slots.
            weakref.finalize(self, self._in_flight.wait)

    @property
    def on_device(self) -> Callable[[Any, Any, PixelOps], Any] | None:
        """On CUDA, puts off the end of a chain of image ops until the bytes are there."""
        return _pixels if self.on_cuda else None

    @property
    def new_memory(self) -> Any:
        """Allocates pinned memory for CUDA; None for ordinary memory."""
        return _pinned if self.on_cuda else None

    def ranks(self) -> None:
        """See `deliver.ranks`, which asks torch.distributed whatever the batches are."""

    def convert(self, column: Any, field: Field) -> Any:
        """One column of an item as a tensor on the host, sharing its memory."""
        if isinstance(column, pa.Array) or not isinstance(column, np.ndarray):
            return column
        if not column.flags.writeable or any(stride < 0 for stride in column.strides):
            column = column.copy()  # torch supports neither
        if field.dtype == "bfloat16":
            return torch.from_numpy(column.view(np.int16)).view(torch.bfloat16)
        if column.dtype in (np.uint16, np.uint32, np.uint64) and not hasattr(torch, column.dtype.name):
            raise PlanError(f"to='torch': this PyTorch has no {column.dtype}; cast the column to a signed dtype first")
        try:
            return torch.from_numpy(column)
        except TypeError:
            raise PlanError(
                f"to='torch': PyTorch has no dtype like NumPy's {column.dtype}; convert the column in a map"
            ) from None

    def finish(self, columns: dict[str, Any], rows: int) -> dict[str, Any]:
        """All columns of an item on the device; on CUDA, once the copies that this begins are done."""
        if not self.copies:
            return columns
        with _noting_device_errors():
            if not self.on_cuda:
                return {name: self._moved(column) for name, column in columns.items()}
            if os.getpid() != self._process:
                raise ProcessError(
                    "this loader uses CUDA, which does not work in a forked child; make the Loader in the child, and start children with the "
                    "'spawn' method"
                )
            self._in_flight.let_go()
            return self._move_on_stream(columns)

    def _move_on_stream(self, columns: dict[str, Any]) -> OnStream:
        # Set the device too: else leaving the stream would select device 0 for this thread, and make a context there.
        with torch.cuda.device(self.device), torch.cuda.stream(self._stream):
            copied = torch.cuda.Event(blocking=True)  # whoever does wait for it uses no core
            try:
                moved = OnStream({name: self._moved(column) for name, column in columns.items()})
            finally:  # after an error too: copies in flight still read from the slots
                copied.record(self._stream)
                self._in_flight.keep(copied, columns)
        moved.copied = copied
        return moved

    def _moved(self, column: Any) -> Any:
        """A column on the device."""
        if isinstance(column, Pixels):
            flags = None if column.flags is None else self._moved(column.flags)
            return self._pixels(self._moved(column.tensor), flags, column.ops)
        if isinstance(column, torch.Tensor):
            return column.to(self.device, non_blocking=self.on_cuda)
        return column

    def wait(self) -> None:
        """Waits for the copies that are under way, which read from slots."""
        self._in_flight.wait()

    def receive(self, columns: dict[str, Any]) -> dict[str, Any]:
        """All columns of an item, in the consumer's thread; for CUDA, its stream waits for the copies and is recorded for their memory."""
        if isinstance(columns, OnStream):
            with _noting_device_errors():
                stream = torch.cuda.current_stream(self.device)
                stream.wait_event(columns.copied)
                for column in columns.values():
                    if isinstance(column, torch.Tensor):
                        column.record_stream(stream)
        return columns

    def nested(self, values: torch.Tensor, offsets: torch.Tensor, shortest: int, longest: int) -> torch.Tensor:
        """A nested tensor in the jagged layout, whose row i is values[offsets[i] : offsets[i + 1]], sharing their memory."""
        return torch.nested.nested_tensor_from_jagged(values, offsets, min_seqlen=shortest, max_seqlen=longest)

    def parts(self, column: Any, rows: int) -> Callable[[], Any]:
        """A function that returns the column's next `rows` rows at each call. One call cuts all: each would release the GIL."""
        if not isinstance(column, torch.Tensor):
            return parts_of(column, rows)
        # "unsafe": autograd does not count an in-place change of one part as a change of the others.
        parts = [*reversed(column.unsafe_split(rows))]
        return self._taken_over(parts) if self.on_cuda else parts.pop

    def _taken_over(self, parts: list[Any]) -> Callable[[], Any]:
        """Returns the parts. `receive` did what the consumer's stream needs; a later stream is told here."""
        recorded = torch.cuda.current_stream(self.device)

        def take() -> Any:
            nonlocal recorded
            part, stream = parts.pop(), torch.cuda.current_stream(self.device)
            if stream != recorded:
                stream.wait_stream(self._stream)
                part.record_stream(stream)
                recorded = stream
            return part

        return take


class OnStream(dict[str, Any]):
    """Columns that are on the device once the event `copied` has passed."""

    copied: Any = None


@contextmanager
def _noting_device_errors() -> Iterator[None]:
    try:
        yield
    except _DeviceError as error:
        error.add_note(
            "penstock: earlier work on the device may have caused this error; CUDA_LAUNCH_BLOCKING=1 in the environment shows which. After it, "
            "a process cannot use CUDA any more: start again from the last checkpoint"
        )
        raise


def _pixels(column: Any, flags: Any, ops: PixelOps) -> Pixels:
    return Pixels(tensor=column, flags=None if flags is None else torch.from_numpy(flags), ops=ops)


def _device(wanted: Any) -> torch.device:
    """The requested device; PlanError if there is none."""
    try:
        device = None if isinstance(wanted, bool | float) else torch.device(wanted)
    except (RuntimeError, TypeError):
        device = None
    if device is None:
        close = _meant(wanted)
        hint = f"; did you mean {close!r}?" if close else ""
        raise PlanError(f"device={quoted(wanted)}: not a PyTorch device; write 'cpu', 'cuda' or 'cuda:1'{hint}")
    if device.type == "meta":
        raise PlanError(f"device={quoted(wanted)}: holds no data; use device='cpu'")
    if device.type == "cpu":
        return device
    if device.type != "cuda":
        return _usable(device, wanted)
    if getattr(torch.cuda, "_is_in_bad_fork", bool)():
        raise ProcessError(
            f"device={quoted(wanted)}: this process was forked from one that had used CUDA, where CUDA does not work; start it with the 'spawn' method"
        )
    if not torch.cuda.is_available():
        raise PlanError(f"device={quoted(wanted)}: {_why_no_cuda()}; use device='cpu'")
    index = torch.cuda.current_device() if device.index is None else device.index
    if index >= (count := torch.cuda.device_count()):
        raise PlanError(f"device={quoted(wanted)}: there are {count} CUDA devices, counted from 0; name one of these")
    return torch.device("cuda", index)


def _why_no_cuda() -> str:
    if not (torch.version.cuda or torch.version.hip):
        return f"this PyTorch ({torch.__version__}) is built without CUDA, so it sees no CUDA device"
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        if name in os.environ:
            return f"this PyTorch sees no CUDA device, and {name}={quoted(os.environ[name])} in the environment says which it may see"
    return "this PyTorch sees no CUDA device"


def _meant(wanted: Any) -> str:
    """The device whose name was probably misspelt; "" if none is similar."""
    kind, colon, index = str(wanted).lower().partition(":")
    if kind == "gpu":
        return f"cuda{colon}{index}"
    close = difflib.get_close_matches(kind.rstrip("0123456789"), ("cpu", "cuda", "mps", "xpu"), n=1)
    return f"{close[0]}{colon}{index}" if close else ""


def _usable(device: torch.device, wanted: Any) -> torch.device:
    """The device, which is neither CPU nor CUDA; PlanError if no tensor can be made on it."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, TypeError, ImportError, AssertionError):
        raise PlanError(
            f"device={quoted(wanted)}: this PyTorch ({torch.__version__}) sees no {device.type} device on this machine; use device='cpu'"
        ) from None
    return device


def _pinned(size: int) -> Any:
    """Pinned host memory, whatever the default device. If there is none left, PyTorch's cache of it is emptied first."""
    try:
        return torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=True).numpy()
    except RuntimeError:
        if not hasattr(torch, "accelerator") or not hasattr(torch.accelerator, "empty_host_cache"):
            raise
        torch.accelerator.empty_host_cache()
        return torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=True).numpy()


def group_of_all() -> Any:
    """The process group of all ranks, the same object as long as it lasts; None without one."""
    return torch.distributed.group.WORLD


def mesh_dimensions() -> list[str]:
    """Names of the dimensions of device meshes along which this process has peers; PyTorch keeps them as its groups' descriptions."""
    world = getattr(torch.distributed.distributed_c10d, "_world", None)  # nothing public lists groups
    groups = [group for group in getattr(world, "pg_map", ()) if group.size() > 1]
    found = [getattr(group, "group_desc", "") for group in groups]
    return [name.removeprefix("mesh_") for name in found if name.startswith("mesh_")]


def distributed_group(process_group: Any = None) -> tuple[int, int, Any] | None:
    """Rank, world size and store of a process group, by default the one of all ranks; None without torch.distributed."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        if process_group is not None:
            raise PlanError("process_group: torch.distributed is not initialised; call init_process_group first")
        return None
    if process_group is distributed.GroupMember.NON_GROUP_MEMBER:
        raise PlanError("process_group: this process is not in it; create the loader on its ranks only")
    group = distributed.group.WORLD if process_group is None else process_group
    if not isinstance(group, distributed.ProcessGroup):
        raise PlanError(
            f"process_group={quoted(group)}; pass what torch.distributed.new_group or DeviceMesh.get_group returns"
        )
    find_store = getattr(group, "get_group_store", None)  # not in older versions
    return distributed.get_rank(group), distributed.get_world_size(group), find_store() if find_store else None
