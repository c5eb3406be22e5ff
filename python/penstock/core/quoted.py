"""Values in messages: whatever a user gave, shown in one line that is not too long."""

from __future__ import annotations

from typing import Any

#: Longer texts are cut in their middle.
_LONGEST = 400


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
