"""Signatures of the compiled module, checked against it by stubtest."""

from collections.abc import Sequence
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt

__all__ = [
    "EpochOrder",
    "ExampleParser",
    "ImageProgram",
    "WorkProgress",
    "__version__",
    "decode_image",
    "gather_rows",
    "image_info",
    "index_tfrecords",
    "infer_examples",
    "is_tfrecord",
    "join_spans",
    "jpeg_entry_points",
    "mix",
    "pick_rows",
    "read_ranges",
    "recognise_tfrecord_packing",
    "stat_files",
    "unpack_files_once",
    "walk_files",
]

__version__: str

_Ids: TypeAlias = npt.NDArray[np.int64]
_Bytes: TypeAlias = npt.NDArray[np.uint8]

# order

@final
class EpochOrder:
    """The order of one epoch: lanes × hand rows a step; every method is arithmetic."""

    @staticmethod
    def natural(samples: int, lanes: int, hand: int, block_rows: int) -> EpochOrder: ...
    @staticmethod
    def shuffled(samples: int, lanes: int, hand: int, block_rows: int, window_blocks: int, key: int) -> EpochOrder: ...
    @property
    def block_rows(self) -> int: ...
    @property
    def tail_start(self) -> int: ...
    def lane_rows(self, lane: int) -> int: ...
    def lane_ids(self, lane: int, first: int, count: int) -> _Ids: ...
    def step_ids(self, lanes: tuple[int, int], step: int, out: _Ids, threads: int) -> None: ...
    def blocks(self, lanes: tuple[int, int], first: int, last: int) -> _Ids: ...

def mix(words: Sequence[int]) -> int: ...

# gather

def gather_rows(source: _Bytes, row_bytes: int, rows: _Ids, out: _Bytes, threads: int) -> None: ...
def join_spans(buffers: Sequence[_Bytes], which: _Ids, offset: _Ids, length: _Ids, out: _Bytes) -> None: ...

# pick

def pick_rows(parts: Sequence[_Bytes], row_bytes: int, which: _Ids, rows: _Ids, out: _Bytes, threads: int) -> None: ...

# entry points

def jpeg_entry_points(
    buffers: Sequence[_Bytes], which: _Ids, offset: _Ids, length: _Ids, every_pixels: int, threads: int
) -> tuple[_Bytes, _Ids, npt.NDArray[np.uint32]]: ...

# files

def walk_files(root: str, threads: int) -> tuple[_Ids, _Bytes, _Ids, _Ids]: ...
def stat_files(paths: Sequence[str]) -> tuple[_Ids, _Bytes, _Ids, _Ids]: ...
def read_ranges(
    path_offsets: _Ids,
    path_bytes: _Bytes,
    sizes: _Ids,
    shard: _Ids,
    offset: _Ids,
    length: _Ids,
    out: _Bytes,
    at: _Ids,
    threads: int,
) -> None: ...

# tfrecord

@final
class WorkProgress:
    """How far a call has come that runs in another thread."""

    def __new__(cls) -> WorkProgress: ...
    @property
    def done(self) -> int: ...
    def stop(self) -> None: ...

@final
class ExampleParser:
    """Columns of tf.train.Examples.

    A column is (feature number, form, dtype, values, expected, default); forms: "fixed" (that many values), "ragged"
    (multiples of that many), "spans", "texts" (that many, -1: any number).
    """

    def __new__(
        cls,
        features: Sequence[str],
        columns: Sequence[tuple[int, str, str, int, str, bytes | None]],
        *,
        verify: bool,
        values_limit: int,
    ) -> ExampleParser: ...
    def parse(
        self,
        buffers: Sequence[_Bytes],
        which: _Ids,
        offset: _Ids,
        length: _Ids,
        outs: Sequence[_Bytes | None],
        threads: int,
    ) -> list[tuple[npt.NDArray[Any], ...] | None]: ...

def is_tfrecord(head: bytes) -> bool: ...
def recognise_tfrecord_packing(paths: Sequence[str], threads: int) -> _Ids: ...
def unpack_files_once(
    paths: Sequence[str],
    packing: _Ids,
    targets: Sequence[str],
    scratch: Sequence[str],
    *,
    unpacked_bytes: int,
    ratio: int,
    room_bytes: int,
    threads: int,
    progress: WorkProgress,
) -> _Ids: ...
def index_tfrecords(
    paths: Sequence[str], sizes: _Ids, *, record_bytes: int, threads: int, progress: WorkProgress
) -> tuple[_Ids, _Ids]: ...
def infer_examples(
    buffers: Sequence[_Bytes], which: _Ids, offset: _Ids, length: _Ids, verify: bool
) -> list[tuple[str, str, bool, int, int, int]]: ...

# image

@final
class ImageProgram:
    """What is done to every picture of a column.

    ops: (number, {"op": name, **its fields}); the number keys the operation's random choices.
    output: height, width, channels (3 or 1), dtype, layout, and scale and bias of 3 floats each.
    """

    def __new__(
        cls,
        ops: list[tuple[int, dict[str, Any]]],
        output: dict[str, Any],
        apply_exif: bool,
        fast: bool,
        allow_truncated: bool,
        pixels_limit: int,
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
        entry_points: tuple[_Ids, _Ids, npt.NDArray[np.uint32], _Bytes] | None = None,
    ) -> tuple[int, int, int, int]:
        """Decodes and transforms encoded pictures into `out`, one result after the other; pictures by decoder.

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

def decode_image(data: bytes, apply_exif: bool = False, pixels_limit: int = ...) -> npt.NDArray[np.uint8]:
    """The picture as an array of (height, width, 3). Raises ValueError."""
