"""Identifies versions of a file by the details that fsspec's file systems report.

A listing and a look-up of one file may use different names, and state a time as a number, a date or a text. What both have is compared.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from penstock.storage.stores.version import bare

#: Names of identifiers of the content, the most reliable first, and names of times. File systems spell them in many ways.
_CONTENT = ("ETag", "etag", "e_tag", "generation", "md5Hash", "content_md5", "md5", "checksum", "sha", "blob_id", "CRC")
_TIMES = (
    *("mtime", "modificationTime", "LastModified", "Last-Modified", "last_modified", "modified", "modify"),
    *("updated", "last_write_time", "date_time", "created"),
)
#: Times that differ by less are equal: seconds as a float have no more digits.
_CLOCK_S = 1e-6


def version_of(said: Mapping[str, Any]) -> str:
    """All that identifies this version of a file: version_of({"size": 3, "mtime": 1.5}) == "mtime=1.5"; "" if nothing does."""
    found = {_plain(name): _content(said[name]) for name in _CONTENT if said.get(name)}
    times = {_plain(name): _time(said[name]) for name in _TIMES if said.get(name)}
    return "\n".join(f"{name}={value}" for name, value in (found | times).items())


def is_same_version(one: str, other: str) -> bool:
    """Whether two texts of `version_of` may be of one version. The most reliable detail that both have decides; True if there is none."""
    known = dict(line.split("=", 1) for line in other.splitlines())
    for name, value in (line.split("=", 1) for line in one.splitlines()):
        if name in known:
            return (_is_same_time if name in _PLAIN_TIMES else _is_same_content)(value, known[name])
    return True


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


_PLAIN_TIMES = frozenset(map(_plain, _TIMES))


def _content(value: Any) -> str:
    return (value.hex() if isinstance(value, bytes) else str(value)).replace("\n", " ")


def _time(value: Any) -> str:
    """Seconds since 1970 if the text can be parsed, else the text itself."""
    if isinstance(value, str):
        value = _date(value)
    if isinstance(value, datetime):
        value = (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    return _content(value)


def _date(text: str) -> Any:
    for parse in (float, datetime.fromisoformat, parsedate_to_datetime):
        with contextlib.suppress(ValueError, TypeError):
            return parse(text)
    return text


def _is_same_content(one: str, other: str) -> bool:
    return bare(one) == bare(other)


def _is_same_time(one: str, other: str) -> bool:
    try:
        first, second = float(one), float(other)
    except ValueError:
        return one == other
    if first.is_integer() or second.is_integer():  # one of the calls returns whole seconds
        return int(first) == int(second)
    return abs(first - second) < _CLOCK_S
