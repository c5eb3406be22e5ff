"""What went wrong with a request to an object store or an HTTP server, in words of ours: what passes, and what to do about the rest."""

from __future__ import annotations

import re
from collections.abc import Callable

from obstore import exceptions

from penstock.core.errors import StorageError
from penstock.storage.fetch.retry import TransientError, WrongAnswerError
from penstock.storage.redact import without_secrets
from penstock.storage.stores.credentials import no_credentials
from penstock.storage.stores.own_hosts import REFUSED
from penstock.storage.stores.relay import REFUSALS

_STATUS = re.compile(r"status code: (\d\d\d)")
_XML = re.compile(r"<Code>(.*?)</Code>.*?<Message>(.*?)</Message>", re.DOTALL)
_REDIRECTED = re.compile(r"for url \(\w+://([^/)\s]+)")
_TOOK = re.compile(r" in [\d.]+[nµm]?s - ")
_CREDENTIALS = "check the credentials and what they may read"
_NO_RANGES = "the server gives whole files only, not ranges of bytes; copy the files, or serve them with another server"
_MIXED_UP = "the server, or a proxy before it, does not answer what it is asked; read by another way, or copy the files"
#: What never passes by itself, by what the message has; and what to do.
_REMEDIES = (
    ("RequestTimeTooSkewed", "this machine's clock is wrong: set it (NTP)"),
    ("ExpiredToken", "the credentials' time is over: get new ones"),
    ("TokenRefreshRequired", "the credentials' time is over: get new ones"),
    ("InvalidAccessKeyId", _CREDENTIALS),
    ("SignatureDoesNotMatch", "check the secret key"),
    ("Could not parse path", "name the object without its store, an empty part, '.', '..' and control characters"),
    (
        "with invalid path",
        "a key with an empty part, '.', '..' or a control character can be no path: rename the object, or read others",
    ),
)
#: Answers that are none to what was asked, by what the message has; and what to do if the next ones are no better.
_WRONG = (
    ("non-partial response", _NO_RANGES),
    ("Range request not supported", _NO_RANGES),
    ("Requested ", _MIXED_UP),
    ("Header missing from response", _MIXED_UP),
    ("header not present in partial response", _MIXED_UP),
    ("Failed to parse", _MIXED_UP),
    ("not modified", _MIXED_UP),
)
#: Redirects that lead nowhere; obstore says so in its details.
_ASTRAY = ("error following redirect", "builder error", "redirect without LOCATION")
#: What the client knows of a request that it could not send, and tells only in its details.
_CAUSES = (
    ("failed to lookup address", "no such host"),
    ("ConnectionRefused", "connection refused"),
    ("InvalidCertificate", "the certificate is not trusted"),
)
#: Requests for credentials to servers of clouds, which answer with an error of 4xx where this machine has no role.
_ASKS_FOR_CREDENTIALS = ("/latest/api/token", "/meta-data/iam", "/computeMetadata/", "/metadata/identity")
_SLOW_DOWN = ("429", "503")
#: Of the statuses that blame the request, those that pass.
_PASSING = ("408", "425", "429")


def store_error(path: str, error: Exception, root: str = "", region: Callable[[], str] | None = None) -> Exception:
    """The error to raise for what obstore said of a path; TransientError where another attempt may go well.

    region: finds the region of an S3 bucket. Queries of URLs, which may hold signatures, are not shown.
    """
    found = _TOOK.sub(": ", without_secrets(str(error).partition("\n\nDebug source")[0]))
    status = next(iter(_STATUS.findall(found)), "")
    found += "".join(f" ({cause})" for mark, cause in _CAUSES if mark in str(error))
    if told := _XML.search(found):
        found = f"{found[: found.find('<')].rstrip(' :')}: {told[1]}: {told[2]}"
    if status.startswith("4") and any(mark in found for mark in _ASKS_FOR_CREDENTIALS):
        return no_credentials(root, path)
    if any(mark in str(error) for mark in (REFUSED, *REFUSALS)):
        place = _REDIRECTED.search(found)
        return refused_redirect(path, place[1] if place else "")
    if "redirect without LOCATION" in found and region is not None:
        return StorageError(f"{path}: {found}; the bucket lies in another region{_named(region())}")
    if any(mark in found for mark in _ASTRAY) or (status.startswith("3") and status != "304"):
        return StorageError(
            f"{path}: {found}; the server sends this request on to nowhere: name the file as it is called there"
        )
    if remedy := next((text for mark, text in _REMEDIES if mark in found), ""):
        refused = isinstance(error, (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError))
        return StorageError(f"{path}: {'the store refuses: ' if refused else ''}{found}; {remedy}")
    if do := next((text for mark, text in _WRONG if mark in found), ""):
        return WrongAnswerError(f"{path}: {found}; {do}")
    return _by_status(path, error, found, status)


def _by_status(path: str, error: Exception, found: str, status: str) -> Exception:
    refused = isinstance(error, (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError))
    if refused or status in ("401", "403"):
        return StorageError(f"{path}: the store refuses: {found}; {_CREDENTIALS}")
    if isinstance(error, exceptions.UnknownConfigurationKeyError):
        return StorageError(f"{path}: {found}; remove the setting")
    if status.startswith("4") and status not in _PASSING:
        return StorageError(f"{path}: {found}; check the name, the endpoint and the region")
    if status and status[0] not in "45":
        return WrongAnswerError(f"{path}: {found}; {_MIXED_UP}")
    slow_down = status in _SLOW_DOWN or "timed out" in found  # so many at once may be more than the line carries
    return TransientError(f"{path}: {found}", slow_down=slow_down)


def refused_redirect(path: str, host: str = "") -> StorageError:
    """The error for a redirect that would take credentials to a host that nobody trusts."""
    named = f", {host}" if host else ""
    return StorageError(
        f"{path}: the store sends this request on to another host{named}, which does not get credentials; if it belongs to the "
        f"store, pass trusted_hosts=[{host or '…'!r}], else name the host that answers as the endpoint"
    )


def endless_redirects(path: str, chain: list[str]) -> StorageError:
    """The error for redirects that do not end."""
    return StorageError(
        f"{path}: redirects without an end: {' → '.join(chain)}; check the server, or name the file as it is called in the end"
    )


def _named(region: str) -> str:
    return f", {region}: set AWS_REGION={region}" if region else ": set AWS_REGION"
