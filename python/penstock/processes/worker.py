"""A process of `workers="process"`, as the pool that it belongs to sees it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from penstock.core.cancel import LOOK_S, check, is_stopped
from penstock.core.errors import ProcessError
from penstock.processes.process import Process, Purpose
from penstock.processes.wire import EndedError

_CALLS = Purpose(module="penstock.processes.calls", option="workers='process'", otherwise="use workers='thread'")
#: An answer to work that was cancelled is awaited for so long: where it comes, the process continues with the next work, and need not start again.
_LATE_S = 0.3


class _OnItsWay:
    """A message that awaits its answer. is_lost: it was not answered."""

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


class _Patience:
    """How long an answer is awaited that nobody wants any more."""

    cancelled_at = 0.0

    def check(self) -> None:
        """StoppedError if this thread's work was cancelled a while ago."""
        if not is_stopped():
            return
        now = time.monotonic()
        self.cancelled_at = self.cancelled_at or now
        if now - self.cancelled_at > _LATE_S:
            check()


class WorkerProcess:
    """A process that calls functions. Several threads may have messages on their way; it answers them in their order. polite: see `politely`."""

    def __init__(self, *, polite: bool) -> None:
        self._patience = _Patience()
        self._process = Process(_CALLS, self._patience.check, polite=polite)
        self.functions = set[int]()
        self.items = 0  # that it has; the pool counts
        self._sending, self._ending = threading.Lock(), threading.Lock()
        self._last: _OnItsWay | None = None
        self._is_killed = False
        try:
            self._process.link.receive()  # it is ready
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
        mine, before = _OnItsWay(), None
        self._patience.cancelled_at = 0.0
        try:
            with self._sending:
                before, self._last = self._last, mine
                self._process.link.send(message())
            while before is not None and not before.is_done(LOOK_S):
                self._patience.check()
            return self._process.link.receive()
        except EndedError as ended:
            while before is not None and not before.is_done(LOOK_S):
                pass  # it ends with the process
            ended.is_first = not (self._is_killed or (before is not None and before.is_lost))
            mine.is_lost = True
            raise
        except BaseException:
            self.kill()
            mine.is_lost = True
            raise
        finally:
            mine.end()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.is_running

    def kill(self) -> None:
        """Ends the process, whatever it does; `end` waits for it."""
        self._is_killed = True
        self._process.kill()

    def end(self) -> str:
        """See `Process.end`. Several threads may call it."""
        with self._ending:
            return self._process.end()

    def close(self) -> None:
        """Ends the process, if that is not done, and closes what leads to it; when nobody asks it any more."""
        self._process.close()
