"""Recipes that others wrote, as native ops: `published` has them by their names, and those that were written for other libraries.

`assemble` puts ops one after another, as far as they are native; `torchvision` (its classes in `torchvision_ops`) and `albumentations` say what each class of theirs is; `one_image` decodes for what runs as Python.
"""

from penstock.transform.image.recipes.albumentations import from_albumentations
from penstock.transform.image.recipes.published import Preset, presets
from penstock.transform.image.recipes.torchvision import from_torchvision

__all__ = ["Preset", "from_albumentations", "from_torchvision", "presets"]
