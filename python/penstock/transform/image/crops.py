"""Several crops of each image, for models that are tested on all of them. Names, arguments and pixels are torchvision v2's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from penstock.transform.image.op import Chain, Pair, PixelOp, both_sides, set_fields


class CropsOp(PixelOp):
    """An op that makes several images of each, which stand in an axis of their own. crops: how many."""

    says_where = False
    crops: ClassVar[int]

    size: int | Pair

    def settle(self) -> None:
        """See `ImageOp`."""
        set_fields(self, size=both_sides(self, self.size))

    @property
    def fixes_size(self) -> bool:
        """Whether all results have one size."""
        return True

    def extend(self, chain: Chain) -> Chain:
        """The chain with this op at its end; PlanError as for every op on pixels."""
        return replace(super().extend(chain), crops=self.crops)


@dataclass(frozen=True)
class FiveCrop(CropsOp):
    """The four corners of the image and its centre: a batch has shape (rows, 5, channels, height, width).

    They come in torchvision's order, upper left, upper right, lower left, lower right, centre, and are its pixels. `Normalize`, `ToDtype` and `ToLayout` may follow; what else a chain does comes before.

    Args:
        size: of each crop: pixels of both sides, or (height, width).

    Raises:
        PlanError: for a size that is none.
        DataError: from a Loader, for an image that is smaller.

    Example:
        I = ps.image
        photos = ps.read("photos").transform(image=[I.Decode(), I.Resize((80, 80)), I.FiveCrop(64), I.Normalize(I.IMAGENET)])
        photos.head(2)["image"].shape == (2, 5, 3, 64, 64)
    """

    crops = 5

    size: int | Pair


@dataclass(frozen=True)
class TenCrop(CropsOp):
    """The crops of `FiveCrop`, and behind them those of the mirrored image: a batch has shape (rows, 10, channels, height, width).

    Args:
        size: of each crop: pixels of both sides, or (height, width).
        vertical_flip: True mirrors top and bottom, instead of left and right. Default: False.

    Raises:
        PlanError: for a size that is none.
        DataError: from a Loader, for an image that is smaller.

    Example:
        I = ps.image
        photos = ps.read("photos").transform(image=[I.Decode(), I.Resize((80, 80)), I.TenCrop(64), I.Normalize(I.IMAGENET)])
        photos.head(2)["image"].shape == (2, 10, 3, 64, 64)
    """

    crops = 10

    size: int | Pair
    vertical_flip: bool = False
