"""Images: a chain of ops, fused into one native call per batch that writes straight into the batch.

fuse([Decode(), RandomResizedCrop(224), Normalize(IMAGENET)], Field("bytes"), ...).field == Field("float32", (3, 224, 224))
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.errors import PlanError, RowError
from penstock.core.kernels import ImageProgram, image_info
from penstock.core.limits import DEFAULT_LIMITS, Limits
from penstock.core.spec import Column, EntryPoints, Field, Ids, Spans
from penstock.transform.image_ops import (
    IMAGENET,
    PIXEL_OPS,
    CenterCrop,
    Decode,
    ImageOp,
    Normalize,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
    Statistics,
    ToDtype,
    ToLayout,
)

__all__ = [
    "IMAGENET",
    "CenterCrop",
    "Decode",
    "ImageKernel",
    "ImageOp",
    "Normalize",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
    "Statistics",
    "ToDtype",
    "ToLayout",
    "fuse",
    "picture_size",
]


#: The decoders: ours for baseline JPEGs, ours from entry points, the one for other JPEGs, those for other formats.
DECODERS = ("jpeg", "jpeg_entry_points", "jpeg_other", "other")


@dataclass(frozen=True)
class _Numbers:
    """How a byte is converted so far: byte × scale + bias by channel, as dtype.

    one: the value of 255; None once the channels differ.
    """

    dtype: str = "uint8"
    scale: tuple[float, ...] = (1.0, 1.0, 1.0)
    bias: tuple[float, ...] = (0.0, 0.0, 0.0)
    one: float | None = 255.0

    def to_dtype(self, op: ToDtype) -> _Numbers:
        if op.dtype == self.dtype:
            return self
        if op.dtype == "uint8":
            if self.one != (1.0 if op.scale else 255.0):
                raise PlanError(f"{op}: the numbers before it are not bytes or bytes / 255; leave it out")
            return _Numbers()
        if self.dtype == "uint8" and op.scale:
            return _Numbers(op.dtype, scale=(1 / 255,) * 3, one=1.0)
        return replace(self, dtype=op.dtype)

    def normalized(self, op: Normalize, channels: int) -> _Numbers:
        if len(op.stds) not in (1, channels):
            raise PlanError(f"{op}: the images have {channels} channels; give {channels} means and stds, or 1")
        before = self.to_dtype(ToDtype("float32", scale=True)) if self.dtype == "uint8" else self
        mean, std = op.means * (3 // len(op.means)), op.stds * (3 // len(op.stds))
        scale = tuple(a / s for a, s in zip(before.scale, std, strict=True))
        bias = tuple((b - m) / s for b, m, s in zip(before.bias, mean, std, strict=True))
        return _Numbers(before.dtype, scale, bias, one=None)


@dataclass(frozen=True)
class _Chain:
    """A checked chain: its geometry ops with their positions, and the conversion of the numbers."""

    geometry: tuple[tuple[int, dict[str, Any]], ...]
    decode: Decode
    numbers: _Numbers
    layout: str
    channels: int
    fixes_size: bool

    def program(self, height: int, width: int, limits: Limits) -> ImageProgram:
        output = {"height": height, "width": width, "channels": self.channels, "layout": self.layout}
        output |= {"dtype": self.numbers.dtype, "scale": self.numbers.scale, "bias": self.numbers.bias}
        return ImageProgram(list(self.geometry), output, *self.decode.switches, limits.pixels)


class ImageKernel:
    """A fused chain: called with a column of a batch, it fills the batch's array.

    field: dtype and shape of one row of the result. pictures: images by decoder.
    """

    def __init__(self, chain: _Chain, height: int, width: int, limits: Limits) -> None:
        self._program = chain.program(height, width, limits)
        self.pictures: Counter[str] = Counter()
        self._counting = threading.Lock()
        sides = (height, width)
        shape = (chain.channels, *sides) if chain.layout == "NCHW" else (*sides, chain.channels)
        self.field = Field(chain.numbers.dtype, shape)

    def __call__(
        self,
        column: Column,
        samples: Ids,
        *,
        key: int,
        out: npt.NDArray[Any],
        threads: int,
        entry_points: EntryPoints | None = None,
    ) -> None:
        """Fill `out`, contiguous and of shape (rows, *field.shape), with the rows of `column`.

        key: the epoch's key. Key and sample id decide a row's random choices, on any number of threads.
        Raises RowError about the first row that is damaged, too large, or of another size than the batch.
        """
        rows = len(samples)
        fits = out.shape == (rows, *self.field.shape) and out.itemsize == self.field.numpy_dtype.itemsize
        if not fits or len(column) != rows:
            found = f"{len(column)} rows and {rows} samples into {out.dtype}{out.shape}"
            raise ValueError(f"{found}; pass an array of {self.field} a row")
        if not out.flags.c_contiguous:
            raise ValueError("the array is not contiguous; pass a contiguous one")
        if rows == 0:
            return
        out = out.reshape(-1).view(np.uint8)
        samples = np.ascontiguousarray(samples, dtype=np.int64)
        if isinstance(column, np.ndarray):
            self._program.run_dense(np.ascontiguousarray(column), samples, key, out, threads)
            return
        spans = column if isinstance(column, Spans) else _spans(column)
        done = self._program.run(
            list(spans.buffers),
            np.ascontiguousarray(spans.which, dtype=np.int64),
            np.ascontiguousarray(spans.offset, dtype=np.int64),
            np.ascontiguousarray(spans.length, dtype=np.int64),
            samples,
            key,
            out,
            threads,
            None if entry_points is None else entry_points.arrays,
        )
        with self._counting:
            self.pictures.update(dict(zip(DECODERS, done, strict=True)))


def fuse(
    ops: Sequence[ImageOp],
    source: Field,
    size_of_first: Callable[[], tuple[int, int]],
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> ImageKernel:
    """One kernel for a chain of ops on `source`: encoded bytes, or uint8 pixels of shape (height, width, 3 or 1).

    size_of_first: returns the (height, width) of the first image, as `picture_size` does. It is called only if no op fixes
    the size. Raises PlanError if the chain cannot work.
    """
    chain = _checked(ops, source)
    probe = chain.program(1, 1, limits)
    if source.dtype != "bytes":
        height, width = (axis or 0 for axis in source.shape[:2])
    else:
        height, width = (_LARGE, _LARGE) if chain.fixes_size else size_of_first()
    return ImageKernel(chain, *probe.size_from(height, width), limits)


def picture_size(data: bytes, ops: Sequence[ImageOp]) -> tuple[int, int]:
    """The (height, width) of an encoded image at the chain's start, from its header. Raises ValueError."""
    apply_exif = any(op.apply_exif for op in ops if isinstance(op, Decode))
    width, height, _ = image_info(data, apply_exif)
    return height, width


#: Stands for any size where the chain fixes it.
_LARGE = 1 << 10


def _checked(ops: Sequence[ImageOp], source: Field) -> _Chain:
    channels = _channels(ops, source)
    numbers, layout = _Numbers(), "NCHW"
    geometry: list[tuple[int, dict[str, Any]]] = []
    fixes_size, decode = False, Decode()
    for number, op in enumerate(ops):
        match op:
            case Decode():
                decode = op
                if number > 0 or source.dtype != "bytes":
                    raise PlanError(f"Decode() as op {number} on {source}; put it first, and only for bytes")
            case Normalize():
                numbers = numbers.normalized(op, channels)
            case ToDtype():
                numbers = numbers.to_dtype(op)
            case ToLayout():
                layout = op.layout
            case _ if isinstance(op, PIXEL_OPS):
                if numbers.dtype != "uint8":
                    raise PlanError(f"{op}: follows Normalize or ToDtype; put it before them")
                geometry.append((number, {"op": type(op).__name__, **asdict(op)}))
                fixes_size |= isinstance(op, RandomResizedCrop | CenterCrop) or (
                    isinstance(op, Resize) and not isinstance(op.size, int)
                )
            case _:
                raise PlanError(f"{op!r}: not an image op; use those of penstock.image, or map()")
    return _Chain(tuple(geometry), decode, numbers, layout, channels, fixes_size)


def _channels(ops: Sequence[ImageOp], source: Field) -> int:
    if source.dtype == "bytes":
        if not ops or not isinstance(ops[0], Decode):
            first = type(ops[0]).__name__ if ops else "nothing"
            raise PlanError(f"{first} on encoded bytes; begin the chain with Decode()")
        return 3
    pixel_axes = 3
    if source.dtype != "uint8" or len(source.shape) != pixel_axes or None in source.shape or 0 in source.shape:
        raise PlanError(f"image ops on {source}; give bytes, or uint8 pixels of shape (height, width, 3 or 1)")
    channels = source.shape[2]
    if channels not in (1, 3):
        hint = " (move the channels to the end)" if source.shape[0] in (1, 3) else ""
        raise PlanError(f"image ops on {channels} channels, shape {source.shape}; give (height, width, 3 or 1){hint}")
    return channels


def _spans(column: pa.Array) -> Spans:
    """The values of an Arrow array of bytes as spans over its own buffer."""
    if not (pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)):
        column = column.cast(pa.large_binary())
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise RowError(row, "a null instead of an image", "fill it, or filter such rows out")
    _, ends, values = column.buffers()
    dtype = np.int64 if pa.types.is_large_binary(column.type) else np.int32
    bounds = np.frombuffer(ends, dtype=dtype)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    data = np.frombuffer(values or b"", dtype=np.uint8)
    return Spans((data,), np.zeros(len(column), np.int64), bounds[:-1], np.diff(bounds))
