"""Globs: `*` and `?` stay within a name, `[…]` is one character of a set, `**` is anything."""

from __future__ import annotations

import re

WILDCARD = re.compile(r"[*?\[]")


def regex_of_glob(pattern: str) -> str:
    """`a/**/*.jpg` as a regular expression: `**/` is any number of folders, `*` and `?` stay within a name."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]*\])", pattern)
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "^" + "".join(_regex_of_part(part, known) for part in parts) + "$"


def _regex_of_part(part: str, known: dict[str, str]) -> str:
    if part in known:
        return known[part]
    if part.startswith("[") and part.endswith("]"):
        return "[" + part[1:-1].replace("!", "^", 1) + "]" if part.startswith("[!") else part
    return re.escape(part)
