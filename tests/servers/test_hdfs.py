"""HDFS through hdfs-native, on Hadoop's own servers, with data nodes that end in the middle."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.core.errors import DataError, SourceError, StorageError
from penstock.storage import open_storage
from penstock.storage.fetch.remote import RemoteStorage
from penstock.storage.fetch.retry import Retry
from penstock.storage.stores.hdfs import HdfsStore
from servers.hdfs import DATA_NODES
from support.everything import WRITERS, files_of, same, write_everything

pytestmark = pytest.mark.timeout(300)  # the first one waits for the cluster

RNG = np.random.default_rng(0)
#: Several blocks of 1 MiB each.
FILES = {f"train/{number}.bin": RNG.bytes((3 << 20) + number * 1001) for number in range(4)}
ODD = {"odd/.hidden/x": b"x", "odd/[1] ü.bin": b"abc", "odd/a b/..c.bin": b"defg", "odd/empty": b""}


@pytest.fixture(scope="module")
def filled(hdfs: Any) -> Any:
    hdfs.put(FILES | ODD)
    return hdfs


def read_all(storage: Any, where: str, seed: int = 0) -> bool:
    """Whether 60 random ranges hold what was written."""
    rng = np.random.default_rng(seed)
    shards = storage.list(where)
    shard, offset, length = rng.integers(0, 4, 60), rng.integers(0, 2 << 20, 60), rng.integers(0, 1 << 20, 60)
    at = np.cumsum(length) - length
    out = np.zeros(int(length.sum()), dtype=np.uint8)
    storage.read(shards, shard, offset, length, out, at)
    parts = zip(shard.tolist(), offset.tolist(), length.tolist(), strict=True)
    return out.tobytes() == b"".join(FILES[f"train/{s}.bin"][o : o + n] for s, o, n in parts)


@pytest.mark.parametrize("where", ["train", "train/", "train/*.bin", "t*/[0-3].bin"])
def test_files_are_listed_and_read(filled: Any, where: str) -> None:
    storage, path = open_storage(f"{filled.url}/{where}")
    shards = storage.list(path)
    assert shards.paths.to_pylist() == [f"{filled.url}/{name}" for name in FILES]
    assert shards.sizes.tolist() == [len(content) for content in FILES.values()]
    assert read_all(storage, path)


def test_odd_names(filled: Any) -> None:
    storage, path = open_storage(f"{filled.url}/odd")
    found = storage.list(path)
    assert found.paths.to_pylist() == [f"{filled.url}/odd/[1] ü.bin"]
    assert storage.list("odd/[[]1] *").paths.to_pylist() == found.paths.to_pylist()
    one = storage.list("odd/a b/..c.bin")
    assert (one.paths.to_pylist(), one.root) == ([f"{filled.url}/odd/a b/..c.bin"], f"{filled.url}/odd/a b/")
    out, zero = np.zeros(3, dtype=np.uint8), np.array([0])
    storage.read(one, zero, np.array([1]), np.array([3]), out, zero)
    assert out.tobytes() == b"efg"


def test_what_is_not_there_is_told(filled: Any) -> None:
    with pytest.raises(SourceError, match="/nowhere: no such file, and none below it"):
        ps.read(f"{filled.url}/nowhere")
    with pytest.raises(SourceError, match=r"/train/\*\.tar: no such file"):
        ps.read(f"{filled.url}/train/*.tar")


def test_a_file_that_was_replaced_is_never_mixed_in(filled: Any) -> None:
    filled.put({"new/a.bin": b"before"})
    storage, path = open_storage(f"{filled.url}/new")
    shards = storage.list(path)
    time.sleep(0.01)  # the next version has another time
    filled.put({"new/a.bin": b"after!"})
    out, zero = np.zeros(3, dtype=np.uint8), np.array([0])
    with pytest.raises(DataError, match=r"new/a\.bin: changed since it was listed.*open the dataset again"):
        storage.read(shards, zero, zero, np.array([3]), out, zero)
    filled.client().delete("/new/a.bin")
    with pytest.raises(DataError, match=r"new/a\.bin: no such file any more"):
        storage.read(shards, zero, zero, np.array([3]), out, zero)


def test_an_open_file_stays_what_it_was(filled: Any) -> None:
    filled.put({"new/b.bin": b"before"})
    storage, path = open_storage(f"{filled.url}/new/b.bin")
    shards = storage.list(path)
    out, zero = np.zeros(3, dtype=np.uint8), np.array([0])
    storage.read(shards, zero, zero, np.array([3]), out, zero)
    time.sleep(0.01)
    filled.put({"new/b.bin": b"after!"})
    try:
        storage.read(shards, zero, np.array([3]), np.array([3]), out, zero)
        assert out.tobytes() == b"ore"
    except DataError as error:  # its blocks are gone already
        assert "changed since it was listed" in str(error)  # noqa: PT017


def test_no_permission_is_told(filled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    filled.put({"private/a.bin": b"secret"})
    filled.client().set_permission("/private/a.bin", 0o600)
    filled.put({"closed/a/b.bin": b"secret"})
    filled.client().set_permission("/closed", 0o700)
    monkeypatch.setenv("HADOOP_USER_NAME", "nobody")
    storage, path = open_storage(f"{filled.url}/private")
    shards = storage.list(path)
    out, zero = np.zeros(3, dtype=np.uint8), np.array([0])
    with pytest.raises(StorageError, match=r"private/a\.bin: HDFS refuses: .*user=nobody.*check the user"):
        storage.read(shards, zero, zero, np.array([3]), out, zero)
    with pytest.raises(StorageError, match="closed/a: HDFS refuses"):
        storage.list("closed/a")


CHILD = """
import os, sys
import penstock as ps

len(ps.read(sys.argv[1], format="text"))
child = os.fork()
if not child:
    try:
        ps.read(sys.argv[1], format="text")
    except ps.ProcessError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


def test_a_child_whose_client_has_no_threads_is_told_at_once(filled: Any) -> None:
    command = [sys.executable, "-c", CHILD, f"{filled.url}/odd"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=True)
    assert f"{filled.url}/odd: this process was forked from one that uses hdfs-native" in done.stdout


def test_a_data_node_that_ends_is_overcome(filled: Any) -> None:
    storage, path = open_storage(f"{filled.url}/train")
    right: list[bool] = []
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set() or len(right) < 4:
            right.append(read_all(storage, path, len(right)))

    reader = threading.Thread(target=work)
    reader.start()
    try:
        while not right:
            time.sleep(0.01)
        filled.stop(0)
        before = len(right)
        while reader.is_alive() and len(right) < before + 3:
            time.sleep(0.01)
    finally:
        stop.set()
        reader.join()
        filled.start(0)
    assert all(right)
    assert len(right) >= before + 3


def test_no_data_node_at_all_is_told(filled: Any) -> None:
    store = HdfsStore.open(f"{filled.url}/")[0]
    storage = RemoteStorage(store, read_retry=Retry(first_s=0.01, deadline_s=1.0))
    shards = storage.list("train")
    out, zero = np.zeros(9, dtype=np.uint8), np.array([0])
    for node in range(DATA_NODES):
        filled.stop(node)
    try:
        began_at = time.monotonic()
        with pytest.raises(StorageError, match=r"train/0\.bin: All DataNodes failed; the last retry failed"):
            storage.read(shards, zero, zero, np.array([9]), out, zero)
        assert time.monotonic() - began_at < 60
        assert not out.any()
    finally:
        for node in range(DATA_NODES):
            filled.start(node)
    for _ in range(200):  # until the data nodes have told the name node what they hold
        try:
            assert read_all(
                RemoteStorage(HdfsStore.open(f"{filled.url}/")[0], read_retry=Retry(deadline_s=1.0)), "train"
            )
            break
        except StorageError:
            time.sleep(0.05)
    else:
        pytest.fail("the data nodes do not come back")


def configure(folder: Path, settings: dict[str, str]) -> None:
    """Hadoop's settings, where $HADOOP_CONF_DIR is this folder."""
    listed = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in settings.items())
    for name in ("core-site.xml", "hdfs-site.xml"):
        (folder / name).write_text(f"<configuration>{listed}</configuration>")


def two_name_nodes(port: int) -> dict[str, str]:
    """A name service, the first of whose name nodes is not there."""
    return {
        "dfs.nameservices": "training",
        "dfs.ha.namenodes.training": "a,b",
        "dfs.namenode.rpc-address.training.a": "127.0.0.1:9",
        "dfs.namenode.rpc-address.training.b": f"127.0.0.1:{port}",
        "fs.defaultFS": "hdfs://training",
    }


def test_a_name_service_goes_on_with_the_other_name_node(
    filled: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(tmp_path, two_name_nodes(filled.port))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    for root in ("hdfs://training/", "hdfs:///"):
        storage, path = open_storage(root + "train")
        assert storage.list(path).paths.to_pylist() == [root + name for name in FILES]
        assert read_all(storage, path)


@pytest.mark.parametrize("behind", ["", "hdfs://training"])
def test_a_view_shows_other_clusters_under_names_of_its_own(
    filled: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind: str
) -> None:
    links = {"/data": "/train", "/deep/names": "/odd"}
    views = {f"fs.viewfs.mounttable.all.link.{name}": f"{behind or filled.url}{place}" for name, place in links.items()}
    configure(tmp_path, two_name_nodes(filled.port) | views)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with pytest.raises(StorageError, match=r"viewfs://all/: No viewfs fallback mount found.*linkFallback"):
        open_storage("viewfs://all/data")
    views["fs.viewfs.mounttable.all.linkFallback"] = f"{behind or filled.url}/"
    configure(tmp_path, two_name_nodes(filled.port) | views)
    storage, path = open_storage("viewfs://all/data")
    names = [name.replace("train/", "viewfs://all/data/") for name in FILES]
    assert storage.list(path).paths.to_pylist() == names
    assert storage.list("data/[1-3].bin").paths.to_pylist() == names[1:]
    assert read_all(storage, path)
    assert storage.list("deep/names").paths.to_pylist() == ["viewfs://all/deep/names/[1] ü.bin"]
    with pytest.raises(SourceError, match="viewfs://all/data/nothing: no such file"):
        storage.list("data/nothing")


def test_what_cannot_be_reached_is_told() -> None:
    storage = RemoteStorage(HdfsStore.open("hdfs://127.0.0.1:9/")[0], list_retry=Retry(deadline_s=0.5))
    began_at = time.monotonic()
    with pytest.raises(
        StorageError, match=r"hdfs://127\.0\.0\.1:9/train: Connection refused.*check that the store is reachable"
    ):
        storage.list("train")
    assert time.monotonic() - began_at < 60
    with pytest.raises(StorageError, match="hdfs://no-such-service/: No NameNode hosts found; check HADOOP_CONF_DIR"):
        ps.read("hdfs://no-such-service/train")


@pytest.fixture(scope="module")
def everything(hdfs: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A dataset of each format below one folder here and below the cluster's root, and how each is read."""
    root = tmp_path_factory.mktemp("everything")
    options = write_everything(root)
    hdfs.put(files_of(root))
    return root, options


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_is_read_as_from_the_local_disk(name: str, everything: Any, hdfs: Any) -> None:
    root, options = everything
    same(ps.read(root / name, **options[name]), ps.read(f"{hdfs.url}/{name}", **options[name]))
