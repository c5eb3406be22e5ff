"""Hosts that may receive a store's credentials: its own, and those that issue credentials. Redirects to others are refused.

The client follows redirects by itself, and would send a session token (S3) or a signed URL as Referer (Azure). It has no setting
against that, but it can send requests to all but named hosts through a proxy. So it gets a proxy that does not exist, or our own
(`relay`) in front of the user's.
"""

from __future__ import annotations

import http.client
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from penstock.storage.stores.auth.relay import can_relay, relay_url

#: A proxy that refuses every connection, and the part of an error that shows a try.
NOWHERE = "http://127.0.0.1:0"
REFUSED = "127.0.0.1:0,"
#: Metadata servers, where machines in a cloud get their credentials.
_METADATA = ("169.254.0.0/16", "fd00:ec2::/32", "metadata", "google.internal")
_GOOGLE = ("googleapis.com", "accounts.google.com")
_MICROSOFT = ("login.microsoftonline.com",)
#: Environment variables whose URLs are the user's own choice.
_CHOSEN = ("AWS_", "AZURE_", "GOOGLE_", "GCE_", "MSI_", "IDENTITY_")
_REGION_TIMEOUT_S = 5


def only_own_hosts(url: SplitResult, settings: Mapping[str, Any]) -> dict[str, str]:
    """Options for the client of the store at `url` that keep it to its own hosts.

    None for HTTP servers, which receive no credentials. If the environment names a proxy, requests go through a `relay` to it.
    """
    if url.scheme in ("http", "https"):
        return {}
    named = {name: value for name, value in os.environ.items() if name.startswith(_CHOSEN)} | dict(settings)
    hosts = [_host(str(value)) for value in named.values() if "://" in str(value)]
    hosts += [os.environ.get("GCE_METADATA_HOST", "").partition(":")[0], *_METADATA, *_of_provider(url, settings)]
    if os.environ.get("AZURE_STORAGE_USE_EMULATOR"):
        hosts.append("127.0.0.1")
    own = {host for host in hosts if host}
    proxies = {name: at for name, at in getproxies().items() if name in ("http", "https", "all")}
    if not proxies:
        return {"proxy_url": NOWHERE, "proxy_excludes": ",".join(sorted(own))}
    if not can_relay(proxies):
        return {}
    near = {*_METADATA, *(host for host in own if proxy_bypass(host))}
    return {"proxy_url": relay_url(frozenset(own - near), proxies), "proxy_excludes": ",".join(sorted(near))}


def _host(text: str) -> str:
    try:
        return urlsplit(text).hostname or ""
    except ValueError:  # it only looks like a URL
        return ""


def _of_provider(url: SplitResult, settings: Mapping[str, Any]) -> list[str]:
    if url.scheme in ("s3", "s3a"):
        region = _region(settings)
        express = f"s3express-{url.netloc.removesuffix('--x-s3').rpartition('--')[2]}.{region}.amazonaws.com"
        return [f"s3.{region}.amazonaws.com", f"sts.{region}.amazonaws.com", express]
    if url.scheme == "gs":
        return [*_GOOGLE]
    account = str(settings.get("account_name") or "")
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"):
        account = account or os.environ.get(name, "")
    if "@" in url.netloc:
        account = url.netloc.rpartition("@")[2].partition(".")[0]
    ends = (f"{kind}.{domain}" for kind in ("blob", "dfs") for domain in ("core.windows.net", "fabric.microsoft.com"))
    return [*_MICROSOFT, *(f"{account}.{end}" for end in ends)]


def _region(settings: Mapping[str, Any]) -> str:
    found = settings.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return str(found or "us-east-1")


def bucket_region(bucket: str, settings: Mapping[str, Any]) -> str:
    """The region of an S3 bucket, requested without credentials; "" if the server does not say."""
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    chosen = settings.get("endpoint") or next((os.environ[name] for name in names if os.environ.get(name)), "")
    url = urlsplit(str(chosen or f"https://s3.{_region(settings)}.amazonaws.com"))
    kind = http.client.HTTPConnection if url.scheme == "http" else http.client.HTTPSConnection
    try:
        connection = kind(url.netloc, timeout=_REGION_TIMEOUT_S)
        try:
            connection.request("HEAD", f"{url.path.rstrip('/')}/{bucket}")
            return connection.getresponse().getheader("x-amz-bucket-region") or ""
        finally:
            connection.close()
    except (OSError, http.client.HTTPException):
        return ""
