"""The only importer of the compiled module; the kernels' signatures stand in `_core.pyi`."""

from __future__ import annotations

from penstock._core import __version__ as native_version

__all__ = ["native_version"]
