r"""Names of values in structs and objects: the names that lead to them, joined by dots.

Where two values would have the same name, the dots inside names get a backslash: of {"a.b": 1, "a": {"b": 2}}, "a\.b" is 1 and
"a.b" is 2.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeVar

Path = tuple[str, ...]
_T = TypeVar("_T")

_DOT = re.compile(r"(?<!\\)\.")


def dotted(values: Iterable[tuple[Path, _T]]) -> dict[str, tuple[Path, _T]]:
    r"""Values by their names: dotted([(("a", "b"), 1), (("a.b",), 2)]) == {"a.b": (("a", "b"), 1), r"a\.b": (("a.b",), 2)}."""
    listed = list(values)
    count = Counter(".".join(path) for path, _ in listed)
    return {".".join(path) if count[".".join(path)] == 1 else name_of(path): (path, value) for path, value in listed}


def find(name: str, offered: Mapping[str, tuple[Path, _T]]) -> tuple[Path, _T] | None:
    """What a user means by a name; a backslash before a dot inside a name is always understood."""
    if name in offered:
        return offered[name]
    path = path_of(name)
    return next((found for found in offered.values() if found[0] == path), None)


def path_of(name: str) -> Path:
    r"""path_of("a.b") == ("a", "b"), path_of(r"a\.b") == ("a.b",)."""
    return tuple(part.replace(r"\.", ".") for part in _DOT.split(name))


def name_of(path: Path) -> str:
    r"""What `find` takes for a path whatever else there is: name_of(("a.b",)) == r"a\.b"."""
    return ".".join(part.replace(".", r"\.") for part in path)
