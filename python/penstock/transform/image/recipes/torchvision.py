"""torchvision's transforms as native ops, and as Python where they have none. Types are compared exactly, since a subclass may do anything."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from penstock.core.errors import PlanError
from penstock.transform.image.decode import Decode
from penstock.transform.image.geometry import RandomHorizontalFlip
from penstock.transform.image.nested import Compose, RandomApply, RandomChoice, RandomOrder
from penstock.transform.image.numbers import ToLayout
from penstock.transform.image.op import Chain, ImageOp
from penstock.transform.image.recipes.assemble import Made, NotNativeError, Workers, assembled, check_given
from penstock.transform.image.recipes.one_image import decoded
from penstock.transform.image.recipes.torchvision_ops import OPS
from penstock.transform.recipe import Recipe

#: Hooks of a module that would see or change what goes through it.
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
#: Methods that an object may hide behind attributes of its own.
_METHODS = ("forward", "transform", "make_params", "get_params", "_call_kernel", "_get_params")
#: What makes a tensor of a PIL image.
_OF_PIL = ("ToTensor", "PILToTensor", "ToImage")
_WITH_BOXES = ("RandomIoUCrop", "SanitizeBoundingBoxes", "SanitizeKeyPoints")
_ON_BATCHES = ("MixUp", "CutMix")
ON_BOXES_OR_BATCHES = (*_WITH_BOXES, *_ON_BATCHES)

#: Longer names are cut off.
_LONGEST_NAME = 80

#: What torchvision's datasets do with a file.
_AS_RGB = Decode("RGB")


def from_torchvision(
    transform: Any, *, decode: Decode | None = _AS_RGB, strict: bool = False, workers: Workers = "thread"
) -> Recipe:
    """Torchvision's transforms, v1 or v2, op by op as native ones: `transform(image=from_torchvision(v2.Compose([…])))`.

    What has a native op that does the same, with every argument, is native, up to the first that has none: a `Lambda`, a class of your own (also a subclass of torchvision's), an
    argument that ours do not have. From there on the recipe runs as Python, as a function of `map_rows` does: its random numbers are seeded by row, so batches repeat. A step before which images have
    several sizes cannot be left to Python alone, since a batch holds one: such a recipe begins as Python where they last had one size, or with the decoding. `explain()` and
    `print(recipe)` tell what became of each op, and why.

    The reference is what torchvision does to uint8 tensors. Ops before `ToTensor`, `PILToTensor` or `ToImage` get PIL images in torchvision, whose pixels differ for colours and warps: these are "native with
    another tolerance". Without any of the three, the recipe gets tensors; but for v1's `Lambda` behind `FiveCrop` or `TenCrop`, which in torchvision's own example makes tensors of them. Random ops have torchvision's distributions, and other numbers.

    Args:
        transform: a transform, v1's or v2's, a list of them, or `torch.nn.Sequential`.
        decode: how the column's files are decoded; None for a column of pixels, and for `From`. Default: Decode("RGB").
        strict: True raises a PlanError instead of running anything as Python. Default: False.
        workers: where what has no native op runs: "thread", "process" or "auto", as of `map_rows`. Default: "thread".

    Returns:
        A `Recipe`, for `Dataset.transform`.

    Raises:
        PlanError: for what is no transform, for ops on boxes or batches, and with `strict` where an op has no native one.

    Example:
        from torchvision.transforms import v2

        crop = v2.Compose([v2.RandomResizedCrop(64), v2.RandomHorizontalFlip(), v2.ToImage()])
        photos = ps.read("photos").transform(image=ps.image.from_torchvision(crop))
        photos.head(2)["image"].shape == (2, 3, 64, 64)
    """
    try:
        steps = flat_steps(transform)
        if not steps:
            raise PlanError(
                "from_torchvision: no transforms; give one such as v2.Compose([v2.RandomResizedCrop(224), v2.ToImage()])"
            )
        return recipe_of(steps, _begins(steps), decode=decode, strict=strict, workers=workers)
    except RecursionError:
        raise PlanError("from_torchvision: transforms that are nested too deep; write them side by side") from None


def recipe_of(
    steps: Sequence[Any], state: str, *, decode: Decode | None, strict: bool, workers: Workers = "thread"
) -> Recipe:
    """See `from_torchvision`. state: what the first of these gets, "pil" or "image"."""
    for step in steps:
        check_given(step, "torchvision", "v2.Compose([v2.RandomResizedCrop(224), v2.ToImage()])")
        _check_of_one_image(step)
    return assembled(_Torchvision(), steps, state, decode=decode, strict=strict, workers=workers)


def flat_steps(transform: Any) -> list[Any]:
    """The transforms in Compose and Sequential, one after another."""
    return list(_flat(transform))


def ends_as_pil(steps: Sequence[Any]) -> bool:
    """Whether steps that begin with PIL images end so."""
    names = [name for name in map(_known, steps) if name in (*_OF_PIL, "ToPILImage")]
    return not names or names[-1] == "ToPILImage"


def _begins(steps: Sequence[Any]) -> str:
    """What a recipe gets: PIL images, if anything makes tensors of them; else tensors."""
    names = list(map(_known, steps))
    first = next((name for name in names if name in (*_OF_PIL, "ToPILImage")), "")
    # torchvision's own example: FiveCrop(…), v1's Lambda(lambda crops: torch.stack([ToTensor()(crop) for crop in crops]))
    makes_tensors = any(
        name in ("FiveCrop", "TenCrop") and type(then).__module__ == "torchvision.transforms.transforms"
        for name, then in zip(names, steps[1:], strict=False)
        if _known(then) == "Lambda"
    )
    return "pil" if first in _OF_PIL or (makes_tensors and not first) else "image"


def _check_of_one_image(step: Any) -> None:
    name = _known(step)
    if name in _WITH_BOXES:
        raise PlanError(
            f"{name} works on boxes or points, which are columns of their own: write the chains by hand, transform(image=[…], boxes=[…])"
        )
    if name in _ON_BATCHES:
        raise PlanError(f"{name} works on whole batches: write batch(…).transform(ps.image.{name}(…, num_classes=…))")


def _flat(transform: Any) -> Iterator[Any]:
    for one in _inside(transform):
        if one is transform:
            yield one
        else:
            yield from _flat(one)


def _inside(transform: Any) -> list[Any]:
    if isinstance(transform, (list, tuple)):
        return list(transform)
    torch = sys.modules.get("torch")
    is_sequential = torch is not None and type(transform) is torch.nn.Sequential
    if (is_sequential or _known(transform) == "Compose") and not _touched(transform):
        return list(transform if is_sequential else transform.transforms)
    return [transform]


def _known(step: Any) -> str:
    """The name of one of torchvision's own classes; "" for all else. Its modules were imported, if anybody has an object of theirs."""
    kind = type(step)
    names = ("torchvision.transforms.transforms", "torchvision.transforms.autoaugment", "torchvision.transforms.v2")
    modules = [sys.modules[name] for name in names if name in sys.modules]
    return kind.__name__ if any(getattr(module, kind.__name__, None) is kind for module in modules) else ""


def _touched(step: Any) -> bool:
    """Whether it has hooks, or methods of its own."""
    has = vars(step)
    return any(has.get(name) for name in _HOOKS) or any(name in has for name in _METHODS)


class _Torchvision:
    """See `Library`."""

    def made(self, step: Any, state: str, chain: Chain) -> Made:
        """See `Library`."""
        name = _known(step)
        if name not in OPS and name not in _NESTED:
            raise NotNativeError("it has no native equivalent")
        if _touched(step):
            raise NotNativeError("it has hooks, or methods of its own")
        made = _NESTED[name](self, step, state, chain) if name in _NESTED else OPS[name](step, state, chain)
        if state == "pil" and made.state is None and not chain.numbers.is_raw:
            raise NotNativeError("a PIL image of floats")
        return made

    def name(self, step: Any, *, is_native: bool) -> str:
        """See `Library`."""
        if not is_native:
            return str(getattr(step, "__qualname__", type(step).__qualname__))
        text = " ".join(repr(step).split())
        return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 2]} …"

    def last(self, _: str) -> tuple[ImageOp, ...]:
        """See `Library`: channels come first, as in torchvision."""
        return ()

    def handed(self, state: str) -> tuple[ImageOp, ...]:
        """See `Library`: PIL images have channels last."""
        return (ToLayout("NHWC"),) if state == "pil" else ()

    def function(self, steps: tuple[Any, ...], state: str, decode: Decode | None, chain: Chain) -> Callable[[Any], Any]:
        """See `Library`."""
        return TorchvisionEnd(steps, state, decode, chain.layout if decode is None else "NHWC")

    def inside(self, steps: Sequence[Any], state: str, chain: Chain) -> list[Made]:
        """What a container's transforms become."""
        found = [self.made(one, state, chain) for one in steps]
        if any(made.state not in (None, state) for made in found):
            raise NotNativeError("a change from images to tensors inside of it")
        return found


def _compose(library: _Torchvision, step: Any, state: str, chain: Chain) -> Made:
    found = library.inside(_inside(step), state, chain)
    ops = _one_after_another(found)
    return Made((Compose(ops),) if ops else (), _differs(found))


def _random_apply(library: _Torchvision, step: Any, state: str, chain: Chain) -> Made:
    found = library.inside([one for each in step.transforms for one in _flat(each)], state, chain)
    ops = _one_after_another(found)
    return Made((RandomApply(ops, float(step.p)),) if ops else (), _differs(found))


def _random_choice(library: _Torchvision, step: Any, state: str, chain: Chain) -> Made:
    found = library.inside(step.transforms, state, chain)
    shares = None if step.p is None else tuple(step.p)
    return Made((RandomChoice([as_one(made.ops) for made in found], shares),), _differs(found))


def _random_order(library: _Torchvision, step: Any, state: str, chain: Chain) -> Made:
    found = library.inside(step.transforms, state, chain)
    return Made((RandomOrder([as_one(made.ops) for made in found]),), _differs(found))


def _one_after_another(found: Sequence[Made]) -> list[ImageOp]:
    return [op for made in found for op in made.ops]


def _differs(found: Sequence[Made]) -> str:
    return "; ".join(dict.fromkeys(made.differs for made in found if made.differs))


def as_one(ops: Sequence[ImageOp]) -> ImageOp:
    """Several ops as one; of none, one that changes nothing."""
    if not ops:
        return RandomHorizontalFlip(p=0.0)
    return ops[0] if len(ops) == 1 else Compose(ops)


_NESTED: dict[str, Callable[[_Torchvision, Any, str, Chain], Made]] = {
    "Compose": _compose,
    "RandomApply": _random_apply,
    "RandomChoice": _random_choice,
    "RandomOrder": _random_order,
}


class TorchvisionEnd:
    """torchvision's transforms on one image, as an array in and out. state, layout: of what it gets, as a batch holds it."""

    def __init__(self, transforms: Sequence[Any], state: str, decode: Decode | None, layout: str) -> None:
        self.transforms, self.state, self.decode, self.layout = tuple(transforms), state, decode, layout

    def __call__(self, value: Any) -> Any:
        """What the transforms make of pixels, or with `decode` of a file's bytes."""
        pixels = np.array(value) if self.decode is None else decoded(value, self.decode)
        made = self._given(pixels)
        for transform in self.transforms:
            made = transform(made)
        return as_array(made)

    def _given(self, pixels: Any) -> Any:
        torch = sys.modules["torch"]
        is_last = self.layout == "NHWC"
        if self.state == "pil":
            from PIL import Image

            return Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
        tensor = torch.from_numpy(np.ascontiguousarray(np.moveaxis(pixels, -1, 0)) if is_last else pixels)
        if self.state == "tensor":
            return tensor
        return import_module("torchvision.tv_tensors").Image(tensor)


def as_array(made: Any) -> Any:
    """What a batch can hold of a transform's result: several images are stacked, and a PIL image becomes (channels, rows, columns)."""
    if isinstance(made, (list, tuple)):
        return np.stack([np.asarray(as_array(one)) for one in made])
    if hasattr(made, "getbands"):
        pixels = np.asarray(made)
        return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(np.moveaxis(pixels, -1, 0))  # grey
    torch = sys.modules["torch"]
    return made.detach().as_subclass(torch.Tensor) if isinstance(made, torch.Tensor) else made
