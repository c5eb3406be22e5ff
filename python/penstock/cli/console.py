"""How commands print: figures to stdout, progress, warnings and errors to stderr."""

from __future__ import annotations

import codecs
import io
import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape as escape_markup
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from penstock.core.messages import plain_signs, printable, printable_lines

#: Reports progress: (done, total), and a few words beside it.
Report = Callable[..., None]


class _Console(Console):
    """A console that names in files cannot control."""

    def render_str(self, text: str, **options: Any) -> Text:
        """As rich does, with what a terminal would obey shown as escapes; line breaks stay."""
        return super().render_str(printable_lines(text), **options)


out = _Console(highlight=False)
err = _Console(stderr=True, highlight=False)


def escape(text: str) -> str:
    """A name for a console: neither rich's markup nor what a terminal obeys."""
    return escape_markup(printable(text))


def complain(error: Exception) -> None:
    """Print an error and its notes: "penstock: data/train: no such file or folder; …"."""
    err.print(f"[bold red]penstock:[/] {escape(str(error))}", soft_wrap=True)
    for note in getattr(error, "__notes__", ()):
        err.print(f"  {escape(note.removeprefix('penstock: '))}", soft_wrap=True, style="dim")


def warn(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning; replaces `warnings.showwarning`, which adds the line of Penstock's code."""
    err.print(f"[yellow]penstock:[/] {escape(str(message).removeprefix('penstock: '))}", soft_wrap=True)


def print_json(figures: Any) -> None:
    """Print figures for programs, on stdout."""
    text = json.dumps(figures, indent=2, ensure_ascii=False)
    is_shown = printable_lines(text) == text and _can_show(text)
    print(text if is_shown else json.dumps(figures, indent=2))


def _can_show(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


#: What commands draw and show besides words.
_DRAWN = str.maketrans({"×": "x", "·": "-", "–": "-", "█": "#", "░": "."})


def show_whatever_comes() -> None:
    """Outputs that lack a sign get another one for it, or "?": names of files, bars, our own dots and arrows."""
    codecs.register_error("penstock", _instead)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="penstock")


def _instead(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = plain_signs(error.object[error.start : error.end]).translate(_DRAWN)
    return lacking.encode("ascii", "replace").decode(), error.end


@contextmanager
def progress(doing: str) -> Iterator[Report]:
    """A progress bar on stderr, only on a terminal, that appears with the first report: `report(done, total, "17 a second")`."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    bar = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=err, transient=True)
    bar.disable = not err.is_terminal
    with bar:
        task = bar.add_task(doing, total=None, visible=True)

        def report(done: int, total: int, note: str = "") -> None:
            bar.update(task, completed=done, total=total, description=f"{doing}: {note}" if note else doing)

        yield report


def size_text(size_bytes: float) -> str:
    """Bytes for people: size_text(1_234_567) == "1.2 MB"."""
    if size_bytes < 1000:
        return f"{size_bytes:,.0f} bytes"
    power = min(5, int(math.log(size_bytes, 1000)))
    return f"{size_bytes / 1000**power:,.1f} {' kMGTP'[power]}B"


def shape_text(shape: list[int | None]) -> str:
    """A shape for people: shape_text([None, 3]) == "(?, 3)"; "" for one value."""
    return f"({', '.join('?' if axis is None else str(axis) for axis in shape)})" if shape else ""


def table(*heads: str, title: str | None = None) -> Table:
    """An empty table; a head that begins with ">" makes a column of figures."""
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0), title_style="bold")
    for head in heads:
        made.add_column(head.removeprefix(">"), justify="right" if head.startswith(">") else "left", overflow="fold")
    return made
