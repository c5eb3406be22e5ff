"""How many actors a training asks for."""

from __future__ import annotations

#: How often it is looked, in seconds; and which part of the time a consumer may wait for batches.
LOOK_S, WAITS = 2.0, 0.05
#: Looks in a row without more waiting before one actor is given back; twice as many each time that this was a mistake, up to so many.
_CALM, _MOST_CALM = 3, 96
#: More actors must give so much more, or no more are asked for, so many looks long: the link or a store is the limit.
_GAIN, _PAUSE = 1.05, 15


class Wanting:
    """A fixed number, or "auto": more while the consumer waits for more than 5 % of the time, fewer where it waits for less.

    asks: how many.
    """

    def __init__(self, workers: int | None) -> None:
        self.is_tuned, self.asks = workers is None, workers or 1
        self._calm, self._calm_for, self._gave_back = _CALM, 0, False
        self._paused, self._rate_before = 0, 0.0
        self.begin(0.0)

    def begin(self, now: float) -> None:
        """A pass begins: what was before says nothing."""
        self._looked_at, self._waited_s, self._samples = now, 0.0, 0

    def is_due(self, now: float) -> bool:
        """Whether it is time to look."""
        return self.is_tuned and now - self._looked_at >= LOOK_S

    def look(self, now: float, waited_s: float, samples: int, *, at_work: int, most: int) -> None:
        """Notes how long the consumer waited, and what it got, since `begin`. at_work: actors that make batches; most: as many as there can be."""
        elapsed_s = max(now - self._looked_at, 1e-9)
        waits, rate = (waited_s - self._waited_s) / elapsed_s, (samples - self._samples) / elapsed_s
        self._looked_at, self._waited_s, self._samples = now, waited_s, samples
        self._paused = max(0, self._paused - 1)
        if waits > WAITS:
            self._more(rate, at_work, most)
        else:
            self._fewer()

    def _more(self, rate: float, at_work: int, most: int) -> None:
        self._calm_for = 0
        if at_work < self.asks or self._paused:
            return  # those that were asked for are not there yet
        if self._gave_back:
            self._gave_back, self._calm = False, min(_MOST_CALM, 2 * self._calm)
        elif self._rate_before and rate < _GAIN * self._rate_before:
            self._paused, self._rate_before = _PAUSE, 0.0
            return
        self._rate_before = rate
        self.asks = max(self.asks, min(most, max(self.asks, at_work) + max(1, at_work // 4)))

    def _fewer(self) -> None:
        self._calm_for, self._rate_before = self._calm_for + 1, 0.0
        if self._calm_for >= self._calm and self.asks > 1:
            self.asks -= 1
            self._calm_for, self._gave_back = 0, True
