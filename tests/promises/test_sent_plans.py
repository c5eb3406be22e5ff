"""A plan can be sent to another process, which reads it without opening it again."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import fsspec
import pytest

import penstock as ps
from penstock.core.errors import RowError
from penstock.inputs.sql.dialect import DatabaseUri
from penstock.inputs.sql.server import Server
from penstock.plan.tree import leaves
from servers.s3 import CREDENTIALS, served
from support import cases
from support import promises as contracts

#: Its storage is the tests' own, in memory.
OWN = {"blocks"}


@pytest.mark.parametrize("source", sorted(cases.SOURCES.keys() - OWN))
def test_a_plan_is_the_same_after_pickling(source: str, tmp_path: Path) -> None:
    plan = cases.SOURCES[source](61, tmp_path).shuffle(seed=3).batch(16)
    sent = pickle.loads(pickle.dumps(plan))
    assert sent.digest == plan.digest
    with ps.Loader(plan) as loader, ps.Loader(sent) as other:
        for step, (mine, same) in enumerate(zip(loader, other, strict=True)):
            contracts.assert_same(same, mine, f"step {step}")


CHILD = """
import pickle, sys
import penstock as ps
with ps.Loader(pickle.load(sys.stdin.buffer)) as loader:
    print([text for batch in loader for text in batch["text"].to_pylist()])
"""


def read_by_a_child(plan: ps.Dataset) -> str:
    done = subprocess.run([sys.executable, "-c", CHILD], input=pickle.dumps(plan), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


@pytest.mark.slow
def test_another_process_lists_nothing_again(tmp_path: Path) -> None:
    """What was listed is what is read, also where more files lie by now."""
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    plan = ps.read(tmp_path).batch(2)
    (tmp_path / "b.txt").write_text("four\n")
    assert read_by_a_child(plan) == "['one', 'two', 'three']"


def test_a_store_is_opened_with_the_credentials_of_the_other_process() -> None:
    with served({"texts/a.txt": b"one\ntwo\n"}):
        plan = ps.read("s3://data/texts/").batch(2)
        assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"].encode() not in pickle.dumps(plan)
        assert read_by_a_child(plan) == "['one', 'two']"


def test_the_cache_is_the_same_and_keeps_its_limit(tmp_path: Path) -> None:
    """One that was chosen is opened again; what the user's own may hold is for the other process to say."""
    with served({"texts/a.txt": b"one\ntwo\n"}):
        plan = ps.read("s3://data/texts/")
        by_default = plan.storage.cache
        before = by_default.limit_bytes
        with ps.Loader(pickle.loads(pickle.dumps(plan)).batch(2)) as loader:
            assert len(list(loader)) == 1
            assert leaves(loader.dataset.root)[0].opened.storage.cache is by_default
        assert by_default.limit_bytes == before
        plan.cache_local("1 MB", path=tmp_path)
        sent = pickle.loads(pickle.dumps(plan))
        assert sent.storage.cache.folder == plan.storage.cache.folder
        assert sent.storage.cache.limit_bytes == 1_000_000
        plan.cache_local(0)
        assert pickle.loads(pickle.dumps(plan)).storage.cache is None


def test_no_credentials_are_sent() -> None:
    """Neither of a file system that was passed, nor of a database's URI."""
    files = fsspec.filesystem("memory")
    files.pipe("/sent/a.txt", b"one\n")
    with pytest.raises(ps.ProcessError, match="the MemoryFileSystem passed as storage= may hold credentials"):
        pickle.dumps(ps.read("/sent", storage=files))
    assert Server.__reduce__(_Told("sqlite:////x.sqlite"))[1][1] == 2
    with pytest.raises(ps.ProcessError, match=r"the database.s URI may hold credentials.*or by a URL"):
        Server.__reduce__(_Told("postgresql://me:secret@host/db"))


class _Told(Server):
    """A server that was never connected to."""

    def __init__(self, uri: str) -> None:
        self.place, self._connections, self.recheck = DatabaseUri(uri), 2, print


def rows_from(start: int, end: int = 200) -> Iterator[dict[str, int]]:
    yield from ({"row": row} for row in range(start, end))


class Twenty:
    """An iterable that is none of Python's own."""

    def __iter__(self) -> Iterator[dict[str, int]]:
        return rows_from(0, 20)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda plan: pickle.loads(pickle.dumps(plan))])
@pytest.mark.parametrize(
    ("make", "samples"), [(rows_from, 200), (partial(rows_from, 3), 197), (Twenty(), 20), ([{"row": 5}, {"row": 6}], 2)]
)
def test_a_copy_of_a_stream_begins_its_own_iterator(
    copied: Callable[[ps.Dataset], ps.Dataset], make: Any, samples: int
) -> None:
    plan = ps.from_iterable(make, spool=False, samples=samples, name="rows").shuffle(window=16, seed=1).batch(4)
    wanted = [batch["row"].tolist() for batch in ps.Loader(plan)]
    with ps.Loader(plan) as loader:
        next(iter(loader))
        assert [batch["row"].tolist() for batch in ps.Loader(copied(plan))] == wanted


def test_a_stream_of_an_iterator_says_why_it_is_not_copied() -> None:
    plan = ps.from_iterable(rows_from(0), spool=False, samples=200)
    for send in (copy.deepcopy, pickle.dumps):
        with pytest.raises(
            ps.ProcessError, match="an iterator, which can be drawn only once, cannot be copied or sent"
        ):
            send(plan)


@pytest.mark.parametrize("has_lightning", [False, True])
def test_loaders_say_why_they_are_not_copied(has_lightning: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the batch sampler's class is one that is made of Lightning's."""
    for name in ("pytorch_lightning", "lightning.pytorch"):
        wrapper = type("_IndexBatchSamplerWrapper", (), {})
        module = SimpleNamespace(**{wrapper.__name__: wrapper} if has_lightning else {})
        monkeypatch.setitem(sys.modules, f"{name}.overrides.distributed", cast("Any", module))
    fresh, running, closed = (ps.Loader(ps.from_arrays({"x": [1, 2, 3, 4]}).batch(2)) for _ in range(3))
    with running, closed:
        next(iter(running))
    for loader in (fresh, running, closed, closed.sampler, closed.batch_sampler):
        for send in (copy.deepcopy, pickle.dumps):
            with pytest.raises(ps.ProcessError, match="has threads and cannot be sent to another process or copied"):
                send(loader)
    state = running.state_dict()
    assert pickle.loads(pickle.dumps(state)) == copy.deepcopy(state) == state


@pytest.mark.parametrize("send", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_errors_are_the_same_in_another_process(send: Callable[[Exception], Any]) -> None:
    of_row = RowError(3, "an odd byte", "write it again")
    of_row.every = [of_row.__class__(3, "an odd byte")]
    for error in (
        of_row,
        ps.DataError.of_row("a.jsonl, record 3", 7, of_row),
        ps.PlanError("no"),
        ps.StorageError("no"),
    ):
        error.add_note("penstock: step 3")
        sent = send(error)
        assert (type(sent), str(sent), sent.args) == (type(error), str(error), error.args)
        assert vars(sent).keys() == vars(error).keys()
        assert sent.__notes__ == error.__notes__
