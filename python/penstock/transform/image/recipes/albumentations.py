"""Albumentations' transforms as native ops where these are the same, and as Python where they are not. Types are compared exactly."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from penstock.core.errors import PlanError
from penstock.transform.image import colour, geometry, jitter, margins
from penstock.transform.image.decode import Decode
from penstock.transform.image.nested import RandomApply, RandomChoice
from penstock.transform.image.numbers import Normalize, ToDtype, ToLayout
from penstock.transform.image.op import Chain, ImageOp
from penstock.transform.image.recipes.assemble import Made, NotNativeError, Workers, assembled, check_given
from penstock.transform.image.recipes.one_image import decoded
from penstock.transform.image.recipes.torchvision import as_one
from penstock.transform.recipe import Recipe

#: OpenCV's numbers of interpolations that ours have. Its INTER_NEAREST takes the pixel above and to the left of the centre.
_OPENCV = {1: "bilinear", 6: "nearest-exact"}

_LONGEST_NAME = 80
_AS_RGB = Decode("RGB")


def from_albumentations(
    transform: Any, *, decode: Decode | None = _AS_RGB, strict: bool = False, workers: Workers = "thread"
) -> Recipe:
    """Albumentations' transforms, op by op as native ones: `transform(image=from_albumentations(A.Compose([…])))`.

    Native are those that are the same, with every argument: HorizontalFlip, VerticalFlip, Resize and RandomResizedCrop by INTER_LINEAR, RandomCrop, Normalize, ToFloat, InvertImg, ChannelShuffle,
    ToTensorV2, NoOp, and OneOf, Sequential and Compose around them. The first other one ends the native part: it and what follows run as Python, as `from_torchvision` says, each row with random
    numbers of its own; `Compose(seed=…)` counts for nothing. Without ToTensorV2, channels come last, as there. The reference is Albumentations 2.0.8.

    Args:
        transform: `A.Compose`, or another transform.
        decode: how the column's files are decoded; None for a column of pixels. Default: Decode("RGB").
        strict: True raises a PlanError instead of running anything as Python. Default: False.
        workers: where what has no native op runs: "thread", "process" or "auto", as of `map_rows`. Default: "thread".

    Returns:
        A `Recipe`, for `Dataset.transform`.

    Raises:
        PlanError: for what is no transform, for a Compose with boxes, points or other targets, and with `strict` where an op has no native one.

    Example:
        import albumentations as A

        crop = A.Compose([A.RandomResizedCrop((64, 64)), A.HorizontalFlip(), A.ToTensorV2()])
        photos = ps.read("photos").transform(image=ps.image.from_albumentations(crop))
        photos.head(2)["image"].shape == (2, 3, 64, 64)
    """
    check_given(transform, "Albumentations", "A.Compose([A.HorizontalFlip()])")
    if _known(transform) == "Compose":
        if transform.processors or transform.additional_targets:
            raise PlanError(
                "from_albumentations: a Compose with boxes, points or other targets, which are columns of their own: write the chains by hand, transform(image=[…], mask=[…])"
            )
        steps = list(transform.transforms) if transform.p == 1 else [transform]
    else:
        steps = [transform]
    return assembled(_Albumentations(), steps, "array", decode=decode, strict=strict, workers=workers)


def _known(step: Any) -> str:
    """The name of one of Albumentations' own classes; "" for all else."""
    kind, module = type(step), sys.modules.get("albumentations")
    return kind.__name__ if getattr(module, kind.__name__, None) is kind else ""


def _sampled(step: Any) -> dict[str, Any]:
    if step.interpolation not in _OPENCV:
        raise NotNativeError(f"interpolation={step.interpolation} of OpenCV")
    return {"interpolation": _OPENCV[step.interpolation], "antialias": False}


def _crop(step: Any) -> ImageOp:
    return geometry.RandomResizedCrop(
        tuple(step.size), scale=tuple(step.scale), ratio=tuple(step.ratio), **_sampled(step)
    )


def _random_crop(step: Any) -> ImageOp:
    if step.pad_if_needed:
        raise NotNativeError("pad_if_needed=True, which pads by other widths than ours")
    return margins.RandomCrop((step.height, step.width))


def _normalize(step: Any) -> list[ImageOp]:
    if step.normalization != "standard":
        raise NotNativeError(f"normalization={step.normalization!r}")
    mean, std = (np.atleast_1d(np.asarray(one, np.float64)) * step.max_pixel_value for one in (step.mean, step.std))
    return [ToDtype("float32"), Normalize(mean.tolist(), std.tolist())]


def _to_float(step: Any) -> list[ImageOp]:
    if step.max_value not in (None, 255):
        raise NotNativeError(f"max_value={step.max_value}")
    return [ToDtype("float32", scale=True)]


#: A function a class: the op or the ops where it is applied.
_OPS: dict[str, Callable[[Any], ImageOp | list[ImageOp]]] = {
    "HorizontalFlip": lambda _: geometry.RandomHorizontalFlip(1.0),
    "VerticalFlip": lambda _: geometry.RandomVerticalFlip(1.0),
    "Resize": lambda step: geometry.Resize((step.height, step.width), **_sampled(step)),
    "RandomResizedCrop": _crop,
    "RandomCrop": _random_crop,
    "Normalize": _normalize,
    "ToFloat": _to_float,
    "InvertImg": lambda _: colour.RandomInvert(1.0),
    "ChannelShuffle": lambda _: jitter.RandomChannelPermutation(),
    "ToTensorV2": lambda _: [],
    "NoOp": lambda _: [],
}


class _Albumentations:
    """See `Library`. The states: "array", and "tensor" behind ToTensorV2."""

    def made(self, step: Any, state: str, chain: Chain) -> Made:
        """See `Library`."""
        name = _known(step)
        if state == "tensor":
            raise NotNativeError("of a tensor, behind ToTensorV2")
        if name in ("Normalize", "ToFloat") and not chain.numbers.is_raw:
            raise NotNativeError("of floats")
        ops = self._ops(step, p=float(step.p) if hasattr(step, "p") else 1.0)
        return Made(tuple(ops), state="tensor" if name == "ToTensorV2" else None)

    def _ops(self, step: Any, p: float) -> list[ImageOp]:
        """What a transform becomes. p: its probability, which a OneOf around it forces to 1."""
        name = _known(step)
        if name == "OneOf":
            ops: Any = [
                RandomChoice([as_one(self._ops(one, 1.0)) for one in step.transforms], list(step.transforms_ps))
            ]
        elif name in ("Compose", "Sequential"):
            ops = [op for one in step.transforms for op in self._ops(one, float(one.p))]
        elif name in _OPS:
            made = _OPS[name](step)
            ops = made if isinstance(made, list) else [made]
        else:
            raise NotNativeError("it has no native equivalent")
        if p == 1 or not ops:
            return list(ops)
        if (
            type(ops[0]) in (geometry.RandomHorizontalFlip, geometry.RandomVerticalFlip, colour.RandomInvert)
            and len(ops) == 1
        ):
            return [type(ops[0])(p)]
        return [RandomApply(ops, p)]

    def name(self, step: Any, *, is_native: bool) -> str:
        """See `Library`."""
        kind = str(getattr(step, "__qualname__", type(step).__qualname__))
        text = " ".join(repr(step).split()) if is_native else kind
        return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 2]} …"

    def last(self, state: str) -> tuple[ImageOp, ...]:
        """See `Library`: channels come last, but for tensors."""
        return () if state == "tensor" else (ToLayout("NHWC"),)

    def handed(self, state: str) -> tuple[ImageOp, ...]:
        """See `Library`."""
        return self.last(state)

    def function(self, steps: tuple[Any, ...], state: str, decode: Decode | None, chain: Chain) -> Callable[[Any], Any]:
        """See `Library`."""
        return AlbumentationsEnd(steps, decode, is_tensor=state == "tensor")


class AlbumentationsEnd:
    """Albumentations' transforms on one image, in one Compose, whose generators are seeded for each row."""

    def __init__(self, transforms: Sequence[Any], decode: Decode | None, *, is_tensor: bool) -> None:
        if is_tensor or not all(_known(one) or hasattr(one, "p") for one in transforms):
            raise PlanError("from_albumentations: transforms behind ToTensorV2; put it last")
        self.compose, self.decode = sys.modules["albumentations"].Compose(deepcopy(list(transforms))), decode

    def __call__(self, value: Any) -> Any:
        """What the transforms make of pixels, or with `decode` of a file's bytes."""
        pixels = np.array(value) if self.decode is None else decoded(value, self.decode)
        return self.compose(image=pixels)["image"]
