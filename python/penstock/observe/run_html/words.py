"""What the parts of a page share: names, figures and tables of two columns."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.observe.page import text

#: Letters of a name.
_NAME = 80


def cut(name: str) -> str:
    """A name that is not too long."""
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def per_cent(value: float) -> str:
    """A share: per_cent(0.5) == "50%"."""
    return f"{value:.0%}"


def plain_number(value: float) -> str:
    """A figure of a scale: plain_number(1250.0) == "1,250"."""
    return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"


def pairs(lines: Sequence[tuple[str, str]]) -> str:
    """A table of words and what is said of them."""
    return f"<table>{''.join(f'<tr><td>{text(word)}<td>{text(said)}' for word, said in lines)}</table>"
