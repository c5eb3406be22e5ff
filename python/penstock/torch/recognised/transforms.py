"""torchvision's transforms (v1 and v2) as native image ops; types are compared exactly, since a subclass may do anything."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from penstock.core.columns.spec import Field
from penstock.core.errors import PlanError
from penstock.transform import image as ops

#: Hooks of a module that would see or change what goes through it.
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
#: Methods that an object may hide behind attributes of its own.
_METHODS = ("forward", "transform", "make_params", "get_params", "_call_kernel", "_get_params")


class NotKnown(Exception):
    """Why a dataset is not recognised, as the message."""


def image_ops(transform: Any) -> tuple[ops.ImageOp, ...]:
    """The ops for a dataset's transform of RGB images, with the decoding; NotKnown where something has no native equivalent.

    Of Compose([Resize((8, 8)), ToTensor()]) these are Decode("RGB"), Resize((8, 8)), ToDtype("float32", scale=True).
    """
    found: list[ops.ImageOp] = [ops.Decode(mode="RGB")]  # as their loaders' convert("RGB")
    is_tensor = False
    for step in _flat(transform):
        name = _name(step)
        if name in _TO_TENSOR:
            if is_tensor and name != "ToImage":
                raise NotKnown(f"{name} of what is a tensor already")
            is_tensor = True
        elif name in _OF_TENSORS and not is_tensor:
            raise NotKnown(f"{name} before the image is a tensor")
        try:
            found += _OPS[name](step, is_tensor)
        except PlanError as error:
            raise NotKnown(f"{name}: {error}") from None
    if not is_tensor:
        raise NotKnown("its transform gives PIL images, which no batch can hold; end it with ToTensor() or ToImage()")
    try:  # whether the chain works as a whole
        ops.fuse(found, _ENCODED, lambda: (8, 8))
    except PlanError as error:
        raise NotKnown(str(error)) from None
    return tuple(found)


def _flat(transform: Any) -> Iterator[Any]:
    if transform is None:
        return
    if type(transform) is torch.nn.Sequential:
        _check_untouched(transform)
        inner = list(transform)
    elif any(type(transform) is getattr(module, "Compose", None) for module in _modules()):
        _check_untouched(transform)
        inner = list(transform.transforms)
    else:
        yield transform
        return
    for one in inner:
        yield from _flat(one)


def _modules() -> list[Any]:
    """Torchvision's modules, if they were imported: nobody has a transform of theirs otherwise."""
    names = ("torchvision.transforms.transforms", "torchvision.transforms.v2")
    return [sys.modules[name] for name in names if name in sys.modules]


def _name(step: Any) -> str:
    kind = type(step)
    if kind.__name__ not in _OPS or not any(getattr(module, kind.__name__, None) is kind for module in _modules()):
        raise NotKnown(f"{kind.__qualname__} has no native equivalent")
    _check_untouched(step)
    return kind.__name__


def _check_untouched(step: Any) -> None:
    has = vars(step)
    if any(has.get(name) for name in _HOOKS) or any(name in has for name in _METHODS):
        raise NotKnown(f"{type(step).__qualname__} has hooks, or methods of its own")


# One function a transform: (transform, whether the image is a tensor) -> ops


def _filter(step: Any, is_tensor: bool) -> str:
    name = str(getattr(step.interpolation, "value", step.interpolation))
    if name not in ("bilinear", "bicubic"):
        raise NotKnown(f"{type(step).__name__} with interpolation {name!r}")
    if is_tensor and step.antialias is not True:
        raise NotKnown(f"{type(step).__name__} of a tensor without antialias")
    return name


def _resize(step: Any, is_tensor: bool) -> list[ops.ImageOp]:
    size: Any = list(step.size) if isinstance(step.size, (list, tuple)) else step.size
    chosen: Any = {"interpolation": _filter(step, is_tensor), "max_size": step.max_size}
    return [ops.Resize(size, **chosen)]


def _random_resized_crop(step: Any, is_tensor: bool) -> list[ops.ImageOp]:
    chosen: Any = {"interpolation": _filter(step, is_tensor)}
    return [ops.RandomResizedCrop(tuple(step.size), scale=tuple(step.scale), ratio=tuple(step.ratio), **chosen)]


def _grayscale(step: Any, is_tensor: bool) -> list[ops.ImageOp]:
    if is_tensor or step.num_output_channels != 3:
        raise NotKnown("Grayscale of a tensor, or to one channel")
    return [ops.RandomGrayscale(1.0)]


def _random_grayscale(step: Any, is_tensor: bool) -> list[ops.ImageOp]:
    if is_tensor:
        raise NotKnown("RandomGrayscale of a tensor")
    return [ops.RandomGrayscale(float(step.p))]


def _to_tensor(_: Any, __: bool) -> list[ops.ImageOp]:
    if torch.get_default_dtype() is not torch.float32:
        raise NotKnown("ToTensor gives torch's default dtype, which is not float32")
    return [ops.ToDtype("float32", scale=True)]


def _to_dtype(step: Any, _: bool) -> list[ops.ImageOp]:
    if step.dtype is not torch.float32:
        raise NotKnown(f"{type(step).__name__} to {step.dtype}")
    return [ops.ToDtype("float32", scale=bool(getattr(step, "scale", True)))]


def _normalize(step: Any, _: bool) -> list[ops.ImageOp]:
    mean, std = (torch.as_tensor(given, dtype=torch.float64).reshape(-1).tolist() for given in (step.mean, step.std))
    return [ops.ToDtype("float32"), ops.Normalize(mean, std)]


_ENCODED = Field("bytes")
_OPS: dict[str, Callable[[Any, bool], list[ops.ImageOp]]] = {
    "Resize": _resize,
    "CenterCrop": lambda step, _: [ops.CenterCrop(tuple(step.size))],
    "RandomResizedCrop": _random_resized_crop,
    "RandomHorizontalFlip": lambda step, _: [ops.RandomHorizontalFlip(float(step.p))],
    "RandomVerticalFlip": lambda step, _: [ops.RandomVerticalFlip(float(step.p))],
    "Grayscale": _grayscale,
    "RandomGrayscale": _random_grayscale,
    "ToTensor": _to_tensor,
    "PILToTensor": lambda _, __: [],
    "ToImage": lambda _, __: [],
    "ConvertImageDtype": _to_dtype,
    "ToDtype": _to_dtype,
    "Normalize": _normalize,
}
_TO_TENSOR = ("ToTensor", "PILToTensor", "ToImage")
_OF_TENSORS = ("ConvertImageDtype", "ToDtype", "Normalize")
