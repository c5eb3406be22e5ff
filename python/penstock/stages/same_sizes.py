"""Ops of several columns that draw together must meet images of one size, where what they draw depends on it: a mask is cut as its image is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.core.errors import RowError
from penstock.core.quoted import quoted
from penstock.core.spec import Column, Ids
from penstock.transform.image import ImageKernel

#: (height, width) of images.
Sizes: TypeAlias = npt.NDArray[np.uint32]

_DO = (
    "draws='together' cuts the same part out of both, so make them one size before that op, for example with Resize((height, width)) in both chains, "
    "or repair the files"
)


class Drawing(NamedTuple):
    """A column, its kernel, and the key by which it draws."""

    name: str
    column: Column
    kernel: ImageKernel
    key: int


def unequal_sizes(drawings: Sequence[Drawing], samples: Ids) -> list[RowError]:
    """An error for each row of which two columns differ in size where they draw the same numbers, in ascending order."""
    keys = [one.key for one in drawings]
    first, found = dict[tuple[int, int], tuple[str, Sizes]](), dict[int, RowError]()
    for one in drawings:
        if keys.count(one.key) == 1:
            continue
        for number, sizes in one.kernel.sizes(one.column, samples, one.key).items():
            other, wanted = first.setdefault((one.key, number), (one.name, sizes))
            is_there = sizes.all(axis=1) & wanted.all(axis=1)  # the kernel says what is wrong with what is no image
            for row in np.flatnonzero(is_there & (sizes != wanted).any(axis=1)).tolist():
                text = f"{quoted(other)} is {_size(wanted[row])} where a part is drawn, and {quoted(one.name)} is {_size(sizes[row])}"
                found.setdefault(row, RowError(row, text, _DO))
    return [found[row] for row in sorted(found)]


def _size(size: Sizes) -> str:
    return f"{size[1]} × {size[0]} pixels (width × height)"
