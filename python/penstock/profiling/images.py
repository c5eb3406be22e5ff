"""Images of a column: sizes by their headers, and which are broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.cpus import usable_cpus
from penstock.core.images.by_library import HEAD_BYTES
from penstock.core.images.encoded import image_size, rgb_of
from penstock.core.images.heads import is_image
from penstock.core.images.wanted import WantedPixels
from penstock.core.messages import printable

#: Values by which a column of bytes is taken for one of images, and how many of them must be.
_LOOKED_AT, _ENOUGH = 64, 0.5
#: Broken files that are named, and different sizes that are counted.
_NAMED, _MOST_SIZES = 20, 1 << 16


def are_images(column: Any) -> bool:
    """Whether the first values of a column of bytes begin as files of images do."""
    heads = [value for value in column[:_LOOKED_AT].to_pylist() if value]
    return bool(heads) and sum(is_image(head[:HEAD_BYTES]) for head in heads) >= _ENOUGH * len(heads)


class Images:
    """Of a column. decodes: whether each is decoded, or its header read."""

    def __init__(self, *, decodes: bool) -> None:
        self._decodes = decodes
        self._sizes = Counter[tuple[int, int]]()
        self._broken = list[tuple[int, str, str]]()
        self._broken_count, self._is_full = 0, False

    def add(self, column: pa.Array, rows: Sequence[int], place: Callable[[int], tuple[str, int]]) -> None:
        """Takes the files of some rows; rows: their ids. place: where a row of the block lies."""
        with ThreadPoolExecutor(usable_cpus() if self._decodes else 1) as pool:
            for number, size in enumerate(pool.map(self._size_of, column)):
                if isinstance(size, str):
                    self._broken_count += 1
                    self._broken.append((int(rows[number]), place(number)[0], printable(size)))
                elif size is not None and not self._is_full:
                    self._sizes[size] += 1
        self._broken = sorted(self._broken)[:_NAMED]
        if len(self._sizes) > _MOST_SIZES:
            self._is_full = True

    def _size_of(self, value: pa.Scalar) -> tuple[int, int] | str | None:
        """Height and width, or what is wrong; None where there is no image."""
        if not value.is_valid:
            return None
        data = value.as_py()
        try:
            size = image_size(data)
            if self._decodes:
                rgb_of(data, WantedPixels(window="full"))
        except ValueError as error:
            return str(error)
        return size

    @property
    def facts(self) -> dict[str, Any]:
        """Plain values."""
        sizes = [] if self._is_full else sorted(self._sizes.items())
        found: dict[str, Any] = {
            "checked_by": "decoding" if self._decodes else "header",
            "broken": self._broken_count,
            "broken_first": [{"row": row, "where": where, "found": what} for row, where, what in self._broken],
            "different_sizes": None if self._is_full else len(sizes),
        }
        if sizes:
            counts = np.array([count for _, count in sizes])
            for axis, name in enumerate(("height", "width")):
                values = np.array([size[axis] for size, _ in sizes])
                order = np.argsort(values, kind="stable")
                ends = np.cumsum(counts[order])
                middle = int(values[order][np.searchsorted(ends, (ends[-1] - 1) // 2, side="right")])
                found[name] = {"least": int(values.min()), "median": middle, "greatest": int(values.max())}
            often = sorted(sizes, key=lambda one: (-one[1], one[0]))[:10]
            found["most_frequent"] = [{"height": h, "width": w, "count": count} for (h, w), count in often]
        return found
