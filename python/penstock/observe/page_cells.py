"""The cells of a page: a picture with what lies over it, or a few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

import numpy as np

from penstock.core.columns.overlay import Overlay
from penstock.observe.drawn_over import drawn_over
from penstock.observe.mask_colours import Undrawable, mask_colours
from penstock.observe.picture import SIDE, Picture, picture_of, picture_of_pixels

#: Bytes of all the pictures and drawings of a page; those beyond are only described.
_MOST_BYTES = 16_000_000


class Cells:
    """The cells of one page. overlays: by column, what is drawn over the pictures of another one. classes: names of classes, by label."""

    def __init__(self, overlays: Mapping[str, Overlay], classes: Sequence[str]) -> None:
        self._overlays, self._classes = overlays, classes
        self._left = _MOST_BYTES

    def of(self, name: str, row: Mapping[str, Any], words: str) -> str:
        """The cell of one column of a row, as HTML. words: what there is to say of it."""
        return self.picture(name, row, self._picture(name, row[name]), words)

    def picture(self, name: str, row: Mapping[str, Any], picture: Picture | None, words: str) -> str:
        """The same with a picture that is there already."""
        if picture is None:
            return escape(words)
        drawn = [
            drawn_over(column, overlay, row, picture.size, self._classes)
            for column, overlay in self._overlays.items()
            if overlay.of == name and column in row
        ]
        above = "".join(one.html for one in drawn)
        told = [note for note in (picture.note, *(one.note for one in drawn)) if note]
        notes = "".join(f"<br><small>{escape(note)}</small>" for note in told)
        source = picture.source
        self._left -= len(source) + len(above)
        if self._left < 0:
            return f"{escape(words)}<br><small>not shown: the page is large enough</small>"
        as_stored = ";image-orientation:none" if above else ""  # boxes are in the pixels of the file
        image = f'<img src="{source}" alt="{escape(words)}" title="{escape(words)}" style="max-width:{SIDE}px;max-height:{SIDE}px{as_stored}">'
        frame = "position:relative;display:inline-block;line-height:0"
        return f'<div style="{frame}">{image}{above}</div>{notes}' if above else f"{image}{notes}"

    def _picture(self, name: str, value: Any) -> Picture | None:
        overlay = self._overlays.get(name)
        if overlay is None:
            return picture_of(value)
        if overlay.kind == "mask" and isinstance(value, np.ndarray) and value.ndim == 3 and 1 in value.shape[::2]:
            return mask_picture(value if value.shape[0] == 1 else np.moveaxis(value, 2, 0))
        return None if isinstance(value, np.ndarray) else picture_of(value)


def mask_picture(mask: Any) -> Picture | None:
    """A mask of classes, (1, height, width), in their colours; None for what is none."""
    try:
        coloured, found = mask_colours(mask, mask.shape[1:])
    except Undrawable:
        return None
    pixels = np.where(coloured[:, :, 3:] > 0, coloured[:, :, :3], np.uint8(0))
    return replace(picture_of_pixels(pixels), size=mask.shape[1:], note=found)
