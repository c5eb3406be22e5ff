"""A chain of ops, fused into one native call per batch that writes straight into the batch.

fuse([Decode(), RandomResizedCrop(224), Normalize(IMAGENET)], Field("bytes"), ...).field == Field("float32", (3, 224, 224))
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Column, EntryPoints, Field, Ids
from penstock.core.errors import PlanError
from penstock.core.images import encoded
from penstock.core.images.wanted import WantedPixels
from penstock.core.kernels import BoxColumn, ImageProgram, run_image_views
from penstock.core.limits import DEFAULT_LIMITS, Limits
from penstock.core.messages import quoted
from penstock.transform.image.decode import Decode, as_first
from penstock.transform.image.encoded_rows import EncodedRows, sizes_from, spans_of_heads
from penstock.transform.image.op import Chain, ImageOp, Numbers

#: The decoders: ours for baseline JPEGs, ours from entry points, the one for other JPEGs, those for other formats.
DECODERS = ("jpeg", "jpeg_entry_points", "jpeg_other", "other")


class ImageKernel:
    """A fused chain: called with a column of a batch, it fills the batch's array.

    field: dtype and shape of one row of the result. size: its (height, width). images: images by decoder. is_watching: whether it tells of an image that loses something as RGB.
    channels_first: whether pixels come as (channels, height, width).
    """

    def __init__(
        self,
        chain: Chain,
        height: int,
        width: int,
        limits: Limits,
        *,
        is_watching: bool = False,
        channels_first: bool = False,
    ) -> None:
        self._channels_first = channels_first
        self._program = program_of(chain, height, width, limits)
        is_wide = (chain.first_mode or chain.mode) == "I16"
        self.encoded = EncodedRows(limits, WantedPixels(is_wide=is_wide, window=chain.window))
        self._by_size = {place: chain.geometry[place][0] for place in chain.by_size}
        self.images: Counter[str] = Counter()
        self._counting = threading.Lock()
        self.is_watching = is_watching
        self.size = (height, width)
        sides, crops = (height // chain.crops, width), (chain.crops,) if chain.crops > 1 else ()
        shape = (chain.channels, *sides) if chain.layout == "NCHW" else (*sides, chain.channels)
        self.field = Field(chain.numbers.dtype, (*crops, *shape))

    def sizes(self, column: Column, samples: Ids, key: int) -> dict[int, npt.NDArray[np.uint32]]:
        """(height, width) of every image where ops meet it that draw by the size, by their numbers; 0 for bytes that are no image."""
        places = list(self._by_size)
        if not places:
            return {}
        if isinstance(column, np.ndarray):
            sides = column.shape[2:4] if self._channels_first else column.shape[1:3]
            found = [
                np.broadcast_to(np.array(size, np.uint32), (len(column), 2))
                for size in self._program.sizes_before_from(places, *sides)
            ]
            return dict(zip(self._by_size.values(), found, strict=True))
        samples = np.ascontiguousarray(samples, dtype=np.int64)
        every = sizes_from(lambda spans: self._program.sizes_before(places, *spans, samples, key), column)
        every = every.reshape(len(samples), len(places), 2)
        return {number: every[:, place] for place, number in enumerate(self._by_size.values())}

    def sizes_at_start(self, column: Column) -> npt.NDArray[np.uint32]:
        """(height, width) of every image where the chain begins; 0 for bytes that are no image."""
        if isinstance(column, np.ndarray):
            size = np.array(column.shape[2:4] if self._channels_first else column.shape[1:3], np.uint32)
            return np.broadcast_to(size, (len(column), 2))
        return sizes_from(lambda spans: self._program.sizes_at_start(*spans), column).reshape(-1, 2)

    def drawn(
        self, column: Column, samples: Ids, key: int, boxes: BoxColumn | None = None
    ) -> dict[int, dict[str, npt.NDArray[np.float64]]]:
        """What each op draws for the rows of a column, by its number and by parameter: a number a row, NaN where it draws none."""
        samples = np.ascontiguousarray(samples, dtype=np.int64)
        if isinstance(column, np.ndarray):
            height, width = column.shape[2:4] if self._channels_first else column.shape[1:3]
            every = self._program.drawn_from(height, width, samples, key, boxes)
        else:
            every = self._program.drawn(*spans_of_heads(column), samples, key, boxes)
        found: dict[int, dict[str, npt.NDArray[np.float64]]] = {}
        for number, name, row, value in every:
            of_op = found.setdefault(number, {})
            of_op.setdefault(name, np.full(len(samples), np.nan))[row] = value
        return found

    def __call__(
        self,
        column: Column,
        samples: Ids,
        *,
        key: int,
        out: npt.NDArray[Any],
        threads: int,
        entry_points: EntryPoints | None = None,
        every_row: bool = False,
        boxes: BoxColumn | None = None,
    ) -> tuple[int, str] | None:
        """Fill `out`, contiguous and of shape (rows, *field.shape), with the rows of `column`.

        key: the epoch's key. Key and sample id decide a row's random choices, on any number of threads. boxes: those of the images, where an op asks for them.
        Returns the first row that lost something as RGB, and what, the first time that one does.
        Raises RowError about the first row that is damaged, too large, or of another size than the batch. every_row: all others are made before that
        (of encoded images), and the error lists all bad rows.
        """
        rows = len(samples)
        if len(column) != rows:
            raise ValueError(f"{len(column)} rows and {rows} samples; pass as many")
        out = self.bytes_for(out, rows)
        if rows == 0:
            return None
        samples = np.ascontiguousarray(samples, dtype=np.int64)
        if isinstance(column, np.ndarray):
            pixels = np.ascontiguousarray(np.moveaxis(column, 1, -1) if self._channels_first else column)
            self._program.run_dense(pixels.view(np.uint8), samples, key, out, threads, boxes)
            return None
        arrays = None if entry_points is None else entry_points.arrays
        made = self.encoded.run(
            lambda spans: self._program.run(
                *spans, samples, key, out, threads, arrays, every_row, self.is_watching, boxes
            ),
            column,
            threads,
        )
        return self.counted(*made)

    @property
    def program(self) -> ImageProgram:
        """The native program."""
        return self._program

    def counted(self, done: Sequence[int], lost: tuple[int, str] | None) -> tuple[int, str] | None:
        """Takes note of what a call did, images by decoder, and of the first row that lost something: that, the first time that one does."""
        with self._counting:
            self.images.update(dict(zip(DECODERS, done, strict=True)))
            if lost is None or not self.is_watching:
                return None
            self.is_watching = False
            return lost

    def bytes_for(self, out: npt.NDArray[Any], rows: int) -> npt.NDArray[np.uint8]:
        """The bytes of an array that is to be filled; ValueError for one of another shape."""
        if out.shape != (rows, *self.field.shape) or out.itemsize != self.field.numpy_dtype.itemsize:
            raise ValueError(f"{rows} samples into {out.dtype}{out.shape}; pass an array of {self.field} a row")
        if not out.flags.c_contiguous:
            raise ValueError("the array is not contiguous; pass a contiguous one")
        return out.reshape(-1).view(np.uint8)


def run_views(
    views: Sequence[tuple[ImageKernel, int, npt.NDArray[Any], BoxColumn | None]],
    column: Column,
    samples: Ids,
    *,
    threads: int,
    entry_points: EntryPoints | None = None,
    every_row: bool = False,
) -> tuple[int, str] | None:
    """Fills the arrays of several kernels, each with its key and the boxes that it asks for, from one column, whose images are decoded once: see `ImageKernel`. The first one counts them."""
    if len(views) == 1 or isinstance(column, np.ndarray) or not len(samples):
        how: dict[str, Any] = {"threads": threads, "entry_points": entry_points, "every_row": every_row}
        (first, *_) = [
            kernel(column, samples, key=key, out=out, boxes=boxes, **how) for kernel, key, out, boxes in views
        ]
        return first
    first_kernel = views[0][0]
    programs, keys = [kernel.program for kernel, _, _, _ in views], [key for _, key, _, _ in views]
    outs = [kernel.bytes_for(out, len(samples)) for kernel, _, out, _ in views]
    boxes = [boxes for _, _, _, boxes in views]
    samples = np.ascontiguousarray(samples, dtype=np.int64)
    made = first_kernel.encoded.run(
        lambda spans: run_image_views(
            programs, keys, *spans, samples, outs, threads, every_row, first_kernel.is_watching, boxes
        ),
        column,
        threads,
    )
    return first_kernel.counted(*made)


def fuse(
    ops: Sequence[ImageOp],
    source: Field,
    size_of_first: Callable[[], tuple[int, int]],
    *,
    limits: Limits = DEFAULT_LIMITS,
    numbers: Sequence[int] = (),
    channels_first: bool = False,
) -> ImageKernel:
    """One kernel for a chain of ops on `source`: encoded bytes, or pixels of shape (height, width, channels), or with channels_first (channels, height, width).

    Pixels are uint8 of 1 to 4 channels, or uint16 of one. size_of_first: returns the (height, width) of the first image, as `image_size` does. It is called only if no op fixes
    the size. numbers: of the ops, by which random ones draw; from 0 on if they are not given. Raises PlanError if the chain cannot work.
    """
    if channels_first and source.dtype != "bytes":
        source = replace(source, shape=(*source.shape[1:], *source.shape[:1]))
    chain = chain_of(ops, source, numbers)
    probe = program_of(chain, 1, 1, limits)
    if source.dtype != "bytes":
        height, width = (axis or 0 for axis in source.shape[:2])
    else:
        height, width = (_LARGE, _LARGE) if chain.fixes_size else size_of_first()
    is_watching = isinstance(ops[0], Decode) and ops[0].warns
    return ImageKernel(
        chain, *probe.size_from(height, width), limits, is_watching=is_watching, channels_first=channels_first
    )


def as_first_is(ops: Sequence[ImageOp], mode_of_first: Callable[[], str]) -> tuple[ImageOp, ...]:
    """The ops, with the mode of the first image where that is asked for; `mode_of_first` finds it, and is called only then."""
    if ops and isinstance(ops[0], Decode) and ops[0].mode == "unchanged":
        return as_first(ops[0], mode_of_first()), *ops[1:]
    return tuple(ops)


def image_size(data: bytes, ops: Sequence[ImageOp]) -> tuple[int, int]:
    """The (height, width) of an encoded image at the chain's start, from its header. Raises ValueError."""
    apply_exif = any(op.apply_exif for op in ops if isinstance(op, Decode))
    return encoded.image_size(data, apply_exif=apply_exif)


#: Stands for any size where the chain fixes it.
_LARGE = 1 << 10


def numbers_of(ops: Sequence[ImageOp], numbers: Sequence[int]) -> list[int]:
    """A number for each op: those that are given, and of the others its place."""
    return [*numbers[: len(ops)], *range(len(numbers), len(ops))]


def chain_of(ops: Sequence[ImageOp], source: Field, numbers: Sequence[int]) -> Chain:
    """What the ops describe together, on `source`; PlanError if they cannot follow each other. See `fuse`."""
    mode = _mode(ops, source)
    stored = Numbers.of("uint16" if mode == "I16" else "uint8")
    chain = Chain(mode=mode, encoded=source.dtype == "bytes", numbers=stored)
    for number, op in zip(numbers_of(ops, numbers), ops, strict=True):
        if not isinstance(op, ImageOp):
            raise PlanError(f"{quoted(op)}: not an image op; use those of penstock.image, or map()")
        chain = op.extend(replace(chain, number=number))
    return chain


def gives_indices(ops: Sequence[ImageOp], *, from_indices: bool) -> bool:
    """Whether ops give indices of a palette. from_indices: whether they work on such, which pixels do not say; PlanError if they cannot."""
    if not from_indices:
        return bool(ops) and isinstance(ops[0], Decode) and ops[0].mode == "P"
    chain = Chain(mode="P", encoded=False)
    for op in ops:
        chain = op.extend(chain)
    return True


def program_of(chain: Chain, height: int, width: int, limits: Limits) -> ImageProgram:
    """The native program of a chain whose results are of this size."""
    output = {
        "height": height,
        "width": width,
        "mode": chain.first_mode or chain.mode,
        "last_mode": chain.mode,
        "is_strict": chain.is_strict,
        "layout": chain.layout,
        "crops": chain.crops,
    }
    output |= asdict(chain.numbers)
    return ImageProgram(list(chain.geometry), output, *chain.decode, limits.of_image)


#: The mode of pixels that are no files, by dtype and channels.
_MODES = {("uint8", 1): "L", ("uint8", 2): "LA", ("uint8", 3): "RGB", ("uint8", 4): "RGBA", ("uint16", 1): "I16"}


def _mode(ops: Sequence[ImageOp], source: Field) -> str:
    if source.dtype == "bytes":
        if not ops or not isinstance(ops[0], Decode):
            first = type(ops[0]).__name__ if ops else "nothing"
            raise PlanError(f"{first} on encoded bytes; begin the chain with Decode()")
        return "RGB"
    pixel_axes = 3
    is_fixed = len(source.shape) == pixel_axes and None not in source.shape and 0 not in source.shape
    if source.dtype not in ("uint8", "uint16") or not is_fixed:
        raise PlanError(f"image ops on {source}; give bytes, or uint8 pixels of shape (height, width, 3 or 1)")
    channels = source.shape[2] or 0
    is_first = source.shape[0] in (1, 3) and channels not in (1, 3)  # channels first, more likely than 1 or 3 rows
    if not is_first and (mode := _MODES.get((source.dtype, channels))):
        return mode
    hint = (
        ' (move the channels to the end; ops before a function do with ToLayout("NHWC") at the end of their chain)'
        if is_first
        else ""
    )
    raise PlanError(
        f"image ops on {channels} channels of {source.dtype}, shape {source.shape}; give (height, width, channels), uint8 of 1 to 4 or uint16 "
        f"of 1{hint}"
    )
