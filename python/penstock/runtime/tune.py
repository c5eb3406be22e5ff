"""How far to run ahead: the shallowest depth at which the consumer does not wait for jitter, within memory."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Waits shorter than this are hand-over, not hunger.
_SHORT_S = 0.0005

#: Items after which the depth is looked at again.
_WINDOW = 16


@dataclass
class Depth:
    """Items that may wait between stages, and finished ones before the consumer, or before they are copied to a device.

    The depth doubles while the consumer waits although full queues were seen in the same window (jitter, which a deeper queue
    smooths; a queue that is never full would gain nothing), and shrinks after windows without a wait. `most` keeps it
    within memory; `fixed` switches tuning off.
    """

    out: int = 2
    between: int = 2
    most: int = 8
    fixed: bool = False
    _seen: int = field(default=0, init=False)
    _waits: int = field(default=0, init=False)
    _full: int = field(default=0, init=False)
    _calm: int = field(default=0, init=False)

    def after_wait(self, waited_s: float, queued: int) -> int:
        """Takes note of one item that the consumer took; the depth from now on."""
        if self.fixed:
            return self.out
        self._seen += 1
        self._waits += waited_s > _SHORT_S
        self._full += queued >= self.out - 1
        if self._seen >= _WINDOW:
            self._decide()
        return self.out

    def _decide(self) -> None:
        if self._waits and self._full:
            self.out = min(2 * self.out, self.most)
        self._calm = 0 if self._waits else self._calm + 1
        if self._calm >= 8 and self.out > 2:
            self.out, self._calm = self.out - 1, 0
        self._seen = self._waits = self._full = 0
