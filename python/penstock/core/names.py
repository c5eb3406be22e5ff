"""Names that were misspelt."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message on an unknown name: did_you_mean("lable", ["label"]) == "; did you mean 'label'?"; "" if none is like it."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
