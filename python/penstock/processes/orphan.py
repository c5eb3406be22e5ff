"""A process ends when its parent has ended, from its first moment on; so this imports next to nothing."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from contextlib import suppress

#: Work that still goes on this long after the parent has gone is ended with its process.
_GRACE_S = 0.8


def end_with_parent(descriptor: int) -> None:
    """Ends this process when the other end of a socket is closed, whatever it is doing then."""
    threading.Thread(target=_end_with, args=(descriptor,), daemon=True).start()


def flush() -> None:
    """Shows what was printed."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


def _end_with(descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, 0)  # an end is told all the same
    poll.poll()
    time.sleep(_GRACE_S)
    flush()
    os._exit(0)
