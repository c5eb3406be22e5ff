"""What runs in the process of `isolation="process"`: a loader, which does what the parent says."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
import warnings
from contextlib import suppress
from typing import Any

from penstock.core.errors import PlanError
from penstock.isolated.link import Link
from penstock.isolated.maker import Maker
from penstock.isolated.messages import AskStats, Begin, Logged, Ready, Stats, Stop, Taken, Warned, failed
from penstock.isolated.regions import Regions
from penstock.isolated.sent import Setup
from penstock.processes.wire import EndedError

#: A pipeline that is still busy this long after the parent has gone is ended with its process.
_GRACE_S = 0.8


def main(descriptor: int) -> None:
    """Serves until the parent closes its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    regions = Regions()
    link = Link(socket.socket(fileno=descriptor), regions)
    threading.Thread(target=_end_with, args=(link,), daemon=True).start()
    _see_prints()
    maker: Maker | None = None
    try:
        sys.argv[:] = link.receive()
        try:
            setup = _setup(link)
            _send_notes(link, setup.log_level)
            maker = Maker(setup, link, regions)
            link.send(Ready())
        except EndedError:
            raise
        except BaseException as error:  # the parent raises it
            link.send(failed(0, error))
        while maker is not None:
            _serve_one(maker, link)
    except EndedError:
        pass
    if maker is not None:
        with suppress(Exception):
            maker.close()  # and the processes of functions
    _flush()
    os._exit(0)  # no thread of the user's holds it up


def _setup(link: Link) -> Setup:
    try:
        setup: Setup = link.receive()
    except (ImportError, AttributeError) as error:
        raise PlanError(
            f"isolation='process': the dataset cannot be loaded in another process ({type(error).__name__}: {error}); put its functions and classes into a "
            f"module that can be imported, or into the script itself, or leave isolation= out"
        ) from error
    return setup


def _serve_one(maker: Maker, link: Link) -> None:
    match link.receive():
        case Taken(number):
            maker.taken(number)
        case Begin() as begin:
            maker.begin(begin)
        case Stop():
            maker.stop()
        case AskStats(number):
            link.send(Stats(number=number, figures=maker.stats()))


def _end_with(link: Link) -> None:
    """Ends the process when its parent has ended, whatever the pipeline is doing."""
    link.wait_for_end()
    time.sleep(_GRACE_S)
    _flush()
    os._exit(0)


def _see_prints() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # what is no such stream is left as it is


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


def _send_notes(link: Link, level: int) -> None:
    """Warnings, and what is logged, are given in the parent."""

    class Sends(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            with suppress(EndedError):
                link.send(Logged(record.levelno, record.getMessage()))

    log = logging.getLogger("penstock")
    log.setLevel(level)
    log.propagate = False
    log.addHandler(Sends())

    def show(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any) -> None:
        kind = category if category.__module__ in ("builtins", "penstock") else UserWarning
        with suppress(EndedError):
            link.send(Warned(str(message), kind, filename, lineno))

    warnings.showwarning = show  # type: ignore[assignment]  # names of arguments differ
