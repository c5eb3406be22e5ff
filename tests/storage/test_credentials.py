"""Stores without credentials: an error in our own words, within seconds, and none where none are needed."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import boto3
import pytest
from obstore.store import S3Store

import penstock as ps
from penstock.core.errors import StorageError
from penstock.storage.stores.auth import credentials
from servers.s3 import CREDENTIALS, Server, s3_server
from servers.scripted import scripted

URLS = {
    "s3": ("s3://data/x.txt", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.*AWS_SKIP_SIGNATURE=true"),
    "s3a": ("s3a://data/x.txt", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.*AWS_SKIP_SIGNATURE=true"),
    "gs": ("gs://data/x.txt", "GOOGLE_APPLICATION_CREDENTIALS.*GOOGLE_SKIP_SIGNATURE=true"),
    "az": ("az://data/x.txt", "AZURE_STORAGE_ACCOUNT_KEY.*AZURE_SKIP_SIGNATURE=true"),
}


@pytest.fixture(autouse=True)
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine that knows no store."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_", "IDENTITY_", "MSI_", "GCE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")


def point_to(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    """The server of a cloud's credentials is that of a port of this machine."""
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("GCE_METADATA_HOST", f"127.0.0.1:{port}")
    azure = replace(credentials._AZURE, server=f"127.0.0.1:{port}")
    monkeypatch.setattr(credentials, "_KINDS", credentials._KINDS | {"az": azure})


@pytest.fixture(params=["nobody", "silent"])
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    """Of no server, or of one that never answers, as an instance's behind too many hops."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        if request.param == "nobody":
            listening.close()
        yield port


@pytest.mark.parametrize("kind", URLS)
def test_no_credentials_are_told_within_seconds(kind: str, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    url, do = URLS[kind]
    point_to(monkeypatch, port)
    began_at = time.monotonic()
    with pytest.raises(StorageError, match=f"{kind}://data/: no credentials found: .*{do}") as told:
        ps.read(url)
    assert time.monotonic() - began_at < 18
    assert "127.0.0.1" not in str(told.value), "where a cloud's server lies is no help"
    assert "PUT" not in str(told.value)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_machine_in_a_cloud_without_a_role(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(lambda asked: asked.answer(status)) as server:
        point_to(monkeypatch, server.port)
        for where in ("s3://data/x.txt", "s3://data/"):
            began_at = time.monotonic()
            with pytest.raises(StorageError, match=r"no credentials found: .*set AWS_ACCESS_KEY_ID"):
                ps.read(where)
            assert time.monotonic() - began_at < 18
        with pytest.raises(StorageError, match=r"no credentials found: .*set AWS_ACCESS_KEY_ID"):
            ps.read("x", storage=S3Store("data", metadata_endpoint=server.url, region="us-east-1"))


def test_nobody_asks_where_that_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(lambda asked: asked.answer(404)) as server:
        point_to(monkeypatch, server.port)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        with pytest.raises(StorageError, match="no credentials found"):
            ps.read("s3://data/x.txt")
        assert not server.asked


@pytest.fixture(scope="module")
def store() -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        with s3_server() as found:
            found.put({"public/x.txt": b"1\n2\n3\n"})
            client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{found.port}")
            client.put_object_acl(Bucket="data", Key="public/x.txt", ACL="public-read")
            client.close()
            yield found


def test_a_bucket_that_anybody_may_read(store: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{store.port}")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    assert len(ps.read("s3://data/public")) == 3


def test_credentials_of_a_profile_need_no_server(
    store: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{store.port}")
    path = tmp_path / ".aws" / "credentials"
    path.parent.mkdir()
    key, secret = CREDENTIALS["AWS_ACCESS_KEY_ID"], CREDENTIALS["AWS_SECRET_ACCESS_KEY"]
    path.write_text(f"[default]\naws_access_key_id={key}\naws_secret_access_key={secret}\n")
    assert len(ps.read("s3://data/public")) == 3
    path.write_text("[default]\nregion=us-east-1\n")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(StorageError, match="no credentials found"):
        ps.read("s3://data/public")
