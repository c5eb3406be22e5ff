"""Checks for credentials before the client waits for a metadata server that has none."""

from __future__ import annotations

import http.client
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from penstock.core.errors import StorageError

#: Names of settings that hold credentials or their location, or say that none are needed.
_NAMED = re.compile(r"KEY|TOKEN|SAS|CREDENTIAL|SERVICE_ACCOUNT|SKIP_SIGNATURE|CLIENT|IDENTITY|MSI|EMULATOR|CLI$|FABRIC")
#: A metadata server is near, and responds at once.
_ANSWERS_WITHIN_S = 2.0


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """A kind of store: the prefix of its variables, where its credentials were looked for, and what to do."""

    prefixes: tuple[str, ...]
    looked: str
    do: str
    server: str = "169.254.169.254"
    server_variable: str = ""
    file: str = ""


_S3 = _Kind(
    prefixes=("AWS_",),
    looked=(
        "neither in the environment (AWS_ACCESS_KEY_ID, AWS_WEB_IDENTITY_TOKEN_FILE, AWS_CONTAINER_CREDENTIALS_RELATIVE_URI) nor in "
        "~/.aws (AWS_PROFILE, or the profile default)"
    ),
    do=(
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; for a public bucket, set AWS_SKIP_SIGNATURE=true"
    ),
    server_variable="AWS_METADATA_ENDPOINT",
)
_GCS = _Kind(
    prefixes=("GOOGLE_", "SERVICE_ACCOUNT"),
    looked="neither in the environment (GOOGLE_APPLICATION_CREDENTIALS, GOOGLE_SERVICE_ACCOUNT) nor in gcloud's file",
    do=(
        "set GOOGLE_APPLICATION_CREDENTIALS, or run `gcloud auth application-default login`; for a public bucket, set "
        "GOOGLE_SKIP_SIGNATURE=true"
    ),
    server_variable="GCE_METADATA_HOST",
    file="~/.config/gcloud/application_default_credentials.json",
)
_AZURE = _Kind(
    prefixes=("AZURE_", "IDENTITY_", "MSI_"),
    looked="none in the environment (AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, AZURE_CLIENT_ID, AZURE_USE_AZURE_CLI)",
    do="set one of these; for a public container, set AZURE_SKIP_SIGNATURE=true",
)
_KINDS = {"s3": _S3, "s3a": _S3, "gs": _GCS, "az": _AZURE, "abfs": _AZURE, "abfss": _AZURE, "adl": _AZURE}


def check_credentials(root: str, settings: Mapping[str, Any]) -> None:
    """Raise StorageError if nothing names credentials for the store at `root`, and no metadata server has any for this machine."""
    kind = _KINDS.get(root.partition("://")[0])
    if kind is None or _has_any(kind, settings):
        return
    said = str(settings.get("metadata_endpoint") or os.environ.get(kind.server_variable) or kind.server)
    server = urlsplit(said if "://" in said else f"http://{said}")
    is_off = kind is _S3 and os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"
    if is_off or not _answers(server.hostname or "", server.port or 80):
        raise no_credentials(root)


def no_credentials(root: str, path: str = "") -> StorageError:
    """The error for missing credentials."""
    kind = _KINDS.get(root.partition("://")[0], _S3)
    return StorageError(
        f"{path or root}: no credentials found: {kind.looked}, and no cloud metadata server provides any; {kind.do}"
    )


def _has_any(kind: _Kind, settings: Mapping[str, Any]) -> bool:
    named = [name for name, value in os.environ.items() if value and name.startswith(kind.prefixes)]
    if any(_NAMED.search(name.upper()) and name != "AWS_SHARED_CREDENTIALS_FILE" for name in (*named, *settings)):
        return True
    return bool(kind.file) and os.path.exists(os.path.expanduser(kind.file))


def _answers(host: str, port: int) -> bool:
    """Whether an HTTP server responds there."""
    connection = http.client.HTTPConnection(host, port, timeout=_ANSWERS_WITHIN_S)
    try:
        connection.request("GET", "/")
        connection.getresponse()
    except (OSError, http.client.HTTPException):
        return False
    else:
        return True
    finally:
        connection.close()
