"""The end of a chain that a device can do: bytes cross the bus, and flips, tables, Normalize, ToDtype, ToLayout and RandomErasing behind them run there.

split([Decode(), RandomResizedCrop(224), RandomHorizontalFlip(), Normalize(IMAGENET)], Field("bytes")).host ==
    (Decode(), RandomResizedCrop(224), ToLayout("NCHW"))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.columns.pixel_ops import FIRST_TABLE, MOST_TABLES, PixelOps
from penstock.core.columns.spec import Field, Ids
from penstock.core.kernels import ImageProgram
from penstock.core.limits import DEFAULT_LIMITS
from penstock.transform.image.decode import Decode
from penstock.transform.image.kernel import chain_of, numbers_of, program_of
from penstock.transform.image.numbers import Normalize, ToDtype, ToLayout
from penstock.transform.image.op import Chain, ImageOp, TableOp

_NUMBERS = (Normalize, ToDtype, ToLayout)

#: What an erasing draws, as `loader.draws` tells it, in the order of a patch.
_PATCH = ("top", "left", "height", "width")

_GOLDEN = np.uint64(0x9E37_79B9_7F4A_7C15)


@dataclass(frozen=True, kw_only=True)
class DeviceSplit:
    """A chain in two parts. host: the ops that stay, which give uint8; none where the pixels are delivered as they are.

    moved: those of the device, as written. drawn: for each op among them that a bit tells of, its number in the chain, its probability and its bit. erasings: the numbers of those that erase a
    part, and their program, which draws it.
    """

    host: tuple[ImageOp, ...]
    moved: tuple[ImageOp, ...]
    drawn: tuple[tuple[int, float, int], ...]
    erasings: tuple[tuple[int, ...], ImageProgram]
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

    def patches(self, key: int, samples: Ids, shape: tuple[int, ...]) -> npt.NDArray[np.int32] | None:
        """Which parts of each image are erased, of shape (images, erasings, 4): the draws that the native ops make. None where no op erases."""
        numbers, program = self.erasings
        if not numbers:
            return None
        height, width = shape[1:3] if self.pixels.layout_from == "NHWC" else shape[2:4]
        patches = np.zeros((len(samples), len(numbers), len(_PATCH)), np.int32)
        for number, name, row, value in program.drawn_from(height, width, np.ascontiguousarray(samples, np.int64), key):
            if name in _PATCH:
                patches[row, numbers.index(number), _PATCH.index(name)] = value
        return patches


def split(ops: Sequence[ImageOp], source: Field, *, op_numbers: Sequence[int] = ()) -> DeviceSplit | None:
    """The two parts of a chain on `source`; None where nothing is gained, or the device cannot do it. op_numbers: see `fuse`. Raises PlanError as that does.

    Nothing is gained where the result is bytes. The device does uint8 of one or three channels, and erases what becomes numbers that the chain names.
    """
    chain = chain_of(ops, source, op_numbers)
    numbers = chain.numbers
    is_known = not (isinstance(ops[0], Decode) and ops[0].mode == "unchanged")
    if numbers.is_raw or not is_known or chain.crops > 1 or chain.mode not in ("RGB", "L", "P"):
        return None
    op_numbers = numbers_of(ops, op_numbers)
    erasings = {number: op for number, op in chain.geometry if "unit_scale" in op and not isinstance(op["value"], str)}
    begin = _begin_on_device(ops, [number in erasings for number in op_numbers])
    host, moved = tuple(ops[:begin]), tuple(ops[begin:])
    if chain.is_erased and chain_of(host, source, op_numbers).is_erased:
        return None
    tables = [op for op in moved if isinstance(op, TableOp)]
    bits = (FIRST_TABLE << number for number in range(len(tables)))
    drawn = tuple(
        (number, op.p, op.device_flag or next(bits))  # type: ignore[attr-defined]  # what draws there has a probability
        for number, op in zip(op_numbers[begin:], moved, strict=True)
        if not isinstance(op, _NUMBERS) and number not in erasings
    )
    return DeviceSplit(
        host=(*host, ToLayout(chain.layout)) if host else (),
        moved=moved,
        drawn=drawn,
        erasings=(tuple(erasings), program_of(replace(chain, geometry=tuple(erasings.items())), 1, 1, DEFAULT_LIMITS)),
        pixels=PixelOps(
            dtype=numbers.dtype,
            scale=numbers.scale[:3],
            bias=numbers.bias[:3],
            layout_from=chain.layout if host else "NHWC",
            layout_to=chain.layout,
            tables=tuple(op.table() for op in tables),
            erased=tuple(_erased(op, chain) for op in erasings.values()),
        ),
    )


def _erased(op: Mapping[str, Any], chain: Chain) -> tuple[float, ...]:
    """What an erased part becomes at the chain's end, three numbers of float32: see rust/src/image/patch.rs."""
    values = np.resize(np.asarray(op["value"], np.float64), 3)
    scale, bias, unit_scale, unit_bias = (
        np.asarray(numbers[:3], np.float32).astype(np.float64)
        for numbers in (chain.numbers.scale, chain.numbers.bias, op["unit_scale"], op["unit_bias"])
    )
    factor = scale / unit_scale
    return tuple((values * factor + (bias - unit_bias * factor)).astype(np.float32).tolist())


def _begin_on_device(ops: Sequence[ImageOp], erases: Sequence[bool]) -> int:
    """Where the end of a chain begins that a device can do. erases: of each op, whether it erases numbers there."""
    begin, tables = len(ops), 0
    while begin and (
        erases[begin - 1] or isinstance(ops[begin - 1], (TableOp, *_NUMBERS)) or ops[begin - 1].device_flag
    ):
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
