"""Files in the making: gone with their makers, and an error of ours where the disk has no room."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core.errors import StorageError
from penstock.core.files.cache_dirs import cache_folder
from penstock.core.files.scratch import no_room, room_errors, scratch_file, sweep

MAKER = """
import os, sys, time
from penstock.core.files.scratch import scratch_file
with scratch_file(os.path.join(sys.argv[1], "target")) as path:
    open(path, "wb").write(b"x" * 5000)
    print(path, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def maker(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process that makes a file, and the file."""
    code = [sys.executable, "-c", MAKER, str(tmp_path / "penstock" / "unpacked")]
    with subprocess.Popen(
        code, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": ":".join(sys.path)}
    ) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


@pytest.mark.slow
def test_what_a_killed_process_made_goes_at_the_next_opening(
    maker: tuple[subprocess.Popen[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And never what a living one makes, however old it is."""
    process, path = maker
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    os.utime(path, (1, 1))
    for folder in (tmp_path / "penstock", path.parent.parent):
        folder.chmod(0o700)
    assert cache_folder("unpacked") == str(path.parent.parent)
    assert path.stat().st_size == 5000
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert cache_folder("unpacked") is not None
    assert list(path.parent.iterdir()) == []


def test_a_file_that_was_moved_stays(tmp_path: Path) -> None:
    with scratch_file(str(tmp_path / "target")) as path:
        Path(path).write_text("made")
        os.replace(path, tmp_path / "target")
        sweep(str(tmp_path))
    assert (tmp_path / "target").read_text() == "made"
    with pytest.raises(KeyError), scratch_file(str(tmp_path / "target")) as path:
        raise KeyError
    assert not Path(path).exists()


@pytest.mark.slow
def test_nothing_is_lost_while_others_sweep(tmp_path: Path) -> None:
    """Between its making and its lock a file looks abandoned."""
    ends = threading.Event()

    def sweeping() -> None:
        while not ends.is_set():
            sweep(str(tmp_path))

    sweepers = [threading.Thread(target=sweeping) for _ in range(2)]
    for sweeper in sweepers:
        sweeper.start()
    end = time.monotonic() + 2
    made = 0
    while time.monotonic() < end or made <= 10:
        with scratch_file(str(tmp_path / "target")) as path:
            Path(path).write_text(f"{made}")
            os.replace(path, tmp_path / "target")
        assert (tmp_path / "target").read_text() == f"{made}"
        made += 1
    ends.set()
    for sweeper in sweepers:
        sweeper.join()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS])
def test_a_full_disk_is_an_error_with_three_parts(tmp_path: Path, number: int) -> None:
    with (
        pytest.raises(
            StorageError, match=r"^a/b\.tar: no room for a copy below .*, at least 12,345 bytes .*; free some"
        ) as told,
        room_errors("a/b.tar", str(tmp_path), 12_345, "a copy"),
    ):
        raise OSError(number, os.strerror(number))
    assert os.strerror(number) in str(told.value)
    assert told.value.errno == errno.ENOSPC


def test_other_errors_stay_what_they_are(tmp_path: Path) -> None:
    """That a source may not be read is no fault of the cache's disk."""
    with pytest.raises(PermissionError), room_errors("a", str(tmp_path), 1, "a copy"):
        raise PermissionError(errno.EACCES, "Permission denied", "/data/a.gz")
    with pytest.raises(StorageError, match="Permission denied"), room_errors("a", str(tmp_path), 1, "a copy"):
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "x"))
    first = no_room("a", str(tmp_path), 1, "a copy")
    with pytest.raises(StorageError) as told, room_errors("b", str(tmp_path), 2, "another"):
        raise first
    assert told.value is first


SMALL = """
import io, os, sys, tarfile, tempfile
from pathlib import Path
from support.cases import MemoryStorage
import penstock as ps

content = io.BytesIO()
with tarfile.open(fileobj=content, mode="w") as tar:
    for number in range(5):
        member = tarfile.TarInfo(f"{number:03}.bin")
        member.size = 1 << 20
        tar.addfile(member, io.BytesIO(bytes([number]) * (1 << 20)))
where = "memory://small/" + sys.argv[1]
kind = sys.argv[1]
files = {where + "/a.tar": content.getvalue()}
storage = MemoryStorage(files)
if kind == "full":
    with open(os.environ["XDG_CACHE_HOME"] + "/other", "wb") as file:
        try:
            while True:
                file.write(bytes(1 << 16)); file.flush()
        except OSError:
            pass
tempfile.tempdir = os.environ["XDG_CACHE_HOME"]  # no other disk has room either
import warnings
warnings.simplefilter("ignore" if kind == "full" else "error")
batches = list(ps.Loader(ps.read(where, storage=storage).batch(5)))
assert [bytes(one)[:1] for one in batches[0]["bin"].to_pylist()] == [bytes([number]) for number in range(5)]
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["small", "full"])
def test_a_tar_of_5_mb_is_read_where_little_is_free(tmp_path: Path, kind: str) -> None:
    """On a disk of 24 MB, and on one that is full."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs", str(disk)]
    mounted = subprocess.run(mount, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        environment = os.environ | {"PYTHONPATH": ":".join(sys.path), "XDG_CACHE_HOME": str(disk)}
        subprocess.run([sys.executable, "-c", SMALL, kind], check=True, env=environment)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
