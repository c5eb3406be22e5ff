"""penstock top: what the loaders of this user do now."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.console import Console, Group

from penstock.cli.console import out, print_json
from penstock.cli.opening import Json
from penstock.core.errors import PlanError
from penstock.observe.live import AllSeen, Recent, loaders_now
from penstock.observe.top_screen import TopScreen, nothing_words

Pid = Annotated[int | None, typer.Argument(metavar="[PID]", help="Show the loaders of this process alone.")]
Once = Annotated[bool, typer.Option("--once", help="Print one table and stop.")]

_EVERY_S = 0.5
#: How long one look waits for the next figures, so that it can tell what happens now.
_NEXT_S = 1.1
#: Where there is no terminal, lines are as long as they need to be for what reads them.
_PIPED = 400


def top(pid: Pid = None, once: Once = False, as_json: Json = False) -> None:
    """Show what every loader of this user on this machine does, twice a second: its rate, what it waits for, its stages, memory, storage, GPUs and ranks.

    Nothing has to be restarted or switched on: each loader writes its figures into a file of this user's, from its first pass on. q or Ctrl-C ends it. Where there is no
    terminal, and with --once, it prints one table.

    Examples:
        penstock top
        penstock top 4242
        ssh node-07 -t penstock top
        penstock top --once --json | jq '.loaders[] | [.snapshot.loader.pid, .samples_per_s, .waited]'
    """
    recent = Recent()
    screen = TopScreen(recent, is_plain=not (out.encoding or "").lower().startswith("utf"))
    if as_json or once or not out.is_terminal or out.is_dumb_terminal:
        found = _twice(recent, pid)
        if as_json:
            print_json(_facts(found, recent))
        elif found.loaders:
            (out if out.is_terminal else Console(width=_PIPED)).print(screen.table(found))
        else:
            out.print("\n".join(nothing_words(found)), markup=False, soft_wrap=True)
        return
    _of_process(loaders_now(), pid)
    with suppress(KeyboardInterrupt), _terminal(out) as keys:
        while True:
            found = _of_process(loaders_now(), pid, is_asked=False)
            recent.note(found)
            keys.show(screen.lines(found, out.width, out.height))
            if keys.wants_end(_EVERY_S):
                return


def _twice(recent: Recent, pid: int | None) -> AllSeen:
    """One look, and where there are loaders another one as soon as they have told again."""
    found = _of_process(loaders_now(), pid)
    recent.note(found)
    ends_at = time.monotonic() + (_NEXT_S if found.loaders else 0.0)
    first = {seen.key: seen.snapshot.at for seen in found.loaders}
    while time.monotonic() < ends_at:
        time.sleep(_NEXT_S / 4)
        found = _of_process(loaders_now(), pid, is_asked=False)
        if all(first.get(seen.key) != seen.snapshot.at for seen in found.loaders):
            break
    recent.note(found)
    return found


def _of_process(found: AllSeen, pid: int | None, *, is_asked: bool = True) -> AllSeen:
    """Those of one process. is_asked: PlanError if it has none."""
    if pid is None:
        return found
    shown = [seen for seen in found.loaders if seen.snapshot.loader.pid == pid]
    if not shown and is_asked:
        others = ", ".join(str(number) for number in sorted({seen.snapshot.loader.pid for seen in found.loaders}))
        raise PlanError(
            f"top {pid}: this process has no loader that runs; {f'these have: {others}' if others else 'no process of this user has one'}"
        )
    return replace(found, loaders=shown)


def _facts(found: AllSeen, recent: Recent) -> dict[str, Any]:
    told = []
    for seen in found.loaders:
        rate, waited, is_now = recent.rates(seen)
        told.append(
            {
                "samples_per_s": rate,
                "waited": waited,
                "over": "now" if is_now else "all",
                "age_s": seen.age_s,
                "snapshot": seen.snapshot.as_dict(),
            }
        )
    return {
        "loaders": told,
        "ignored": [{"file": str(path), "why": why} for path, why in found.ignored],
        "looked_in": [str(path) for path in found.looked_in],
    }


class _Keys:
    """A terminal that is drawn on as a whole, and its keys, as they are pressed."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._input = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
        self._before: Any = None

    def begin(self) -> None:
        """Takes the terminal."""
        self._console.set_alt_screen(True)
        self._console.show_cursor(False)
        if self._input is not None:
            import termios
            import tty

            self._before = termios.tcgetattr(self._input)
            tty.setcbreak(self._input)

    def end(self) -> None:
        """Leaves it as it was."""
        if self._before is not None and self._input is not None:
            import termios

            termios.tcsetattr(self._input, termios.TCSADRAIN, self._before)
        self._console.show_cursor(True)
        self._console.set_alt_screen(False)

    def show(self, lines: list[Any]) -> None:
        """Draws the whole screen, without a moment in which it is empty."""
        with self._console.capture() as drawn:
            self._console.print(Group(*lines), end="", no_wrap=True, crop=True)
        text = drawn.get().rstrip("\n").replace("\n", "\x1b[K\n")
        self._console.file.write(f"\x1b[H{text}\x1b[K\x1b[J")
        self._console.file.flush()

    def wants_end(self, timeout_s: float) -> bool:
        """Waits, but not longer than for q."""
        if self._input is None:
            time.sleep(timeout_s)
            return False
        ends_at = time.monotonic() + timeout_s
        while (left_s := ends_at - time.monotonic()) > 0:
            if not select.select([self._input], [], [], left_s)[0]:
                return False
            pressed = os.read(self._input, 64)
            if not pressed or pressed in {b"q", b"Q", b"\x04"}:  # nothing: the terminal is gone
                return True
        return False


@contextmanager
def _terminal(console: Console) -> Iterator[_Keys]:
    """Gives the terminal back however this ends, and while it is stopped by Ctrl-Z."""
    keys = _Keys(console)

    def end(*_: Any) -> None:
        raise SystemExit(0)

    def stop(*_: Any) -> None:
        keys.end()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, stop)  # it goes on
        keys.begin()

    handlers = {signal.SIGTERM: end, signal.SIGHUP: end, signal.SIGTSTP: stop}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    keys.begin()
    try:
        yield keys
    finally:
        keys.end()
        for number, handler in before.items():
            signal.signal(number, handler)
