"""Warnings: the one place that gives them."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType

from penstock.core.messages import printable

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def warn(text: str) -> None:
    """As `warnings.warn`, at the line of the user's that led here, in threads of ours at that of the caller; names in the text never reach a terminal raw."""
    warnings.warn(printable(text), stacklevel=_users_level() or 2)


def _users_level() -> int | None:
    """How far above `warn` the first frame outside of the package is; None if there is none but the start of a thread."""
    level = 1
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # what warnings.warn counts
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_PACKAGE):
            return None if os.path.basename(file) in ("threading.py", "thread.py") else level
        level, frame = level + 1, frame.f_back
    return None
