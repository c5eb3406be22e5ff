"""The end of a chain that a device can do: bytes cross the bus, and flips, Normalize, ToDtype and ToLayout run there.

split([Decode(), RandomResizedCrop(224), RandomHorizontalFlip(), Normalize(IMAGENET)], Field("bytes")).host ==
    (Decode(), RandomResizedCrop(224), ToLayout("NCHW"))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.core.columns.pixel_ops import FIRST_TABLE, MOST_TABLES, PixelOps
from penstock.core.columns.spec import Field, Ids
from penstock.transform.image.decode import Decode
from penstock.transform.image.kernel import chain_of, numbers_of
from penstock.transform.image.numbers import Normalize, ToDtype, ToLayout
from penstock.transform.image.op import ImageOp, TableOp

_NUMBERS = (Normalize, ToDtype, ToLayout)

_GOLDEN = np.uint64(0x9E37_79B9_7F4A_7C15)


@dataclass(frozen=True, kw_only=True)
class DeviceSplit:
    """A chain in two parts. host: the ops that stay, which give uint8; none where the pixels are delivered as they are.

    moved: those of the device, as written. drawn: for each random op among them its number in the chain, its probability and its bit.
    """

    host: tuple[ImageOp, ...]
    moved: tuple[ImageOp, ...]
    drawn: tuple[tuple[int, float, int], ...]
    pixels: PixelOps

    @property
    def words(self) -> str:
        """The ops of the device, for people."""
        return ", ".join(type(op).__name__ for op in self.moved)

    def flags(self, key: int, samples: Ids) -> npt.NDArray[np.uint8] | None:
        """What each image goes through, as bits: the draws that the native ops make. None where no op draws."""
        if not self.drawn:
            return None
        flags = np.zeros(len(samples), np.uint8)
        for number, p, bit in self.drawn:
            flags ^= (uniform(key, samples, number) < p) * np.uint8(bit)
        return flags


def split(ops: Sequence[ImageOp], source: Field, *, op_numbers: Sequence[int] = ()) -> DeviceSplit | None:
    """The two parts of a chain on `source`; None where nothing is gained, or the device cannot do it. op_numbers: see `fuse`. Raises PlanError as that does.

    Nothing is gained where the result is bytes. The device does uint8 of one or three channels, and erases nothing.
    """
    chain = chain_of(ops, source, op_numbers)
    numbers = chain.numbers
    is_known = not (isinstance(ops[0], Decode) and ops[0].mode == "unchanged")
    if numbers.is_raw or chain.is_erased or not is_known or chain.mode not in ("RGB", "L", "P"):
        return None
    begin = _begin_on_device(ops)
    host, moved = tuple(ops[:begin]), tuple(ops[begin:])
    tables = [op for op in moved if isinstance(op, TableOp)]
    bits = (FIRST_TABLE << number for number in range(len(tables)))
    drawn = tuple(
        (number, op.p, op.device_flag or next(bits))  # type: ignore[attr-defined]  # what draws there has a probability
        for number, op in zip(numbers_of(ops, op_numbers)[begin:], moved, strict=True)
        if not isinstance(op, _NUMBERS)
    )
    return DeviceSplit(
        host=(*host, ToLayout(chain.layout)) if host else (),
        moved=moved,
        drawn=drawn,
        pixels=PixelOps(
            dtype=numbers.dtype,
            scale=numbers.scale[:3],
            bias=numbers.bias[:3],
            layout_from=chain.layout if host else "NHWC",
            layout_to=chain.layout,
            tables=tuple(op.table() for op in tables),
        ),
    )


def _begin_on_device(ops: Sequence[ImageOp]) -> int:
    """Where the end of a chain begins that a device can do."""
    begin, tables = len(ops), 0
    while begin and (isinstance(ops[begin - 1], (TableOp, *_NUMBERS)) or ops[begin - 1].device_flag):
        tables += isinstance(ops[begin - 1], TableOp)
        if tables > MOST_TABLES:
            break
        begin -= 1
    return begin


def uniform(key: int, samples: Ids, number: int) -> npt.NDArray[np.float64]:
    """The first uniform number of each sample's generator for op `number`, as rust/src/core/keys.rs draws it."""
    with np.errstate(over="ignore"):
        state = _mixed(_GOLDEN ^ np.uint64(3), np.uint64(key))
        state = _mixed(_mixed(state, samples.astype(np.uint64)), np.uint64(number))
        bits: npt.NDArray[np.uint64] = _finalised(state + _GOLDEN)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(
    state: npt.NDArray[np.uint64] | np.uint64, word: npt.NDArray[np.uint64] | np.uint64
) -> npt.NDArray[np.uint64]:
    return _finalised(state * np.uint64(0xD134_2543_DE82_EF95) ^ _finalised(word + _GOLDEN))


def _finalised(x: npt.NDArray[np.uint64] | np.uint64) -> npt.NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return np.asarray(x ^ (x >> np.uint64(31)))
