"""The URLs of objects that the native client can request.

The native client takes less CPU time than obstore, and no time of the interpreter. obstore knows the stores: it signs the URLs. It
makes the requests itself under a proxy or unusual settings, and retries failed ones, whose errors it reports.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import getproxies

import obstore
from obstore.store import HTTPStore, S3Store

from penstock.core.errors import ProcessError
from penstock.storage.forked import is_lost, use_client
from penstock.storage.redact import is_signed
from penstock.storage.stores.auth.own_hosts import NOWHERE
from penstock.storage.trust import NOBODY, Trust

#: Requests without credentials may go to any host.
_ANYBODY = Trust(hosts=("*",))
#: A signature is valid for so long, and used for half of that.
_SIGNED_S = 900
#: How many signed URLs are remembered.
_REMEMBERED = 8192
#: After so many requests in a row that the native client declined, obstore makes all of them for a while.
_IN_TURN, _DECLINED_S = 8, 60.0
#: Settings of an S3 store and of a client with which a GET of a signed URL suffices.
_PLAIN = frozenset(
    {
        *("bucket", "endpoint", "region", "default_region", "virtual_hosted_style_request", "aws_endpoint_url_s3"),
        *("access_key_id", "secret_access_key", "session_token", "metadata_endpoint", "imdsv1_fallback"),
        *("role_arn", "role_session_name", "sts_endpoint", "web_identity_token_file"),
        *("container_credentials_relative_uri", "container_credentials_full_uri", "container_authorization_token_file"),
        *("conditional_put", "copy_if_not_exists", "disable_tagging", "unsigned_payload", "checksum_algorithm"),
    }
)
_PLAIN_CLIENT = frozenset({"timeout", "connect_timeout", "allow_http", "user_agent", "proxy_url", "proxy_excludes"})
#: Environment variables that change requests in ways a signed URL cannot.
_UNUSUAL = ("AWS_SKIP_SIGNATURE", "AWS_REQUEST_PAYER", "AWS_S3_EXPRESS", "AWS_SSE_CUSTOMER_KEY_BASE64")


class SignedUrls:
    """URLs of a store's objects, signed if needed, and whether to use the native client."""

    def __init__(self, url_of: Callable[[str], str], trust: Trust = NOBODY, *, is_plain: bool = False) -> None:
        self.url_of, self._trust = url_of, trust
        #: Whether this is a plain HTTP server.
        self.is_plain = is_plain
        self._in_turn, self._again_at = 0, 0.0

    @classmethod
    def of(cls, store: Any, root: str, trust: Trust = NOBODY) -> SignedUrls | None:
        """The URLs of an obstore store; None if obstore should make all requests."""
        options = dict(getattr(store, "client_options", None) or {})
        has_proxy = options.get("proxy_url", NOWHERE) != NOWHERE or getproxies().keys() & {"http", "https", "all"}
        if has_proxy or not options.keys() <= _PLAIN_CLIENT:
            return None
        if isinstance(store, HTTPStore):
            return cls(lambda name: root + quote(name), _ANYBODY, is_plain=True) if root and "@" not in root else None
        config: Mapping[str, Any] = getattr(store, "config", {})
        if isinstance(store, S3Store) and config.keys() <= _PLAIN and not any(map(os.environ.get, _UNUSUAL)):
            return cls(_Signed(store), trust)
        return None

    @classmethod
    def of_own(cls, store: Any, root: str, trust: Trust) -> SignedUrls:
        """The URLs of a store that Penstock made, behind any proxy."""
        if isinstance(store, HTTPStore):
            return cls(lambda name: root + quote(name), _ANYBODY, is_plain=True)
        return cls(_Signed(store), trust)

    def url(self, name: str) -> str | None:
        """An object's URL; None if obstore should request it."""
        if time.monotonic() < self._again_at:
            return None
        try:
            return self.url_of(name)
        except (obstore.exceptions.BaseError, ProcessError, OSError, ValueError):
            self.declined()
            return None

    def follow(self, url: str, to: str) -> str | None:
        """The URL after a redirect from `url` to `to`, with the signature of `url` if it has none; None if it must not be followed."""
        to = urljoin(url, to)
        if not self._trust.may_follow(url, to):
            return None
        signature = urlsplit(url).query
        if not is_signed(signature) or is_signed(urlsplit(to).query):
            return to
        return f"{to}{'&' if '?' in to else '?'}{signature}"

    def worked(self) -> None:
        """Count a good response."""
        self._in_turn = 0

    def declined(self) -> None:
        """Count a request that obstore has to make."""
        self._in_turn += 1
        if self._in_turn >= _IN_TURN:
            self._in_turn, self._again_at = 0, time.monotonic() + _DECLINED_S


class _Signed:
    """Signed URLs of a store's objects, each used for some minutes. Has no lock, which a forked child could find held."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._known: dict[str, tuple[float, str]] = {}

    def __call__(self, name: str) -> str:
        now = time.monotonic()
        until, url = self._known.get(name, (0.0, ""))
        if now < until:
            return url
        if not (is_lost("obstore") and self._has_keys):
            use_client("obstore", name)
        url = obstore.sign(self._store, "GET", name, timedelta(seconds=_SIGNED_S))
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[name] = now + _SIGNED_S / 2, url
        return url

    @property
    def _has_keys(self) -> bool:
        """Whether the keys are known, so that signing needs no connection."""
        given = self._store.credential_provider is not None or "access_key_id" in self._store.config
        return given or bool(os.environ.get("AWS_ACCESS_KEY_ID"))
