"""When a failed request is made again, and when no more."""

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
    """A request failed in a way that need not repeat: a reset, a stall, 500, 503, 429. `slow_down`: the store asks for less."""

    def __init__(self, found: str, *, slow_down: bool = False) -> None:
        super().__init__(found)
        self.slow_down = slow_down


class WrongAnswerError(TransientError):
    """Another answer than was asked for. A server that is not whole may do better next time; one that knows no better never does."""


#: A request that is answered wrongly is made so many times, and no more once a store gave so many wrong answers in turn.
MOST_WRONG, MOST_WRONG_IN_TURN = 4, 16


@dataclass(frozen=True, kw_only=True)
class Retry:
    """How often and how long.

    Waits between attempts grow from `first_s` by doubling up to `longest_s`, each drawn evenly from zero to that; no new
    attempt begins more than `deadline_s` after the first.
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
    """The answer of the first attempt that succeeds; `failed` hears of each that did not. `before`: attempts that failed already.

    Raises the last TransientError after the deadline, a WrongAnswerError after `MOST_WRONG` of them, StoppedError when `stop` is set,
    anything else at once; also what `failed` raises.
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
