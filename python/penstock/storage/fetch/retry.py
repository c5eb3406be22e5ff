"""When a failed request is retried, and when it is given up."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from penstock.core.cancel import StoppedError

_T = TypeVar("_T")

#: The timeout of one attempt, connection and body together.
ATTEMPT_TIMEOUT_S = 30

#: HTTP statuses that are worth a retry, and those of them that mean slow down.
PASSING = frozenset((408, 425, 429, 500, 502, 503, 504))
SLOW_DOWN = frozenset((429, 503))


class TransientError(Exception):
    """A request failed in a way worth a retry: a reset, a timeout, 500, 503, 429. `slow_down`: the store says to slow down."""

    def __init__(self, found: str, *, slow_down: bool = False) -> None:
        super().__init__(found)
        self.slow_down = slow_down


class WrongAnswerError(TransientError):
    """A response that does not match the request. A broken server may do better next time; a limited one never does."""


#: How often a request with wrong responses is made, and after how many wrong responses in a row a store is given up.
MOST_WRONG, MOST_WRONG_IN_TURN = 4, 16


@dataclass(frozen=True, kw_only=True)
class Retry:
    """How often and how long to retry.

    Waits between attempts double from `first_s` up to `longest_s`, each drawn uniformly from zero to that. No attempt starts
    more than `deadline_s` after the first.
    """

    first_s: float = 0.1
    longest_s: float = 10.0
    deadline_s: float = 120.0

    def wait_s(self, attempt: int) -> float:
        """A random wait after attempt number `attempt` (0, 1, …) failed."""
        return random.random() * min(self.longest_s, self.first_s * 2.0 ** min(attempt, 30))  # noqa: S311


class Attempts:
    """The failed attempts of one request, and the wait before the next one."""

    def __init__(self, retry: Retry, began_at: float, *, failed: int = 0) -> None:
        self._retry, self._failed, self._wrong = retry, failed, 0
        self._end = began_at + retry.deadline_s
        #: Seconds to wait before the next attempt.
        self.wait_s = retry.wait_s(failed - 1) if failed else 0.0

    def may_retry(self, error: TransientError) -> bool:
        """Count a failure; False after the deadline, or after `MOST_WRONG` wrong responses."""
        self._wrong += isinstance(error, WrongAnswerError)
        self.wait_s = self._retry.wait_s(self._failed)
        self._failed += 1
        return time.monotonic() + self.wait_s <= self._end and self._wrong < MOST_WRONG


def with_retries(attempt: Callable[[], _T], retry: Retry, stop: threading.Event) -> _T:
    """The result of the first attempt that succeeds.

    Raises the last TransientError after the deadline, a WrongAnswerError after `MOST_WRONG` of them, StoppedError when `stop` is
    set, and any other error at once.
    """
    attempts = Attempts(retry, time.monotonic())
    while not stop.is_set():
        try:
            return attempt()
        except TransientError as error:
            if not attempts.may_retry(error):
                raise
        stop.wait(attempts.wait_s)
    raise StoppedError
