"""Requests over HTTP by the standard library, where obstore cannot: bodies without a length, and redirects to trusted hosts.

It is slower than obstore and the native client, which make all other requests.
"""

from __future__ import annotations

import http.client
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import Message
from typing import IO, Any
from urllib.parse import urlsplit

from penstock.core.errors import DataError, StorageError
from penstock.storage.fetch.retry import PASSING, SLOW_DOWN, TransientError, WrongAnswerError
from penstock.storage.redact import without_secrets
from penstock.storage.stores.errors import endless_redirects, refused_redirect
from penstock.storage.stores.version import headers_for, moment

#: The most redirects that one request follows.
MOST_REDIRECTS = 5
_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+)")
_PIECE_BYTES = 1 << 20

#: Files that are themselves compressed, which servers call an encoding; and files that are web pages.
_PACKED = (".gz", ".tgz", ".z", ".zst", ".br", ".bz2", ".xz", ".lz4")
_PAGES = (".html", ".htm", ".xhtml")

#: The URL to request after a redirect from the first URL to the second; None if it must not be followed.
Follow = Callable[[str, str], str | None]


@dataclass(frozen=True)
class Answer:
    """A part of an object: its bytes, and the object's size, ETag and modification time as obstore has them."""

    data: bytes
    meta: dict[str, Any]


class PlainHttp:
    """Makes requests one by one. `follow` decides about redirects, `odd` about odd headers of a response."""

    def __init__(self, follow: Follow, odd: Callable[[str, Mapping[str, str]], str], timeout_s: float) -> None:
        self._follow, self._odd, self._timeout_s = follow, odd, timeout_s

    def get(self, path: str, url: str, etag: str, start: int, length: int) -> Answer:
        """`length` bytes of an object from `start`; `path` is its name in messages.

        Raises FileNotFoundError, DataError for another version, StorageError, and TransientError for errors worth a retry.
        """
        headers = {"Range": f"bytes={start}-{start + length - 1}", "Accept-Encoding": "identity", **headers_for(etag)}
        request = urllib.request.Request(url, headers=headers)  # noqa: S310  # `SignedUrls` gives URLs of HTTP only
        opener = urllib.request.build_opener(_Hops(path, self._follow))
        end = time.monotonic() + self._timeout_s
        try:
            with opener.open(request, timeout=self._timeout_s) as answer:
                if found := self._odd(path, answer.headers):
                    raise WrongAnswerError(f"{path}: {found}")
                return _checked(path, answer, start, _received(answer, length, end))
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 416 and (empty := _RANGE.fullmatch(error.headers.get("Content-Range", ""))):
                    return _answer(b"", empty, error.headers)
                raise _by_status(path, error.code) from None
        except StorageError:
            raise  # ours, and an OSError
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise TransientError(f"{path}: {without_secrets(str(reason)) or type(error).__name__}") from None


class _Hops(urllib.request.HTTPRedirectHandler):
    """Follows permitted redirects, a few times."""

    max_repeats = max_redirections = 2 * MOST_REDIRECTS  # so that our limit is reached first

    def __init__(self, path: str, follow: Follow) -> None:
        self._path, self._follow, self._chain = path, follow, [""]

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request:
        """The request to make instead of `req`; StorageError if the redirect must not be followed."""
        del code, msg, headers
        self._chain = self._chain if self._chain[0] else [without_secrets(req.full_url)]
        self._chain.append(without_secrets(newurl))
        if len(self._chain) > MOST_REDIRECTS + 1:
            fp.close()
            raise endless_redirects(self._path, self._chain)
        url = self._follow(req.full_url, newurl)
        if url is None:
            fp.close()
            raise refused_redirect(self._path, urlsplit(newurl).hostname or "")
        return urllib.request.Request(url, headers=dict(req.header_items()))  # noqa: S310  # `follow` takes HTTP only


def odd_answer(name: str, said: Mapping[str, str]) -> str:
    """What is odd about a response with these headers for the file `name`, and what to do; "" for nothing.

    odd_answer("a.tar", {"Content-Type": "text/html"}) == "the server sent a web page; …"
    """
    headers = {key.lower(): value.lower() for key, value in said.items()}
    coding, kind, name = headers.get("content-encoding", ""), headers.get("content-type", ""), name.lower()
    if coding not in ("", "identity") and not name.endswith(_PACKED):
        return f"the server sent compressed bytes (Content-Encoding: {coding}); switch that off for this file"
    if kind.startswith("text/html") and not name.endswith(_PAGES):
        return "the server sent a web page; check whether it requires a login"
    return ""


def _received(answer: Any, length: int, end: float) -> bytes:
    """The body, up to one byte more than requested."""
    pieces, left = [], length + 1
    while left and (piece := answer.read(min(left, _PIECE_BYTES))):
        pieces.append(piece)
        left -= len(piece)
        if time.monotonic() > end:
            raise TimeoutError("it took too long")
    return b"".join(pieces)


def _checked(path: str, answer: Any, start: int, data: bytes) -> Answer:
    found = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    if answer.status != 206 or found is None or found[1] is None:
        raise _by_status(path, answer.status)
    if (int(found[1]), int(found[2]) + 1) != (start, start + len(data)):
        raise WrongAnswerError(
            f"{path}: the server sent {len(data):,} bytes and calls them {found[0]!r}; check the server, or copy the files"
        )
    return _answer(data, found, answer.headers)


def _answer(data: bytes, content_range: re.Match[str], headers: Message) -> Answer:
    changed = moment(str(headers.get("Last-Modified", "")))
    return Answer(data, {"size": int(content_range[3]), "e_tag": headers.get("ETag", ""), "last_modified": changed})


def _by_status(path: str, status: int) -> Exception:
    if status == 404:
        return FileNotFoundError(path)
    if status == 412:
        return DataError(f"{path}: another object than when it was listed; open the dataset again")
    if status in (401, 403):
        return StorageError(f"{path}: the store refuses: {status}; check the credentials and what they may read")
    if status in PASSING:
        return TransientError(f"{path}: the server responded with {status}", slow_down=status in SLOW_DOWN)
    return WrongAnswerError(
        f"{path}: the server responded with {status} to a request for bytes; check the name and the server"
    )
