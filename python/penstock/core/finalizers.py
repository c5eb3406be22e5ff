"""What ends together with a thing that nobody holds any more."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


def when_gone(
    owner: _T, end: Callable[_P, object], *arguments: _P.args, **named: _P.kwargs
) -> weakref.finalize[Any, _T]:
    """Has `let_end` call it once the owner is gone, as weakref.finalize does."""
    return weakref.finalize(owner, let_end, partial(end, *arguments, **named))


def let_end(end: Callable[[], object]) -> None:
    """Ends something in the thread that lets go of it, unless that is one of ours: then in a new one.

    A thread of ours lets go where it meets the garbage collector, in the midst of what it has locked, for which ending may wait.
    """
    if threading.current_thread().name.startswith("penstock-"):
        try:
            threading.Thread(target=end, name="penstock-end", daemon=True).start()
        except RuntimeError:  # the system has no more threads to give
            end()
    else:
        end()
