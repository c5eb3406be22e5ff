"""What runs in the process of `isolation="process"`: a loader, which does what the parent says."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from contextlib import suppress
from typing import Any

from penstock.core.errors import PlanError
from penstock.loader.child.maker import Maker
from penstock.loader.child.messages import (
    AskFigures,
    BeginItems,
    HasLoader,
    ItemTaken,
    LoggedRecord,
    StopItems,
    WarningGiven,
    failed,
)
from penstock.loader.child.sent import Setup
from penstock.processes.link import Link
from penstock.processes.memory import Regions
from penstock.processes.orphan import flush
from penstock.processes.wire import EndedError


def serve(link: Link, regions: Regions) -> None:
    """Serves until the parent closes its end; then the process ends, and no thread of the user's holds it up."""
    _see_prints()
    maker: Maker | None = None
    with suppress(EndedError):
        try:
            setup = _setup(link)
            _send_notes(link, setup.log_level)
            maker = Maker(setup, link, regions)
            link.send(HasLoader())
        except EndedError:
            raise
        except BaseException as error:  # the parent raises it
            link.send(failed(0, error))
        while maker is not None:
            _serve_one(maker, link)
    if maker is not None:
        with suppress(Exception):
            maker.close()  # and the processes of functions
    flush()
    os._exit(0)


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
        case ItemTaken(number):
            maker.taken(number)
        case BeginItems() as begin:
            maker.begin(begin)
        case StopItems():
            maker.stop()
        case AskFigures(number):
            link.send(maker.figures(number))


def _see_prints() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # what is no such stream is left as it is


def _send_notes(link: Link, level: int) -> None:
    """Warnings, and what is logged, are given in the parent."""

    class Sends(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            with suppress(EndedError):
                link.send(LoggedRecord(record.levelno, record.getMessage()))

    log = logging.getLogger("penstock")
    log.setLevel(level)
    log.propagate = False
    log.addHandler(Sends())

    def show(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any) -> None:
        kind = category if category.__module__ in ("builtins", "penstock") else UserWarning
        with suppress(EndedError):
            link.send(WarningGiven(str(message), kind, filename, lineno))

    warnings.showwarning = show  # type: ignore[assignment]  # names of arguments differ
