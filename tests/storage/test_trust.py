"""Data from elsewhere does not decide which files of this machine, or of other stores, end up in batches."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import penstock as ps
from penstock.core.errors import PlanError, SourceError, StorageError
from penstock.storage.trust import Trust
from servers.http import http_server
from support.shards import mds

SECRET = b"what lies on this machine"


@pytest.fixture
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("private") / "secret.bin"
    path.write_bytes(SECRET)
    return path


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    (tmp_path / "a.bin").write_bytes(b"one")
    with http_server(tmp_path) as url:
        yield tmp_path, url


KINDS: dict[str, Callable[[list[str]], str]] = {
    "plain": "\n".join,
    "sagemaker": json.dumps,
    "prefixed": lambda names: json.dumps([{"prefix": names[0][:4]}, *(name[4:] for name in names)]),
    "augmented": lambda names: "\n".join(json.dumps({"source-ref": name, "label": 1}) for name in names),
}


def data_of(*args: Any, **options: Any) -> list[bytes]:
    return [one for batch in ps.Loader(ps.read(*args, **options).batch(1)) for one in batch["data"].to_pylist()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name",
    [
        "{secret}",
        "/{secret}",
        "file://{secret}",
        "FILE://{secret}",
        "file:{secret}",
        "s3://bucket/a.bin",
        "http://localhost:{port}/a.bin",
        "http://127.0.0.1:{port}1/a.bin",
        "http://127.0.0.1.example.com/a.bin",
        "https://127.0.0.1:{port}/a.bin",
        "hdfs://namenode/a.bin",
        "../../../../../../../..{secret}",
    ],
)
def test_a_list_from_a_server_names_that_servers_files(
    site: tuple[Path, str], secret: Path, kind: str, name: str
) -> None:
    folder, url = site
    named = name.format(secret=secret, port=url.rpartition(":")[2])
    (folder / "list.manifest").write_text(KINDS[kind]([named]))
    with pytest.raises((SourceError, StorageError)) as told:
        ps.read(f"{url}/list.manifest")
    if not name.startswith(("..", "file:{")):  # those are names of that server, which has no such file
        assert f"{url}/list.manifest: the list names {named!r}" in str(told.value)
        assert "; to allow it, pass trust=['" in str(told.value)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_trusted_is_read(site: tuple[Path, str], secret: Path, kind: str) -> None:
    folder, url = site
    other = url.replace("127.0.0.1", "localhost")
    (folder / "list.manifest").write_text(KINDS[kind]([str(secret)]))
    for trust in (str(secret), f"{secret.parent}/", [secret.parent], [f"file://{secret.parent}"], ["s3://x/", "/"]):
        assert data_of(f"{url}/list.manifest", trust=trust) == [SECRET]
    for trust in (f"{secret.parent}/sec", f"{secret.parent}x", other, "s3:///", []):
        with pytest.raises(SourceError, match="pass trust="):
            ps.read(f"{url}/list.manifest", trust=trust)
    (folder / "list.manifest").write_text(KINDS[kind]([f"{secret.parent}/../{secret.parent.name}x/../x"]))
    with pytest.raises(SourceError, match="pass trust="):
        ps.read(f"{url}/list.manifest", trust=[f"{secret.parent}/"])
    (folder / "list.manifest").write_text(KINDS[kind]([f"{other}/a.bin"]))
    assert data_of(f"{url}/list.manifest", trust=[other]) == [b"one"]
    (folder / "list.manifest").write_text(KINDS[kind]([f"{url}/a.bin"]))
    assert data_of(f"{url}/list.manifest") == [b"one"], "its own files need no trust"


def test_a_list_on_this_machine_names_anything(site: tuple[Path, str], secret: Path, tmp_path: Path) -> None:
    folder, url = site
    for place in (f"{folder}/list.manifest", f"file://{folder}/list.manifest"):
        for name, data in ((str(secret), SECRET), (f"{url}/a.bin", b"one")):
            (folder / "list.manifest").write_text(name)
            assert data_of(place) == [data]


def test_a_list_in_a_storage_of_the_users_names_its_bucket() -> None:
    """As with s3fs, whose names begin with the bucket."""

    class Buckets(MemoryFileSystem):
        protocol, cachable, root_marker, store = "buckets", False, "", {}

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return path.removeprefix("buckets://").strip("/")

    storage = Buckets()
    storage.store = {}
    for name, data in (("mine/a", b"one"), ("other/a", b"two")):
        storage.pipe(name, data)
    for name, wanted in (("a", b"one"), ("buckets://mine/a", b"one"), ("buckets://other/a", None), ("/other/a", None)):
        storage.pipe("mine/list.manifest", name.encode())
        if wanted:
            assert data_of("mine/list.manifest", storage=storage) == [wanted]
            continue
        with pytest.raises(SourceError, match=r"buckets://mine/list\.manifest: the list names 'buckets://"):
            ps.read("mine/list.manifest", storage=storage)
        assert data_of("mine/list.manifest", storage=storage, trust=["buckets://other/"]) == [b"two"]


def test_what_is_no_list_of_places() -> None:
    for given in (3, [3], [""], {"a": 1}):
        with pytest.raises(
            PlanError, match=r"trust=.*pass a list of texts, for example trust=\['s3://other-bucket/'\]"
        ):
            ps.read("x", trust=given)  # type: ignore[arg-type]
        with pytest.raises(PlanError, match=r"trusted_hosts=.*pass a list of texts"):
            ps.read("x", trusted_hosts=given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "to", "hosts", "wanted"),
    [
        ("http://gate:80/b/k", "http://gate/x", [], True),
        ("http://gate/b/k", "http://target-1:51081/x", [], False),
        ("http://gate/b/k", "http://target-1:51081/x", ["target-*:51081"], True),
        ("http://gate/b/k", "http://target-1:51082/x", ["target-*:51081"], False),
        ("http://gate/b/k", "http://TARGET-1:51082/x", ["target-1"], True),
        ("http://gate/b/k", "http://10.0.0.7:51081/x", ["10.0.0.*"], True),
        ("http://gate/b/k", "http://target-1.evil.com/x", ["target-1"], False),
        ("http://gate/b/k", "http://target-1@evil.com/x", ["target-*"], False),
        ("http://gate/b/k", "http://[::1]:51081/x", ["[::1]:51081"], True),
        ("http://gate/b/k", "http://target-1:port/x", ["target-*"], False),
        ("http://gate/b/k", "file:///etc/passwd", ["*"], False),
        ("http://gate/b/k", "ftp://target-1/x", ["*"], False),
        ("https://gate/b/k", "http://target-1/x", ["*"], False),
        ("https://gate/b/k", "https://target-1/x", ["*"], True),
    ],
)
def test_which_redirects_take_credentials_along(url: str, to: str, hosts: list[str], wanted: bool) -> None:
    assert Trust.of((), hosts).may_follow(url, to) is wanted


def escaping_mds(folder: Path, name: str) -> None:
    mds(folder, {"x": "bytes"}, [{"x": b"a"}])
    text = (folder / "index.json").read_text()
    (folder / "index.json").write_text(text.replace("shard.00000.mds", name))


def escaping_litdata(folder: Path, name: str) -> None:
    (folder / "a.bin").write_bytes(bytes(16))
    chunk = {"chunk_bytes": 16, "chunk_size": 1, "dim": None, "filename": name}
    config = {"compression": None, "chunk_size": 1, "chunk_bytes": 16, "data_format": ["int"], "data_spec": None}
    config |= {"encryption": None, "item_loader": "PyTreeLoader"}
    (folder / "index.json").write_text(json.dumps({"chunks": [chunk], "config": config}))


def escaping_datasets(folder: Path, name: str) -> None:
    (folder / "data.arrow").write_bytes(b"")
    (folder / "dataset_info.json").write_text("{}")
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}], "_split": "train"}))


def escaping_hdf5_link(folder: Path, name: str) -> None:
    with h5py.File(folder / "a.h5", "w") as file:
        file["x"] = h5py.ExternalLink(name, "/x")


def escaping_hdf5_storage(folder: Path, name: str) -> None:
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("x", (8,), "u1", external=[(name, 0, 8)])


def escaping_hdf5_virtual(folder: Path, name: str) -> None:
    layout = h5py.VirtualLayout((8,), "u1")
    layout[:] = h5py.VirtualSource(name, "x", (8,))
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_virtual_dataset("x", layout)


def escaping_parquet(folder: Path, name: str) -> None:
    found: list[Any] = []
    pq.write_table(pa.table({"x": list(range(9))}), folder / "a.parquet", metadata_collector=found)
    (folder / "a.parquet").unlink()
    found[0].set_file_path(name)
    found[0].write_metadata_file(folder / "b.parquet")


def escaping_tar(link: bytes) -> Callable[[Path, str], None]:
    def write(folder: Path, name: str) -> None:
        with tarfile.open(folder / "a.tar", "w") as archive:
            member = tarfile.TarInfo("a.bin")
            member.type, member.linkname = link, name
            archive.addfile(member)

    return write


ESCAPES = {
    "mds": escaping_mds,
    "litdata": escaping_litdata,
    "huggingface": escaping_datasets,
    "hdf5 link": escaping_hdf5_link,
    "hdf5 storage": escaping_hdf5_storage,
    "hdf5 virtual": escaping_hdf5_virtual,
    "parquet": escaping_parquet,
    "tar symlink": escaping_tar(tarfile.SYMTYPE),
    "tar hard link": escaping_tar(tarfile.LNKTYPE),
}


@pytest.mark.parametrize("kind", ESCAPES)
@pytest.mark.parametrize("storage", ["local", "memory"])
@pytest.mark.parametrize("way", ["absolute", "up"])
def test_no_format_leaves_the_files_that_were_listed(
    kind: str, storage: str, way: str, tmp_path: Path, secret: Path
) -> None:
    name = str(secret) if way == "absolute" else "../" * 12 + str(secret)[1:]
    if kind.startswith("hdf5"):
        name = name if way == "up" else f"{secret}.h5"
        with h5py.File(f"{secret}.h5", "w") as file:
            file["x"] = np.frombuffer(SECRET[:8], np.uint8)
    ESCAPES[kind](tmp_path, name)
    options: dict[str, Any] = {}
    if storage == "memory":
        memory = fsspec.filesystem("memory")
        for path in tmp_path.iterdir():
            memory.pipe(f"/{tmp_path.name}/{path.name}", path.read_bytes())
        options["storage"] = memory
    where = f"/{tmp_path.name}" if storage == "memory" else str(tmp_path)
    with pytest.raises(ps.PenstockError) as told:
        list(ps.Loader(ps.read(where, **options).batch(1)))
    assert SECRET.decode() not in str(told.value)
