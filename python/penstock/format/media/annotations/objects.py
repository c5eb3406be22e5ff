"""What files of annotations say, before it is joined to the images that were read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.format.media.annotations.outlines import Outlines

#: Of values that a message shows.
SHOWN = 60


@dataclass(frozen=True, kw_only=True, eq=False)
class Annotations:
    """The images of annotations, and the objects in them.

    names: of the images, each once: their paths below the folder (or, with `are_stems`, without extensions). image: for each object, the number of its image.
    category: for each object, the number of its name in `categories`. values: more of each object. of_image: of each image, with the value
    for images that are not here. outlines: of the objects, if asked for. place: of the file that names an image, for messages.
    """

    names: Sequence[str]
    image: Ids
    category: Ids
    categories: Sequence[str]
    values: Mapping[str, np.ndarray[Any, Any]]
    places: Sequence[str] | str
    of_image: Mapping[str, tuple[Ids, int]] = field(default_factory=dict)
    outlines: Outlines | None = None
    are_stems: bool = False

    def place(self, image: int) -> str:
        """Where an image is named."""
        return f"{self.places}, images[{image}]" if isinstance(self.places, str) else self.places[image]


def shown(value: Any) -> str:
    """A value of a file for a message, cut if it is long."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
