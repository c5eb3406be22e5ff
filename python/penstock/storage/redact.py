"""Removes secrets from messages: queries of URLs, which may hold a signature, passwords, and values that are known to be secret.

All text from clients, servers and file systems passes through `without_secrets` before it becomes part of an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from penstock.core.errors import PlanError

_QUERY = re.compile(r"(https?://[^\s?]*)\?\S*")
_USER = re.compile(r"(\w://)[^\s/]*@")
#: What precedes a signature or a key in the query of a signed URL.
_SIGNED = re.compile(r"[?&](x-(amz|goog|ms)-[\w-]+|sig|signature|awsaccesskeyid)=", re.IGNORECASE)
#: The same in any text, with the value, and headers that hold a secret.
_PAIR = re.compile(
    r"\b((?:x-(?:amz|goog|ms)-[\w-]+|sig|signature|awsaccesskeyid|access_token|sas_token|password)=)[^\s&;,'\")]+",
    re.IGNORECASE,
)
_HEADER = re.compile(
    r"\b((?:(?:proxy-)?authorization|(?:set-)?cookie|x-amz-security-token|x-goog-iam-authorization-token)\W{1,6})[^\r\n'\"]+",
    re.IGNORECASE,
)
#: Names of variables and settings whose values are secret, and of those that only hold a location.
_SECRET = re.compile(
    r"SECRET|TOKEN|PASSWORD|PASSWD|ACCESS_?KEY|ACCOUNT_?KEY|API_?KEY|SAS|CREDENTIAL|PRIVATE|AUTHORIZATION|SERVICE_ACCOUNT_KEY|^KEY$"
)
_PLACE = re.compile(r"(_FILE|_URI|_URL|_PATH|_ENDPOINT|_PROVIDER|_SCOPE)$")
_LOGIN = re.compile(r"\w+://([^\s/]*)@")
#: Clients fail above 65,534 bytes, and encoded a character has up to 12.
_LONGEST_URL = 5_000
#: Shorter values are not hidden, since they could be any word.
_SHORTEST = 8
_HIDDEN = "…"

#: Schemes of URLs without user names: what precedes an "@" there is a key or a token.
_NAMELESS = ("s3", "s3a", "gs", "az", "http", "https")
_BUCKETS = ("s3", "s3a", "gs", "az")
_hidden: set[str] = set()


def without_secrets(text: str) -> str:
    """The text of an error, without possible secrets in its URLs and without known secret values."""
    text = _HEADER.sub(rf"\1{_HIDDEN}", _PAIR.sub(rf"\1{_HIDDEN}", _USER.sub(r"\1", _QUERY.sub(r"\1", text))))
    for value in sorted({*_hidden, *_of_environment()}, key=len, reverse=True):
        text = text.replace(value, _HIDDEN)
    return text


def hide(settings: Mapping[str, Any]) -> None:
    """Hide the secret values among these settings, and those inside them, from now on."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            hide(value)
        elif isinstance(value, (str, bytes)) and _SECRET.search(str(name).upper()):
            _hidden.update(_forms(value if isinstance(value, str) else value.decode("latin-1")))


def _of_environment() -> Iterator[str]:
    for name, value in os.environ.items():
        if login := _LOGIN.match(value):
            yield from (form for part in login[1].split(":", 1) for form in _forms(part))
        elif _SECRET.search(name.upper()) and not _PLACE.search(name.upper()):
            yield from _forms(value)


def _forms(value: str) -> Iterator[str]:
    """A secret as it is, and URL-encoded."""
    if len(value) >= _SHORTEST and not os.path.isabs(value):
        yield from (value, quote(value, safe=""), quote(value))


def is_signed(query: str) -> bool:
    """Whether the query of a URL has a signature."""
    return _SIGNED.search(f"?{query}") is not None


def check_url(url: str) -> None:
    """Raise PlanError for a login or a signature inside a URL, since file names are shown and stored; the error hides them.

    Also for one that no client can send.
    """
    scheme, mark, rest = url.partition("://")
    if not mark:
        return
    if len(url) > _LONGEST_URL:
        raise PlanError(
            f"{scheme}://…: a URL of {len(url):,} characters; stores have names of 1,024, and no client sends more than {_LONGEST_URL:,}"
        )
    user, at, host = rest.partition("/")[0].rpartition("@")
    # A key with a slash ends what looks like the host; buckets have no ports.
    is_secret = ":" in user or (at and scheme in _NAMELESS) or (scheme in _BUCKETS and ":" in host and "@" in rest)
    if is_secret or _SIGNED.search(rest) or (scheme in ("http", "https") and "?" in rest):
        shown = host if at or not is_secret else ""
        raise PlanError(
            f"{scheme}://{shown}/…: a user name, a password, a query or a signature inside a URL would appear in messages; pass "
            f"credentials in the environment, or pass an obstore store as storage="
        )
