"""The Triton kernel without a GPU, in a process of its own: interpreted, and compiled for an H100."""

from __future__ import annotations

import itertools
import os

os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from penstock.core.columns.pixel_ops import PixelOps
from penstock.deliver.torch_pixels import affine_of, expression, tables_of
from penstock.deliver.triton_pixels import _kernel, fused

DTYPES, LAYOUTS = ("float32", "float16"), ("NCHW", "NHWC")  # bfloat16 is rounded otherwise by the interpreter
TABLES = (bytes(range(255, -1, -1)), bytes(min(255, 2 * x) for x in range(256)))
ERASED = ((0.0, 0.0, 0.0), (-3.5, 1e-3, 7.0))
SCALE, BIAS = (1 / 255 / 0.229, 1 / 255 / 0.224, 0.0171), (-2.1, -2.0, 0.3)


def interpreted() -> int:
    """Compares the kernel with the expression; how many cases there are."""
    cases = itertools.product(DTYPES, LAYOUTS, LAYOUTS, (1, 3), (False, True))
    number = 0
    for number, (dtype, before, after, channels, draws) in enumerate(cases, 1):  # noqa: B007
        ops = PixelOps(
            dtype=dtype, scale=SCALE, bias=BIAS, layout_from=before, layout_to=after, tables=TABLES, erased=ERASED
        )  # type: ignore[arg-type]
        shape = (5, 19, 37, channels) if before == "NHWC" else (5, channels, 19, 37)
        pixels = torch.randint(0, 256, shape, dtype=torch.uint8)
        flags = torch.tensor([0, 1, 6, 11, 13], dtype=torch.uint8) if draws else None
        patches = torch.randint(0, 25, (5, 2, 4), dtype=torch.int32) if draws or channels == 1 else None
        made, wanted = (
            kernel(pixels, flags, patches, ops, affine_of(ops), tables_of(ops)) for kernel in (fused, expression)
        )
        assert made.dtype == wanted.dtype
        assert torch.equal(made, wanted), (ops, channels, draws)
    return number


CONSTANTS = {
    "channels": 3,
    "height": 64,
    "width": 64,
    "from_nhwc": True,
    "to_nhwc": False,
    "draws": True,
    "table_count": 2,
    "erasings": 1,
    "block": 1024,
}


def compiled() -> str:
    """How the compiled code rounds a multiplication with an addition, and a bfloat16."""
    pointers = {"source": "*u8", "out": "*bf16", "flags": "*u8", "patches": "*i32", "affine": "*fp32", "tables": "*u8"}
    signature = {**pointers, **dict.fromkeys(CONSTANTS, "constexpr")}
    source = ASTSource(fn=JITFunction(_kernel.fn), signature=signature, constexprs=CONSTANTS)
    ptx = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"enable_fp_fusion": False}).asm["ptx"]
    return f"{'fused' if 'fma.rn.f32' in ptx else 'separate'}, {'nearest' if 'cvt.rn.bf16' in ptx else 'other'}"


if __name__ == "__main__":
    print(interpreted(), "cases")
    print(compiled())
