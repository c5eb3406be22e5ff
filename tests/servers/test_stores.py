"""What every object store must do, on real servers of S3, Google Cloud Storage and Azure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.core.errors import DataError, SourceError, StorageError
from penstock.storage import open_storage
from penstock.storage.fetch.remote import RemoteStorage
from penstock.storage.fetch.retry import TransientError
from penstock.storage.stores.object import ObjectStore
from servers import azure, gcs
from servers.names import ODD_NAMES
from servers.s3 import CREDENTIALS, s3_server, served
from support.faulty_proxy import Faults, proxy

RNG = np.random.default_rng(0)
FILES = {f"train/{number:02}.bin": RNG.bytes(20_000 + number) for number in range(12)}
ODD = {f"odd/{key}": key.encode() for key in ODD_NAMES}
ONE, ZERO = np.array([1]), np.array([0])

SERVERS: dict[str, tuple[Callable[[], str], Callable[[], AbstractContextManager[Any]]]] = {
    "s3": (lambda: "", s3_server),
    "gcs": (gcs.why_not, gcs.gcs_server),
    "azure": (azure.why_not, azure.azure_server),
}


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Any]:
    why_not, serve = SERVERS[request.param]
    if reason := why_not():
        pytest.skip(reason)
    more = {"train/.hidden/x.bin": b"x", "train/empty.bin": b"", "lines/a.txt": b"1\n2\n3\n"}
    with served(FILES | ODD | more, serve) as found:
        yield found


def read(storage: Any, shards: Any, shard: Any, offset: Any, length: Any) -> bytes:
    at = np.cumsum(length) - length
    out = np.zeros(int(length.sum()), dtype=np.uint8)
    storage.read(shards, shard, offset, length, out, at)
    return out.tobytes()


@pytest.mark.parametrize("where", ["train", "train/", "train/*.bin", "**/0*.bin", "train/[01][0-9].bin"])
def test_objects_are_listed(server: Any, where: str) -> None:
    storage, path = open_storage(f"{server.root}{where}")
    shards = storage.list(path)
    names = [name for name in FILES if where != "**/0*.bin" or name.startswith("train/0")]
    assert shards.paths.to_pylist() == [server.root + name for name in names]
    assert shards.sizes.tolist() == [len(FILES[name]) for name in names]


def test_ranges_are_exact(server: Any) -> None:
    storage, path = open_storage(f"{server.root}train")
    rng = np.random.default_rng(1)
    shard, offset, length = rng.integers(0, 12, 100), rng.integers(0, 15_000, 100), rng.integers(0, 5_000, 100)
    names = sorted(FILES)
    parts = zip(shard.tolist(), offset.tolist(), length.tolist(), strict=True)
    wanted = b"".join(FILES[names[s]][o : o + n] for s, o, n in parts)
    assert read(storage, storage.list(path), shard, offset, length) == wanted


def test_keys_of_every_kind(server: Any) -> None:
    storage, path = open_storage(f"{server.root}odd")
    shards = storage.list(path)
    assert shards.paths.to_pylist() == [server.root + name for name in sorted(ODD, key=str.encode)]
    found = read(storage, shards, np.arange(len(shards)), np.zeros_like(shards.sizes), shards.sizes)
    assert found == b"".join(ODD[name] for name in sorted(ODD, key=str.encode))


def test_a_dataset_is_read(server: Any) -> None:
    with ps.Loader(ps.read(f"{server.root}lines/a.txt").shuffle(seed=0).batch(3)) as loader:
        assert sorted(next(iter(loader))["text"].to_pylist()) == ["1", "2", "3"]


def test_what_is_not_there_is_told(server: Any) -> None:
    for where in ("nowhere/*.tar", "nowhere/", "nowhere"):
        with pytest.raises(SourceError, match="no such object, and none below it"):
            ps.read(server.root + where)
    if server.root.startswith("gs"):
        return  # this server answers 500, as if it could pass
    with pytest.raises(
        (SourceError, StorageError), match=r"://no-bucket/train: .*(not found|NotFound|does not exist|no such object)"
    ):
        ps.read(server.root.replace("data", "no-bucket") + "train")


def test_without_permission(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, _ = open_storage(f"{server.root}train")
    shards = storage.list("train")
    with proxy(server.port, Faults(share=1.0, kinds=("403",), answers={"403": ("", "")})) as port:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value.replace(str(server.port), str(port)))
        refused = RemoteStorage(ObjectStore.open(server.root)[0])
        for call in (
            lambda: refused.list("train/"),
            lambda: refused.read(shards, ZERO, ZERO, ONE, np.zeros(1, np.uint8), ZERO),
        ):
            with pytest.raises(
                StorageError, match=rf"{server.root}train.*the store refuses: .*check the credentials"
            ) as told:
                call()
            assert not [
                secret for secret in (azure.KEY, CREDENTIALS["AWS_SECRET_ACCESS_KEY"]) if secret in str(told.value)
            ]


@pytest.mark.parametrize("what", ["replaced", "deleted"])
def test_an_object_that_is_another_one(server: Any, what: str) -> None:
    server.put({"going/a.bin": b"0123456789"})
    storage, path = open_storage(f"{server.root}going")
    shards = storage.list(path)
    assert read(storage.remote, shards, ZERO, np.array([3]), np.array([4])) == b"3456"  # type: ignore[attr-defined]
    if what == "replaced":
        server.put({"going/a.bin": b"abcdefghij"})
    else:
        server.delete("going/a.bin")
    told = "another object than when it was listed|no such object any more"  # Azure says the first of both
    with pytest.raises(DataError, match=rf"{server.root}going/a\.bin: ({told}).*open the dataset again"):
        read(storage.remote, shards, ZERO, np.array([3]), np.array([4]))  # type: ignore[attr-defined]


def test_a_listing_goes_on_where_it_failed(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the server does not know how to begin behind a name."""
    store = ObjectStore.open(server.root)[0]
    below = store._below
    monkeypatch.setattr("penstock.storage.stores.object._PAGE", 5)
    asked: list[str | None] = []

    def breaking(folder: str, after: str | None) -> Iterator[Any]:
        asked.append(after)
        for number, page in enumerate(below(folder, after)):
            if number == 1 and len(asked) == 1:
                raise TransientError("broken off")
            yield page

    monkeypatch.setattr(store, "_below", breaking)
    assert store.list("train/*.bin").paths.to_pylist() == [server.root + name for name in FILES]
    assert len(asked) == 2
    assert asked[0] is None
    assert asked[1] in FILES
