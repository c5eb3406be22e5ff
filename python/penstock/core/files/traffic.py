"""Figures of the requests to a store: storages count them, reports show them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace

#: Buckets of durations per octave, and in all: from 1 ms to over an hour.
_PER_OCTAVE, _CLASSES = 4, 96


@dataclass
class Traffic:
    """Counters since a storage was opened.

    requests: all attempts, including hedges and failed ones. retries: repeats of failed requests. hedges: duplicates of
    slow requests. bytes: of responses. seconds: total duration of responses. latency: responses by duration, entry i those
    of up to 2^(i/4) ms. most_in_flight: the current limit of requests in flight. cache_hits, cache_misses: ranges found in
    the cache, and not found. cache_bytes: bytes of the hits. cache_damaged: cached pieces whose bytes had changed on the
    disk, and that were downloaded again.
    """

    requests: int = 0
    retries: int = 0
    hedges: int = 0
    bytes: int = 0
    seconds: float = 0.0
    latency: list[int] = field(default_factory=lambda: [0] * _CLASSES)
    most_in_flight: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    cache_bytes: int = 0
    cache_damaged: int = 0

    def add(self, duration_s: float, size: int) -> None:
        """Count a response."""
        self.requests += 1
        self.bytes += size
        self.seconds += duration_s
        octaves = math.log2(max(1.0, 1000 * duration_s))
        self.latency[min(_CLASSES - 1, math.ceil(_PER_OCTAVE * octaves))] += 1

    def copy(self) -> Traffic:
        """The figures as they are now."""
        return replace(self, latency=list(self.latency))

    def since(self, before: Traffic) -> Traffic:
        """The figures since an earlier copy."""
        return Traffic(
            requests=self.requests - before.requests,
            retries=self.retries - before.retries,
            hedges=self.hedges - before.hedges,
            bytes=self.bytes - before.bytes,
            seconds=self.seconds - before.seconds,
            latency=[now - then for now, then in zip(self.latency, before.latency, strict=True)],
            most_in_flight=self.most_in_flight,
            cache_hits=self.cache_hits - before.cache_hits,
            cache_misses=self.cache_misses - before.cache_misses,
            cache_bytes=self.cache_bytes - before.cache_bytes,
            cache_damaged=self.cache_damaged - before.cache_damaged,
        )

    def latency_s(self, share: float) -> float:
        """The duration within which this share of the responses arrived, at most a fifth too high; 0 without responses.

        latency_s(0.5) is the median.
        """
        wanted, seen = share * sum(self.latency), 0
        for number, count in enumerate(self.latency):
            seen += count
            if count and seen >= wanted:
                return float(2 ** (number / _PER_OCTAVE) / 1000)
        return 0.0


def sum_of(storages: Iterable[Traffic]) -> Traffic:
    """The traffic of several storages together, as it is now."""
    total = Traffic()
    for traffic in storages:
        before, now = total, traffic.copy()
        total = Traffic(
            **{
                each.name: getattr(before, each.name) + getattr(now, each.name)
                for each in fields(Traffic)
                if each.name != "latency"
            },
            latency=[one + other for one, other in zip(before.latency, now.latency, strict=True)],
        )
    return total
