"""What the user trusts besides the paths that were named: places that a remote list may name, hosts that may receive credentials.

Remote data decides neither which local files are read nor who receives a signature.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from penstock.core.arguments import paths_of
from penstock.core.errors import PlanError, SourceError
from penstock.core.messages import quoted
from penstock.storage.redact import without_secrets

_PORTS = {"http": 80, "https": 443}
#: Names for the same kind of store.
_SAME = {"s3a": "s3", "abfss": "abfs"}


@dataclass(frozen=True, kw_only=True)
class Trust:
    """Trusted places and hosts. places: URLs and folders. hosts: "name", "name:port", with `*` for any characters."""

    places: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    @classmethod
    def of(cls, places: Any, hosts: Any) -> Trust:
        """The trust that `ps.read` was given; PlanError for anything but a text or a list of texts."""
        return cls(
            places=_texts("trust", places, "s3://other-bucket/"), hosts=_texts("trusted_hosts", hosts, "target-*:51081")
        )

    def check_named(self, names: Iterable[str], home: str) -> None:
        """Raise SourceError for the first name in a list at `home` that is in another store and not trusted.

        "https://host/list" may name "https://host/a", but neither "/etc/passwd" nor "https://other/a". A local list may name
        anything.
        """
        own = _origin(home)
        if own == ("", ""):
            return
        for name in names:
            if _origin(name) != own and not any(_is_below(name, place) for place in self.places):
                shown = without_secrets(name)
                raise SourceError(
                    f"{home}: the list names {quoted(shown)}, but a list from {own[0]}://{own[1]}/ may only name files there; to allow it, "
                    f"pass trust=[{quoted(_folder(shown))}]"
                )

    def may_follow(self, url: str, to: str) -> bool:
        """Whether a request for `url` may follow a redirect to `to` with its credentials: to the same host, or an equally safe trusted one."""
        first, second = urlsplit(url), urlsplit(to)
        if second.scheme not in _PORTS or (first.scheme == "https" and second.scheme != "https"):
            return False
        if _origin(url) == _origin(to):
            return True
        try:
            port = second.port or _PORTS[second.scheme]
        except ValueError:
            return False
        host = second.hostname or ""
        called = (host, f"[{host}]", f"{host}:{port}", f"[{host}]:{port}")
        return any(_pattern(one).fullmatch(text) for one in self.hosts for text in called)


#: Trusts nothing else.
NOBODY = Trust()


def _texts(name: str, given: Any, example: str) -> tuple[str, ...]:
    try:
        found = tuple(paths_of(name, given)) if isinstance(given, (str, os.PathLike, Sequence)) else ("",)
    except PlanError:
        found = ("",)
    if not all(found):
        raise PlanError(f"{name}={quoted(given)}: pass a list of texts, for example {name}=[{quoted(example)}]")
    return found


def _pattern(host: str) -> re.Pattern[str]:
    return re.compile(re.escape(host.lower()).replace(r"\*", ".*"))


def _origin(url: str) -> tuple[str, str]:
    """The store of a URL: its kind and its bucket or host; ("", "") for this machine."""
    scheme, mark, rest = url.partition("://")
    scheme = _SAME.get(scheme.lower(), scheme.lower())
    place = rest.partition("/")[0]
    if not mark or scheme == "file":
        return "", ""
    return scheme, place.lower().removesuffix(f":{_PORTS[scheme]}") if scheme in _PORTS else place


def _path(url: str) -> str:
    """The path in its store, normalised so that it cannot leave it."""
    if _origin(url) == ("", ""):
        return os.path.abspath(url[7:] if url[:7].lower() == "file://" else url)
    return posixpath.normpath("/" + url.partition("://")[2].partition("/")[2])


def _is_below(name: str, place: str) -> bool:
    folder = _path(place).rstrip("/")
    return _origin(name) == _origin(place) and (_path(name) == folder or _path(name).startswith(folder + "/"))


def _folder(name: str) -> str:
    return name.rpartition("/")[0] + "/"
