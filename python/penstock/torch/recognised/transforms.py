"""The transform of a dataset as native ops: what `from_torchvision` makes of it, where nothing of it differs."""

from __future__ import annotations

from typing import Any

from penstock.core.columns.spec import Field
from penstock.core.errors import PlanError
from penstock.transform import image as ops
from penstock.transform.image.recipes.torchvision import ends_as_pil, flat_steps, recipe_of
from penstock.transform.recipe import NATIVE

_ENCODED = Field("bytes")


class NotKnown(Exception):
    """Why a dataset is not recognised, as the message."""


def image_ops(transform: Any) -> tuple[ops.ImageOp, ...]:
    """The ops for a dataset's transform of RGB images, with the decoding; NotKnown where something has no native equivalent, or one with other pixels.

    Of Compose([Resize((8, 8)), ToTensor()]) these are Decode("RGB"), Resize((8, 8)), ToDtype("float32", scale=True).
    """
    steps = [] if transform is None else flat_steps(transform)
    try:
        recipe = recipe_of(steps, "pil", decode=ops.Decode(mode="RGB"), strict=True)  # as their loaders' convert("RGB")
        for step in recipe.steps:
            if step.how != NATIVE:
                raise NotKnown(f"{step.name} is {step.how}: {step.why}")
        if ends_as_pil(steps):
            raise NotKnown(
                "its transform gives PIL images, which no batch can hold; end it with ToTensor() or ToImage()"
            )
        found: tuple[Any, ...] = recipe.ops
        ops.fuse(found, _ENCODED, lambda: (8, 8))  # whether the chain works as a whole
    except PlanError as error:
        raise NotKnown(str(error)) from None
    return found
