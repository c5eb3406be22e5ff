"""Recipes that were written for other libraries, as native ops.

`assemble` puts ops one after another, as far as they are native; `torchvision` and `albumentations` say what each class of theirs is, `torchvision_ops` and `albumentations_ops` one by one.
"""

from penstock.transform.image.recipes.torchvision import from_torchvision

__all__ = ["from_torchvision"]
