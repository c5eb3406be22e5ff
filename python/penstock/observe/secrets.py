"""Removes what may be secret from what leaves the process: names of users, passwords, queries and fragments of URLs, wherever they stand in a text."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

#: Up to what ends a URL in a sentence or in a `repr`.
_URL = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]*://)([^\s'\"<>`]+)")
_PORT = re.compile(r":\d{0,5}$")


def without_url_secrets(text: str) -> str:
    """The text, whose URLs hold no login and no query: without_url_secrets("s3://me:key@data/a?sig=1") == "s3://data/a"."""
    return _URL.sub(lambda found: found[1] + _bare(found[2]), text) if "://" in text else text


def _bare(rest: str) -> str:
    """What follows "://", up to its query, without a login. A key with a slash ends what looks like the host."""
    rest = re.split(r"[?#]", rest, maxsplit=1)[0]
    host, slash, path = rest.partition("/")
    if "@" in host:
        return host.rpartition("@")[2] + slash + path
    if ":" in host and not _PORT.search(host) and "@" in path:
        return path.rpartition("@")[2]
    return rest


def plain(value: Any) -> Any:
    """Figures as values that JSON has, without secrets in texts: what is no finite number is None, what JSON does not know is its text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return without_url_secrets(value)
    if isinstance(value, Mapping):
        return {without_url_secrets(str(name)): plain(one) for name, one in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes | bytearray):
        return [plain(one) for one in value]
    return without_url_secrets(str(value))
