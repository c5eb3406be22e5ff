"""Warnings: the one place that gives them."""

from __future__ import annotations

import warnings

from penstock.core.quoted import printable


def warn(text: str, *, stacklevel: int = 1) -> None:
    """As `warnings.warn`; names in the text never reach a terminal raw."""
    warnings.warn(printable(text), stacklevel=stacklevel + 1)
