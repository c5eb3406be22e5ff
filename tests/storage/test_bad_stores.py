"""What goes wrong with stores and keys is told with the URL, what was found and what to do, and never with a secret."""

from __future__ import annotations

import contextlib
import http.server
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.core.errors import DataError, PlanError, SourceError, StorageError
from penstock.core.files.shards import Shards
from penstock.storage import open_storage, open_storages
from penstock.storage.fetch.remote import RemoteStorage
from penstock.storage.fetch.retry import Retry
from penstock.storage.redact import check_url
from penstock.storage.stores.object import ObjectStore
from servers.http import http_server
from servers.names import ODD_NAMES
from servers.s3 import CREDENTIALS, Server, s3_server
from support.faulty_proxy import Faults, proxy

TOKEN = "a-token-that-must-not-be-shown"
SECRETS = (CREDENTIALS["AWS_SECRET_ACCESS_KEY"], TOKEN)
ONE, ZERO = np.array([1]), np.array([0])


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (CREDENTIALS | {"AWS_SESSION_TOKEN": TOKEN}).items():
            patch.setenv(name, value)
        with s3_server() as found:
            found.put({"train/a.bin": b"0123456789"})
            patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{found.port}")
            yield found


def xml(code: str) -> tuple[str, str]:
    text = f"<Error><Code>{code}</Code><Message>On purpose.</Message><RequestId>1</RequestId></Error>"
    return "content-type: application/xml\r\n", text


def opened() -> RemoteStorage:
    quick = Retry(first_s=0.01, deadline_s=0.3)
    return RemoteStorage(ObjectStore.open("s3://data/")[0], list_retry=quick, read_retry=quick)


REFUSALS = {
    "AccessDenied": (
        "403",
        "the store refuses: .*AccessDenied: On purpose.*; check the credentials and what they may read",
    ),
    "ExpiredToken": ("400", "ExpiredToken: .*; the credentials have expired: get new ones"),
    "InvalidAccessKeyId": ("403", "InvalidAccessKeyId: .*; check the credentials"),
    "RequestTimeTooSkewed": ("403", "RequestTimeTooSkewed: .*; this machine's clock is wrong"),
    "SignatureDoesNotMatch": ("403", "SignatureDoesNotMatch: .*; check the secret key"),
    "PermanentRedirect": ("301", "the bucket is in another region, us-east-1: set AWS_REGION=us-east-1$"),
}


@pytest.mark.parametrize("code", REFUSALS)
def test_refusals_are_told_at_once(code: str, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    status, wanted = REFUSALS[code]
    shards = opened().list("train")
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    faults = Faults(share=1.0, kinds=(status,), answers={status: xml(code)})
    with proxy(server.port, faults) as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        storage = RemoteStorage(ObjectStore.open("s3://data/")[0])
        for where, call in (
            ("s3://data/train: ", lambda: storage.list("train/")),
            ("s3://data/train/a.bin: ", lambda: storage.read(shards, ZERO, ZERO, ONE, np.zeros(1, np.uint8), ZERO)),
        ):
            with pytest.raises(StorageError, match=where + ".*" + wanted) as caught:
                call()
            assert not [secret for secret in SECRETS if secret in str(caught.value)]
    assert faults.counts[status] == 3, "what cannot pass is asked for once, and once more by obstore, which tells why"


WRONG = [
    ("az://c/x", {}, "Account must be specified; check the URL, and the settings"),
    ("gs://b/x", {"GOOGLE_APPLICATION_CREDENTIALS": "/nowhere.json"}, "Unable to open service account file"),
    ("s3://data/x", {"AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "perhaps"}, "as boolean; check the URL, and the settings"),
    ("s3://data/x", {"AWS_ENDPOINT_URL": "garbage"}, "AWS_ENDPOINT_URL: not a URL"),
    ("s3://data/x", {"AWS_SESSION_TOKEN": TOKEN + "\n"}, "AWS_SESSION_TOKEN: contains a line break"),
    ("s3://", {}, "check the URL"),
    ("http://127.0.0.1:99999/x", {}, "invalid port number; check the URL"),
    ("s3://data/a/../b", {}, r"name the object without its store, an empty part, '\.', '\.\.'"),
]


@pytest.mark.parametrize(("url", "environment", "found"), WRONG)
def test_what_can_never_work_is_told_at_once(
    server: Server, url: str, environment: dict[str, str], found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    began_at = time.monotonic()
    with pytest.raises(StorageError, match=found) as told:
        ps.read(url)
    assert not [secret for secret in SECRETS if secret in str(told.value)]
    assert time.monotonic() - began_at < 18  # less than any patience


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:a-secret@data/x",
        "s3://key:a-sec/ret@data/x",
        "hdfs://me:a-secret@host:8020/x",
        "ftp://me:a-secret@host/x",
        "http://host/x?sig=a-secret",
        "https://a-secret-token@host/x",
        "https://a-secret@host@other/x",
        "s3://a-secret@data/x",
        "az://a-secret@data/x",
        "s3://data/x?X-Amz-Signature=a-secret",
        "az://data/x?sv=2024&sig=a-secret",
    ],
)
def test_secrets_in_urls_are_refused(url: str) -> None:
    with pytest.raises(PlanError, match="a password, a query or a signature inside a URL") as told:
        ps.read(url)
    assert "a-sec" not in str(told.value)


def test_what_only_looks_like_a_secret() -> None:
    for url in (
        "hdfs://host:8020/user/me@site/x",
        "abfss://container@account.dfs.core.windows.net/x",
        "s3://data/?.txt",
    ):
        check_url(url)


def test_a_password_of_an_endpoint_is_not_shown(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://me:a-secret@127.0.0.1:1")
    with pytest.raises(StorageError, match=r"http://127\.0\.0\.1:1/.*connection refused") as told:
        opened().list("train/")
    assert "a-secret" not in str(told.value)


def test_no_such_host(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://no-such-host.invalid")
    with pytest.raises(
        StorageError,
        match=r"s3://data/train: .*no-such-host\.invalid.*\(no such host\).*check that the store is reachable",
    ):
        opened().list("train/")


Headers = list[tuple[str, dict[str, str]]]


@pytest.fixture
def elsewhere() -> Iterator[tuple[str, Headers, Headers]]:
    """A server that sends every request on to another host: its URL, what it is asked, and what the other one is asked."""
    asked: tuple[Headers, Headers] = ([], [])

    def handler(which: int, status: int, headers: dict[str, str]) -> type[http.server.BaseHTTPRequestHandler]:
        class Answers(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked[which].append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command == "GET" and status == 206:
                    self.wfile.write(b"?")

            def do_HEAD(self) -> None:
                self.do_GET()

            def log_message(self, *_: Any) -> None:
                pass

        return Answers

    answer = {"content-length": "1", "etag": '"other"', "content-range": "bytes 0-0/10"}
    answer["last-modified"] = "Sat, 21 Nov 2026 00:00:00 GMT"
    with contextlib.ExitStack() as stack:
        other = stack.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(1, 206, answer)))
        there = {"location": f"http://localhost:{other.server_port}/elsewhere", "content-length": "0"}
        first = stack.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(0, 307, there)))
        for each in (first, other):
            threading.Thread(target=each.serve_forever, args=(0.01,), daemon=True).start()
            stack.callback(each.shutdown)
        yield f"http://127.0.0.1:{first.server_port}", *asked


STORES = {
    "s3": ("s3://data/", {"AWS_ENDPOINT_URL": "{}"}, "x-amz-security-token"),
    "gs": ("gs://data/", {"GOOGLE_BASE_URL": "{}", "GOOGLE_BEARER_TOKEN": TOKEN}, "authorization"),
    "az": (
        "az://data/",
        {
            "AZURE_STORAGE_ACCOUNT_NAME": "a",
            "AZURE_STORAGE_ENDPOINT": "{}",
            "AZURE_STORAGE_SAS_TOKEN": f"sv=2024-11-04&sig={TOKEN}",
        },
        "",
    ),
}


@pytest.mark.parametrize("kind", STORES)
def test_no_request_with_credentials_goes_on_to_another_host(
    server: Server, elsewhere: tuple[str, Headers, Headers], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, at_first, at_other = elsewhere
    root, environment, header = STORES[kind]
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(url))
    shards = Shards(pa.array([f"{root}a.bin"], pa.large_string()), np.array([10]), ZERO, root)
    storage = RemoteStorage(ObjectStore.open(root)[0])
    for call in (
        lambda: storage.read(shards, ZERO, ZERO, ONE, np.zeros(1, np.uint8), ZERO),
        lambda: storage.list("a.bin"),
    ):
        with pytest.raises(
            StorageError, match=f"{root}a.bin: the store redirects this request to another host"
        ) as told:
            call()
        assert TOKEN not in str(told.value)
    signed = [path for path, _ in at_first if "X-Amz-Signature" in path]
    assert len(signed) == 3 * (kind == "s3"), (
        "the native client asks once, and after each of obstore's refusals who the other is"
    )
    assert len(at_first) == 2 + len(signed), "all ask the store itself"
    assert all(TOKEN in (asked.get(header, "") if header and path not in signed else path) for path, asked in at_first)
    assert not at_other


def test_an_http_server_may_send_on_what_has_no_credentials(elsewhere: tuple[str, Headers, Headers]) -> None:
    url, at_first, at_other = elsewhere
    with_name = url.replace("//", "//somebody@")
    for root in (url, with_name):
        shards = Shards(pa.array([f"{root}/a.bin"], pa.large_string()), np.array([10]), ZERO, f"{root}/")
        out = np.zeros(1, np.uint8)
        RemoteStorage(ObjectStore.open(f"{root}/")[0]).read(shards, ZERO, ZERO, ONE, out, ZERO)
        assert bytes(out) == b"?"
    assert len(at_first) == 2, "the native client follows, and sends no name: that is left to obstore"
    assert len(at_other) == 2
    for _, asked in at_first + at_other:
        assert "authorization" not in asked
        assert "somebody" not in str(asked)


def test_an_object_that_is_deleted_in_mid_epoch(server: Server) -> None:
    server.put({f"going/{number:02}.jpg": b"\xff\xd8\xff" + bytes(number) for number in range(40)})
    with ps.Loader(ps.read("s3://data/going").batch(2)) as loader:
        server.delete(*(f"going/{number:02}.jpg" for number in range(20, 40)))
        batches = iter(loader)
        assert len([next(batches) for _ in range(10)]) == 10
        with pytest.raises(DataError, match=r"going/2\d\.jpg: no such object any more.*open the dataset again"):
            next(batches)


KEYS = [*ODD_NAMES, "a\\b.txt"]


def test_keys_of_every_kind_are_told_apart(server: Server) -> None:
    """Case, two ways to write é, spaces, what URLs and globs have a meaning for."""
    server.put({f"odd/{key}": key.encode() for key in KEYS})
    storage, path = open_storage("s3://data/odd")
    shards = storage.list(path)
    visible = sorted(KEYS)
    assert shards.paths.to_pylist() == [f"s3://data/odd/{key}" for key in visible]
    at = np.cumsum(shards.sizes) - shards.sizes
    out = np.zeros(int(shards.sizes.sum()), dtype=np.uint8)
    storage.read(shards, np.arange(len(shards)), np.zeros_like(at), shards.sizes, out, at)
    assert out.tobytes() == "".join(visible).encode()


@pytest.mark.parametrize("where", ["odd/[[]1][*].txt", "odd/[1]*.txt", "odd/[[]*"])
def test_signs_of_globs_in_names(server: Server, where: str) -> None:
    server.put({"odd/[1]*.txt": b"x", "odd/2.txt": b"y"})
    assert ps.read(f"s3://data/{where}", format="text").source.manifest.shards.paths.to_pylist() == [
        "s3://data/odd/[1]*.txt"
    ]


@pytest.mark.parametrize("key", ["worse/../up.txt", "worse//double.txt", "worse/./dot.txt"])
def test_keys_that_can_be_no_path(server: Server, key: str) -> None:
    server.put({key: b"x", "worse/good.txt": b"y"})
    try:
        with pytest.raises(StorageError, match=r"s3://data/worse: .*rename the object, or leave it out"):
            ps.read("s3://data/worse")
        assert len(ps.read("s3://data/worse/good.txt")) == 1
    finally:
        server.delete(key)


def test_an_empty_prefix_and_an_empty_bucket(server: Server) -> None:
    for where in ("nothing/", "nothing/*.txt", "nothing"):
        with pytest.raises(SourceError, match="no such object, and none below it"):
            ps.read(f"s3://data/{where}")
    server.make_bucket("empty")
    with pytest.raises(SourceError, match="s3://empty/: no such object"):
        ps.read("s3://empty")


def test_many_urls_share_a_store(server: Server) -> None:
    found = open_storages([f"s3://data/train/{number}.bin" for number in range(50)] + ["s3://other/x"])
    assert len({id(storage) for storage, _ in found}) == 2
    assert [path for _, path in found[:2]] == ["train/0.bin", "train/1.bin"]


def test_a_server_without_listing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    with http_server(tmp_path) as url:
        assert len(ps.read(f"{url}/a.txt")) == 2
        for where in ("", "folder", "*.txt", "b.txt"):
            with pytest.raises(
                SourceError, match="this server has no listings; name the files: a list of URLs, or braces"
            ):
                ps.read(f"{url}/{where}")


def test_a_server_without_ranges(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")

    class Whole(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    def handler(*arguments: Any) -> Whole:
        return Whole(*arguments, directory=str(tmp_path))

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        began_at = time.monotonic()
        with pytest.raises(StorageError, match=r"a\.txt: .*the server sends only whole files, not byte ranges"):
            ps.read(f"http://127.0.0.1:{server.server_port}/a.txt")
        assert time.monotonic() - began_at < 18
        server.shutdown()
