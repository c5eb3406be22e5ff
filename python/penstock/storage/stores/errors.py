"""Turns errors of object stores and HTTP servers into ours: which are worth a retry, and what to do about the others."""

from __future__ import annotations

import re
from collections.abc import Callable

from obstore import exceptions

from penstock.core.errors import StorageError
from penstock.storage.fetch.retry import PASSING, SLOW_DOWN, TransientError, WrongAnswerError
from penstock.storage.redact import without_secrets
from penstock.storage.stores.auth.credentials import no_credentials
from penstock.storage.stores.auth.own_hosts import REFUSED
from penstock.storage.stores.auth.relay import REFUSALS

_STATUS = re.compile(r"status code: (\d\d\d)")
_XML = re.compile(r"<Code>(.*?)</Code>.*?<Message>(.*?)</Message>", re.DOTALL)
_REDIRECTED = re.compile(r"for url \(\w+://([^/)\s]+)")
_TOOK = re.compile(r" in [\d.]+[nµm]?s - ")
_CREDENTIALS = "check the credentials and what they may read"
_NO_RANGES = "the server sends only whole files, not byte ranges; copy the files, or serve them with another server"
_MIXED_UP = (
    "the response of the server, or of a proxy, does not match the request; use another route, or copy the files"
)
#: Errors that no retry helps, by a part of their message, and what to do.
_REMEDIES = (
    ("RequestTimeTooSkewed", "this machine's clock is wrong: set it (NTP)"),
    ("ExpiredToken", "the credentials have expired: get new ones"),
    ("TokenRefreshRequired", "the credentials have expired: get new ones"),
    ("InvalidAccessKeyId", _CREDENTIALS),
    ("SignatureDoesNotMatch", "check the secret key"),
    ("Could not parse path", "name the object without its store, an empty part, '.', '..' and control characters"),
    (
        "with invalid path",
        "a key with an empty part, '.', '..' or a control character is not a path: rename the object, or leave it out",
    ),
)
#: Wrong responses, by a part of their message, and what to do if they repeat.
_WRONG = (
    ("non-partial response", _NO_RANGES),
    ("Range request not supported", _NO_RANGES),
    ("Requested ", _MIXED_UP),
    ("Header missing from response", _MIXED_UP),
    ("header not present in partial response", _MIXED_UP),
    ("Failed to parse", _MIXED_UP),
    ("not modified", _MIXED_UP),
)
#: Broken redirects, in obstore's details.
_ASTRAY = ("error following redirect", "builder error", "redirect without LOCATION")
#: Causes of requests that could not be sent, which the client states only in its details.
_CAUSES = (
    ("failed to lookup address", "no such host"),
    ("ConnectionRefused", "connection refused"),
    ("InvalidCertificate", "the certificate is not trusted"),
)
#: Requests to metadata servers, which respond with 4xx if this machine has no role.
_ASKS_FOR_CREDENTIALS = ("/latest/api/token", "/meta-data/iam", "/computeMetadata/", "/metadata/identity")


def store_error(path: str, error: Exception, root: str = "", region: Callable[[], str] | None = None) -> Exception:
    """The error to raise for obstore's error about a path; TransientError if it is worth a retry.

    region: finds the region of an S3 bucket. Queries of URLs, which may hold signatures, are hidden.
    """
    found = _TOOK.sub(": ", without_secrets(str(error).partition("\n\nDebug source")[0]))
    status = next(iter(_STATUS.findall(found)), "")
    found += "".join(f" ({cause})" for mark, cause in _CAUSES if mark in str(error))
    if report := _XML.search(found):
        found = f"{found[: found.find('<')].rstrip(' :')}: {report[1]}: {report[2]}"
    if status.startswith("4") and any(mark in found for mark in _ASKS_FOR_CREDENTIALS):
        return no_credentials(root, path)
    if any(mark in str(error) for mark in (REFUSED, *REFUSALS)):
        place = _REDIRECTED.search(found)
        return refused_redirect(path, place[1] if place else "")
    if "redirect without LOCATION" in found and region is not None:
        return StorageError(f"{path}: {found}; the bucket is in another region{_named(region())}")
    if any(mark in found for mark in _ASTRAY) or (status.startswith("3") and status != "304"):
        return StorageError(f"{path}: {found}; the server's redirect is broken: name the file by its final URL")
    refused = isinstance(error, (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError))
    if remedy := next((text for mark, text in _REMEDIES if mark in found), ""):
        return StorageError(f"{path}: {'the store refuses: ' if refused else ''}{found}; {remedy}")
    if do := next((text for mark, text in _WRONG if mark in found), ""):
        return WrongAnswerError(f"{path}: {found}; {do}")
    return _by_status(path, error, found, status, refused=refused)


def _by_status(path: str, error: Exception, found: str, status: str, *, refused: bool) -> Exception:
    if refused or status in ("401", "403"):
        return StorageError(f"{path}: the store refuses: {found}; {_CREDENTIALS}")
    if isinstance(error, exceptions.UnknownConfigurationKeyError):
        return StorageError(f"{path}: {found}; remove the setting")
    if status.startswith("4") and int(status) not in PASSING:
        return StorageError(f"{path}: {found}; check the name, the endpoint and the region")
    if status and status[0] not in "45":
        return WrongAnswerError(f"{path}: {found}; {_MIXED_UP}")
    slow_down = int(status or 0) in SLOW_DOWN or "timed out" in found  # so many at once may be too many for the line
    return TransientError(f"{path}: {found}", slow_down=slow_down)


def refused_redirect(path: str, host: str = "") -> StorageError:
    """The error for a redirect that would send credentials to an untrusted host."""
    named = f", {host}" if host else ""
    return StorageError(
        f"{path}: the store redirects this request to another host{named}, which must not receive credentials; if it belongs to the "
        f"store, pass trusted_hosts=[{host or '…'!r}], else set the endpoint to the host that responds"
    )


def endless_redirects(path: str, chain: list[str]) -> StorageError:
    """The error for endless redirects."""
    return StorageError(
        f"{path}: endless redirects: {' → '.join(chain)}; check the server, or name the file by its final URL"
    )


def _named(region: str) -> str:
    return f", {region}: set AWS_REGION={region}" if region else ": set AWS_REGION"
