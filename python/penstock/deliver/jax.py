"""Batches as JAX arrays: on one device, or as this process's part of global arrays of a sharding. The only file that imports JAX."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.columns.spec import Field
from penstock.core.errors import DataError, PlanError
from penstock.core.installing import pip_install
from penstock.core.messages import quoted
from penstock.deliver import Take
from penstock.deliver.numpy import parts_of

try:
    jax: Any = importlib.import_module("jax")  # untyped: it is not installed where mypy runs
except ImportError:
    raise PlanError(f"to='jax': JAX is not installed; run {pip_install('jax')}") from None

#: Without jax_enable_x64 JAX has these instead, and takes the low half of each number.
_NARROWED = {"int64": np.int32, "uint64": np.uint32}


class StepArrays(list[Any]):
    """The arrays of several steps, the last step first."""

    @property
    def nbytes(self) -> int:
        """Bytes of all of them."""
        return sum(array.nbytes for array in self)


class ToJax:
    """Delivers columns to a device, or as parts of global arrays.

    device: a `jax.Device`, "cpu", "gpu" or "gpu:1", or a `jax.sharding.Sharding` of the rows, such as
    NamedSharding(mesh, PartitionSpec("data")); JAX's default device if it is None. On the CPU, arrays share the loader's memory.
    """

    new_memory = None
    on_device = None
    on_host: frozenset[str] = frozenset()
    kernel = ""

    def __init__(self, device: Any = None) -> None:
        self._place = _place(device)
        first = next(iter(self._place.device_set)) if _is_sharding(self._place) else self._place or jax.devices()[0]
        self.copies = first.platform != "cpu"

    def thread_setup(self) -> None:
        """Threads need none."""

    def ranks(self) -> tuple[int, int] | None:
        """Which part of the rows this process takes, and of how many: equal for processes whose devices hold the same rows."""
        if _is_sharding(self._place):
            return _ranks_of(self._place)
        return process() if jax.process_count() > 1 else None

    def convert(self, column: Any, field: Field) -> Any:
        """One column of an item as an array that JAX takes, in a worker thread."""
        if isinstance(column, pa.Array) or not isinstance(column, np.ndarray):
            return column
        if field.dtype == "bfloat16":
            return column.view(jax.numpy.bfloat16)
        narrow = _NARROWED.get(column.dtype.name)
        if narrow is not None and not jax.config.jax_enable_x64:
            _check_range(column, np.iinfo(narrow))
        return column

    def finish(self, columns: dict[str, Any], rows: int, take: Take | None = None) -> dict[str, Any]:
        """All columns of an item on the device; as `StepArrays` where the item is several steps of so many rows."""
        return {
            name: self._moved(name, column, rows) if isinstance(column, np.ndarray) else column
            for name, column in columns.items()
        }

    def _moved(self, name: str, column: Any, rows: int) -> Any:
        if len(column) == rows:
            return self._array(name, column)
        return StepArrays(
            self._array(name, column[first : first + rows]) for first in range(len(column) - rows, -1, -rows)
        )

    def _array(self, name: str, column: Any) -> Any:
        try:
            if _is_sharding(self._place):
                return jax.make_array_from_process_local_data(self._place, column)
            return jax.device_put(column, self._place)
        except (TypeError, ValueError) as error:
            raise PlanError(
                f"to='jax': column {name!r}, {column.dtype} {column.shape}: {error}; with a sharding each batch needs rows for every device (use "
                f"batch(…, drop_last=True)), and other dtypes than numbers need a map"
            ) from error

    def wait(self) -> None:
        """Nothing is under way."""

    def receive(self, columns: dict[str, Any]) -> dict[str, Any]:
        """All columns of an item, in the consumer's thread."""
        return columns

    def parts(self, column: Any, rows: int) -> Callable[[], Any]:
        """A function that returns the column's next `rows` rows at each call."""
        return column.pop if isinstance(column, StepArrays) else parts_of(column, rows)


def _is_sharding(place: Any) -> bool:
    return isinstance(place, jax.sharding.Sharding)


def _place(device: Any) -> Any:
    """A device or a sharding; None for JAX's default."""
    if device is None:
        return jax.config.jax_default_device  # set for this thread perhaps, and batches are made in others
    if isinstance(device, jax.Device) or _is_sharding(device):
        return device
    if not isinstance(device, str):
        raise PlanError(
            f"device={quoted(device)}: pass a jax.Device, a jax.sharding.Sharding, or a name such as 'gpu:0'"
        )
    platform, _, index = device.partition(":")
    try:
        devices = jax.local_devices(backend=platform)
    except RuntimeError:
        raise PlanError(
            f"device={quoted(device)}: this JAX has no such device, but {', '.join(map(str, jax.devices()))}"
        ) from None
    if index and (not index.isdecimal() or len(index) > 6 or int(index) >= len(devices)):
        raise PlanError(f"device={quoted(device)}: there are {len(devices)} of {platform!r}, counted from 0")
    return devices[int(index or 0)]


def _check_range(column: Any, info: Any) -> None:
    if column.size and (column.min() < info.min or column.max() > info.max):
        raise DataError(
            f"to='jax': a column of {column.dtype} has numbers from {column.min()} to {column.max()}, of which JAX would keep the low 32 bits; "
            f"call jax.config.update('jax_enable_x64', True), or leave the column out"
        )


def _ranks_of(sharding: Any) -> tuple[int, int]:
    """The place of this process's rows among those of all processes, and how many different places there are."""
    rows = len(sharding.device_set)
    try:
        found = sharding.devices_indices_map((rows,))
    except ValueError as error:
        raise PlanError(
            f"device={sharding}: columns differ in their axes, so that only the rows can be divided: PartitionSpec('data') ({error})"
        ) from None
    taken: dict[int, set[int]] = {}
    for device, (part,) in found.items():
        taken.setdefault(device.process_index, set()).update(range(*part.indices(rows)))
    places = sorted({tuple(sorted(mine)) for mine in taken.values()})
    is_divided = sum(map(len, places)) == rows and all(
        one[-1] - one[0] + 1 == len(one) == len(places[0]) for one in places
    )
    if not is_divided:
        raise PlanError(
            f"device={sharding}: the rows of the processes overlap, or do not lie side by side; order the mesh's devices by process, as "
            f"jax.make_mesh does"
        )
    here = taken.get(jax.process_index())
    if here is None:
        raise PlanError(f"device={sharding}: none of its devices is this process's")
    return places.index(tuple(sorted(here))), len(places)


def process() -> tuple[int, int]:
    """The number of this process among those of JAX, and how many these are."""
    return jax.process_index(), jax.process_count()
