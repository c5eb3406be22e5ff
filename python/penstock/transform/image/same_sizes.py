"""Ops of several columns that draw together must meet images of one size, where what they draw depends on it: a mask is cut as its image is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.core.errors import RowError
from penstock.core.messages import quoted
from penstock.transform.family import Drawing

#: (height, width) of images.
Sizes: TypeAlias = npt.NDArray[np.uint32]

_DO = (
    "draws='together' cuts the same part out of both, so make them one size before that op, for example with Resize((height, width)) in both chains, "
    "or repair the files"
)


def unequal_sizes(drawings: Sequence[Drawing], sizes: Callable[[Drawing], dict[int, Sizes]]) -> list[RowError]:
    """An error for each row of which two columns differ in size where they draw the same numbers, in ascending order. sizes: where each op of a chain meets its images."""
    keys = [one.keys.stage for one in drawings]
    first, found = dict[tuple[int, int], tuple[str, Sizes]](), dict[int, RowError]()
    for one in drawings:
        if keys.count(one.keys.stage) == 1:
            continue
        for number, mine in sizes(one).items():
            other, wanted = first.setdefault((one.keys.stage, number), (one.name, mine))
            is_there = mine.all(axis=1) & wanted.all(axis=1)  # the kernel says what is wrong with what is no image
            for row in np.flatnonzero(is_there & (mine != wanted).any(axis=1)).tolist():
                text = f"{quoted(other)} is {_size(wanted[row])} where a part is drawn, and {quoted(one.name)} is {_size(mine[row])}"
                found.setdefault(row, RowError(row, text, _DO))
    return [found[row] for row in sorted(found)]


def _size(size: Sizes) -> str:
    return f"{size[1]} × {size[0]} pixels (width × height)"
