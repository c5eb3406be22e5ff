"""Batches as torch tensors: on the CPU without a copy, on CUDA by asynchronous copies from pinned slots."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from penstock.core.columns.pixel_ops import PixelOps
from penstock.core.columns.spec import Field
from penstock.core.errors import PlanError, ProcessError
from penstock.core.installing import pip_install
from penstock.core.messages import quoted
from penstock.deliver import Take
from penstock.deliver.in_flight import InFlight
from penstock.deliver.numpy import parts_of

try:
    import torch
except ImportError as missing:
    raise PlanError(f"to='torch': PyTorch cannot be imported ({missing}); {pip_install('torch')}") from missing

# These import it.
from penstock.deliver import torch_mixes
from penstock.deliver.torch_cuda import Pinned, copy_stream, work_on, working_on
from penstock.deliver.torch_device import device_of as _device
from penstock.deliver.torch_pinned import can_pin, pinned_copy
from penstock.deliver.torch_pixels import PixelKernel, Pixels
from penstock.deliver.torch_staging import Staged, cutting

#: Items whose copies may be under way at once: those in the hands of two threads, and two that wait for the consumer.
_MOST_IN_FLIGHT = 4
#: Items that the consumer took and its stream may not have come to. The allocator cannot use the memory of any item before this one again.
_MOST_AHEAD = 4

_ColumnsT = TypeVar("_ColumnsT", bound=dict[str, Any])

#: The class of errors on a device; older versions have none.
_DeviceError: Any = getattr(torch, "AcceleratorError", ())


class ToTorch:
    """Tensors on a device; text and ragged columns stay Arrow arrays on the host.

    CUDA: the slots are pinned, and columns that lie elsewhere are copied into some. A worker thread starts the copies of an item on the
    process's stream for that, and behind them the kernel for images (see `torch_pixels`), and waits for neither: slots are used again once an
    event behind the copies has passed. The stream on which the consumer takes a batch waits for the item's event, on the device, and is
    recorded for the batch's memory (`record_stream`), which is not reused before the work queued there is done: so a worker thread that would
    copy waits while that stream has many items before it. "cuda" is the device that is current at construction.

    pin_memory: batches for the CPU are in pinned memory, for a training that moves them itself. PyTorch's allocator gives that, since it
    alone knows when such copies are done. Copies to other devices block.
    """

    on_host: frozenset[str] = frozenset()

    def __init__(self, device: Any = None, *, pin_memory: bool = False) -> None:
        self.device = _device("cpu" if device is None else device)
        self.copies, self.on_cuda = self.device.type != "cpu", self.device.type == "cuda"
        self._pins = pin_memory and not self.copies and can_pin()
        self._stream = copy_stream(self.device) if self.on_cuda else None
        self._memory = Pinned(self.device) if self.on_cuda else None
        self._process = os.getpid()
        self._pixels = PixelKernel(self.device)
        self._in_flight, self._ahead = InFlight(_MOST_IN_FLIGHT), InFlight(_MOST_AHEAD)
        self._received: Any = None  # the event of the item that the consumer took last
        if self.on_cuda:
            # Copies that are under way when the loader is dropped still read from its slots.
            weakref.finalize(self, _wait, self._in_flight, self.device)

    @property
    def on_device(self) -> Callable[[Any, Mapping[str, Any], PixelOps], Any] | None:
        """On CUDA, puts off the end of a chain of image ops until the bytes are there."""
        return _pixels if self.on_cuda else None

    @property
    def kernel(self) -> str:
        """What does the end of chains of image ops, in words."""
        return self._pixels.name

    @property
    def new_memory(self) -> Any:
        """Allocates pinned memory for CUDA; None for ordinary memory."""
        return self._memory

    def thread_setup(self) -> Callable[[], None] | None:
        """Threads work on the loader's device; where memory is pinned for another's copies, on the one that is current here."""
        if self._process != os.getpid() or not (self.on_cuda or self._pins):
            return None
        return partial(work_on, self.device if self.on_cuda else torch.device("cuda", torch.cuda.current_device()))

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

    def finish(self, columns: dict[str, Any], rows: int, take: Take | None = None) -> dict[str, Any]:
        """All columns of an item on the device; on CUDA, once the copies that this begins are done. take: gives pinned memory."""
        if not self.copies:
            return {name: pinned_copy(column) for name, column in columns.items()} if self._pins else columns
        with _noting_device_errors():
            if not self.on_cuda:
                moved = Staged(_hosts_of(columns)).moved(self._moved)
                return self._done({**columns}, moved)
            if os.getpid() != self._process:
                raise ProcessError(
                    "this loader uses CUDA, which does not work in a forked child; make the Loader in the child, and start children with the "
                    "'spawn' method"
                )
            with working_on(self.device):
                self._in_flight.let_go()
                self._ahead.let_go()
                return self._move_on_stream(columns, take)

    def _move_on_stream(self, columns: dict[str, Any], take: Take | None) -> OnStream:
        assert self._memory is not None
        staged = Staged(_hosts_of(columns), self._memory.spans(), take)
        with torch.cuda.stream(self._stream):
            copied = torch.cuda.Event(blocking=True)  # whoever does wait for it uses no core
            try:
                moved = staged.moved(self._moved)
            finally:  # after an error too: copies in flight still read from the slots
                copied.record(self._stream)
                self._in_flight.keep(copied, (columns, staged.held))
            made = self._done(OnStream(columns), moved)
            made.done = copied
            if any(isinstance(column, Pixels) for column in columns.values()):
                made.done = torch.cuda.Event()  # slots need not wait for the kernel, which comes behind the training's
                made.done.record(self._stream)
        return made

    def _moved(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self.device, non_blocking=self.on_cuda)

    def _done(self, columns: _ColumnsT, moved: Mapping[Any, torch.Tensor]) -> _ColumnsT:
        """The columns, with those on the device in the place of the host's."""
        for name, column in columns.items():
            if isinstance(column, Pixels):
                columns[name] = self._made(moved[name], {kind: moved[name, kind] for kind in column.drawn}, column.ops)
            elif name in moved:
                columns[name] = moved[name]
        return columns

    def _made(self, pixels: torch.Tensor, drawn: Mapping[str, torch.Tensor], ops: PixelOps) -> torch.Tensor:
        images = self._pixels(pixels, drawn.get("flags"), drawn.get("patches"), ops)
        if "partners" in drawn:
            torch_mixes.mix(images, ops.layout_to, drawn["partners"], drawn.get("weights"), drawn.get("cuts"))
        return images

    def wait(self) -> None:
        """Waits for the copies that are under way, which read from slots."""
        if not self._in_flight.is_empty:  # at the interpreter's end, where this module is empty, none is
            _wait(self._in_flight, self.device)

    def receive(self, columns: dict[str, Any]) -> dict[str, Any]:
        """All columns of an item, in the consumer's thread; for CUDA, its stream waits for the copies and is recorded for their memory."""
        if isinstance(columns, OnStream):
            with _noting_device_errors():
                stream = torch.cuda.current_stream(self.device)
                behind = torch.cuda.Event(blocking=True)
                behind.record(stream)
                self._ahead.keep(behind, None)
                stream.wait_event(columns.done)
                tensors = [column for column in columns.values() if isinstance(column, torch.Tensor)]
                for column in {tensor.untyped_storage().data_ptr(): tensor for tensor in tensors}.values():
                    column.record_stream(stream)
            self._received = columns.done
        return columns

    def nested(self, values: torch.Tensor, offsets: torch.Tensor, shortest: int, longest: int) -> torch.Tensor:
        """A nested tensor in the jagged layout, whose row i is values[offsets[i] : offsets[i + 1]], sharing their memory."""
        return torch.nested.nested_tensor_from_jagged(values, offsets, min_seqlen=shortest, max_seqlen=longest)

    def parts(self, column: Any, rows: int) -> Callable[[], Any]:
        """A function that returns the column's next `rows` rows at each call. Many are cut by one call: each releases the GIL."""
        if not isinstance(column, torch.Tensor):
            return parts_of(column, rows)
        take = cutting(column, rows)
        return self._taken_over(take) if self.on_cuda else take

    def _taken_over(self, take: Callable[[], Any]) -> Callable[[], Any]:
        """Returns the parts. `receive` did what the consumer's stream needs; a later stream is told here."""
        recorded, done = torch.cuda.current_stream(self.device), self._received

        def take_over() -> Any:
            nonlocal recorded
            part, stream = take(), torch.cuda.current_stream(self.device)
            if stream != recorded:
                stream.wait_event(done)
                part.record_stream(stream)
                recorded = stream
            return part

        return take_over


class OnStream(dict[str, Any]):
    """Columns that are on the device once the event `done` has passed."""

    done: Any = None


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


def _wait(in_flight: InFlight, device: torch.device) -> None:
    with suppress(RuntimeError), working_on(device):  # a device that is lost reads no more
        in_flight.wait()


def _hosts_of(columns: dict[str, Any]) -> dict[Any, torch.Tensor]:
    """What is to be copied of an item, by the column's name; what images drew by (name, kind)."""
    found: dict[Any, torch.Tensor] = {}
    for name, column in columns.items():
        if isinstance(column, Pixels):
            found[name] = column.tensor
            found |= {(name, kind): drawn for kind, drawn in column.drawn.items()}
        elif isinstance(column, torch.Tensor):
            found[name] = column
    return found


def _pixels(column: Any, drawn: Mapping[str, Any], ops: PixelOps) -> Pixels:
    return Pixels(tensor=column, drawn={kind: torch.from_numpy(one) for kind, one in drawn.items()}, ops=ops)


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
