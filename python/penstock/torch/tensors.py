"""Tensors between processes: their bytes travel as those of arrays do, outside of the message; and whether two batches are the same."""

from __future__ import annotations

import copyreg
import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from penstock.processes.functions import dumps

_AS_INTEGERS = {torch.bfloat16: torch.int16}


def send_as_arrays() -> None:
    """From now on this process pickles tensors of the CPU as arrays. For worker processes, whose pickles are all ours."""
    copyreg.pickle(torch.Tensor, _reduced)


def _reduced(tensor: torch.Tensor) -> Any:
    is_plain = tensor.layout is torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized
    if not is_plain or tensor.requires_grad or tensor.is_conj() or tensor.is_neg():
        return tensor.__reduce_ex__(2)
    if vars(tensor):
        return tensor.__reduce_ex__(2)
    dtype = str(tensor.dtype).removeprefix("torch.")
    try:
        span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        if tensor.is_contiguous() or span > 2 * tensor.numel():
            return _from_array, (_array(tensor), dtype)
        flat = tensor.as_strided((span,), (1,))
        return _with_strides, (_array(flat), dtype, tuple(tensor.shape), tensor.stride())
    except TypeError:  # a dtype that NumPy has not
        return tensor.__reduce_ex__(2)


def _array(tensor: torch.Tensor) -> Any:
    as_integers = _AS_INTEGERS.get(tensor.dtype)
    return (tensor if as_integers is None else tensor.view(as_integers)).contiguous().numpy()


def _from_array(array: Any, dtype: str) -> torch.Tensor:
    if not array.flags.writeable:
        array = array.copy()
    tensor, wanted = torch.from_numpy(array), getattr(torch, dtype)
    return tensor if tensor.dtype == wanted else tensor.view(wanted)


def _with_strides(array: Any, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> torch.Tensor:
    return _from_array(array, dtype).as_strided(shape, strides)


def digest_of(batch: Any) -> bytes:
    """What a batch holds, as some bytes: equal for batches that are the same in types, shapes, strides and values."""
    found = hashlib.blake2b(digest_size=16)
    _feed(found, batch)
    return found.digest()


def _feed(found: Any, part: Any) -> None:
    found.update(type(part).__qualname__.encode())
    if isinstance(part, torch.Tensor) and part.layout is torch.strided and part.device.type == "cpu":
        strides = [stride for size, stride in zip(part.shape, part.stride(), strict=True) if size > 1]
        found.update(f"{part.dtype}{tuple(part.shape)}{strides}{part.requires_grad}".encode())
        try:
            found.update(np.ascontiguousarray(_array(part.detach())).view(np.uint8).data if part.numel() else b"")
        except TypeError:
            found.update(dumps(part))
    elif isinstance(part, np.ndarray) and part.dtype != object:
        found.update(f"{part.dtype}{part.shape}".encode() + part.tobytes())
    elif isinstance(part, Mapping):
        for key, value in part.items():
            _feed(found, key)
            _feed(found, value)
    elif isinstance(part, (list, tuple)):
        found.update(str(len(part)).encode())
        for one in part:
            _feed(found, one)
    elif isinstance(part, (str, int, float, bytes, bool, type(None))):
        found.update(repr(part).encode())
    elif hasattr(part, "__dict__") and not isinstance(part, type):
        _feed(found, vars(part))
    else:
        found.update(dumps(part))
