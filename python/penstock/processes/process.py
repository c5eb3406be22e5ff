"""A process that this one starts, talks to and ends.

It is a fresh interpreter, in which nothing of the user's script runs again: a script needs no guard for `__main__`. What it is for says a `Purpose`:

    workers="process"        penstock.processes.calls       calls users' functions; a pool of them
    isolation="process"      penstock.loader.child.serve    runs a whole loader
    the drop-in DataLoader   penstock.torch.child           fetches batches of a dataset
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from penstock.core.errors import ProcessError
from penstock.processes.link import Link
from penstock.processes.memory import Regions, few_regions
from penstock.processes.wire import EndedError

#: Libraries would each start a thread for every CPU, in every process.
_ONE_THREAD = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
)
#: How long a process that was killed is waited for, and one that is about to end by itself. What imports at the lowest priority ends with it, too: on a busy machine that
#: takes longer, and nobody waits for it.
_KILLED_S, _ENDING_S = 2.0, 0.05

#: What a terminal or a scheduler sends to all processes of a job. The parent handles them, and a child ends with its parent.
SIGNALS_OF_PARENT = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGUSR1})

_living: weakref.WeakSet[Process] = weakref.WeakSet()


@dataclass(frozen=True, kw_only=True)
class Purpose:
    """What a process is for. module: has `serve`. option, otherwise: what the user asked for it by, and what to do without. is_one_of_many: libraries get one thread."""

    module: str
    option: str
    otherwise: str
    is_one_of_many: bool = True


class Process:
    """A child and the link to it. check: called while it is awaited, and may raise. polite: see `politely`.

    It is killed when this object is gone. A fork of this process releases it.
    """

    def __init__(self, purpose: Purpose, check: Callable[[], None] | None = None, *, polite: bool = False) -> None:
        self._owner = os.getpid()
        ours, theirs = socket.socketpair()
        with ours, theirs:  # closed, unless they are detached below
            self._child = _start(theirs, purpose, polite=polite)
            connection = socket.socket(fileno=ours.detach())
        look = partial(_look, self._child, check)
        self.link = Link(connection, Regions(), look=look, most_held=few_regions() if purpose.is_one_of_many else None)
        self._finalizer = weakref.finalize(self, _kill, self._child, connection)
        _living.add(self)
        with suppress(EndedError):  # as is found when it is awaited
            self.link.send([*sys.argv])

    @property
    def is_of_fork(self) -> bool:
        """Whether this process is a fork of the one that started it."""
        return self._owner != os.getpid()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._child.poll() is None

    def kill(self) -> None:
        """Ends the process, whatever it does; `end` waits for it."""
        if self._child.returncode is None:
            self._child.kill()

    def ends_within(self, timeout_s: float) -> bool:
        """Whether it ends by itself within a time."""
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout_s)
        return self._child.returncode is not None

    def end(self) -> str:
        """Waits for a process that is ending, and kills one that is not; says what ended it: "signal SIGSEGV", "exit status 3"."""
        self.link.wire.end()
        self.ends_within(_ENDING_S)  # what it ends by is told
        self.kill()
        self.ends_within(_KILLED_S)
        return _ending(self._child.returncode)

    def close(self) -> None:
        """Ends the process at once, if it has not ended, and closes what leads to it; when nobody asks it any more."""
        self.link.close()
        self._finalizer()

    def leave(self) -> None:
        """Releases a process that belongs to another one, of which this is a fork."""
        self.link.close()
        self._finalizer.detach()
        self._child.returncode = 0  # it is not ours to wait for


def _look(child: subprocess.Popen[bytes], check: Callable[[], None] | None) -> None:
    if check is not None:
        check()
    if child.poll() is not None:  # and what it started keeps its end of the socket open
        raise EndedError


def _kill(child: subprocess.Popen[bytes], connection: socket.socket) -> None:
    connection.close()
    if child.returncode is None:
        child.kill()
        with suppress(subprocess.TimeoutExpired):
            child.wait(_KILLED_S)


def _start(connection: socket.socket, purpose: Purpose, *, polite: bool) -> subprocess.Popen[bytes]:
    """An interpreter with its end of a socket."""
    if not sys.executable:
        raise ProcessError(
            f"{purpose.option}: this interpreter does not know its own path (sys.executable); {purpose.otherwise}"
        )
    path, number, module = [entry for entry in sys.path if isinstance(entry, str)], connection.fileno(), purpose.module
    begin = f"import sys; sys.path[:] = {path!r}; from penstock.processes.orphan import end_with_parent; end_with_parent({number}); "
    imports = f"from penstock.processes.polite import import_politely; import_politely({module!r}); " if polite else ""
    program = f"{begin}{imports}from penstock.processes.child import main; main({module!r}, {number})"
    environment = {**dict.fromkeys(_ONE_THREAD, "1"), **os.environ} if purpose.is_one_of_many else None
    # The child is born with Ctrl-C and what ends jobs blocked, and ignores them as soon as it can: they belong to the parent.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS_OF_PARENT)
    try:
        return subprocess.Popen(  # noqa: S603  # our own interpreter
            [sys.executable, "-c", program], stdin=subprocess.DEVNULL, pass_fds=[number], env=environment
        )
    except OSError as error:
        raise ProcessError(
            f"{purpose.option}: {sys.executable} cannot be started: {error}; take fewer processes with Loader(cpus=…), or {purpose.otherwise}"
        ) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ending(status: int | None) -> str:
    """What ended a process, in words: "signal SIGSEGV", "exit status 3"."""
    if status is None:  # it was killed, and has not ended yet
        status = -signal.SIGKILL
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def _after_fork_in_child() -> None:
    for process in list(_living):
        process.leave()
    _living.clear()


def _after_fork() -> None:
    """A fork has what views look at, so that it is not used again."""
    for process in list(_living):
        process.link.forks += 1


os.register_at_fork(after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
