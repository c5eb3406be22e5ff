"""Boxes along with an image, what is done to them, and the crop that looks at them. Names, arguments and rules are torchvision v2's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeAlias

from penstock.core.arguments import is_one_of, is_whole
from penstock.core.columns.spec import Spec
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.transform.family import Chains
from penstock.transform.image.along import AlongOp, Mask, list_field
from penstock.transform.image.op import Chain, ImageOp, PixelOp, check, set_fields

BoxFormat: TypeAlias = Literal["XYXY", "XYWH", "CXCYWH"]

#: The format's formulas are in rust/src/image/boxes.rs.
FORMATS = ("XYXY", "XYWH", "CXCYWH")

#: What native code is told to do with boxes: a name, and two numbers that belong to it.
BoxStep: TypeAlias = tuple[str, float, float]


def _settled_format(op: Any, box_format: Any) -> str:
    named = box_format.upper() if isinstance(box_format, str) else getattr(box_format, "name", box_format)
    check(op, is_one_of(named, FORMATS), f"a format: {', '.join(FORMATS)}")
    return str(named)


@dataclass(frozen=True)
class Boxes(AlongOp):
    """Boxes that go where their image goes, in a column of its own, by torchvision v2's rules for its `BoundingBoxes`.

    The column holds as many boxes a row as there are, of four numbers each, in pixels of the stored image: lists of four, or arrays of shape (boxes, 4), float32, float64 or signed whole numbers. The result is ragged, of the same
    numbers: whole ones are cut off behind each op, as torchvision does it. Crops, margins and warps clamp boxes to the image; what a rotation or a warp makes of a box is what holds its four corners. None is
    dropped, but by `SanitizeBoundingBoxes`. `ClampBoundingBoxes` and `ConvertBoundingBoxFormat` may follow, too.

    Args:
        of: the column of the image, with a chain in the same `transform`.
        format: what four numbers are: "XYXY", the default, the edges; "XYWH", as COCO has it, the left and upper edge, width and height; "CXCYWH", the middle, width and height.
        labels: columns with a value for each box, as classes are; or masks of instances. They become ragged, and lose what the boxes lose.

    Raises:
        PlanError: where the transform has no such chain, and for a column of other numbers or axes.
        DataError: from a Loader, for boxes that are no four numbers, end before they begin, or lie outside of their image, and for labels that are not as many.

    Example: a batch as ragged rows; `batch_padded` makes it dense.

        I = ps.image
        data = ps.from_arrays({"image": np.zeros((8, 40, 60, 3), np.uint8), "boxes": np.float32([[[0, 0, 20, 10], [30, 20, 60, 40]]] * 8), "label": np.int64([[1, 2]] * 8)})
        data = data.transform(
            image=[I.RandomIoUCrop(), I.RandomHorizontalFlip(), I.Resize((32, 32))],
            boxes=[I.Boxes(of="image", labels=("label",)), I.SanitizeBoundingBoxes()],
        )
        batch = next(iter(ps.Loader(data.batch(4))))
    """

    of: str
    format: BoxFormat = "XYXY"
    labels: str | Sequence[str] = ()

    def settle(self) -> None:
        """See `ImageOp`."""
        super().settle()
        set_fields(self, format=_settled_format(self, self.format))
        labels = (self.labels,) if isinstance(self.labels, str) else tuple(self.labels)
        check(self, all(isinstance(label, str) for label in labels), "labels=, names of columns")
        set_fields(self, labels=labels)

    def needs(self, name: str) -> tuple[str, ...]:
        """See `Op`."""
        return (self.of, name, *self.labels)

    def together(self, name: str) -> tuple[str, ...]:
        """See `Op`."""
        return self.needs(name)

    def beside(self, name: str, chains: Chains) -> None:
        """See `AlongOp`."""
        super().beside(name, chains)
        for op in chains[name][1:]:
            if not isinstance(op, BoxOp):
                raise PlanError(
                    f"transform: {op} behind {self}: not an op on boxes; put it into the chain of {quoted(self.of)}"
                )
        others = {label for other, ops in chains.items() if other != name for label in _labels_of(ops)}
        for label in self.labels:
            ops = chains.get(label, ())
            is_mask = bool(ops) and isinstance(ops[0], Mask) and ops[0].of == self.of and len(ops) == 1
            if label in (name, self.of) or label in others or (ops and not is_mask):
                raise PlanError(
                    f"{self}: the label {quoted(label)} is a column that other ops of this transform make; name columns with a value for each box"
                )

    def output(self, name: str, given: Spec) -> Spec:
        """See `Op`."""
        made = {}
        if name in given:
            made[name] = replace(list_field(self, name, given[name], 4), shape=(None, 4))
        for label in self.labels:
            if label in given:
                if not given[label].shape:
                    raise PlanError(
                        f"{self}: the label {quoted(label)} is {given[label]}, one value a row; name columns with a value for each box"
                    )
                made[label] = replace(given[label], shape=(None, *given[label].shape[1:]), nullable=False)
        return {**given, **made}

    def steps(self, ops: Sequence[Any]) -> list[BoxStep]:
        """What the ops behind it do."""
        return [op.step for op in ops[1:]]


def _labels_of(ops: Sequence[Any]) -> Sequence[str]:
    return ops[0].labels if ops and isinstance(ops[0], Boxes) else ()


class BoxOp(ImageOp):
    """An op on boxes, behind `Boxes`."""

    on_pixels = False

    @property
    def step(self) -> BoxStep:
        """What native code does."""
        raise NotImplementedError

    def beside(self, name: str, chains: Chains) -> None:
        """See `Op`."""
        if not isinstance(chains[name][0], Boxes):
            raise PlanError(f"transform: {self} on {quoted(name)}, which holds no boxes; put it behind Boxes(of=…)")

    def extend(self, chain: Chain) -> Chain:
        """PlanError: it works on boxes."""
        raise PlanError(f"{self}: works on boxes; put it behind Boxes(of=…), in the column of these")


@dataclass(frozen=True)
class ClampBoundingBoxes(BoxOp):
    """Boxes without what lies outside of their image.

    Example:
        I = ps.image
        ops = [I.Boxes(of="image"), I.ClampBoundingBoxes(), I.SanitizeBoundingBoxes()]
    """

    @property
    def step(self) -> BoxStep:
        """See `BoxOp`."""
        return ("clamp", 0, 0)


@dataclass(frozen=True)
class SanitizeBoundingBoxes(BoxOp):
    """Boxes without those that are too small, or reach out of their image; and without what the columns in `Boxes(labels=…)` say of them.

    Put it behind everything that cuts boxes, once, and `ClampBoundingBoxes` before it where stored boxes reach out a little.

    Args:
        min_size: least width, and least height. Default: 1.
        min_area: least area. Default: 1.

    Raises:
        PlanError: for less than 1.

    Example:
        I = ps.image
        ops = [I.Boxes(of="image", labels=("label", "iscrowd")), I.SanitizeBoundingBoxes(min_size=4)]
    """

    min_size: float = 1.0
    min_area: float = 1.0

    def settle(self) -> None:
        """See `ImageOp`."""
        check(self, 1 <= self.min_size < math.inf and 1 <= self.min_area < math.inf, "min_size and min_area from 1 on")

    @property
    def step(self) -> BoxStep:
        """See `BoxOp`."""
        return ("sanitize", float(self.min_size), float(self.min_area))


@dataclass(frozen=True)
class ConvertBoundingBoxFormat(BoxOp):
    """Boxes in another format: see `Boxes`. Of whole numbers the middle is cut off, as torchvision does it.

    Args:
        format: "XYXY", "XYWH" or "CXCYWH".

    Raises:
        PlanError: for another format.

    Example:
        I = ps.image
        ops = [I.Boxes(of="image", format="XYWH"), I.ConvertBoundingBoxFormat("XYXY")]
    """

    format: BoxFormat

    def settle(self) -> None:
        """See `ImageOp`."""
        set_fields(self, format=_settled_format(self, self.format))

    @property
    def step(self) -> BoxStep:
        """See `BoxOp`."""
        return (self.format, 0, 0)


#: SSD's overlaps.
_OVERLAPS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)


@dataclass(frozen=True)
class RandomIoUCrop(PixelOp):
    """A random part of the image that overlaps one of its boxes by a measure that is drawn (SSD, Liu et al. 2016): torchvision v2's. An op that fixes the size follows.

    The image has boxes in the same transform, `boxes=Boxes(of=…)`. Those whose middle lies outside of the part become zeros, which `SanitizeBoundingBoxes` drops. An image without boxes stays as it is.

    Args:
        min_scale: least share of both sides. Default: 0.3.
        max_scale: most. Default: 1.0.
        min_aspect_ratio: least width / height. Default: 0.5.
        max_aspect_ratio: most. Default: 2.0.
        sampler_options: the overlaps (intersection over union) of which one is drawn; from 1 on, the image stays as it is. Default: 0, 0.1, 0.3, 0.5, 0.7, 0.9 and 1.
        trials: how often a part is drawn, before another overlap is. Default: 40.

    Raises:
        PlanError: for numbers that are none of these, and where the image has no boxes beside it, or several columns of them.

    Example:
        I = ps.image
        data = ps.from_arrays({"image": np.zeros((8, 40, 60, 3), np.uint8), "boxes": np.float32([[[0, 0, 20, 10], [30, 20, 60, 40]]] * 8)})
        data = data.transform(
            image=[I.RandomIoUCrop(), I.Resize((32, 32))], boxes=[I.Boxes(of="image"), I.SanitizeBoundingBoxes()]
        )
        data.head(2)["image"].shape == (2, 3, 32, 32)
    """

    is_random = draws_by_size = moves_pixels = True
    drawn_by: ClassVar[tuple[str, ...]] = (
        "min_scale",
        "max_scale",
        "min_aspect_ratio",
        "max_aspect_ratio",
        "sampler_options",
        "trials",
    )
    asks_for_boxes = True

    min_scale: float = 0.3
    max_scale: float = 1.0
    min_aspect_ratio: float = 0.5
    max_aspect_ratio: float = 2.0
    sampler_options: Sequence[float] | None = None
    trials: int = 40

    def settle(self) -> None:
        """See `ImageOp`."""
        for low, high, name in (
            (self.min_scale, self.max_scale, "scale"),
            (self.min_aspect_ratio, self.max_aspect_ratio, "aspect_ratio"),
        ):
            check(self, 0 < low <= high < math.inf, f"min_{name} above 0, and max_{name} not below it")
        check(self, self.max_scale <= 1, "max_scale of 1 at most")
        options = _OVERLAPS if self.sampler_options is None else tuple(map(float, self.sampler_options))
        check(self, bool(options) and not any(map(math.isnan, options)), "sampler_options, at least one number")
        check(self, is_whole(self.trials) and self.trials >= 1, "trials from 1 on")
        set_fields(self, sampler_options=options, trials=int(self.trials))

    def beside(self, name: str, chains: Chains) -> None:
        """See `Op`."""
        boxes = boxes_beside(name, chains)
        if len(boxes) != 1:
            has = f"it has {', '.join(map(quoted, boxes))}" if boxes else "it has none"
            raise PlanError(
                f"transform: RandomIoUCrop on {quoted(name)} looks at the boxes of that image, and {has}; write one column of them beside it, "
                f"transform({name}=[…], boxes=Boxes(of={name!r}))"
            )


def boxes_beside(name: str, chains: Chains) -> list[str]:
    """The columns of boxes that go along with an image."""
    return [other for other, ops in chains.items() if ops and isinstance(ops[0], Boxes) and ops[0].of == name]
