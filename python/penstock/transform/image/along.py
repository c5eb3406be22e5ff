"""What lies along with an image in columns of its own, and goes where that image goes: masks and points here, boxes in `boxes`; `along_kernel` runs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from penstock.core.arguments import is_one_of
from penstock.core.columns.spec import Field, Spec
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.transform.family import Chains
from penstock.transform.image.op import CHANNELS, Chain, ImageOp, check
from penstock.transform.image.view import From

MaskMode: TypeAlias = Literal["P", "L", "I16", "RGB", "LA", "RGBA"]

#: Numbers of boxes and points, and how exactly native code works on them.
PRECISIONS: Mapping[str, str] = {
    "float32": "single",
    "float64": "double",
    **dict.fromkeys(("int8", "int16", "int32", "int64"), "whole"),
}


class AlongOp(ImageOp):
    """The beginning of a chain of what lies along with an image. It draws nothing: the image's chain does, and this does the same."""

    draws_apart = goes_along = True
    on_pixels = False

    of: str

    def settle(self) -> None:
        """See `ImageOp`."""
        check(self, isinstance(self.of, str), "of=, the name of the image's column")

    def needs(self, name: str) -> tuple[str, ...]:
        """See `Op`."""
        return (self.of, name)

    def extend(self, chain: Chain) -> Chain:
        """PlanError: it works on no pixels of images."""
        raise PlanError(f"{self} as op {chain.number}; put it first, in a column of its own beside that of the image")

    def beside(self, name: str, chains: Chains) -> None:
        """See `Op`: the image has a chain, in which every op says where pixels go."""
        if chains[name][0] is not self:
            raise PlanError(f"{self}: not the first op of {quoted(name)}; put it first")
        ops = chains.get(self.of, ())
        if ops and isinstance(ops[0], From):
            raise PlanError(
                f"transform: {quoted(name)} goes along with {quoted(self.of)}, another view of {quoted(ops[0].column)}: what lies along goes with an image's own chain; "
                f"say of={ops[0].column!r}, or give {quoted(self.of)} a column of its own, read(…, columns={{{ops[0].column!r}: …, {self.of!r}: …}}) of the same images"
            )
        if name == self.of or not ops or ops[0].family != self.family or not ops[0].on_pixels or ops[0].draws_apart:
            raise PlanError(
                f"transform: {quoted(name)} goes along with {quoted(self.of)}, which has no chain of image ops of its own beside it; write both in one "
                f"transform({self.of}=[…], {name}={type(self).__name__}(of={self.of!r}))"
            )
        for op in ops:
            if not op.says_where:
                raise PlanError(
                    f"transform: {op} mixes pixels that went to several places, so that {quoted(name)} cannot go along with {quoted(self.of)}; leave one of both out"
                )


@dataclass(frozen=True)
class Mask(AlongOp):
    """A mask that goes where its image goes, in a column of its own: pixel by pixel, by the nearest one, as torchvision v2 does it to its `Mask`.

    The column holds encoded files, pixels of shape (height, width), or an instance's mask each, (instances, height, width): as arrays, or as lists in Arrow, whose rows may differ in size. The size must be that of
    the image's pixels, as its `Decode` gives them. A batch has shape (rows, 1, height, width), of instances ragged rows of (any, height, width). Behind it, `ToLayout`, `ToDtype` and `Normalize` may follow.

    Args:
        of: the column of the image, with a chain in the same `transform`.
        mode: what encoded masks are decoded to, as in `Decode`. Default: "P", the indices of a palette.
        fill: what stands where there was no image. Default: 0.

    Raises:
        PlanError: where the transform has no such chain, and for a column of other numbers or axes.
        DataError: from a Loader, for a mask of another size than its image, and for damaged files.

    Example:
        I = ps.image
        rng = np.random.default_rng(0)
        data = ps.from_arrays({"image": rng.integers(0, 255, (8, 40, 40, 3), np.uint8), "mask": rng.integers(0, 3, (8, 40, 40), np.uint8)})
        cut = data.transform(image=[I.RandomResizedCrop(32), I.RandomHorizontalFlip()], mask=I.Mask(of="image", fill=255))
        cut.head(2)["mask"].shape == (2, 1, 32, 32)
    """

    of: str
    mode: MaskMode = "P"
    fill: float = 0

    def settle(self) -> None:
        """See `ImageOp`."""
        super().settle()
        check(self, is_one_of(self.mode, tuple(CHANNELS)), f"a mode: {', '.join(map(repr, CHANNELS))}")
        most = 65_535 if self.mode == "I16" else 255
        check(self, not isinstance(self.fill, bool) and 0 <= self.fill <= most, f"fill from 0 to {most:,}")

    def beside(self, name: str, chains: Chains) -> None:
        """See `AlongOp`."""
        super().beside(name, chains)
        for op in chains[name][1:]:
            if op.family != self.family or op.is_random or op.is_geometric or not op.on_pixels:
                raise PlanError(
                    f"transform: {op} behind {self}, which does what the image's chain does; leave it out, or put it into the chain of {quoted(self.of)}"
                )

    def output(self, name: str, given: Spec) -> Spec:
        """See `Op`."""
        if name in given and given[name].dtype not in ("bytes", "uint8", "bool", "uint16"):
            raise PlanError(
                f"transform: Mask() on column {quoted(name)}, which is {given[name]}; give it encoded files, or uint8, bool or uint16 pixels"
            )
        return given


@dataclass(frozen=True)
class KeyPoints(AlongOp):
    """Points that go where their image goes, in a column of its own, by torchvision v2's rules for its `KeyPoints`: mirrored, x becomes W - 1 - x; none is dropped or clamped.

    The column holds (column, row) pairs in pixels of the stored image, as many a row as there are: lists of two numbers, or arrays of shape (points, 2) or (objects, points, 2), float32, float64 or signed whole
    numbers, and so does the result. An elastic warp moves a point as its pixel. What is NaN, a point that is not seen, stays NaN.

    Args:
        of: the column of the image, with a chain in the same `transform`.

    Raises:
        PlanError: where the transform has no such chain, and for a column of other numbers or axes.
        DataError: from a Loader, for points that are no two numbers.

    Example:
        I = ps.image
        data = ps.from_arrays({"image": np.zeros((8, 40, 60, 3), np.uint8), "points": np.float32([[[0, 0], [59, 39]]] * 8)})
        data = data.transform(image=[I.RandomHorizontalFlip(p=1)], points=I.KeyPoints(of="image"))
        data.head(1)["points"].tolist() == [[[59.0, 0.0], [0.0, 39.0]]]
    """

    of: str

    def beside(self, name: str, chains: Chains) -> None:
        """See `AlongOp`."""
        super().beside(name, chains)
        if len(chains[name]) > 1:
            raise PlanError(f"transform: {chains[name][1]} behind {self}, where nothing follows; leave it out")

    def output(self, name: str, given: Spec) -> Spec:
        """See `Op`."""
        if name not in given:
            return given
        return {**given, name: list_field(self, name, given[name], 2, most_axes=3)}


def list_field(op: Any, name: str, given: Field, width: int, *, most_axes: int = 2) -> Field:
    """The field of as many `width` numbers as a row has, which a column of lists or arrays becomes; PlanError for another one."""
    shape = given.shape
    if len(shape) == 2 and shape[1] is None:  # lists of lists: rows are checked when they come
        shape = (shape[0], width)
    are_axes = 2 <= len(shape) <= most_axes and shape[-1] == width and None not in shape[1:] and 0 not in shape[1:]
    if given.dtype not in PRECISIONS or not are_axes:
        raise PlanError(
            f"transform: {type(op).__name__}() on column {quoted(name)}, which is {given}; give it lists of {width} numbers, or shape (any, {width}): float32, float64 or signed whole numbers"
        )
    return Field(given.dtype, shape)
