"""Responses of plain HTTP servers that are not the file: compressed on the way, or a web page."""

from __future__ import annotations

from collections.abc import Mapping

#: Files that are themselves compressed, which servers call an encoding; and files that are web pages.
_PACKED = (".gz", ".tgz", ".z", ".zst", ".br", ".bz2", ".xz", ".lz4")
_PAGES = (".html", ".htm", ".xhtml")


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
