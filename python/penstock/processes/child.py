"""What runs in every process that Penstock starts: its end of the link."""

from __future__ import annotations

import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module

from penstock.processes.link import Link
from penstock.processes.memory import Regions, few_regions
from penstock.processes.process import SIGNALS_OF_PARENT
from penstock.processes.wire import EndedError


def main(module: str, descriptor: int) -> None:
    """Lets a module serve, `serve(link, regions)`, until the parent closes its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in SIGNALS_OF_PARENT - {signal.SIGINT}:
        signal.signal(
            number, _left_to_parent
        )  # by a function, so that programs which this process starts do not ignore it
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS_OF_PARENT)
    regions = Regions()
    link = Link(socket.socket(fileno=descriptor), regions, most_held=few_regions())
    with suppress(EndedError):
        sys.argv[:] = link.receive()
        import_module(module).serve(link, regions)


def _left_to_parent(*_: object) -> None:
    pass
