"""Credentials out of ~/.aws, where the environment has none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from penstock.core.errors import StorageError
from penstock.storage import open_storage
from penstock.storage.stores.auth.aws_profile import profile_settings
from servers.s3 import CREDENTIALS, s3_server

SECRET = "a-secret-of-a-file"
FILES = {
    "credentials": f"""[default]
aws_access_key_id = one
aws_secret_access_key = {SECRET}
[work]
aws_access_key_id = two
aws_secret_access_key = {SECRET}%(x
aws_session_token = token
""",
    "config": """[default]
region = eu-north-1
[profile work]
region = us-west-2
endpoint_url = http://127.0.0.1:1
[profile role]
role_arn = arn:aws:iam::123456789012:role/reader
source_profile = work
""",
}


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*CREDENTIALS, "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_ENDPOINT_URL", "AWS_SESSION_TOKEN"]:
        monkeypatch.delenv(name, raising=False)
    for name, variable in (("credentials", "AWS_SHARED_CREDENTIALS_FILE"), ("config", "AWS_CONFIG_FILE")):
        (tmp_path / name).write_text(FILES[name])
        monkeypatch.setenv(variable, str(tmp_path / name))


def test_keys_and_region_of_a_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"aws_access_key_id": "one", "aws_secret_access_key": SECRET}
    assert profile_settings({}) == ({"region": "eu-north-1", **keys}, None)
    monkeypatch.setenv("AWS_PROFILE", "work")
    found, provider = profile_settings({})
    assert (found["aws_access_key_id"], found["aws_secret_access_key"]) == ("two", f"{SECRET}%(x")
    assert (found["aws_session_token"], found["region"], found["endpoint"]) == (
        "token",
        "us-west-2",
        "http://127.0.0.1:1",
    )
    assert provider is None


def test_the_environment_and_settings_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert profile_settings({"aws_access_key_id": "mine"}) == ({}, None)
    monkeypatch.setenv("AWS_REGION", "here")
    assert "region" not in profile_settings({})[0]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mine")
    assert profile_settings({}) == ({}, None)


def test_no_files_are_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(variable, str(tmp_path / "nowhere"))
    assert profile_settings({}) == ({}, None)


def test_a_profile_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(StorageError, match="AWS_PROFILE=nobody: no such profile"):
        open_storage("s3://data/x")


def test_a_damaged_file_is_told_without_its_content(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text(f"aws_secret_access_key = {SECRET}\n")
    with pytest.raises(StorageError, match="credentials: not a file of profiles") as caught:
        profile_settings({})
    assert SECRET not in str(caught.value)


def test_roles_are_for_boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "role")
    found, provider = profile_settings({})
    assert provider is not None
    assert "aws_access_key_id" not in found
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(StorageError, match=r"AWS profile role: it gets its keys by SSO.*pip install boto3"):
        profile_settings({})


def test_a_bucket_is_read_with_a_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        server = s3_server()
        found = server.__enter__()
        found.put({"a.txt": b"one\n"})
    try:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{found.port}")
        storage, path = open_storage("s3://data/a.txt")
        assert storage.list(path).sizes.tolist() == [4]
        assert SECRET not in repr(storage)
        assert SECRET not in repr(vars(storage))
    finally:
        server.__exit__(None, None, None)
