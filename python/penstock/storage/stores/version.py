"""Identifies versions of an object by one text that is listed, requested and compared.

It is the ETag. If there is none, or only a weak one (W/"…"), which a request cannot use (RFC 9110, 13.1.1), the modification date follows
after a line feed, which no header can hold. "" if a store states neither. `rust/src/io/http/head.rs` reads the same.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any

#: obstore's date for a response without one.
NO_DATE = datetime.fromtimestamp(0, UTC)


def version_of(meta: Any) -> str:
    """The version of an object from obstore's metadata."""
    etag = meta["e_tag"] or ""
    if (etag and not etag.startswith("W/")) or meta["last_modified"] == NO_DATE:
        return str(etag)
    return f"{etag}\n{format_datetime(meta['last_modified'].astimezone(UTC), usegmt=True)}"


def headers_for(version: str) -> dict[str, str]:
    """The header that limits a request to this version, if the server obeys it."""
    etag, _, date = version.partition("\n")
    if date:
        return {"If-Unmodified-Since": date}
    return {"If-Match": etag} if etag and not etag.startswith("W/") else {}


def conditions(version: str) -> dict[str, Any]:
    """The same as options of obstore."""
    names = {"If-Unmodified-Since": "if_unmodified_since", "If-Match": "if_match"}
    return {names[name]: moment(text) if "Since" in name else text for name, text in headers_for(version).items()}


def moment(date: str) -> datetime:
    """An HTTP date as obstore returns it."""
    try:
        found = parsedate_to_datetime(date)
    except ValueError:
        return NO_DATE
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def is_version(meta: Any, version: str) -> bool | None:
    """Whether a response is of a version; None if it does not say, though the listing did."""
    etag, _, date = version.partition("\n")
    if etag and bare(meta["e_tag"]) != bare(etag):
        return False
    if not date:
        return True
    found = meta["last_modified"]
    return None if found == NO_DATE else found.replace(microsecond=0) == moment(date)


def shown(version: str) -> str:
    """shown('"a1"') == 'its ETag is no longer "a1"'."""
    etag, _, date = version.partition("\n")
    known = [f"its ETag is no longer {etag}" if etag else "", f"it was last changed on {date} then" if date else ""]
    return ", or ".join(filter(None, known))


def bare(etag: str | None) -> str:
    """An ETag without what listings leave out."""
    return (etag or "").removeprefix("W/").strip('"')
