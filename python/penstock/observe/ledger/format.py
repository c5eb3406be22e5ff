"""The bytes of a ledger file: a magic number, a header, then one record after another; everything little-endian.

    file    = MAGIC, record (HEADER), record …
    record  = kind, length of the body (u32 each), CRC-32 of these 8 bytes, CRC-32 of the body (u32 each), body
    HEADER  = JSON: see `LedgerHeader`
    MARK    = epoch, step, time in nanoseconds, 1 after load_state_dict else 0 (i64 each): the next step does not follow the last one
    EPOCH   = epoch, its steps, its rows without padding, rows of its last step (i64 each), where the header has no steps since the data says how many there are
    STEPS   = epoch, first step, steps, first place in the global batch, rows a step, time in nanoseconds (i64 each), then three arrays:
              ids, draws, valid
    array   = form (u8), then by form:  ABSENT (draws: all are the epoch; valid: all rows are)
                                        LINE   first, difference (i64 each)
                                        PACKED least (i64), width (u8), one number of so many bytes a row: what it is above the least

A body that is shorter than its length at the end of a file is a write that a kill cut off. Any other difference from its checksum is damage.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import asdict, dataclass, fields
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.core.errors import DataError

MAGIC = b"PENSTLG\x01"
SUFFIX = ".ledger"
#: Upper bound on the rows of a record, batch or step; rejects corrupt counts before allocating.
MOST_ROWS = 1 << 27
_MOST_IDS = 1 << 40

_HEAD = struct.Struct("<II")
_SUMS = struct.Struct("<II")
HEAD_BYTES = _HEAD.size + _SUMS.size
_MARK = struct.Struct("<qqqq")
_EPOCH = struct.Struct("<qqqq")
_STEPS = struct.Struct("<qqqqqq")
_LINE = struct.Struct("<qq")
_PACKED = struct.Struct("<qB")
#: Bytes, one each.
Buffer: TypeAlias = bytes | memoryview
_WIDTHS = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<u8"}


class RecordKind(IntEnum):
    """What a record is."""

    HEADER = 1
    MARK = 2
    STEPS = 3
    EPOCH = 4


class _Form(IntEnum):
    ABSENT = 0
    LINE = 1
    PACKED = 2


@dataclass(frozen=True, kw_only=True)
class LedgerHeader:
    """Who wrote a file, and what the plan says an epoch holds.

    rank, world_size: of the process. node: its node where nodes have files of their own, else None; place, places: the rank among those that
    share the order, and how many these are. batch_size: rows of a full global batch; last_rows: of an epoch's last one. steps, rows: of an
    epoch, without padding; 0 where each ends with its data, and records of epochs say where. runs: the ids that an epoch chooses from, each (first, count, distance, times): an id comes at most so often, 0 for any number;
    None where that is not known. sources: rows of each source; none where ids number the rows that come out of a lane stage. unique: whether no row comes twice in the same draw. plan, data:
    what identifies the order and the data.
    """

    rank: int
    world_size: int
    node: int | None
    place: int
    places: int
    batch_size: int
    last_rows: int
    steps: int
    rows: int
    runs: tuple[tuple[int, int, int, int], ...] | None
    sources: tuple[int, ...]
    unique: bool
    plan: str
    data: str
    started_ns: int = 0

    @property
    def samples(self) -> int:
        """Rows of all sources: ids are less."""
        return sum(self.sources)

    @property
    def has_ends(self) -> bool:
        """Whether each epoch ends with its data."""
        return self.steps == 0

    def encode(self) -> bytes:
        """The body of its record."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, body: bytes) -> LedgerHeader:
        """The header that a body holds; ValueError if it is none."""
        given = json.loads(body)
        if not isinstance(given, dict) or given.keys() != {field.name for field in fields(cls)}:
            raise ValueError("the header has other fields")
        if given["runs"] is not None:
            given["runs"] = tuple(tuple(_whole(number) for number in run) for run in given["runs"])
        given["sources"] = tuple(_whole(count) for count in given["sources"])
        header = cls(**given)
        header.check()
        return header

    def check(self) -> None:
        """ValueError where a number cannot be."""
        for name in ("rank", "world_size", "place", "places", "batch_size", "last_rows", "steps", "rows", "started_ns"):
            _whole(getattr(self, name))
        if self.node is not None:
            _whole(self.node)
        if (type(self.plan), type(self.data), type(self.unique)) != (str, str, bool):
            raise ValueError("plan, data or unique is of another type")
        if not (self.rank < self.world_size and self.place < self.places <= self.world_size):
            raise ValueError(f"rank {self.rank} of {self.world_size}, place {self.place} of {self.places}")
        if not 0 < self.batch_size <= MOST_ROWS or not 0 <= self.last_rows <= self.batch_size:
            raise ValueError(f"batches of {self.batch_size} rows, the last one of {self.last_rows}")
        if self.samples > _MOST_IDS or any(len(run) != 4 or run[2] < 1 for run in self.runs or ()):
            raise ValueError(f"{self.samples} rows, runs {self.runs}")
        if any(run[0] + (run[1] - 1) * run[2] >= self.samples for run in self.runs or ()):
            raise ValueError(f"runs {self.runs} of {self.samples} rows")


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise ValueError(f"{value!r} is no whole number from 0 on")
    return value


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """The next step to be recorded does not follow the last one. is_loaded: since a state was loaded."""

    epoch: int
    step: int
    time_ns: int
    is_loaded: bool

    def encode(self) -> bytes:
        """The body of its record."""
        return _MARK.pack(self.epoch, self.step, self.time_ns, self.is_loaded)

    @classmethod
    def decode(cls, body: bytes) -> Mark:
        """The mark that a body holds; ValueError if it is none."""
        if len(body) != _MARK.size:
            raise ValueError("a mark of another length")
        epoch, step, time_ns, is_loaded = _MARK.unpack(body)
        _whole(epoch), _whole(step)
        return cls(epoch=epoch, step=step, time_ns=time_ns, is_loaded=bool(is_loaded))


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochSize:
    """What an epoch holds, of those that end with their data. rows: without padding; last_rows: of the last step's global batch."""

    epoch: int
    steps: int
    rows: int
    last_rows: int

    def encode(self) -> bytes:
        """The body of its record."""
        return _EPOCH.pack(self.epoch, self.steps, self.rows, self.last_rows)

    @classmethod
    def decode(cls, body: bytes) -> EpochSize:
        """What a body says; ValueError if it says nothing."""
        if len(body) != _EPOCH.size:
            raise ValueError("an epoch of another length")
        return cls(
            **{field.name: _whole(number) for field, number in zip(fields(cls), _EPOCH.unpack(body), strict=True)}
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class StepsHead:
    """Which steps a record is of: `steps` from `step` on, of each the places [at, at + rows) of the global batch. time_ns: when it was written."""

    epoch: int
    step: int
    steps: int
    at: int
    rows: int
    time_ns: int

    @classmethod
    def decode(cls, body: bytes) -> StepsHead:
        """What the body of a record begins with; ValueError if it cannot be."""
        if len(body) < _STEPS.size:
            raise ValueError("steps of another length")
        found = cls(**dict(zip((field.name for field in fields(cls)), _STEPS.unpack_from(body), strict=True)))
        for number in (found.epoch, found.step, found.steps, found.at, found.rows):
            _whole(number)
        if found.steps < 1 or found.steps * found.rows > MOST_ROWS or found.step + found.steps >= 1 << 62:
            raise ValueError(f"{found.steps} steps of {found.rows} rows from step {found.step} on")
        return found


@dataclass(frozen=True, kw_only=True)
class TakenSteps:
    """Steps and their rows: (steps × rows) ids; draws: None where all are the epoch; valid: None where no row is padding."""

    head: StepsHead
    ids: Ids
    draws: Ids | None = None
    valid: Ids | None = None

    def encode(self) -> list[Buffer]:
        """The body of its record, in pieces: nothing is copied that can be written as it is."""
        head = self.head
        numbers = _STEPS.pack(head.epoch, head.step, head.steps, head.at, head.rows, head.time_ns)
        return [numbers, *_encode_array(self.ids), *_encode_array(self.draws), *_encode_array(self.valid)]

    @classmethod
    def decode(cls, body: bytes) -> TakenSteps:
        """The steps that a body holds; ValueError if it holds something else."""
        head, at, arrays = StepsHead.decode(body), _STEPS.size, []
        for _ in range(3):
            array, at = _decode_array(body, at, head.steps * head.rows)
            arrays.append(array)
        ids, draws, valid = arrays
        if ids is None or at != len(body):
            raise ValueError("no ids, or more than them")
        return cls(head=head, ids=ids, draws=draws, valid=valid)


def _encode_array(numbers: Ids | None) -> list[Buffer]:
    if numbers is None:
        return [bytes([_Form.ABSENT])]
    if not len(numbers):
        return [bytes([_Form.LINE]) + _LINE.pack(0, 0)]
    first, low, high = int(numbers[0]), int(numbers.min()), int(numbers.max())
    difference = int(numbers[1]) - first if len(numbers) > 1 else 0
    if _is_line(numbers, first, difference, low, high):
        return [bytes([_Form.LINE]) + _LINE.pack(first, difference)]
    width = next(width for width in _WIDTHS if (high - low) >> (8 * width) == 0)
    above = np.empty(len(numbers), dtype=_WIDTHS[width])
    np.subtract(numbers, low, out=above, casting="unsafe")
    return [bytes([_Form.PACKED]) + _PACKED.pack(low, width), above.data.cast("B")]


def _is_line(numbers: Ids, first: int, difference: int, low: int, high: int) -> bool:
    """Whether all differences are the same. The ends are looked at first: most arrays are none, and that costs nothing."""
    last = first + difference * (len(numbers) - 1)
    if {first, last} != {low, high} or int(numbers[-1]) != last:
        return False
    return bool((np.diff(numbers) == difference).all())


def _decode_array(body: bytes, at: int, count: int) -> tuple[Ids | None, int]:
    """The array that begins at a place, and where it ends; ValueError if there is none of so many numbers."""
    form, at = body[at] if at < len(body) else -1, at + 1
    if form == _Form.ABSENT:
        return None, at
    if form == _Form.LINE and at + _LINE.size <= len(body):
        first, difference = _LINE.unpack_from(body, at)
        if not 0 <= first < 1 << 62 or not 0 <= first + difference * max(0, count - 1) < 1 << 62:
            raise ValueError("numbers below 0")
        return first + difference * np.arange(count, dtype=np.int64), at + _LINE.size
    if form == _Form.PACKED and at + _PACKED.size <= len(body):
        low, width = _PACKED.unpack_from(body, at)
        at += _PACKED.size
        if width in _WIDTHS and at + width * count <= len(body) and 0 <= low < 1 << 62:
            above = np.frombuffer(body, _WIDTHS[width], count, at)
            if not count or int(above.max()) < 1 << 62:
                return above.astype(np.int64) + low, at + width * count
    raise ValueError(f"no array of {count} numbers at byte {at - 1} of a record")


def frame(kind: int, *body: Buffer) -> list[Buffer]:
    """A record as it stands in a file, in pieces; its body may be in pieces, too."""
    body_sum = 0
    for piece in body:
        body_sum = zlib.crc32(piece, body_sum)
    head = _HEAD.pack(kind, sum(map(len, body)))
    return [head + _SUMS.pack(zlib.crc32(head), body_sum), *body]


def check_head(head: bytes, where: str) -> tuple[int, int, int]:
    """Kind, length and checksum of the body that a head of HEAD_BYTES says; DataError if the head is damaged."""
    kind, length = _HEAD.unpack_from(head)
    head_sum, body_sum = _SUMS.unpack_from(head, _HEAD.size)
    found = zlib.crc32(head[: _HEAD.size])
    if found != head_sum:
        raise damaged(where, f"the checksum of a record's head is 0x{found:08x}, the file says 0x{head_sum:08x}")
    return kind, length, body_sum


def check_body(body: bytes, body_sum: int, where: str) -> None:
    """DataError if a body is not what its checksum says."""
    found = zlib.crc32(body)
    if found != body_sum:
        raise damaged(where, f"the checksum of a record is 0x{found:08x}, the file says 0x{body_sum:08x}")


def damaged(where: str, found: str) -> DataError:
    """The error for a place in a file where something else stands than what was written."""
    return DataError(
        f"{where}: {found}; the file was damaged after it was written, so take it from a backup, or verify without it"
    )
