"""The only importer of the compiled module; the kernels' signatures stand in `_core.pyi`."""

from __future__ import annotations

from penstock._core import ImageProgram, decode_image, image_info
from penstock._core import __version__ as native_version

__all__ = ["ImageProgram", "decode_image", "image_info", "native_version"]
