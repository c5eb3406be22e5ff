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


def with_retries(
    attempt: Callable[[], _T],
    retry: Retry,
    stop: threading.Event,
    failed: Callable[[TransientError], None],
    *,
    before: int = 0,
) -> _T:
    """The result of the first attempt that succeeds; `failed` receives each error. `before`: attempts that failed already.

    Raises the last TransientError after the deadline, a WrongAnswerError after `MOST_WRONG` of them, StoppedError when `stop` is set,
    any other error at once, and what `failed` raises.
    """
    end = time.monotonic() + retry.deadline_s
    number, wrong = before, 0
    if before:
        stop.wait(retry.wait_s(before - 1))
    while True:
        if stop.is_set():
            raise StoppedError
        try:
            return attempt()
        except TransientError as error:
            failed(error)
            wrong += isinstance(error, WrongAnswerError)
            wait_s = retry.wait_s(number)
            if time.monotonic() + wait_s > end or wrong >= MOST_WRONG:
                raise
            stop.wait(wait_s)
            number += 1
