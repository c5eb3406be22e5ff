"""Globs: `*` and `?` stay within a name, `[…]` is one character of a set, `**` is anything.

A set of one character matches that character literally: `[*]`, `[?]`, `[[]`, as `glob.escape` writes them.
"""

from __future__ import annotations

import re

WILDCARD = re.compile(r"[*?\[]")


def regex_of_glob(pattern: str) -> str:
    """`a/**/*.jpg` as a regular expression: `**/` is any number of folders, `*` and `?` stay within a name."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\])", pattern)
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "^" + "".join(_regex_of_part(part, known) for part in parts) + "$"


def _regex_of_part(part: str, known: dict[str, str]) -> str:
    if part in known:
        return known[part]
    if len(part) > 2 and part.startswith("[") and part.endswith("]"):
        negated = part.startswith("[!")
        inner = re.sub(r"([\[\]\\^&~|])", r"\\\1", part[1 + negated : -1])
        return f"[{'^' if negated else ''}{inner}]"
    return re.escape(part)


class WantedFiles:
    """The files that a path, folder or glob selects.

    folder: the folder above all of them, without a slash at its end. is_glob: whether the path has wildcards.
    """

    def __init__(self, where: str) -> None:
        wildcard = WILDCARD.search(where)
        self.is_glob = wildcard is not None
        self.folder = where[: wildcard.start()].rpartition("/")[0] if wildcard else where.rstrip("/")
        self._pattern = re.compile(regex_of_glob(where)) if wildcard else None

    def has(self, path: str, size: int) -> bool:
        """Whether a file below the folder is selected: neither empty nor hidden, and matched by the glob."""
        if size == 0 or any(part.startswith(".") for part in path[len(self.folder) :].split("/")):
            return False
        return self._pattern is None or self._pattern.match(path) is not None
