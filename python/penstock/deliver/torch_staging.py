"""Columns put together for a copy, where they do not lie in pinned memory yet or are small; and cut into steps behind it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import torch

from penstock.deliver import Take
from penstock.deliver.torch_cuda import PinnedSpans

#: Columns of up to so many bytes travel together; a copy of more takes longer than its start.
_SMALL_BYTES = 64 << 10
#: Where each begins in what travels together: as PyTorch's allocator has it, so that kernels can read whole lines.
_ALIGNMENT = 512
#: Slots are pinned from this size on.
_SMALLEST_SLOT = 4096
#: Steps of an item that are cut at once, in the consumer's thread.
_CUT_TOGETHER = 64


class _Place(NamedTuple):
    offset: int
    size: int
    dtype: torch.dtype
    shape: tuple[int, ...]


class Staged:
    """Tensors of the host, ready for copies that wait for nothing. `hosts` is what copies read from, to be kept until they are done."""

    def __init__(
        self, tensors: Mapping[Hashable, torch.Tensor], pinned: PinnedSpans | None = None, take: Take | None = None
    ) -> None:
        self.hosts: dict[Hashable, torch.Tensor] = dict(tensors)
        self._places: dict[Hashable, _Place] = {}
        self._turned: dict[Hashable, list[int]] = {}
        self._together: torch.Tensor | None = None
        if take is not None and pinned is not None:
            small = {key: tensor for key, tensor in tensors.items() if 0 < tensor.nbytes <= _SMALL_BYTES}
            if len(small) > 1 or any(tensor not in pinned for tensor in small.values()):
                self._pack(small, take)
            for key, tensor in self.hosts.items():
                if tensor.nbytes and tensor not in pinned:
                    self._pin(key, tensor, take)

    def _pack(self, small: Mapping[Hashable, torch.Tensor], take: Take) -> None:
        end = 0
        for key, tensor in small.items():
            self._places[key] = _Place(end, tensor.nbytes, tensor.dtype, tuple(tensor.shape))
            end += -(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT
            del self.hosts[key]
        self._together = torch.from_numpy(take(max(end, _SMALLEST_SLOT))[:end])
        for key, place in self._places.items():
            _seen_as(self._together, place).copy_(small[key])

    def _pin(self, key: Hashable, tensor: torch.Tensor, take: Take) -> None:
        tensor, self._turned[key] = in_order_of_memory(tensor)
        slot = torch.from_numpy(take(max(tensor.nbytes, _SMALLEST_SLOT)))
        self.hosts[key] = _seen_as(slot, _Place(0, tensor.nbytes, tensor.dtype, tuple(tensor.shape))).copy_(tensor)

    def moved(self, move: Callable[[torch.Tensor], torch.Tensor]) -> dict[Hashable, torch.Tensor]:
        """All of them on the device. move: begins one copy."""
        made = {key: move(host) for key, host in self.hosts.items()}
        for key, axes in self._turned.items():
            made[key] = made[key].permute(axes) if axes else made[key]
        if self._together is not None:
            together = move(self._together)
            # `data`: what is written in place into one does not count, for autograd, as written into the others.
            made |= {key: _seen_as(together, place).data for key, place in self._places.items()}
        return made

    @property
    def held(self) -> Any:
        """What copies read from."""
        return self.hosts, self._together


def in_order_of_memory(tensor: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
    """The same numbers with their axes in the order in which they lie, and the axes that lead back; none where that is no other order.

    For images in channels last, for example: a copy of it, turned back, has the strides of the tensor.
    """
    axes = sorted(range(tensor.dim()), key=lambda axis: (-tensor.stride(axis), axis))
    turned = tensor.permute(axes)
    if tensor.is_contiguous() or not turned.is_contiguous():
        return tensor, []
    return turned, [axes.index(axis) for axis in range(tensor.dim())]


def _seen_as(memory: torch.Tensor, place: _Place) -> torch.Tensor:
    return memory[place.offset : place.offset + place.size].view(place.dtype).view(place.shape)


def cutting(column: torch.Tensor, rows: int) -> Callable[[], torch.Tensor]:
    """A function that returns the next `rows` rows at each call. Many are cut by one call of PyTorch's: each releases the GIL."""
    together, parts = rows * _CUT_TOGETHER, list[torch.Tensor]()
    rest: torch.Tensor | None = column  # None with the last parts, which alone keep the memory then

    def take() -> torch.Tensor:
        nonlocal rest
        if not parts and rest is not None:
            # "unsafe": autograd does not count an in-place change of one part as a change of the others.
            parts.extend(reversed(rest[:together].unsafe_split(rows)))
            rest = rest[together:] if len(rest) > together else None
        return parts.pop()

    return take
