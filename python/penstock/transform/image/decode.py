"""Decoding of image files: to which pixels, and what is lost as RGB."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from math import isfinite
from typing import Literal, TypeAlias, cast

from penstock.core.arguments import is_one_of
from penstock.core.errors import PlanError
from penstock.core.images.wanted import Window
from penstock.transform.image.op import CHANNELS, Chain, ImageOp, Numbers, check, set_fields

Mode: TypeAlias = Literal["RGB", "L", "LA", "RGBA", "I16", "P", "unchanged"]


class _NotSaid(str):
    """A mode that the user did not write: where it loses something, there is a warning."""

    __slots__ = ()


@dataclass(frozen=True)
class Decode(ImageOp):
    """Decodes a JPEG, PNG, WebP, BMP, GIF (first frame), TIFF (first page), PGM, PPM or JPEG XL (first frame) file to pixels: RGB, unless `mode` says another kind.

    AVIF and JPEG 2000 are decoded by Pillow, HEIF by pillow-heif, DICOM of one frame by pydicom, where these are installed.

    A batch has shape (rows, channels, height, width), or with channels last after `ToLayout("NHWC")`; grey and masks keep their one channel. Modes have Pillow's
    names:

    - "RGB": uint8, 3 channels, like Pillow's `convert("RGB")`: grey is repeated, alpha dropped, 16-bit colours lose their lower half, and
      16-bit grey above 255 becomes 255. Unless you say it, an image that loses something that way is a warning, once for each column.
    - "L": uint8, 1 channel: grey, of colours their luma (ITU-R BT.601), like Pillow's `convert("L")`.
    - "LA", "RGBA": uint8, 2 or 4 channels: with alpha, 255 where the file has none.
    - "I16": uint16, 1 channel: 16-bit grey as the file has it, as depth maps are. 8-bit grey keeps its numbers, colours become their luma.
    - "P": uint8, 1 channel: the indices of an image with a palette (PNG, GIF, BMP), as masks of classes are. Others are an error.
    - "unchanged": what the first image is: one of these. An image of another kind is an error, as is one that none of them holds.

    Args:
        mode: what the pixels are: "RGB", "L", "LA", "RGBA", "I16", "P" or "unchanged". Default: "RGB", with a warning where that loses something.
        apply_exif: True rotates the image by its EXIF orientation, like `PIL.ImageOps.exif_transpose`. Default: False.
        fast: True resizes the planes of baseline JPEGs in YCbCr, chroma straight from its own resolution, and converts colours at the target's size. A
            part that shrinks by 2, 4 or 8 in both directions is decoded at that fraction of its size. This needs mode "RGB" and a first resize by
            "bilinear" or "bicubic"; everything else stays exact. The result is the same on every machine, but not the exact one. On natural photographs
            (4:4:4 to 4:2:0, quality 75 to 97) that shrink by less than 2, the mean difference is at most 0.5 levels of 255, and 99.9 % of the numbers
            differ by at most 8. If they shrink more, these are 1.5 and 20. Default: False.
        allow_truncated: True fills the missing part of a baseline JPEG that ends too early with grey, like Pillow's LOAD_TRUNCATED_IMAGES, instead of
            raising an error. Default: False.
        entry_points: "auto", the default, uses the JPEG index of the data if there is one (`penstock index --jpeg` makes it). "build" makes it while the
            first epoch decodes. "off" uses none. The pixels are the same.
        window: of DICOM's grey, which numbers become black and white, that is 0 and 255, or 0 and 65,535 with mode "I16". (center, width) says it in numbers
            behind the file's rescale, Hounsfield units in a CT, by the standard's function LINEAR: (0, 65536) with "I16" keeps whole numbers, plus 32,768. "file"
            takes the file's first window or VOI table. "full" takes all that the file's bits can state. Default: None, which is "file" for modes of 8 bits; with
            "I16" numbers stand for themselves. Where that cannot be done, the file is an error: no window is guessed. MONOCHROME1 is inverted in all of them.

    Raises:
        PlanError: for another mode, and where it is not the first op on a column of bytes.
        DataError: from a Loader, for damaged files, and for images of another kind than `mode` takes.

    Example:
        photo = [ps.image.Decode(fast=True), ps.image.RandomResizedCrop(64)]
        mask = [ps.image.Decode(mode="P"), ps.image.Resize((64, 64), interpolation="nearest")]
        depth = [ps.image.Decode(mode="I16"), ps.image.Resize((64, 64)), ps.image.ToDtype("float32", scale=True)]
        ps.read("photos").transform(image=photo).head(2)["image"].shape == (2, 3, 64, 64)
    """

    mode: Mode = field(default=cast("Mode", _NotSaid("RGB")), metadata={"later": True})
    apply_exif: bool = False
    fast: bool = False
    allow_truncated: bool = False
    entry_points: Literal["auto", "build", "off"] = field(default="auto", metadata={"affects_result": False})
    window: Window = field(default=None, metadata={"later": True})

    def settle(self) -> None:
        """See `ImageOp`."""
        modes = ", ".join(f'"{mode}"' for mode in CHANNELS)
        check(self, is_one_of(self.mode, (*CHANNELS, "unchanged")), f'a mode: {modes} or "unchanged"')
        check(self, is_one_of(self.entry_points, ("auto", "build", "off")), "entry_points 'auto', 'build' or 'off'")
        if self.window is not None and not is_one_of(self.window, ("file", "full")):
            is_pair = isinstance(self.window, (tuple, list)) and len(self.window) == 2
            check(self, is_pair, "window=(center, width), 'file' or 'full'")
            center, width = map(float, self.window)
            check(
                self, isfinite(center) and isfinite(width) and width >= 1, "a finite center, and a width of at least 1"
            )
            set_fields(self, window=(center, width))

    @property
    def warns(self) -> bool:
        """Whether what is lost as RGB is worth a word: the user did not say that RGB is meant."""
        return isinstance(self.mode, _NotSaid)

    def extend(self, chain: Chain) -> Chain:
        """The chain with this op at its end; PlanError if that is not its beginning."""
        if chain.number > 0 or not chain.encoded:
            raise PlanError(f"Decode() as op {chain.number}; put it first, and only for bytes")
        mode = "RGB" if self.mode == "unchanged" else self.mode  # until it is known: see `DecodeAs`
        numbers = Numbers.of("uint16" if mode == "I16" else "uint8")
        how = (self.apply_exif, self.fast, self.allow_truncated)
        return replace(chain, mode=mode, numbers=numbers, decode=how, window=self.window)


@dataclass(frozen=True)
class DecodeAs(Decode):
    """What becomes of `Decode("unchanged")` once the first image is known: all must be as that is."""

    def extend(self, chain: Chain) -> Chain:
        """See `Decode`."""
        return replace(super().extend(chain), is_strict=True)


def as_first(op: Decode, mode: str) -> DecodeAs:
    """`op`, for images that are all of `mode`."""
    given = {each.name: getattr(op, each.name) for each in fields(op)}
    return DecodeAs(**given | {"mode": mode})


#: What an image loses as RGB, by the native kernel's names: in words, and what to say.
_LOSSES = {
    "grey16": ("grey of 16 bits, of which RGB keeps no more than 0 to 255", 'Decode(mode="I16") keeps them'),
    "colour16": ("colours of 16 bits, of which RGB keeps the upper 8", "convert the files if you need more"),
    "palette": ("a palette, whose indices are lost in RGB", 'Decode(mode="P") keeps them, if it is a mask'),
    "alpha": ("transparent pixels, whose alpha is lost in RGB", 'Decode(mode="RGBA") keeps it'),
}


def loss_in_words(loss: str) -> str:
    """What was lost, and what to say instead; `loss` as the native kernel names it."""
    found, keeps = _LOSSES[loss]
    return f'this image has {found}; {keeps}, and Decode(mode="RGB") says that RGB is meant'
