"""Whether there are any credentials for a store, found out before the client waits for a server that gives none."""

from __future__ import annotations

import http.client
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from penstock.core.errors import StorageError

#: Names of settings that hold credentials, say where they are, or that none are needed.
_NAMED = re.compile(r"KEY|TOKEN|SAS|CREDENTIAL|SERVICE_ACCOUNT|SKIP_SIGNATURE|CLIENT|IDENTITY|MSI|EMULATOR|CLI$|FABRIC")
#: A server of credentials is on the same machine or the next one, and answers at once.
_ANSWERS_WITHIN_S = 2.0


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """Of one kind of store: what begins the names of its variables, where else its credentials are looked for, and what to do."""

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
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; for a bucket that anybody may read, set AWS_SKIP_SIGNATURE=true"
    ),
    server_variable="AWS_METADATA_ENDPOINT",
)
_GCS = _Kind(
    prefixes=("GOOGLE_", "SERVICE_ACCOUNT"),
    looked="neither in the environment (GOOGLE_APPLICATION_CREDENTIALS, GOOGLE_SERVICE_ACCOUNT) nor in gcloud's own file",
    do=(
        "set GOOGLE_APPLICATION_CREDENTIALS, or run `gcloud auth application-default login`; for a bucket that anybody may read, set "
        "GOOGLE_SKIP_SIGNATURE=true"
    ),
    server_variable="GCE_METADATA_HOST",
    file="~/.config/gcloud/application_default_credentials.json",
)
_AZURE = _Kind(
    prefixes=("AZURE_", "IDENTITY_", "MSI_"),
    looked="none in the environment (AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, AZURE_CLIENT_ID, AZURE_USE_AZURE_CLI)",
    do="set one of these; for a container that anybody may read, set AZURE_SKIP_SIGNATURE=true",
)
_KINDS = {"s3": _S3, "s3a": _S3, "gs": _GCS, "az": _AZURE, "abfs": _AZURE, "abfss": _AZURE, "adl": _AZURE}


def check_credentials(root: str, settings: Mapping[str, Any]) -> None:
    """StorageError where nothing names credentials for the store at `root`, and no server of a cloud gives any to this machine."""
    kind = _KINDS.get(root.partition("://")[0])
    if kind is None or _has_any(kind, settings):
        return
    said = str(settings.get("metadata_endpoint") or os.environ.get(kind.server_variable) or kind.server)
    server = urlsplit(said if "://" in said else f"http://{said}")
    is_off = kind is _S3 and os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"
    if is_off or not _answers(server.hostname or "", server.port or 80):
        raise no_credentials(root)


def no_credentials(root: str, path: str = "") -> StorageError:
    """The error where no credentials are found for a store."""
    kind = _KINDS.get(root.partition("://")[0], _S3)
    return StorageError(
        f"{path or root}: no credentials found: {kind.looked}, and no server of a cloud gives this machine any; {kind.do}"
    )


def _has_any(kind: _Kind, settings: Mapping[str, Any]) -> bool:
    named = [name for name, value in os.environ.items() if value and name.startswith(kind.prefixes)]
    if any(_NAMED.search(name.upper()) and name != "AWS_SHARED_CREDENTIALS_FILE" for name in (*named, *settings)):
        return True
    return bool(kind.file) and os.path.exists(os.path.expanduser(kind.file))


def _answers(host: str, port: int) -> bool:
    """Whether there is a server of HTTP."""
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
