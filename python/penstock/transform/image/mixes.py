"""Ops on whole batches, which pair each image with another one of its batch, and mix their labels: MixUp (Zhang et al. 2018) and CutMix (Yun et al. 2019).

An op says what it draws of a step, and of images and their partners what becomes; `mix_kernel` does the rest, which is the same for all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.core.arguments import hold_as_int, is_whole
from penstock.core.columns.spec import Field, Ids, Spec
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.transform.image.op import ImageOp, Pair, check, set_fields
from penstock.transform.row_generator import RowGenerator

#: Bytes of images that are blended at a time: with what they are blended with, they stay in a core's cache.
_PIECE_BYTES = 1 << 18

_MIXED = ("uint8", "float32")

#: What a mix draws, by name: a number for each row, or one for all of them.
Draws: TypeAlias = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class MixOp(ImageOp):
    """Images mixed with others of their batch: what all such ops are asked. is_by_size: whether what is drawn depends on the images' size."""

    is_random = on_batch = True
    drawn_by = ("alpha", "per_row")
    is_by_size: ClassVar[bool] = False

    alpha: float = 1.0
    num_classes: int | None = field(default=None, kw_only=True)
    labels: str | None = field(default=None, kw_only=True)
    columns: Sequence[str] | None = field(default=None, kw_only=True)
    among: int | None = field(default=None, kw_only=True)
    per_row: bool = field(default=False, kw_only=True)

    def settle(self) -> None:
        """See `ImageOp`."""
        is_number = isinstance(self.alpha, (int, float, np.floating, np.integer)) and not isinstance(self.alpha, bool)
        check(self, is_number and 0 < self.alpha < math.inf, "an alpha above 0")
        set_fields(self, alpha=float(self.alpha))
        for name in ("num_classes", "among"):
            given = getattr(self, name)
            check(self, given is None or (is_whole(given) and given >= 1), f"{name}=, a whole number from 1 on")
        check(self, self.labels is None or isinstance(self.labels, str), "labels=, the name of a column")
        hold_as_int(self, "num_classes", "among")
        if self.columns is not None:
            names = (self.columns,) if isinstance(self.columns, str) else tuple(self.columns)
            check(self, bool(names) and all(isinstance(name, str) for name in names), "columns=, names of columns")
            set_fields(self, columns=names)

    @property
    def shared(self) -> tuple[Any, ...]:
        """What ops have in common of which each step takes one."""
        return self.num_classes, self.labels, self.columns, self.among

    def draws(self, of: RowGenerator, size: Pair) -> Draws:
        """What is drawn for images of (height, width), by the generator of a step or of its rows."""
        raise NotImplementedError

    def weights(self, drawn: Draws, size: Pair) -> npt.NDArray[Any]:
        """What each row keeps of its own label, for images of (height, width)."""
        raise NotImplementedError

    def mix(self, images: npt.NDArray[Any], partners: Ids, drawn: Draws, is_first: bool, out: npt.NDArray[Any]) -> None:
        """Fills `out` with images mixed with their partners, by what each row drew. is_first: whether channels come before rows and columns."""
        raise NotImplementedError

    def of_device(self, drawn: Draws) -> Draws:
        """The same for a device: see `DeviceMix`. drawn: a number for each row."""
        raise NotImplementedError

    def mixed_on_device(self, names: Sequence[str]) -> tuple[str, ...]:
        """See `Op`."""
        return tuple(name for name in names if self.columns is None or name in self.columns)

    def output(self, name: str, given: Spec) -> Spec:
        """See `Op`: what becomes of the labels."""
        labels = self.labels_of(given)
        return {**given, labels: Field("float32", (self.classes_of(labels, given),))}

    def labels_of(self, given: Spec) -> str:
        """The column of labels, class numbers or probabilities; PlanError if there is none."""
        fits = sorted(
            (name for name, field in given.items() if _is_label(field)), key=lambda name: len(given[name].shape)
        )
        named = [name for name in fits if name.lower() == "labels"] + [name for name in fits if "label" in name.lower()]
        found = self.labels if self.labels is not None else next(iter(named), None)
        if found in fits:
            return str(found)
        found = found or next((name for name in given if "label" in name.lower()), "label")
        has = f"no column {quoted(found)}"
        if found in given:
            has = f"column {quoted(found)} is {given[found]}"
        raise PlanError(
            f"{self}: {has}; name a column of class numbers, or of a probability for each class, labels={quoted(fits[0] if fits else '…')}: there are {', '.join(fits) or 'none'}"
        )

    def classes_of(self, labels: str, given: Spec) -> int:
        """How many classes a column of labels has; PlanError where that is not said, or is said in two ways."""
        shape = given[labels].shape
        if not shape:
            check(
                self, self.num_classes is not None, f"num_classes=, since column {quoted(labels)} holds class numbers"
            )
            return int(self.num_classes or 0)
        classes = int(shape[0] or 0)
        check(
            self,
            self.num_classes in (None, classes),
            f"num_classes={classes}, or leave it out: column {quoted(labels)} holds {classes} probabilities a row",
        )
        return classes

    def images_of(self, given: Spec, indices: frozenset[str]) -> tuple[str, ...]:
        """The columns of images; PlanError if there are none, or one cannot be blended."""
        pixel_axes = 3
        fits = [
            name
            for name, field in given.items()
            if field.is_fixed and len(field.shape) == pixel_axes and field.dtype in _MIXED and name not in indices
        ]
        for name in self.columns or ():
            if name not in fits:
                has = "indices, which cannot be blended" if name in indices else str(given.get(name, "not there"))
                raise PlanError(
                    f"{self}: column {quoted(name)} is {has}; name columns of images, uint8 or float32 of one size"
                )
        if not fits:
            raise PlanError(
                f"{self}: no column of images, uint8 or float32 of one size: there are {', '.join(f'{name} ({field})' for name, field in given.items())}; transform them before"
            )
        return tuple(self.columns or fits)


@dataclass(frozen=True)
class MixUp(MixOp):
    """Images blended with others of their batch, λ × image + (1 - λ) × other, and labels with them: `batch(256).transform(MixUp(0.2, num_classes=1000))`.

    λ is drawn from Beta(alpha, alpha) for each step, as torchvision v2's MixUp does for each batch, or with `per_row=True` for each row, as timm's does with mode="elem". An image's partner is one of the `among` neighbouring rows of the global batch, a
    number of places further on, which is drawn for each step as well. All are functions of seed, epoch, and step or row: batches are the same on any number of ranks. Labels become float32 of
    shape (rows, num_classes). Images of float32 are blended in float32; those of uint8 too, and then rounded to the nearest number (halves to the even one).

    The last batch of an epoch, if it is short, is not blended (λ is 1), since ranks have unequal parts of it; its labels have the same shape.

    Args:
        alpha: of the Beta distribution, above 0. Default 1.0.
        num_classes: how many classes there are. Labels that are a probability for each class, of shape (classes,), say it themselves.
        labels: the column of labels: class numbers, integers from 0 on, or probabilities. By default the one named "labels", or else the first with "label" in its name, as torchvision's
            `labels_getter="default"` finds it; case does not matter.
        columns: the columns of images. By default all of three axes a row that are uint8 or float32, but for masks of `Decode(mode="P")`.
        among: rows of the global batch among which partners are: it divides the rows that each rank has. By default the largest of 8, 4 and 2 that divides the batch, or the least divisor
            of an odd one.
        per_row: True draws a λ for each row. Default: False, one for the batch.

    Returns:
        The op, for `Dataset.transform` behind `batch`.

    Raises:
        PlanError: for arguments that make no sense, and by `transform` or the loader for a column that is not there or of another type, or ranks that have too few rows.

    Example:
        import penstock as ps

        mix_up = ps.image.MixUp(0.2, num_classes=1000)  # ps.read("photos").transform(image=[…]).batch(256).transform(mix_up)
    """

    def draws(self, of: RowGenerator, size: Pair) -> Draws:
        """See `MixOp`."""
        return {"lam": of.beta(self.alpha, self.alpha)}

    def weights(self, drawn: Draws, size: Pair) -> npt.NDArray[Any]:
        """See `MixOp`: λ."""
        return drawn["lam"]

    def mix(self, images: npt.NDArray[Any], partners: Ids, drawn: Draws, is_first: bool, out: npt.NDArray[Any]) -> None:
        """See `MixOp`: λ × image + (1 - λ) × partner, each product and the sum rounded to float32; uint8 to the nearest at the end."""
        rows = max(1, _PIECE_BYTES // max(1, images[:1].nbytes))
        mine, other = (one.reshape(-1, 1, 1, 1) for one in _parts(drawn))
        is_float = images.dtype == np.float32
        for begin in range(0, len(images), rows):
            some = slice(begin, begin + rows)
            blended = np.multiply(images[partners[some]], other[some], dtype=np.float32)
            blended += np.multiply(images[some], mine[some], dtype=np.float32)
            out[some] = blended if is_float else np.rint(blended, out=blended)

    def of_device(self, drawn: Draws) -> Draws:
        """See `MixOp`."""
        return {"weights": np.stack(_parts(drawn), axis=1)}


@dataclass(frozen=True)
class CutMix(MixOp):
    """A rectangle of each image from another one of its batch, and labels by its area: `batch(256).transform(CutMix(num_classes=1000))`.

    The rectangle has the part 1 - λ of the area, λ from Beta(alpha, alpha), and its middle anywhere; what lies outside of the image is cut off, and labels are weighted by what is
    left, as torchvision v2's CutMix does. It is drawn for each step, or with `per_row=True` for each row. Partners, labels, the last batch and ranks are as of `MixUp`.

    Args:
        alpha: of the Beta distribution, above 0. Default 1.0.
        num_classes: how many classes there are: see `MixUp`.
        labels: the column of labels: see `MixUp`.
        columns: the columns of images, which have one height and width. Default: see `MixUp`.
        among: rows of the global batch among which partners are: see `MixUp`.
        per_row: True draws a rectangle for each row. Default: False, one for the batch.

    Returns:
        The op, for `Dataset.transform` behind `batch`.

    Raises:
        PlanError: as of `MixUp`, and for images of several sizes.

    Example:
        import penstock as ps

        cut_mix = ps.image.CutMix(num_classes=1000)
        either = ps.image.RandomChoice([ps.image.MixUp(0.2, num_classes=1000), cut_mix])  # one of them a step
    """

    is_by_size = True

    def draws(self, of: RowGenerator, size: Pair) -> Draws:
        """See `MixOp`: λ, and the rectangle."""
        height, width = size
        lam = of.beta(self.alpha, self.alpha)
        x, y = of.integers(0, width), of.integers(0, height)
        half = 0.5 * np.sqrt(1.0 - lam)
        right, down = (half * width).astype(np.int64), (half * height).astype(np.int64)
        return {
            "lam": lam,
            "left": np.maximum(x - right, 0),
            "top": np.maximum(y - down, 0),
            "right": np.minimum(x + right, width),
            "bottom": np.minimum(y + down, height),
        }

    def weights(self, drawn: Draws, size: Pair) -> npt.NDArray[Any]:
        """See `MixOp`: what the rectangle leaves."""
        cut = (drawn["right"] - drawn["left"]) * (drawn["bottom"] - drawn["top"])
        kept: npt.NDArray[Any] = 1.0 - cut / (size[0] * size[1])
        return kept

    def mix(self, images: npt.NDArray[Any], partners: Ids, drawn: Draws, is_first: bool, out: npt.NDArray[Any]) -> None:
        """See `MixOp`."""
        out[:] = images
        edges = [drawn[name].tolist() for name in ("top", "bottom", "left", "right")]
        for row, (partner, top, bottom, left, right) in enumerate(zip(partners.tolist(), *edges, strict=True)):
            part: Any = (slice(top, bottom), slice(left, right))
            part = (slice(None), *part) if is_first else part
            out[row][part] = images[partner][part]

    def of_device(self, drawn: Draws) -> Draws:
        """See `MixOp`."""
        top, left, bottom, right = (drawn[name] for name in ("top", "left", "bottom", "right"))
        return {"cuts": np.stack([top, left, bottom - top, right - left], axis=1).astype(np.int32)}


def _is_label(field: Field) -> bool:
    """Whether a column can be of labels: class numbers or truth values, or a number for each class."""
    if not field.is_fixed:
        return False
    return (field.shape == () and field.numpy_dtype.kind in "iub") or (
        len(field.shape) == 1 and field.numpy_dtype.kind in "iubf"
    )


def _parts(drawn: Draws) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """What images keep of themselves, and take of their partners."""
    lam = drawn["lam"]
    return lam.astype(np.float32), (1.0 - lam).astype(np.float32)
