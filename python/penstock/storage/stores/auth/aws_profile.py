"""Credentials from ~/.aws, for S3 if the environment has none: a profile's keys, or those that boto3 gets for it (SSO, roles)."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from typing import Any

from penstock.core.errors import StorageError
from penstock.core.installing import pip_install

#: With one of these set, or a key in the settings, credentials come from there.
_ELSEWHERE = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
)
_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
#: Settings of profiles that get their keys elsewhere.
_ASKS = ("role_arn", "sso_session", "sso_start_url", "credential_process", "web_identity_token_file", "login_session")
#: Variables that become parts of headers.
_SENT = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


def check_environment() -> None:
    """Raise StorageError, without values, for variables that would make the client panic."""
    for name in _SENT:
        if not os.environ.get(name, "").isprintable():
            raise StorageError(f"{name}: contains a line break or another control character; remove it")
    for name in _ENDPOINTS:
        if not os.environ.get(name, "http://").startswith(("http://", "https://")):
            raise StorageError(f"{name}: not a URL; write it as https://host:port")


def profile_settings(settings: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Settings for an S3 store from $AWS_PROFILE or the profile "default", and a provider of credentials if boto3 is needed.

    Empty if environment or settings have credentials, or without such a file. Raises StorageError for a missing profile, or
    one that needs boto3 if that is not installed.
    """
    if any(os.environ.get(name) for name in _ELSEWHERE) or any(name.lower() in settings for name in _ELSEWHERE):
        return {}, None
    name = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or ""
    found = _profile(name or "default")
    if not found:
        if name:
            raise StorageError(
                f"AWS_PROFILE={name}: no such profile in ~/.aws/credentials or ~/.aws/config; add it, or unset the variable"
            )
        return {}, None
    made: dict[str, Any] = {}
    if not (os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")) and "region" in found:
        made["region"] = found["region"]
    if not (os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT_URL_S3")) and "endpoint_url" in found:
        made["endpoint"] = found["endpoint_url"]
    if all(key in found for key in _KEYS[:2]):
        return made | {key: found[key] for key in _KEYS if key in found}, None
    if any(key in found for key in _ASKS):
        return made, _by_boto3(name or "default")
    return made, None


def _profile(name: str) -> dict[str, str]:
    """A profile's settings in both files; the file of credentials wins."""
    merged: dict[str, str] = {}
    for variable, place, section in (
        ("AWS_CONFIG_FILE", "~/.aws/config", name if name == "default" else f"profile {name}"),
        ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", name),
    ):
        path = os.path.expanduser(os.environ.get(variable) or place)
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError, OSError) as error:
            kind = type(error).__name__  # its text may hold a line of the file
            raise StorageError(
                f"{path}: not a file of profiles ({kind}); repair it, or set AWS_ACCESS_KEY_ID and others"
            ) from None
        if parser.has_section(section):
            merged |= dict(parser.items(section))
    return merged


def _by_boto3(name: str) -> Any:
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ModuleNotFoundError:
        raise StorageError(
            f"AWS profile {name}: it gets its keys by SSO, a role or a process, which needs boto3; {pip_install('boto3')}"
        ) from None
    return Boto3CredentialProvider(boto3.Session(profile_name=name))
