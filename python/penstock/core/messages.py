"""Values in messages: whatever a user gave, shown in one line that is not too long."""

from __future__ import annotations

import re
from typing import Any

#: Longer texts are cut in their middle.
_LONGEST = 400
#: The same of whole messages: the longest path of Linux has 4,096 bytes.
_LONGEST_MESSAGE = 2_900
#: Control characters but tabs, separators of lines, marks of direction, what is tagged unseen, halves of surrogate pairs.
_OBEYED = re.compile(
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)
#: Signs of our own words, and what stands for them where there are none.
_SIGNS = str.maketrans({"→": "->", "…": "...", "µ": "u"})


def plain_signs(text: str) -> str:
    """A text whose words of ours are ASCII, so that every output can show them; names stay: plain_signs("Loader(…) → 5 µs") == "Loader(...) -> 5 us"."""
    return text.translate(_SIGNS)


def quoted(value: Any) -> str:
    """What `repr` says of a value, cut if it is long; the type of one that has no `repr`: quoted("a") == "'a'"."""
    half = _LONGEST // 2
    try:
        if isinstance(value, (str, bytes)) and len(value) > _LONGEST:
            return f"{value[:half]!r}…{value[-half:]!r} ({len(value):,} in all)"
        text = repr(value)
    except Exception:  # of more digits than Python writes, nested too deep, or a class of the user's that fails
        return f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[:half]}…{text[-half:]}"


def in_bounds(text: str) -> str:
    """A message, cut in its middle if a name in it is endless."""
    half = _LONGEST_MESSAGE // 2
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:half]}…{text[-half:]}"


def printable(text: str) -> str:
    r"""A message without characters that a terminal obeys or that hide what it says: printable("a\x1b[2J") == "a\\x1b[2J".

    File names hold what they like: control characters and line breaks forge lines and colours, marks of direction turn text around, and
    halves of surrogate pairs cannot be encoded.
    """
    return text if text.isprintable() else _OBEYED.sub(_escaped, text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines, whose breaks stay."""
    return "\n".join(map(printable, text.split("\n")))


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its word: counted(1, "thread") == "1 thread", counted(2_000, "thread") == "2,000 threads"."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
