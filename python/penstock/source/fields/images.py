"""Images stored raw, as MDS and LitData write PIL images: u32 for width, height and the length of the mode's name, the name, the pixels."""

from __future__ import annotations

import numpy as np

from penstock.core.errors import PlanError, RowError
from penstock.core.spec import Ids, Spans
from penstock.source.fields.arrays import Shapes, array_leaf, peek, same
from penstock.source.fields.codec import Leaf

#: dtype and channels (0: no axis of channels) of PIL's modes that hold a whole number of bytes a pixel.
_MODES = {
    "L": ("uint8", 1),
    "LA": ("uint8", 2),
    "RGB": ("uint8", 3),
    "RGBA": ("uint8", 4),
    "CMYK": ("uint8", 4),
    "YCbCr": ("uint8", 3),
    "HSV": ("uint8", 3),
    "I;16": ("uint16", 0),
    "I": ("int32", 0),
    "F": ("float32", 0),
}
_WORDS = 12


class _PictureHeader:
    """Reads the headers; see the module."""

    def shapes(self, spans: Spans) -> Shapes:
        """(height, width, channels) of each row."""
        words = peek(spans, 0, "<u4", 3).astype(np.int64)
        length = same(words[:, 2], "a mode's name of length")
        if length > 8:
            raise RowError(0, f"a mode's name of {length} bytes", "the record is damaged")
        modes = peek(spans, _WORDS, f"S{max(length, 1)}", 1)[:, 0]
        mode = modes[0].decode("ascii", "replace")
        if (other := np.flatnonzero(modes != modes[0])).size:
            raise RowError(
                int(other[0]), f"an image of mode {modes[other[0]]!r} where others have {mode!r}", "write all alike"
            )
        if mode not in _MODES:
            raise PlanError(f"raw images of mode {mode!r} are not read; write them as png")
        dtype, channels = _MODES[mode]
        axes: Ids = words[:, 1::-1]
        if channels:
            axes = np.column_stack([axes, np.full(len(spans), channels, dtype=np.int64)])
        return Shapes(dtype, axes, np.full(len(spans), _WORDS + length, dtype=np.int64))


def picture_leaf(spans: Spans) -> Leaf:
    """Arrays of (height, width, channels), of one size; PlanError for images of several sizes."""
    leaf = array_leaf(_PictureHeader(), spans)
    if None in leaf.field.shape:
        raise PlanError("raw images of several heights; leave the column out, or write it as jpeg or png")
    return leaf
