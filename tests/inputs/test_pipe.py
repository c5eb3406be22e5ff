"""Records out of named pipes and standard input, written by a thread or a process; the files are other libraries'."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.inputs import pipe as pipes
from support.seams import runs_of

GOLDEN = Path(__file__).parent.parent / "golden"
FILES = {
    "tfrecord": GOLDEN / "tfrecord" / "images.tfrecord",
    "recordio": GOLDEN / "recordio" / "vector.rec",
}


@pytest.fixture
def sent(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """sent(b"…", b"…") writes each into a pipe of its own, in small pieces; the path with {epoch}."""
    threads: list[threading.Thread] = []

    def send(*epochs: bytes, piece: int = 1000, pause_s: float = 0.0) -> str:
        def write() -> None:
            for epoch, content in enumerate(epochs):
                try:
                    with open(tmp_path / f"train_{epoch}", "wb", buffering=0) as pipe:
                        for at in range(0, len(content), piece):
                            pipe.write(content[at : at + piece])
                            time.sleep(pause_s)
                except BrokenPipeError:
                    return

        for epoch in range(len(epochs)):
            os.mkfifo(tmp_path / f"train_{epoch}")
        threads.append(threading.Thread(target=write, daemon=True))
        threads[-1].start()
        return str(tmp_path / "train_{epoch}")

    yield send
    for thread in threads:
        thread.join(0.1)


def lines(count: int) -> bytes:
    return b"".join(b"line %d of the stream\n" % number for number in range(count))


def texts(loader: ps.Loader) -> list[list[str]]:
    return [batch["text"].to_pylist() for batch in loader]


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("piece", [7, 4096])
def test_a_pipe_gives_what_the_file_gives(sent: Callable[..., str], kind: str, piece: int) -> None:
    file = ps.read(str(FILES[kind]), format=kind)
    path = sent(FILES[kind].read_bytes(), piece=piece)
    stream = ps.read_stream(path, format=kind, samples=len(file))
    assert stream.spec == file.spec
    near, far = (list(ps.Loader(each.batch(3, drop_last=True), prefetch=1)) for each in (file, stream))
    assert len(near) == len(far) > 0
    assert [{name: str(column) for name, column in batch.items()} for batch in near] == [
        {name: str(column) for name, column in batch.items()} for batch in far
    ]


def test_long_records_among_short_ones_come_whole(sent: Callable[..., str]) -> None:
    wanted = [f"{number}" * (number % 4 * 700_000) for number in range(1, 10)]
    path = sent("\n".join(wanted).encode(), piece=50_000)
    with ps.Loader(ps.read_stream(path, format="text", samples=9).batch(3)) as loader:
        batches = texts(loader)  # all are kept while later ones come
    assert [text for batch in batches for text in batch] == wanted


def test_each_epoch_has_a_pipe_of_its_own(sent: Callable[..., str]) -> None:
    path = sent(lines(500), lines(1000)[len(lines(500)) :], lines(500))
    loader = ps.Loader(ps.read_stream(path, format="text", samples=500).batch(50), prefetch=1)
    first, second = texts(loader), texts(loader)
    assert sum(map(len, first)) == sum(map(len, second)) == 500
    assert first[0][0] == "line 0 of the stream"
    assert second[-1][-1] == "line 999 of the stream"
    loader.close()


def test_a_state_goes_on_by_drawing_the_records_before_again(sent: Callable[..., str], tmp_path: Path) -> None:
    plan = ps.read_stream(sent(lines(300), lines(300)), format="text", samples=300).batch(10)
    with ps.Loader(plan, prefetch=1) as loader:
        passing = iter(loader)
        before = [next(passing)["text"].to_pylist() for _ in range(12)]
        state = loader.state_dict()
    for epoch in (0, 1):
        os.unlink(tmp_path / f"train_{epoch}")
    resumed = ps.Loader(ps.read_stream(sent(lines(300), lines(300)), format="text", samples=300).batch(10), prefetch=1)
    resumed.load_state_dict(state)
    after = texts(resumed)
    resumed.close()
    assert [row for batch in before + after for row in batch] == lines(300).decode().splitlines()


def test_each_rank_keeps_its_own(sent: Callable[..., str], tmp_path: Path) -> None:
    found = []
    for rank in range(2):
        path = sent(lines(100))
        loader = ps.Loader(ps.read_stream(path, format="text", samples=100).batch(20), rank=rank, world_size=2)
        found += [row for batch in texts(loader) for row in batch]
        loader.close()
        os.unlink(tmp_path / "train_0")
    assert sorted(found) == sorted(lines(100).decode().splitlines())


def test_a_last_line_without_its_end_is_a_line(sent: Callable[..., str]) -> None:
    loader = ps.Loader(ps.read_stream(sent(lines(100)[:-1]), format="text", samples=100).batch(100))
    assert next(iter(loader))["text"][-1].as_py() == "line 99 of the stream"
    loader.close()


@pytest.mark.parametrize("kind", FILES)
def test_a_stream_that_ends_inside_a_record_is_an_error(sent: Callable[..., str], kind: str) -> None:
    content = FILES[kind].read_bytes() * 40
    records = len(ps.read(str(FILES[kind]), format=kind)) * 40
    loader = ps.Loader(ps.read_stream(sent(content[:-3]), format=kind, samples=records).batch(1))
    with pytest.raises(ps.DataError, match=rf"train_0: the stream ends inside record {records - 1:,}, after"):
        for _ in loader:
            pass


def test_damaged_frames_name_their_record(sent: Callable[..., str]) -> None:
    content = bytearray(FILES["tfrecord"].read_bytes() * 3)
    content[len(content) // 3] ^= 1
    records = len(ps.read(str(FILES["tfrecord"])))
    path = sent(bytes(content))
    with pytest.raises(ps.DataError, match=rf"record {records}: a length that does not have its checksum"):
        list(ps.Loader(ps.read_stream(path, format="tfrecord", samples=3 * records).batch(1)))  # it may come at once


@pytest.mark.parametrize(
    ("samples", "told"), [(120, "ended after 100 records.*samples=100"), (80, "continues after the 80")]
)
def test_another_number_of_records_is_an_error(sent: Callable[..., str], samples: int, told: str) -> None:
    loader = ps.Loader(ps.read_stream(sent(lines(100)), format="text", samples=samples).batch(10))
    with pytest.raises(ps.DataError, match=told):
        for _ in loader:
            pass


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"format": "parquet", "samples": 1}, "what can come through a pipe: tfrecord, recordio, text, jsonl"),
        ({"format": "text", "samples": 0}, "how many records an epoch has"),
        ({"format": "recordio", "samples": 1, "headed": True}, "no option headed"),
    ],
)
def test_what_cannot_be_is_told(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(ps.PlanError, match=told):
        ps.read_stream("/nowhere", **asked)


def test_a_pipe_that_is_not_there_is_told() -> None:
    with pytest.raises(ps.SourceError, match=r"/nowhere/train_0: No such file.*mkfifo"):
        ps.read_stream("/nowhere/train_{epoch}", format="text", samples=1)


@pytest.mark.slow
def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(ps.SourceError, match=f"{tmp_path}: Is a directory; name a pipe"):
        ps.read_stream(str(tmp_path), format="text", samples=1)
    code = "import penstock as ps; ps.read_stream('-', format='text', samples=1)"
    done = subprocess.run(
        ["sh", "-c", f'"{sys.executable}" -c "{code}" <&-'], check=False, capture_output=True, text=True
    )
    assert "SourceError: -: standard input is closed" in done.stderr


def test_an_empty_stream_is_told(sent: Callable[..., str]) -> None:
    with pytest.raises(ps.SourceError, match="the stream is empty"):
        ps.read_stream(sent(b""), format="text", samples=1)


def test_it_cannot_be_shuffled_as_a_whole(sent: Callable[..., str]) -> None:
    with pytest.raises(ps.PlanError, match="can only be read in one order"):
        ps.read_stream(sent(lines(10)), format="text", samples=10).shuffle(seed=0, mode="global")


def test_a_silent_writer_holds_no_close(sent: Callable[..., str]) -> None:
    loader = ps.Loader(
        ps.read_stream(sent(lines(5000), piece=24, pause_s=0.05), format="text", samples=5000).batch(4000)
    )

    def close() -> None:
        while not runs_of(loader):  # a batch is awaited a moment later
            time.sleep(0.01)
        time.sleep(0.3)
        loader.close()

    threading.Thread(target=close, daemon=True).start()
    began_at = time.monotonic()
    with pytest.raises(ps.ProcessError, match="closed while a batch was awaited"):
        next(iter(loader))
    assert time.monotonic() - began_at < 60, "the writer takes 200 s for the batch"


def test_memory_is_bounded_by_the_batches(sent: Callable[..., str]) -> None:
    path = sent((b"x" * 99_999 + b"\n") * 200, piece=1 << 20)
    loader = ps.Loader(ps.read_stream(path, format="text", samples=200).batch(2), prefetch=1)
    for _ in loader:
        pieces = loader.dataset.source.draw._pieces
        assert pieces._held.nbytes <= (64 + 1) * 100_000 + 2 * pipes._PIECE_BYTES
    loader.close()


@pytest.mark.slow
def test_standard_input_comes_once() -> None:
    script = """
import penstock as ps
loader = ps.Loader(ps.read_stream("-", format="text", samples=100).batch(10))
print(sum(len(batch["text"]) for batch in loader))
try:
    next(iter(loader))
except ps.PlanError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], input=lines(100), capture_output=True, timeout=280, check=True
    )
    assert done.stdout.decode().startswith("100\nstandard input comes once")
