"""Signatures of the compiled module, checked against it by stubtest."""

__version__: str

from typing import Any, final

import numpy as np
import numpy.typing as npt

@final
class ImageProgram:
    """What is done to every picture of a column.

    ops: (number, {"op": name, **its fields}); the number keys the operation's random choices.
    output: height, width, channels (3 or 1), dtype, layout, and scale and bias of 3 floats each.
    """

    def __new__(
        cls, ops: list[tuple[int, dict[str, Any]]], output: dict[str, Any], apply_exif: bool, pixels_limit: int
    ) -> ImageProgram: ...
    def size_of(self, data: bytes) -> tuple[int, int]:
        """The (height, width) of the result for an encoded picture, whatever the output's."""

    def size_from(self, height: int, width: int) -> tuple[int, int]:
        """The (height, width) of the result for pixels of the given height and width, whatever the output's."""

    def run(
        self,
        buffers: list[npt.NDArray[np.uint8]],
        which: npt.NDArray[np.int64],
        offset: npt.NDArray[np.int64],
        length: npt.NDArray[np.int64],
        samples: npt.NDArray[np.int64],
        key: int,
        out: npt.NDArray[np.uint8],
        threads: int,
    ) -> None:
        """Decodes and transforms encoded pictures into `out`, one result after the other.

        Raises RowError about the lowest row that cannot be done.
        """

    def run_dense(
        self,
        pixels: npt.NDArray[np.uint8],
        samples: npt.NDArray[np.int64],
        key: int,
        out: npt.NDArray[np.uint8],
        threads: int,
    ) -> None:
        """As `run`, for pixels of shape (rows, height, width, 3 or 1)."""

def image_info(data: bytes, apply_exif: bool = False) -> tuple[int, int, str]:
    """The (width, height, format) that a picture's header states. Raises ValueError."""

def decode_image(data: bytes, apply_exif: bool = False, pixels_limit: int = 1 << 28) -> npt.NDArray[np.uint8]:
    """The picture as an array of (height, width, 3). Raises ValueError."""
