"""The end of chains of image ops as one Triton kernel: reads each byte once, writes each number once."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from penstock.core.columns.pixel_ops import PixelOps

_BLOCK = 1024


@triton.jit  # type: ignore[untyped-decorator]
def _kernel(  # type: ignore[no-untyped-def]  # noqa: ANN202  # Triton's own types
    source,  # noqa: ANN001
    out,  # noqa: ANN001
    flags,  # noqa: ANN001
    patches,  # noqa: ANN001
    affine,  # noqa: ANN001
    tables,  # noqa: ANN001
    channels: tl.constexpr,
    height: tl.constexpr,
    width: tl.constexpr,
    from_nhwc: tl.constexpr,
    to_nhwc: tl.constexpr,
    draws: tl.constexpr,
    table_count: tl.constexpr,
    erasings: tl.constexpr,
    block: tl.constexpr,
):
    """One program makes `block` neighbouring numbers of one image."""
    numbers = channels * height * width
    programs = (numbers + block - 1) // block  # of each image; all along the grid's first axis, which alone is long
    image = tl.program_id(0) // programs
    first = image.to(tl.int64) * numbers
    at = tl.program_id(0) % programs * block + tl.arange(0, block)
    inside = at < numbers
    if to_nhwc:
        channel, x, y = at % channels, at // channels % width, at // (channels * width)
    else:
        channel, x, y = at // (height * width), at % width, at // width % height
    out_x, out_y = x, y
    if draws:
        flag = tl.load(flags + image)
        x = tl.where((flag & 1) != 0, width - 1 - x, x)
        y = tl.where((flag & 2) != 0, height - 1 - y, y)
    place = (y * width + x) * channels + channel if from_nhwc else (channel * height + y) * width + x
    byte = tl.load(source + first + place, mask=inside, other=0)
    if draws:
        for number in tl.static_range(table_count):
            through = tl.load(tables + 256 * number + byte.to(tl.int32))
            byte = tl.where((tl.load(flags + image) & (4 << number)) != 0, through, byte)
    scale = tl.load(affine + channel, mask=inside, other=0)
    bias = tl.load(affine + 3 + channel, mask=inside, other=0)
    number = byte.to(tl.float32) * scale + bias
    for erasing in tl.static_range(erasings):
        patch = patches + 4 * (image * erasings + erasing)
        top, left = tl.load(patch), tl.load(patch + 1)
        rows = (out_y >= top) & (out_y < top + tl.load(patch + 2))
        columns = (out_x >= left) & (out_x < left + tl.load(patch + 3))
        value = tl.load(affine + 6 + 3 * erasing + channel, mask=inside, other=0)
        number = tl.where(rows & columns, value, number)
    tl.store(out + first + at, number.to(out.dtype.element_ty), mask=inside)


def fused(
    pixels: torch.Tensor,
    flags: torch.Tensor | None,
    patches: torch.Tensor | None,
    ops: PixelOps,
    affine: torch.Tensor,
    tables: torch.Tensor,
) -> torch.Tensor:
    """See `torch_pixels.expression`, which gives the same."""
    pixels = pixels.contiguous()
    images = len(pixels)
    height, width, channels = (pixels.shape[axis] for axis in ((1, 2, 3) if ops.layout_from == "NHWC" else (2, 3, 1)))
    shape = (images, height, width, channels) if ops.layout_to == "NHWC" else (images, channels, height, width)
    out = torch.empty(shape, dtype=getattr(torch, ops.dtype), device=pixels.device)
    if images:
        launch: Any = _kernel[(images * triton.cdiv(channels * height * width, _BLOCK),)]
        launch(
            pixels,
            out,
            pixels if flags is None else flags,
            pixels if patches is None else patches,
            affine,
            tables,
            channels=channels,
            height=height,
            width=width,
            from_nhwc=ops.layout_from == "NHWC",
            to_nhwc=ops.layout_to == "NHWC",
            draws=flags is not None,
            table_count=len(tables),
            erasings=0 if patches is None else len(ops.erased),
            block=_BLOCK,
            enable_fp_fusion=False,  # a multiplication and an addition, rounded each, as on the CPU
        )
    return out
