"""What runs in every process that Penstock starts: its end of the link, and its end with the parent."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from importlib import import_module

from penstock.processes.link import Link
from penstock.processes.memory import Regions, few_regions
from penstock.processes.wire import EndedError

#: Work that still goes on this long after the parent has gone is ended with its process.
_GRACE_S = 0.8


def main(module: str, descriptor: int) -> None:
    """Lets a module serve, `serve(link, regions)`, until the parent closes its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    regions = Regions()
    link = Link(socket.socket(fileno=descriptor), regions, most_held=few_regions())
    threading.Thread(target=_end_with, args=(link,), daemon=True).start()
    with suppress(EndedError):
        sys.argv[:] = link.receive()
        import_module(module).serve(link, regions)


def flush() -> None:
    """Shows what was printed."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


def _end_with(link: Link) -> None:
    """Ends the process when its parent has ended, whatever it is doing."""
    link.wire.wait_for_end()
    time.sleep(_GRACE_S)
    flush()
    os._exit(0)
