"""What may stand in a message: no query of a URL, which may hold a signature, and nobody's password."""

from __future__ import annotations

import re

from penstock.errors import PlanError

_QUERY = re.compile(r"(https?://[^\s?]*)\?\S*")
_USER = re.compile(r"(\w://)[^\s/@]*@")
#: What stands before a signature or a key in the query of a signed URL.
_SIGNED = re.compile(r"[?&](x-(amz|goog|ms)-[\w-]+|sig|signature|awsaccesskeyid)=", re.IGNORECASE)

_BUCKETS = ("s3", "s3a", "gs", "az")


def without_secrets(text: str) -> str:
    """The text of an error, without what may be secret in its URLs."""
    return _USER.sub(r"\1", _QUERY.sub(r"\1", text))


def is_signed(query: str) -> bool:
    """Whether the query of a URL has a signature."""
    return _SIGNED.search(f"?{query}") is not None


def check_url(url: str) -> None:
    """Raises PlanError, which does not show them, for a password or a signature inside a URL: names of files are shown and kept."""
    scheme, mark, rest = url.partition("://")
    if not mark:
        return
    user, at, host = rest.partition("/")[0].rpartition("@")
    # A key with a slash in it ends what looks like the host; buckets have no ports.
    is_secret = ":" in user or (scheme in _BUCKETS and ":" in host and "@" in rest)
    if is_secret or _SIGNED.search(rest) or (scheme in ("http", "https") and "?" in rest):
        shown = host if at or not is_secret else ""
        raise PlanError(
            f"{scheme}://{shown}/…: a password, a query or a signature inside a URL would show up in "
            f"messages; give credentials by the environment, or pass storage= an obstore store"
        )
