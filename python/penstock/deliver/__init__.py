"""Delivery of batches: one file for each framework, the only one that imports it."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from penstock.core.arguments import is_one_of
from penstock.core.columns.pixel_ops import PixelOps
from penstock.core.columns.spec import Field
from penstock.core.errors import PlanError
from penstock.core.messages import quoted

#: Gives memory of a number of bytes from which copies to the device are fast: an array of uint8.
Take = Callable[[int], Any]


class Deliver(Protocol):
    """Turns the columns of an item into arrays or tensors of the user's framework."""

    @property
    def new_memory(self) -> Any:
        """Allocates memory for the slots (see `runtime.slots`); None for ordinary memory."""

    @property
    def copies(self) -> bool:
        """Whether `finish` copies to a device's memory."""

    @property
    def on_device(self) -> Callable[[Any, Mapping[str, Any], PixelOps], Any] | None:
        """What `finish` takes of a converted column of uint8 images, on which the device does ops; None where it does none. Between: what the rows drew, by kind (see `stages.moved_ops`)."""

    @property
    def on_host(self) -> frozenset[str]:
        """Columns that the host converts, so that nothing is left to the device for them."""

    @property
    def kernel(self) -> str:
        """What applies these ops on the device, in words."""

    def thread_setup(self) -> Callable[[], None] | None:
        """What each thread that makes batches does first; asked for in the consumer's thread."""

    def ranks(self) -> tuple[int, int] | None:
        """The rank and the number of ranks that the framework itself knows; None where others say so."""

    def convert(self, column: Any, field: Field) -> Any:
        """One converted column, in a worker thread."""

    def finish(self, columns: dict[str, Any], rows: int, take: Take | None = None) -> dict[str, Any]:
        """All converted columns, in a worker thread: of one step, or of several with `rows` rows each. take: gives more of `new_memory`."""

    def wait(self) -> None:
        """Waits for copies to a device that are under way, and releases what they read; when the loader stops."""

    def receive(self, columns: dict[str, Any]) -> dict[str, Any]:
        """All columns, in the consumer's thread, before its first batch."""

    def parts(self, column: Any, rows: int) -> Callable[[], Any]:
        """A function that returns the next `rows` rows of a received column at each call. The parts alone keep its memory alive."""


def open_deliver(to: str, device: Any, *, pin_memory: bool = False) -> Deliver:
    """The delivery to a framework: "numpy", "torch" or "jax"; PlanError if it is not installed."""
    if not isinstance(pin_memory, bool):
        raise PlanError(f"pin_memory={quoted(pin_memory)}; write True or False")
    if pin_memory and not is_one_of(to, ("torch",)):
        raise PlanError(f"pin_memory=True with to={quoted(to)}: PyTorch alone pins memory; write to='torch'")
    if is_one_of(to, ("numpy",)):
        if device is not None and str(device).partition(":")[0] != "cpu":
            raise PlanError(
                f"to='numpy' delivers to the CPU, not to device={quoted(device)}; use to='torch' or to='jax'"
            )
        from penstock.deliver.numpy import ToNumpy

        return ToNumpy()
    if is_one_of(to, ("torch",)):
        module = importlib.import_module("penstock.deliver.torch")
        return module.ToTorch(device, pin_memory=True) if pin_memory else module.ToTorch(device)  # type: ignore[no-any-return]
    if is_one_of(to, ("jax",)):
        module = importlib.import_module("penstock.deliver.jax")
        return module.ToJax(device)  # type: ignore[no-any-return]
    close = difflib.get_close_matches(quoted(to).strip("'"), ("numpy", "torch", "jax"), n=1)
    raise PlanError(
        f"to={quoted(to)}; choose 'numpy', 'torch' or 'jax'{f'; did you mean {close[0]!r}?' if close else ''}"
    )


def with_conversions(deliver: Deliver, to: str, convert: Any) -> Any:
    """The delivery with some columns converted (see `Loader`); itself, where none are."""
    if convert is None:
        return deliver
    from penstock.deliver.converting import Converting  # which is a Deliver

    return Converting(deliver, to, convert)
