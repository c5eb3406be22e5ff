"""torchvision's classes (v1 and v2), each as native ops: a function a class, (transform, state, mode) -> Made.

state: what the transform gets: "pil", a PIL image; "image", a tv_tensors.Image; "tensor", a plain tensor.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from penstock.transform.image import colour, crops, erasing, geometry, jitter, margins, policies, quality, sizes, warps
from penstock.transform.image.nested import RandomApply
from penstock.transform.image.numbers import Normalize, ToDtype
from penstock.transform.image.op import Chain, ImageOp
from penstock.transform.image.recipes.assemble import Made, NotNativeError

#: Pillow's numbers of interpolations.
_PILLOW = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}

_WARPED = "of PIL images, which Pillow warps by other arithmetic: some pixels are their neighbours"
_COLOURED = "of PIL images: tensors' arithmetic, up to 2 levels off"
_HUE = "of PIL images: tensors' arithmetic, up to 2 levels off, and hue up to 20"


def interpolation_of(step: Any) -> str:
    """The interpolation's name, however it was given."""
    given = getattr(step.interpolation, "value", step.interpolation)
    return _PILLOW.get(given, str(given)) if isinstance(given, int) else str(given)


def _resampling(step: Any, state: str) -> dict[str, Any]:
    name = interpolation_of(step)
    if name not in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        raise NotNativeError(f"interpolation {name!r}")
    if state == "pil":
        return {"interpolation": "nearest" if name == "nearest-exact" else name}
    if name == "nearest":
        raise NotNativeError('interpolation "nearest" of tensors takes the pixel above and to the left of the centre')
    if step.antialias is None:
        raise NotNativeError("antialias=None, which depends on torchvision's version")
    return {"interpolation": name, "antialias": bool(step.antialias)}


def _warped(step: Any, state: str) -> dict[str, Any]:
    return {"interpolation": interpolation_of(step), "fill": fill_of(step, state)}


def of_kind(given: dict[Any, Any], state: str) -> Any:
    """What a dict by kinds of inputs says of this one; NotNativeError where it says nothing."""
    kinds = {"pil": "PIL.Image.Image", "image": "torchvision.tv_tensors._image.Image", "tensor": "torch.Tensor"}
    for kind, value in given.items():
        if isinstance(kind, type) and f"{kind.__module__}.{kind.__qualname__}" == kinds[state]:
            return value
    if "others" not in given:
        raise NotNativeError("a dict that says nothing of such images")
    return given["others"]


def fill_of(step: Any, state: str) -> Any:
    """The fill for images, as a number, several or None."""
    fill = of_kind(step.fill, state) if isinstance(step.fill, dict) else step.fill
    return tuple(fill) if isinstance(fill, list) else fill


def _pair(value: Any) -> Any:
    return tuple(value) if isinstance(value, (list, tuple)) else value


def _pixels(op: ImageOp, differs: str = "") -> Made:
    return Made((op,), differs)


def _resize(step: Any, state: str, _: Chain) -> Made:
    if step.size is None:
        raise NotNativeError("size=None, with the longer side as max_size")
    size: Any = list(step.size) if isinstance(step.size, (list, tuple)) else step.size
    return _pixels(geometry.Resize(size, max_size=step.max_size, **_resampling(step, state)))


def _random_resized_crop(step: Any, state: str, _: Chain) -> Made:
    return _pixels(
        geometry.RandomResizedCrop(
            _pair(step.size), scale=_pair(step.scale), ratio=_pair(step.ratio), **_resampling(step, state)
        )
    )


def _pad(step: Any, state: str, _: Chain) -> Made:
    return _pixels(margins.Pad(_pair(step.padding), fill=fill_of(step, state), padding_mode=_text(step.padding_mode)))


def _random_crop(step: Any, state: str, _: Chain) -> Made:
    padding = None if step.padding is None else _pair(step.padding)
    chosen: Any = {"fill": fill_of(step, state), "padding_mode": _text(step.padding_mode)}
    return _pixels(
        margins.RandomCrop(_pair(step.size), padding=padding, pad_if_needed=bool(step.pad_if_needed), **chosen)
    )


def _random_rotation(step: Any, state: str, _: Chain) -> Made:
    op = warps.RandomRotation(
        _pair(step.degrees), expand=bool(step.expand), center=_pair(step.center), **_warped(step, state)
    )
    return _pixels(op, _of_pil(state, _WARPED))


def _random_affine(step: Any, state: str, _: Chain) -> Made:
    moved: Any = {name: _pair(getattr(step, name)) for name in ("translate", "scale", "shear", "center")}
    return _pixels(warps.RandomAffine(_pair(step.degrees), **moved, **_warped(step, state)), _of_pil(state, _WARPED))


def _random_perspective(step: Any, state: str, _: Chain) -> Made:
    op = warps.RandomPerspective(float(step.distortion_scale), float(step.p), **_warped(step, state))
    return _pixels(op, _of_pil(state, _WARPED))


def _elastic(step: Any, state: str, _: Chain) -> Made:
    return _pixels(warps.ElasticTransform(_pair(step.alpha), _pair(step.sigma), **_warped(step, state)))


def _of_many_sizes(kind: Callable[..., ImageOp], *names: str) -> Callable[[Any, str, Chain], Made]:
    def made(step: Any, state: str, _: Chain) -> Made:
        return _pixels(kind(*(_pair(getattr(step, name)) for name in names), **_resampling(step, state)))

    return made


def _zoom_out(step: Any, state: str, _: Chain) -> Made:
    return _pixels(margins.RandomZoomOut(fill_of(step, state), _pair(step.side_range), float(step.p)))


def _grayscale(step: Any, state: str, chain: Chain) -> Made:
    channels = int(step.num_output_channels)
    if state != "pil":
        return _pixels(colour.Grayscale(channels))
    if channels == chain.channels:  # Pillow's grey of colours
        return _pixels(colour.RandomGrayscale(1.0))
    return _pixels(colour.Grayscale(channels), "of PIL images: tensors' grey, up to 1 level darker")


def _random_grayscale(step: Any, state: str, chain: Chain) -> Made:
    if state == "pil" or chain.mode == "L":
        return _pixels(colour.RandomGrayscale(float(step.p)))
    return _pixels(RandomApply([colour.Grayscale(3)], float(step.p)))


def _color_jitter(step: Any, state: str, _: Chain) -> Made:
    factors: Any = {name: _pair(getattr(step, name)) for name in ("brightness", "contrast", "saturation", "hue")}
    return _pixels(jitter.ColorJitter(**factors), _of_pil(state, _HUE if factors["hue"] else _COLOURED))


def _distort(step: Any, state: str, _: Chain) -> Made:
    factors: Any = {name: _pair(getattr(step, name)) for name in ("brightness", "contrast", "saturation", "hue")}
    return _pixels(jitter.RandomPhotometricDistort(**factors, p=float(step.p)), _of_pil(state, _HUE))


def _blur(step: Any, _: str, __: Chain) -> Made:
    return _pixels(quality.GaussianBlur(_pair(step.kernel_size), _pair(step.sigma)))


def _noise(step: Any, state: str, _: Chain) -> Made:
    if state == "pil":
        raise NotNativeError("of PIL images, which torchvision refuses")
    return _pixels(quality.GaussianNoise(step.mean, step.sigma, step.clip))


def _sharpness(step: Any, state: str, _: Chain) -> Made:
    op = quality.RandomAdjustSharpness(float(step.sharpness_factor), float(step.p))
    return _pixels(op, _of_pil(state, _COLOURED))


def _autocontrast(step: Any, state: str, _: Chain) -> Made:
    return _pixels(colour.RandomAutocontrast(float(step.p)), _of_pil(state, "of PIL images: up to 1 level off"))


def _policy(kind: Callable[..., ImageOp], *names: str) -> Callable[[Any, str, Chain], Made]:
    def made(step: Any, state: str, _: Chain) -> Made:
        op = kind(*(getattr(step, name) for name in names), **_warped(step, state))
        is_of_tensors = kind is policies.AugMix  # whatever it gets
        return _pixels(op, "" if is_of_tensors else _of_pil(state, "of PIL images: tensors' arithmetic, see its ops"))

    return made


def _erasing(step: Any, state: str, _: Chain) -> Made:
    if state == "pil":
        raise NotNativeError("of PIL images, which torchvision does not erase")
    value = "random" if step.value is None else step.value
    return _pixels(erasing.RandomErasing(float(step.p), _pair(step.scale), _pair(step.ratio), _pair(value)))


def _by_p(kind: Callable[..., ImageOp], *names: str) -> Callable[[Any, str, Chain], Made]:
    return lambda step, _, __: _pixels(kind(*(getattr(step, name) for name in names), p=float(step.p)))


def _normalize(step: Any, state: str, chain: Chain) -> Made:
    if state == "pil" or chain.numbers.is_raw:
        raise NotNativeError("of bytes, which torchvision refuses; put ToDtype(torch.float32, scale=True) before it")
    mean, std = (
        given.detach().reshape(-1).tolist() if hasattr(given, "detach") else given for given in (step.mean, step.std)
    )
    return _pixels(Normalize(mean, std), _of_half(chain.numbers.dtype))


def _of_half(dtype: str) -> str:
    return "" if dtype == "float32" else f"{dtype}, rounded once, at the end of the chain"


def to_dtype(dtype: Any, scale: bool, state: str, chain: Chain) -> Made:
    """A change of dtype, where it is one."""
    name = str(dtype).removeprefix("torch.")
    if state == "pil":
        raise NotNativeError("before the image is a tensor")
    if dtype is None or name == chain.numbers.dtype:
        return Made(())
    if name not in ("uint8", "float16", "bfloat16", "float32"):
        raise NotNativeError(f"to {dtype}")
    return _pixels(ToDtype(name, scale=scale), "" if name == "uint8" else _of_half(name))


def _to_dtype(step: Any, state: str, chain: Chain) -> Made:
    dtype = of_kind(step.dtype, state) if isinstance(step.dtype, dict) else step.dtype
    return to_dtype(dtype, bool(getattr(step, "scale", True)), state, chain)


def _to_tensor(_: Any, state: str, chain: Chain) -> Made:
    if state != "pil":
        raise NotNativeError("of what is a tensor already")
    dtype = sys.modules["torch"].get_default_dtype()
    return to_dtype(dtype, scale=True, state="tensor", chain=chain)._replace(state="tensor")


def _pil_to_tensor(_: Any, state: str, __: Chain) -> Made:
    if state != "pil":
        raise NotNativeError("of what is a tensor already")
    return Made((), state="tensor")


def _to_pil(step: Any, _: str, chain: Chain) -> Made:
    if not chain.numbers.is_raw or step.mode not in (None, chain.mode):
        raise NotNativeError("of floats, or to another mode")
    return Made((), state="pil")


def _rgb(_: Any, __: str, chain: Chain) -> Made:
    if chain.mode not in ("RGB", "L"):
        raise NotNativeError(f'of images of mode "{chain.mode}"')
    return Made(()) if chain.mode == "RGB" else _pixels(colour.Grayscale(3))


def _of_boxes(step: Any, _: str, __: Chain) -> Made:
    """What changes boxes or points alone, and of an image nothing."""
    return Made((), f"of an image nothing: write {type(step).__name__}() into the chain of the boxes")


def _of_pil(state: str, differs: str) -> str:
    return differs if state == "pil" else ""


def _text(value: Any) -> Any:
    return getattr(value, "value", value)


_POLICY = ("num_magnitude_bins",)
_AUG_MIX = ("severity", "mixture_width", "chain_depth", "alpha", "all_ops")
OPS: dict[str, Callable[[Any, str, Chain], Made]] = {
    "Resize": _resize,
    "CenterCrop": lambda step, _, __: _pixels(geometry.CenterCrop(_pair(step.size))),
    "RandomResizedCrop": _random_resized_crop,
    "FiveCrop": lambda step, _, __: _pixels(crops.FiveCrop(_pair(step.size))),
    "TenCrop": lambda step, _, __: _pixels(crops.TenCrop(_pair(step.size), bool(step.vertical_flip))),
    "RandomHorizontalFlip": _by_p(geometry.RandomHorizontalFlip),
    "RandomVerticalFlip": _by_p(geometry.RandomVerticalFlip),
    "Pad": _pad,
    "RandomCrop": _random_crop,
    "RandomRotation": _random_rotation,
    "RandomAffine": _random_affine,
    "RandomPerspective": _random_perspective,
    "ElasticTransform": _elastic,
    "RandomResize": _of_many_sizes(sizes.RandomResize, "min_size", "max_size"),
    "RandomShortestSize": _of_many_sizes(sizes.RandomShortestSize, "min_size", "max_size"),
    "ScaleJitter": _of_many_sizes(sizes.ScaleJitter, "target_size", "scale_range"),
    "RandomZoomOut": _zoom_out,
    "Grayscale": _grayscale,
    "RandomGrayscale": _random_grayscale,
    "ColorJitter": _color_jitter,
    "RandomPhotometricDistort": _distort,
    "RandomChannelPermutation": lambda _, __, ___: _pixels(jitter.RandomChannelPermutation()),
    "RandomInvert": _by_p(colour.RandomInvert),
    "RandomSolarize": _by_p(colour.RandomSolarize, "threshold"),
    "RandomPosterize": _by_p(colour.RandomPosterize, "bits"),
    "RandomEqualize": _by_p(colour.RandomEqualize),
    "RandomAutocontrast": _autocontrast,
    "RandomAdjustSharpness": _sharpness,
    "GaussianBlur": _blur,
    "GaussianNoise": _noise,
    "JPEG": lambda step, _, __: _pixels(quality.JPEG(_pair(step.quality))),
    "AutoAugment": _policy(policies.AutoAugment, "policy"),
    "RandAugment": _policy(policies.RandAugment, "num_ops", "magnitude", *_POLICY),
    "TrivialAugmentWide": _policy(policies.TrivialAugmentWide, *_POLICY),
    "AugMix": _policy(policies.AugMix, *_AUG_MIX),
    "RandomErasing": _erasing,
    "Normalize": _normalize,
    "ToDtype": _to_dtype,
    "ConvertImageDtype": _to_dtype,
    "ToTensor": _to_tensor,
    "PILToTensor": _pil_to_tensor,
    "ToImage": lambda _, __, ___: Made((), state="image"),
    "ToPureTensor": lambda _, state, __: Made((), state="pil" if state == "pil" else "tensor"),
    "ToPILImage": _to_pil,
    "RGB": _rgb,
    "Identity": lambda _, __, ___: Made(()),
    "ClampBoundingBoxes": _of_boxes,
    "ClampKeyPoints": _of_boxes,
    "ConvertBoundingBoxFormat": _of_boxes,
    "SetClampingMode": _of_boxes,
}
