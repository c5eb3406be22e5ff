"""The bytes of a ledger: what is written is read, a torn end is left out, damage is named, and nothing crashes the reader."""

from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.observe.ledger.format import (
    HEAD_BYTES,
    MAGIC,
    LedgerHeader,
    Mark,
    RecordKind,
    StepsHead,
    TakenSteps,
    frame,
)
from penstock.observe.ledger.reader import read_ledger
from penstock.observe.ledger.verify import verify
from penstock.observe.ledger.writer import Ledger, StepRows
from support.ledgers import files_of, frames_of
from support.tries import some, tries

HEADER = LedgerHeader(
    rank=0,
    world_size=1,
    node=None,
    place=0,
    places=1,
    batch_size=4,
    last_rows=2,
    steps=3,
    rows=10,
    runs=((0, 10, 1, 1),),
    sources=(10,),
    unique=True,
    plan="p",
    data="d",
)


def framed(kind: int, *body: Any) -> bytes:
    return b"".join(frame(kind, *body))


def head_of(steps: int, rows: int) -> StepsHead:
    return StepsHead(epoch=1, step=2, steps=steps, at=3, rows=rows, time_ns=5)


def whole_file() -> bytes:
    """A header, a mark, two steps of one record, and the short last one."""
    ids = np.array([7, 1, 0, 2, 9, 4, 3, 8], dtype=np.int64)
    first = TakenSteps(head=StepsHead(epoch=0, step=0, steps=2, at=0, rows=4, time_ns=1), ids=ids)
    last = TakenSteps(
        head=StepsHead(epoch=0, step=2, steps=1, at=0, rows=2, time_ns=2), ids=np.array([5, 6], dtype=np.int64)
    )
    mark = Mark(epoch=0, step=0, time_ns=0, is_loaded=False)
    small = framed(RecordKind.HEADER, HEADER.encode()) + framed(RecordKind.MARK, mark.encode())
    return MAGIC + small + framed(RecordKind.STEPS, *first.encode()) + framed(RecordKind.STEPS, *last.encode())


def ids_of(path: Path) -> list[list[int]]:
    file = read_ledger(str(path))
    assert file is not None
    return [steps.ids.tolist() for steps in file.steps([found for found in file.records if found.head is not None])]


numbers = st.integers(0, 2**61)


@given(
    steps=st.integers(1, 4),
    rows=st.integers(0, 5),
    draw=st.data(),
    first=numbers,
    difference=st.integers(-3, 2**40),
)
def test_what_is_written_is_read(steps: int, rows: int, draw: Any, first: int, difference: int) -> None:
    count = steps * rows
    line = first + difference * np.arange(count)
    arrays = [
        np.array(draw.draw(st.lists(st.integers(0, most), min_size=count, max_size=count)), dtype=np.int64)
        for most in (200, 60_000, 2**31, 2**61)
    ]
    for ids in [*arrays, *([line] if count == 0 or line.min() >= 0 else [])]:
        for draws, valid in ((None, None), (arrays[0], None), (arrays[1], ids % 2)):
            found = TakenSteps.decode(
                b"".join(TakenSteps(head=head_of(steps, rows), ids=ids, draws=draws, valid=valid).encode())
            )
            assert found.head == head_of(steps, rows)
            assert found.ids.tolist() == ids.tolist()
            assert (None if found.draws is None else found.draws.tolist()) == (
                None if draws is None else draws.tolist()
            )
            assert (None if found.valid is None else found.valid.tolist()) == (
                None if valid is None else valid.tolist()
            )


def test_neighbours_take_no_room() -> None:
    ids = np.arange(10**6, 10**6 + 4096)
    assert sum(map(len, TakenSteps(head=head_of(1, 4096), ids=ids).encode())) < 100
    shuffled = np.random.default_rng(0).permutation(ids)
    assert sum(map(len, TakenSteps(head=head_of(1, 4096), ids=shuffled).encode())) < 2 * 4096 + 100


def test_headers_come_back() -> None:
    for header in (HEADER, LedgerHeader(**{**vars(HEADER), "runs": None, "node": 3})):
        assert LedgerHeader.decode(header.encode()) == header


def test_a_torn_end_is_left_out_at_every_byte(tmp_path: Path) -> None:
    data = whole_file()
    path = tmp_path / "a.ledger"
    path.write_bytes(data)
    whole = ids_of(path)
    assert whole == [[7, 1, 0, 2, 9, 4, 3, 8], [5, 6]]
    last = len(data) - len(frames_of(str(path))[-1][1]) - HEAD_BYTES
    for end in range(last, len(data)):
        path.write_bytes(data[:end])
        file = read_ledger(str(path))
        assert file is not None
        assert file.torn_bytes == end - last
        assert ids_of(path) == whole[:1]
        report = verify([str(path)])
        assert report.is_well, report.wrong
        assert any(f"its {end - last:,} bytes are left out" in note for note in report.notes) == (end > last)


def test_a_file_cut_anywhere_is_read_as_far_as_it_is(tmp_path: Path) -> None:
    data, path = whole_file(), tmp_path / "a.ledger"
    for end in range(len(data)):
        path.write_bytes(data[:end])
        file = read_ledger(str(path))
        assert file is None or len(file.records) <= 2
    path.write_bytes(data[:20])
    with pytest.raises(ps.SourceError, match="no ledger has a whole header; nothing was taken"):
        verify([str(path)])


def test_zeros_at_the_end_are_torn(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    path.write_bytes(whole_file() + bytes(1000))
    assert len(ids_of(path)) == 2
    path.write_bytes(whole_file() + bytes(1000) + b"x" * 20)
    with pytest.raises(ps.DataError, match="zeros stand where a record belongs"):
        read_ledger(str(path))


@pytest.mark.parametrize("bit", [0, 3, 7])
def test_every_flipped_bit_is_found(tmp_path: Path, bit: int) -> None:
    data, path = whole_file(), tmp_path / "a.ledger"
    for place in some(range(len(data)), full=len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << bit
        path.write_bytes(changed)
        with pytest.raises(ps.DataError, match=r"a\.ledger.*(byte \d+: .*0x|begins with)"):
            read_ledger(str(path))


def test_damage_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    path.write_bytes(whole_file())
    at = len(MAGIC) + sum(HEAD_BYTES + len(body) for _, body in frames_of(str(path))[:2])
    changed = bytearray(whole_file())
    changed[at + HEAD_BYTES + 60] ^= 1
    path.write_bytes(changed)
    with pytest.raises(ps.DataError, match=rf"byte {at:,}: the checksum of a record is 0x[0-9a-f]+, the file says"):
        verify([str(path)])


bodies = st.binary(max_size=120)


@settings(max_examples=tries(3_000), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    records=st.lists(st.tuples(st.integers(0, 5), bodies), max_size=4),
    tail=st.binary(max_size=40),
    cut=st.integers(0, 400),
    flips=st.lists(st.integers(0, 10_000), max_size=3),
    with_header=st.booleans(),
)
def test_nothing_but_data_errors(
    tmp_path: Path, records: list[tuple[int, bytes]], tail: bytes, cut: int, flips: list[int], with_header: bool
) -> None:
    """Also where checksums fit: bodies of any bytes."""
    data = bytearray(MAGIC + (framed(RecordKind.HEADER, HEADER.encode()) if with_header else b""))
    for kind, body in records:
        data += framed(kind, body)
    data += tail
    for flip in flips:
        data[flip % len(data)] ^= 1 << (flip % 8)
    _verified(tmp_path, bytes(data[: len(data) - cut] if cut < len(data) else data))


fields = st.integers(-1, 12) | st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=tries(3_000), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    marks=st.lists(st.tuples(*[fields] * 4), max_size=3),
    steps=st.lists(st.tuples(st.tuples(*[fields] * 6), bodies), max_size=3),
)
def test_any_numbers_in_records(
    tmp_path: Path, marks: list[tuple[int, ...]], steps: list[tuple[tuple[int, ...], bytes]]
) -> None:
    data = MAGIC + framed(RecordKind.HEADER, HEADER.encode())
    for mark in marks:
        data += framed(RecordKind.MARK, np.array(mark, dtype="<i8").tobytes())
    for numbers, arrays in steps:
        data += framed(RecordKind.STEPS, np.array(numbers, dtype="<i8").tobytes() + arrays)
    _verified(tmp_path, data)


@given(change=st.dictionaries(st.sampled_from(sorted(vars(HEADER))), fields | st.text() | st.none() | st.lists(fields)))
@settings(max_examples=tries(2_000), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_header(tmp_path: Path, change: dict[str, Any]) -> None:
    header = json.dumps({**json.loads(HEADER.encode()), **change}).encode()
    (tmp_path / "a.ledger").write_bytes(MAGIC + framed(RecordKind.HEADER, header))
    try:
        read_ledger(str(tmp_path / "a.ledger"))
    except ps.DataError as error:
        assert "a.ledger, byte 8" in str(error)  # noqa: PT017


def _verified(folder: Path, data: bytes) -> None:
    path = folder / "fuzzed.ledger"
    path.write_bytes(data)
    try:
        verify([str(path)])
    except (ps.DataError, ps.SourceError) as error:
        assert "fuzzed.ledger" in str(error)  # noqa: PT017


# Writing


def rows_of(step: int, steps: int) -> StepRows:
    rows = 2 if step == 2 else 4
    ids = np.arange(4 * step, 4 * step + rows * steps)
    return StepRows(epoch=0, step=step, steps=steps, at=0, ids=ids)


def test_a_full_disk_is_an_error_and_leaves_whole_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path)
    ledger.begin(HEADER, 0, 0)
    ledger.recording(rows_of(0, 1), int)()
    write = os.write

    def full(descriptor: int, data: Any) -> int:
        if len(data) > 20:
            return write(descriptor, data[:20])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    monkeypatch.setattr(os, "writev", lambda descriptor, pieces: write(descriptor, pieces[0]))
    with pytest.raises(ps.StorageError, match=r"cannot write the ledger \(No space left on device\); make room"):
        ledger.recording(rows_of(1, 1), int)()
    monkeypatch.undo()
    (file,) = files_of(tmp_path)
    assert (len(file.records), file.torn_bytes) == (2, 0)
    with pytest.raises(ps.StorageError, match="No space left"):
        ledger.flush()  # as state_dict does: a state would count a step that is not in the ledger


def test_steps_that_were_made_ahead_are_not_in_it(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.begin(HEADER, 0, 0)
    take = ledger.recording(rows_of(0, 2), lambda: "batch")
    assert take() == "batch"
    ledger.flush()
    (file,) = files_of(tmp_path)
    assert [found.head.steps for found in file.records if found.head] == [1]


def test_two_threads_write_a_step_once(tmp_path: Path) -> None:
    """A state may be saved in another thread than the one that takes steps."""
    ledger = Ledger(tmp_path)
    ledger.begin(LedgerHeader(**{**vars(HEADER), "steps": 10**6, "last_rows": 4}), 0, 0)
    stop = threading.Event()

    def flush() -> None:
        while not stop.is_set():
            ledger.flush()

    thread = threading.Thread(target=flush)
    thread.start()
    for step in range(0, 400, 8):
        take = ledger.recording(StepRows(epoch=0, step=step, steps=8, at=0, ids=np.arange(32)), int)
        for _ in range(8):
            take()
    stop.set()
    thread.join()
    ledger.flush()
    (file,) = files_of(tmp_path)
    steps = [
        step for found in file.records if (head := found.head) for step in range(head.step, head.step + head.steps)
    ]
    assert steps == [*range(400)]
