"""How many requests to keep in flight, and when one is late: learnt from responses."""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque

from penstock.core.files.traffic import Traffic
from penstock.storage.fetch.plan import LONGEST_BYTES, SHARED_BYTES

#: Requests in flight: fewest, at first, most.
FEWEST, FIRST, MOST = 4, 128, 256
#: More requests in flight must raise the rate by at least this much.
_GAIN = 1.05
_GROWTH = 1.5
#: How many responses of about one size are remembered for the latency's percentile, and how many it needs.
_REMEMBERED, _KNOWN = 256, 20
#: The longest duration of a request, at the recent rate of one connection; the weight of each response in that rate.
_LONGEST_S, _LATEST = 2.0, 0.05
#: A store's slow-down responses count once they are this share of the latest requests: large stores always send a few.
_SLOWED_SHARE, _LATELY = 1 / 8, 256
#: Steps without a gain before trying more again: stores and lines change.
_PATIENCE = 8


class Pace:
    """How many requests to keep in flight, for all threads.

    The number rises as long as that raises the rate, and halves when the store says to slow down.
    """

    def __init__(self, fewest: int = FEWEST, first: int = FIRST, most: int = MOST) -> None:
        self._fewest, self._most = fewest, most
        self.in_flight = first
        self.traffic = Traffic()
        self._lock = threading.Lock()
        self._durations: defaultdict[int, deque[float]] = defaultdict(lambda: deque(maxlen=_REMEMBERED))
        self._bytes = self._answers = 0
        self._busy_s = 0.0
        self._busy_since: float | None = None
        self._best, self._settled, self._waited = 0.0, first, 0
        self._slowed_at = self._connection_rate = 0.0
        self._slowed = self._went_well = 0.0

    def forked(self) -> None:
        """Renew the lock in the child of a fork, since a thread that is missing there may have held it."""
        self._lock = threading.Lock()

    @property
    def longest_bytes(self) -> int:
        """How long a request may be: 16 MiB, less where connections are slow."""
        if not self._connection_rate:
            return LONGEST_BYTES
        return min(LONGEST_BYTES, max(SHARED_BYTES, int(_LONGEST_S * self._connection_rate)))

    def answered(self, duration_s: float, size: int, *, busy: bool) -> None:
        """Count a response. `busy`: the limit of requests in flight was reached."""
        with self._lock:
            self.traffic.add(duration_s, size)
            self._went_well += 1
            if self._went_well + self._slowed > _LATELY:
                self._went_well, self._slowed = self._went_well / 2, self._slowed / 2
            self._durations[size.bit_length()].append(duration_s)
            if size >= SHARED_BYTES // 2:  # a short response is mostly waiting
                rate = size / max(duration_s, 1e-6)
                self._connection_rate += (_LATEST if self._connection_rate else 1.0) * (rate - self._connection_rate)
            now = time.monotonic()
            if busy and self._busy_since is not None:
                self._bytes += size
                self._answers += 1
                self._busy_s += now - self._busy_since
            self._busy_since = now if busy else None  # the clock stops while the limit is not reached
            if self._answers >= max(16, 2 * self.in_flight):
                self._step()

    def failed(self, *, slow_down: bool) -> None:
        """Count a failed request that will be retried."""
        with self._lock:
            self.traffic.requests += 1
            self.traffic.retries += 1
            self._slowed += slow_down
            enough = max(2.0, _SLOWED_SHARE * (self._slowed + self._went_well))
            now = time.monotonic()
            if slow_down and self._slowed >= enough and now - self._slowed_at > 1.0:
                self._slowed_at = now
                self.in_flight = self._settled = max(self._fewest, self.in_flight // 2)
                self._best = self._slowed = self._went_well = 0.0
                self._restart()

    def hedged(self) -> None:
        """Count a hedge of a slow request."""
        with self._lock:
            self.traffic.hedges += 1

    def late_after_s(self, size: int) -> float | None:
        """The 95th percentile of the latency at about this size, with a margin; None while too few responses are known.

        If few of this size are known, those of all sizes count, with a larger margin.
        """
        with self._lock:
            known, room = list(self._durations.get(size.bit_length(), ())), 1.5
            if len(known) < _KNOWN and self._durations:
                known = [duration for one in self._durations.values() for duration in one]
                room = 3.0 * 2 ** max(0, size.bit_length() - max(self._durations))
        if len(known) < _KNOWN:
            return None
        return max(0.05, room * sorted(known)[int(0.95 * len(known))])

    def report(self) -> Traffic:
        """A copy of the figures."""
        with self._lock:
            self.traffic.most_in_flight = self.in_flight
            return self.traffic.copy()

    def _restart(self) -> None:
        self._bytes = self._answers = 0
        self._busy_s, self._busy_since = 0.0, None

    def _step(self) -> None:
        rate = self._bytes / max(self._busy_s, 1e-6)
        if rate > self._best * _GAIN:
            self._best, self._settled, self._waited = rate, self.in_flight, 0
            self.in_flight = min(self._most, max(self.in_flight + 1, int(self.in_flight * _GROWTH)))
        elif self.in_flight > self._settled:
            self.in_flight, self._waited = self._settled, 0  # more requests did not raise the rate
        else:
            self._waited += 1
            if self._waited >= _PATIENCE:
                self._best, self._waited = rate, 0
                self.in_flight = min(self._most, max(self.in_flight + 1, int(self.in_flight * _GROWTH)))
        self._restart()
