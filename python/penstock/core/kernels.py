"""The native kernels: the one file that imports the compiled module. `_core.pyi` has their signatures and says what they do."""

from penstock._core import *  # noqa: F403
from penstock._core import __version__ as native_version

__all__ = ["native_version"]
