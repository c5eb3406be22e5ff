"""What an image op is, the chain that ops describe, and the checks of their arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from penstock.core.arguments import is_one_of
from penstock.core.errors import PlanError
from penstock.core.images.wanted import Window
from penstock.core.messages import quoted
from penstock.transform.family import Op

Pair: TypeAlias = tuple[int, int]
Span: TypeAlias = tuple[float, float]

LARGEST_SIDE = 1 << 16

#: The modes of images, and the numbers that a pixel has in each. They are uint8, but those of "I16" uint16.
CHANNELS = {"RGB": 3, "L": 1, "LA": 2, "RGBA": 4, "I16": 1, "P": 1}


@dataclass(frozen=True)
class Numbers:
    """How a pixel's numbers are converted so far: number × scale + bias by channel (of four at most), as dtype.

    source: the dtype of the pixels. one: what its largest number became; None once the channels differ.
    """

    dtype: str = "uint8"
    scale: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    bias: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    one: float | None = 255.0
    source: str = "uint8"

    @classmethod
    def of(cls, source: str) -> Numbers:
        """Those of pixels that are as they came."""
        return cls(source, one=float(np.iinfo(source).max), source=source)

    @property
    def is_raw(self) -> bool:
        """Whether they are as they came."""
        return self.dtype == self.source


@dataclass(frozen=True, kw_only=True)
class Chain:
    """What ops have described so far.

    mode: the pixels that the next op works on. first_mode: those that the first one works on, where an op has changed them since. encoded: whether it begins with bytes of a file. geometry: the native ops on pixels, each with its number in the chain, which keys its
    random choices. by_size: the places in `geometry` of those that draw by the size of the image. decode: (apply_exif, fast, allow_truncated). window: see `Decode`. fixes_size: whether all results have one size.
    is_erased: whether a part of the numbers that are emitted is replaced. crops: how many images each one has become, one below another; the result has an axis of them.
    """

    mode: str
    encoded: bool
    is_strict: bool = False
    number: int = 0
    geometry: tuple[tuple[int, dict[str, Any]], ...] = ()
    by_size: tuple[int, ...] = ()
    decode: tuple[bool, bool, bool] = (False, False, False)
    window: Window = None
    numbers: Numbers = field(default_factory=Numbers)
    layout: Literal["NCHW", "NHWC"] = "NCHW"
    fixes_size: bool = False
    first_mode: str | None = None
    is_erased: bool = False
    crops: int = 1

    @property
    def channels(self) -> int:
        """Numbers of a pixel."""
        return CHANNELS[self.mode]


class ImageOp(Op):
    """An image op, checked when made. draws_by_size: whether the image's size decides what is drawn, too.

    device_flag: the bit by which a device that draws it is told; 0 for none (see `device`). is_geometric: whether pixels stand elsewhere behind it, drawn or not.
    says_where: whether every pixel has a place behind it, so that what lies along can follow. asks_for_boxes: whether it looks at the image's boxes.
    """

    family = "image"
    device_flag: ClassVar[int] = 0
    draws_by_size: ClassVar[bool] = False
    is_geometric: ClassVar[bool] = False
    says_where: ClassVar[bool] = True
    asks_for_boxes: ClassVar[bool] = False
    on_pixels = True

    def __post_init__(self) -> None:
        try:
            self._settle_flags()
            self.settle()
        except PlanError:
            raise
        except Exception as error:  # whatever a value of another type does when it is compared or converted
            raise PlanError(
                f"{quoted(self)}; {quoted(error)}; give arguments of the types that help({type(self).__name__}) names"
            ) from None

    def settle(self) -> None:
        """Checks the fields, and brings them into the form that the chain has."""

    def _settle_flags(self) -> None:
        for flag in fields(self):  # type: ignore[arg-type]  # every op is a dataclass
            if flag.type == "bool":
                value = getattr(self, flag.name)
                check(
                    self,
                    isinstance(value, (bool, np.bool_)) or (isinstance(value, int) and value in (0, 1)),
                    f"{flag.name}=True or False",
                )
                set_fields(self, **{flag.name: bool(value)})

    def extend(self, chain: Chain) -> Chain:
        """The chain with this op at its end; PlanError if it cannot stand there."""
        raise NotImplementedError


class TableOp(ImageOp):
    """An op that replaces every number by itself, with probability `p`: it says by what, and both the native kernel and a device do it."""

    is_random = True
    drawn_by: ClassVar[tuple[str, ...]] = ("p",)

    p: float

    def settle(self) -> None:
        """See `ImageOp`."""
        check_probability(self, self.p)

    def table(self) -> bytes:
        """What becomes of 0, of 1, … of 255."""
        raise NotImplementedError

    def extend(self, chain: Chain) -> Chain:
        """The chain with this op at its end; PlanError behind Normalize or ToDtype, and for pixels that are neither RGB nor grey."""
        check_one_image(self, chain)
        if not chain.numbers.is_raw or chain.mode not in ("RGB", "L"):
            after = f'images are of mode "{chain.mode}"' if chain.numbers.is_raw else "it follows Normalize or ToDtype"
            raise PlanError(f"{self}: works on bytes of colour or grey, and {after}; put it where they are such")
        described = {"op": "RandomTable", "p": self.p, "table": self.table()}
        return replace(chain, geometry=(*chain.geometry, (chain.number, described)))


class PixelOp(ImageOp):
    """An op on bytes of pixels, with a native op of the same name (rust/src/image/ops), which gets the dataclass's fields."""

    is_geometric = True

    @property
    def fixes_size(self) -> bool:
        """Whether all results have one size."""
        return False

    def extend(self, chain: Chain) -> Chain:
        """The chain with this op at its end; PlanError behind Normalize or ToDtype, and where it averages indices of a palette."""
        check_one_image(self, chain)
        if not chain.numbers.is_raw:
            raise PlanError(f"{self}: follows Normalize or ToDtype; put it before them")
        if chain.mode == "P" and getattr(self, "interpolation", "nearest") not in NEAREST:
            raise PlanError(
                f'{self}: averages the indices of a palette (mode "P"), which makes classes that are not there; '
                f'say {type(self).__name__}(…, interpolation="nearest")'
            )
        described = {"op": type(self).__name__, **asdict(self)}  # type: ignore[call-overload]  # every op is a dataclass
        by_size = (*chain.by_size, len(chain.geometry)) if self.draws_by_size else chain.by_size
        geometry = (*chain.geometry, (chain.number, described))
        return replace(chain, geometry=geometry, by_size=by_size, fixes_size=chain.fixes_size or self.fixes_size)


#: Interpolations that take every pixel as it is.
NEAREST = ("nearest", "nearest-exact")


def set_fields(op: object, **values: object) -> None:
    """Sets fields of a frozen op, in its `__post_init__`."""
    for name, value in values.items():
        object.__setattr__(op, name, value)


def check(op: object, holds: bool, wanted: str) -> None:
    """PlanError unless `holds`, which says what to give instead."""
    if not holds:
        raise PlanError(f"{quoted(op)}; give {wanted}")


def check_one_image(op: object, chain: Chain) -> None:
    """PlanError behind an op that makes several images of each."""
    if chain.crops > 1:
        raise PlanError(
            f"{op}: follows an op that makes {chain.crops} images of each; put it before that, or leave it out: Normalize, ToDtype and ToLayout may follow"
        )


def check_probability(op: object, p: object) -> None:
    """PlanError unless it is a probability."""
    is_number = isinstance(p, (int, float, np.floating, np.integer)) and not isinstance(p, bool)
    check(op, is_number and 0 <= p <= 1, "a probability from 0 to 1")  # type: ignore[operator]  # a number


def check_interpolation(op: object, interpolation: str) -> None:
    """PlanError unless there is such an interpolation."""
    check(
        op,
        is_one_of(interpolation, (*NEAREST, "bilinear", "bicubic")),
        'interpolation "bilinear", "bicubic", "nearest" or "nearest-exact"',
    )


def _is_side(size: object) -> bool:
    return isinstance(size, (int, np.integer)) and not isinstance(size, bool) and 1 <= int(size) <= LARGEST_SIDE


def both_sides(op: object, size: int | Sequence[int]) -> Pair:
    """(height, width) of one number or two; PlanError if they are no size."""
    sides = tuple(size[:3]) if isinstance(size, Sequence) else (size, size)
    is_size = len(sides) == 2 and all(_is_side(side) for side in sides)
    check(op, is_size, "a size from 1 to 65,536, or (height, width)")
    return int(sides[0]), int(sides[1])


def checked_range(op: object, span: Sequence[float]) -> Span:
    """(low, high); PlanError if they are no range."""
    low, high = (float(bound) for bound in span) if hasattr(span, "__len__") and len(span) == 2 else (1.0, 0.0)
    check(op, low <= high < math.inf, "ranges as (low, high)")
    return low, high
