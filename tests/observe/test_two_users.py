"""Two users on one machine, each a process with another number: neither reads, changes or stops what the other one does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root works as other users"),
]

#: Of somebody else; the tests' own user is root, whose files of Python others may not read: what is imported later, is imported before.
OTHER = 54_321
BECOMES = """
import json, os, sys, time
import numpy as np
import psutil
import penstock as ps
from penstock.observe.live import loaders_now

place, user = os.environ.pop("PLACE"), int(sys.argv[1])
os.environ["PENSTOCK_OBSERVE_DIR"] = "off"
for _ in ps.Loader(ps.from_arrays({"x": np.arange(8)}).batch(4)):
    pass
del os.environ["PENSTOCK_OBSERVE_DIR"]
os.environ |= json.loads(place)
os.setgroups([])
os.setgid(user)
os.setuid(user)
"""
TRAINS = """
data = ps.from_arrays({"x": np.arange(4_000_000)}).batch(4)
with ps.Loader(data, rank=int(sys.argv[2]), world_size=2) as loader:
    batches = iter(loader)
    next(batches)
    print("began", flush=True)
    for line in sys.stdin:
        for _ in range(100):
            next(batches)
        print([one.rank for one in loader.stats().ranks], flush=True)
"""
LOOKS = """
found = loaders_now()
print(json.dumps([[one.snapshot.loader.pid for one in found.loaders], [[str(path), why] for path, why in found.ignored]]))
"""


def command_of(code: str, user: int, rank: int = 0) -> list[str]:
    return [sys.executable, "-c", BECOMES + code, str(user), str(rank)]


def environment(place: dict[str, str]) -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if name not in ("PENSTOCK_OBSERVE_DIR", "XDG_RUNTIME_DIR")
    }
    return {
        **kept,
        **place,
        "PENSTOCK_TRAINING": "one",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PLACE": json.dumps(place),
    }


class Training:
    """A loader of a process of a user."""

    def __init__(self, user: int, rank: int, **place: str) -> None:
        self.process: subprocess.Popen[str] = subprocess.Popen(
            command_of(TRAINS, user, rank),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(place),
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ranks(self) -> list[int]:
        """Takes some batches; the other ranks that it sees."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        found: list[int] = json.loads(self.line())
        return found

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(60) == 0


@pytest.fixture
def begin() -> Iterator[Callable[..., Training]]:
    """Begins trainings, which end with the test at the latest."""
    found = list[Training]()

    def begun(user: int, rank: int, **place: str) -> Training:
        found.append(Training(user, rank, **place))
        assert found[-1].line() == "began"
        return found[-1]

    yield begun
    for one in found:
        with one.process:  # which closes its pipes
            one.process.kill()


def looks(user: int, **place: str) -> tuple[list[int], list[list[str]]]:
    """The processes whose loaders a user sees, and what is ignored, with the reason."""
    told = subprocess.run(command_of(LOOKS, user), stdout=subprocess.PIPE, check=True, env=environment(place)).stdout
    loaders, ignored = json.loads(told)
    return loaders, ignored


def until_files(folder: Path, count: int) -> None:
    ends_at = time.monotonic() + 60
    while len([*folder.glob("*.snapshot.json")]) < count:
        assert time.monotonic() < ends_at, "no files came"
        time.sleep(0.1)


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder for all, as /tmp is."""
    found = Path(tempfile.mkdtemp(prefix="penstock-users-"))
    found.chmod(0o1777)
    yield found
    shutil.rmtree(found)


def test_folders_of_two_users(temporary: Path, begin: Callable[..., Training]) -> None:
    place = {"TMPDIR": str(temporary)}
    trainings = [begin(user, rank, **place) for rank, user in enumerate((0, OTHER))]
    for user in (0, OTHER):
        until_files(temporary / f"penstock-{user}", 1)
        assert (temporary / f"penstock-{user}").stat().st_mode & 0o777 == 0o700
    assert [training.ranks() for training in trainings] == [[], []]
    assert looks(OTHER, **place)[0] == [trainings[1].process.pid]
    assert trainings[1].process.pid not in looks(0, **place)[0]  # other loaders of root may be there
    loaders, ignored = looks(OTHER, PENSTOCK_OBSERVE_DIR=str(temporary / "penstock-0"))
    assert loaders == []
    assert [why for _, why in ignored] == ["Permission denied"]
    for training in trainings:
        training.end()
    assert not [*temporary.glob("*/*")], "each removed its own files"


def test_a_folder_that_somebody_else_made_first(temporary: Path, begin: Callable[..., Training]) -> None:
    """With our name, open to all, and with a file in it that looks like one of ours."""
    theirs = temporary / f"penstock-{OTHER}"
    theirs.mkdir()
    theirs.chmod(0o777)
    fake = theirs / "h-1-1.snapshot.json"
    fake.write_text(json.dumps({"version": 1, "loader": {"host": "h", "pid": 1, "number": 1}}))
    fake.chmod(0o666)
    training = begin(OTHER, 0, TMPDIR=str(temporary))
    assert training.ranks() == [], "it trains"
    time.sleep(2)  # four times as long as until a file would be written
    assert [path.name for path in theirs.iterdir()] == [fake.name]
    loaders, ignored = looks(OTHER, TMPDIR=str(temporary))
    assert loaders == []
    assert [str(theirs), "is no folder of this user"] in ignored
    assert training.ranks() == []
    training.end()
    assert fake.exists()


def test_a_folder_that_two_users_share(temporary: Path, begin: Callable[..., Training]) -> None:
    """Named by both: each sees its own loaders, and is told that there are files of others."""
    shared = temporary / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    place = {"PENSTOCK_OBSERVE_DIR": str(shared)}
    trainings = [begin(user, rank, **place) for rank, user in enumerate((0, OTHER))]
    until_files(shared, 2)
    time.sleep(3)  # longer than until ranks are looked for again
    assert [training.ranks() for training in trainings] == [[], []], "ranks of one training are one user's"
    for user, rank, why in ((0, 0, "belongs to another user"), (OTHER, 1, "Permission denied")):
        loaders, ignored = looks(user, **place)
        assert loaders == [trainings[rank].process.pid]
        assert [reason for _, reason in ignored] == [why]
    same = begin(OTHER, 0, **place)
    until_files(shared, 3)
    ends_at = time.monotonic() + 60
    while trainings[1].ranks() != [0]:
        assert time.monotonic() < ends_at, "a rank of the same user is seen"
        time.sleep(0.2)
    for training in (*trainings, same):
        training.end()
    assert [*shared.iterdir()] == []
