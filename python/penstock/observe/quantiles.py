"""Quantiles of times in a bounded number of counters: a histogram whose buckets grow with the time."""

from __future__ import annotations

from math import frexp, ldexp

from penstock.observe.snapshot import Times

#: Buckets in each factor of two, so that a quantile is at most 1/32 from the truth; and the powers of two that there are: from 0.1 µs to six days.
_PARTS, _LEAST, _MOST = 16, -23, 20
_BUCKETS = _PARTS * (_MOST - _LEAST)
#: The bucket of 0.5 … 1 s begins so much below that of its power of two.
_FIRST = -(1 + _LEAST) * _PARTS - _PARTS


class TimeHistogram:
    """Counts times. One thread adds, or several that a lock keeps apart; any may read meanwhile."""

    __slots__ = ("_counts", "count", "most_s", "sum_s")

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS
        self.count, self.sum_s, self.most_s = 0, 0.0, 0.0

    def add(self, seconds: float, times: int = 1) -> None:
        """So many that took so long."""
        part, power = frexp(seconds)  # part is 0.5 … 1
        bucket = power * _PARTS + int(2 * _PARTS * part) + _FIRST if seconds > 0 else 0
        self._counts[bucket if 0 <= bucket < _BUCKETS else 0 if bucket < 0 else -1] += times
        self.count += times
        self.sum_s += times * seconds
        self.most_s = max(self.most_s, seconds)

    def times(self, *, zeros: int = 0) -> Times:
        """The quantiles so far. zeros: as if so many more had taken no time."""
        counts = self._counts.copy()
        counts[0] += zeros
        total = sum(counts)
        if not total:
            return Times()
        wanted, found, below = [0.05 * total, 0.50 * total, 0.95 * total, 0.99 * total], list[float](), 0
        for bucket, count in enumerate(counts):
            below += count
            while len(found) < len(wanted) and below >= wanted[len(found)]:
                found.append(min(_middle_s(bucket), self.most_s))
        p5_s, p50_s, p95_s, p99_s = found
        mean_s = self.sum_s / total
        return Times(count=total, mean_s=mean_s, p5_s=p5_s, p50_s=p50_s, p95_s=p95_s, p99_s=p99_s, most_s=self.most_s)


def _middle_s(bucket: int) -> float:
    power, part = divmod(bucket, _PARTS)
    return ldexp(1 + (part + 0.5) / _PARTS, power + _LEAST)
