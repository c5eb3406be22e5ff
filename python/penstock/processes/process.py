"""One process of `workers="process"`, as its parent sees it.

It is a fresh interpreter, in which nothing of the user's script runs again: a script needs no guard for `__main__`.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from penstock.core.cancel import LOOK_S, check, is_stopped
from penstock.core.errors import ProcessError
from penstock.processes.link import Link
from penstock.processes.wire import EndedError

#: Libraries would each start a thread for every CPU, in every process.
ONE_THREAD = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
)
_PATIENCE_S = 10.0
#: An answer to work that was cancelled is awaited for so long: where it comes, the process goes on with the next work, and need not start again.
_LATE_S = 0.3
_THREADS = {"workers": "use workers='thread'", "isolation": "leave isolation= out"}

_living: weakref.WeakSet[WorkerProcess] = weakref.WeakSet()


class _Turn:
    """A message on its way. is_lost: it was not answered."""

    __slots__ = ("_locked", "is_lost")

    def __init__(self) -> None:
        self._locked, self.is_lost = threading.Lock(), False
        self._locked.acquire()

    def is_done(self, timeout_s: float) -> bool:
        """Whether its answer came, or is known not to come, within a time."""
        is_done = self._locked.acquire(timeout=timeout_s)
        if is_done:
            self._locked.release()
        return is_done

    def end(self) -> None:
        """Says that it is done."""
        self._locked.release()


class WorkerProcess:
    """A child that calls functions. Several threads may have messages on their way; it answers them in their order. polite: see `politely`."""

    def __init__(self, *, polite: bool) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:  # closed, unless they are detached below
            environment = {**dict.fromkeys(ONE_THREAD, "1"), **os.environ}
            self._process = start(theirs, __package__ + ".child", "workers", environment, polite=polite)
            self._link = Link(socket.socket(fileno=ours.detach()), self._look)
        self.functions = set[int]()
        self.items = 0  # that it has; the pool counts
        self._sending, self._ending = threading.Lock(), threading.Lock()
        self._last: _Turn | None = None
        self._is_killed, self._cancelled_at = False, 0.0
        _living.add(self)
        try:
            self.ask(lambda: [*sys.argv])
        except EndedError:
            ended_by = self.end()
            self.close()
            raise ProcessError(
                f"a process of workers='process' ended before its work began, by {ended_by}; what it said stands above, and its command is "
                f"{sys.executable}"
            ) from None
        except BaseException:
            self.close()
            raise

    def ask(self, message: Callable[[], Any]) -> Any:
        """The answer to a message, which is made when it is sent.

        EndedError if the process ends instead, StoppedError if this thread's work is cancelled and the answer does not come soon. After any error the process is to be ended.
        """
        turn, before = _Turn(), None
        self._cancelled_at = 0.0
        try:
            with self._sending:
                before, self._last = self._last, turn
                self._link.send(message())
            while before is not None and not before.is_done(LOOK_S):
                self._check()
            return self._link.receive()
        except EndedError as ended:
            while before is not None and not before.is_done(LOOK_S):
                pass  # it ends with the process
            ended.is_first = not (self._is_killed or (before is not None and before.is_lost))
            turn.is_lost = True
            raise
        except BaseException:
            self.kill()
            turn.is_lost = True
            raise
        finally:
            turn.end()

    def _check(self) -> None:
        """StoppedError if this thread's work was cancelled a while ago."""
        if not is_stopped():
            return
        now = time.monotonic()
        self._cancelled_at = self._cancelled_at or now
        if now - self._cancelled_at > _LATE_S:
            check()

    def _look(self) -> None:
        self._check()
        if not self.is_running:  # and what a function started keeps its end of the socket open
            raise EndedError

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Ends the process, whatever it does; `end` waits for it."""
        self._is_killed = True
        if self._process.returncode is None:
            self._process.kill()

    def end(self) -> str:
        """Waits for a process that is ending, and kills one that is not; says what ended it: "signal SIGSEGV", "exit status 3"."""
        with self._ending:
            self._link.end()
            _living.discard(self)
            try:
                self._process.wait(0.05)  # it may be ending just now; what it ends by is told
            except subprocess.TimeoutExpired:
                self._process.kill()
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(_PATIENCE_S)
            return ending(self._process.returncode)

    def close(self) -> None:
        """Ends the process, if that is not done, and closes what leads to it; when nobody asks it any more."""
        self.kill()
        self.end()
        self._link.close()

    def leave(self) -> None:
        """Lets go of a process that belongs to another one, of which this is a fork."""
        self._link.close()
        self._process.returncode = 0  # it is not ours to wait for


def start(
    connection: socket.socket, module: str, option: str, environment: Mapping[str, str], *, polite: bool = False
) -> subprocess.Popen[bytes]:
    """An interpreter that runs `main` of a module with its end of a socket. option: what the user asked for it by. polite: see `politely`."""
    if not sys.executable:
        raise ProcessError(
            f"{option}='process': this interpreter does not know its own path (sys.executable); {_THREADS[option]}"
        )
    path, number = [entry for entry in sys.path if isinstance(entry, str)], connection.fileno()
    imports = f"from penstock.processes.polite import import_politely; import_politely({module!r}); " if polite else ""
    program = f"import sys; sys.path[:] = {path!r}; {imports}from {module} import main; main({number})"
    # The child is born with Ctrl-C blocked, and ignores it as soon as it can: it belongs to the parent.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(  # noqa: S603  # our own interpreter
            [sys.executable, "-c", program], stdin=subprocess.DEVNULL, pass_fds=[number], env=environment
        )
    except OSError as error:
        raise ProcessError(
            f"{option}='process': {sys.executable} cannot be started: {error}; take fewer processes with Loader(cpus=…), or {_THREADS[option]}"
        ) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ending(status: int | None) -> str:
    """What ended a process, in words: "signal SIGSEGV", "exit status 3"."""
    if status is None or status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def _leave_all() -> None:
    for process in list(_living):
        process.leave()
    _living.clear()


os.register_at_fork(after_in_child=_leave_all)
