"""A remote storage behind a cache on the local disk."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Bytes, Ids
from penstock.core.files.shards import Shards
from penstock.core.files.traffic import Traffic
from penstock.storage.cache.cache import RangeCache
from penstock.storage.cache.files import Bases, Ranges
from penstock.storage.cache.folder import default_cache, open_cache
from penstock.storage.cache.locks import Claims
from penstock.storage.cache.policy import Expected
from penstock.storage.fetch.plan import distinct
from penstock.storage.forked import renew_in_children

#: Bytes that are prefetched at once.
_AHEAD_BYTES = 8 << 20


class NextUse(Protocol):
    """Predicts when bytes are needed next."""

    @property
    def epoch_s(self) -> float:
        """The duration of an epoch in seconds."""

    def __call__(self, shard: Ids, offset: Ids) -> npt.NDArray[np.float64]:
        """Seconds until byte offsets of shards are needed next; infinite for never."""


@dataclass(frozen=True)
class CacheTraffic:
    """The figures of a storage's cache in this process.

    hits, misses: ranges that came whole from the cache, and others. hit_bytes: of the hits. fetched_bytes: downloaded, including
    prefetches. stored_bytes, evicted: bytes stored and pieces evicted, of all storages that share the cache. damaged: pieces whose
    bytes had changed on the disk, and that were downloaded again; also of all.
    """

    hits: int = 0
    misses: int = 0
    hit_bytes: int = 0
    fetched_bytes: int = 0
    stored_bytes: int = 0
    evicted: int = 0
    damaged: int = 0


class Uncached(Protocol):
    """The storage behind a cache: a remote one, or a user's own."""

    def list(self, where: str) -> Shards:
        """The files that a path, folder or glob names."""

    def read(self, shards: Shards, shard: Ids, offset: Ids, length: Ids, out: Bytes, at: Ids) -> None:
        """See `core.files.byte_ranges.ByteRanges`."""


class CachedStorage:
    """Serves ranges from the cache; missing ones are downloaded once for all processes that share it, and stored.

    identity: distinguishes files of the same names in other storages. cache: None for the user's own, or for none if `by_default` is
    False. The user's own is opened at the first read.
    """

    def __init__(
        self, remote: Uncached, cache: RangeCache | None = None, *, by_default: bool = True, identity: str = ""
    ) -> None:
        self.remote, self._identity = remote, identity
        self._is_default = self._undecided = cache is None and by_default
        self._cache = cache
        self._bases: weakref.WeakKeyDictionary[Shards, Bases] = weakref.WeakKeyDictionary()
        self._traffic = CacheTraffic()
        self._lock = threading.Lock()
        self._reading = 0
        renew_in_children(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the same cache; its user's own, with the limit that this has there, unless another was chosen."""
        chosen = None if self._is_default else self._cache
        cache = None if chosen is None else (chosen.folder, chosen.limit_bytes)
        return _anew, (self.remote, cache, self._is_default, self._identity)

    def forked(self) -> None:
        """Renew the lock in the child of a fork, where no thread reads."""
        self._lock, self._reading = threading.Lock(), 0

    @property
    def root(self) -> str:
        """What the name of every file begins with."""
        return str(getattr(self.remote, "root", ""))

    @property
    def traffic(self) -> Traffic | None:
        """Requests and bytes so far, and the cache's hits; None if the storage behind it does not count."""
        traffic, cached = getattr(self.remote, "traffic", None), self.cache_traffic
        if not isinstance(traffic, Traffic):
            return None
        hits, misses, damaged = cached.hits, cached.misses, cached.damaged
        return replace(
            traffic, cache_hits=hits, cache_misses=misses, cache_bytes=cached.hit_bytes, cache_damaged=damaged
        )

    @property
    def cache(self) -> RangeCache | None:
        """The cache; None if it is off, or has no usable folder."""
        with self._lock:
            if self._undecided:
                self._cache, self._undecided = default_cache(), False
            return self._cache

    def use_cache(self, cache: RangeCache | None) -> None:
        """Use another cache from now on, or none."""
        with self._lock:
            self._cache, self._undecided, self._is_default = cache, False, False
            self._bases.clear()

    @property
    def cache_traffic(self) -> CacheTraffic:
        """The cache's figures so far."""
        cache = self._cache
        if cache is None:
            return self._traffic
        return replace(self._traffic, stored_bytes=cache.stored_bytes, evicted=cache.evicted, damaged=cache.damaged)

    @property
    def is_caching(self) -> bool:
        """Whether the cache is on."""
        return self.cache is not None

    @property
    def is_idle(self) -> bool:
        """Whether no thread reads right now."""
        return self._reading == 0

    def list(self, where: str) -> Shards:
        """See `remote.RemoteStorage.list`; listings are never cached."""
        return self.remote.list(where)

    def read(self, shards: Shards, shard: Ids, offset: Ids, length: Ids, out: Bytes, at: Ids) -> None:
        """See `core.files.byte_ranges.ByteRanges`."""
        cache = self.cache
        if cache is None:
            self.remote.read(shards, shard, offset, length, out, at)
            return
        self._count_readers(1)
        try:
            if cache.read_whole(self._bases_of(cache, shards), shard, offset, length, out, at):
                self._traffic_of(hits=len(length), hit_bytes=int(length.sum()))
                return
            wanted = self._ranges(cache, shards, shard, offset, length, at)
            missing = cache.read(wanted, out)
            fetched = self._fetch(cache, shards, missing, out) if len(missing) else missing.at
            self._count(wanted, fetched)
        finally:
            self._count_readers(-1)

    def read_ahead(self, shards: Shards, shard: Ids, offset: Ids, length: Ids, go_on: Callable[[], bool]) -> None:
        """Download missing parts of ranges to the cache, some MiB at a time, as long as `go_on()`."""
        cache = self.cache
        if cache is None:
            return
        ahead = cache.lacks(self._ranges(cache, shards, shard, offset, length, np.zeros_like(offset)))
        ahead = cache.worth_fetching(ahead.take(np.flatnonzero(ahead.begin >= 0)))
        group = (np.cumsum(ahead.length) - ahead.length) // _AHEAD_BYTES
        for number in distinct(group).tolist():
            if not go_on():
                break
            some = ahead.take(np.flatnonzero(group == number))
            at = np.cumsum(some.length) - some.length
            out = np.empty(int(some.length.sum()), dtype=np.uint8)
            self._fetch(cache, shards, Ranges(some.shard, some.offset, some.length, at, some.begin), out)

    def forget(self, shards: Shards) -> None:
        """Evict files from the cache."""
        cache = self.cache
        if cache is None:
            return
        numbers, nothing = np.arange(len(shards)), np.zeros(len(shards), dtype=np.int64)
        files = self._ranges(cache, shards, numbers, nothing, shards.sizes, nothing)
        cache.forget(files.take(np.flatnonzero(files.begin >= 0)))

    def expect(self, shards: Shards, next_use: NextUse) -> Callable[[], None]:
        """Give the cache a forecast for these shards, until the returned function is called."""
        cache = self.cache
        if cache is None:
            return lambda: None
        return cache.expect(_Forecast(self._bases_of(cache, shards), shards, next_use))

    def _fetch(self, cache: RangeCache, shards: Shards, missing: Ranges, out: Bytes) -> Ids:
        """Download what no other process downloads, and wait for the rest; returns the places of what was downloaded."""
        places = [np.empty(0, dtype=np.int64)]
        while len(missing):
            claims = cache.claims()
            try:
                mine = self._claim(cache, claims, missing)
                fresh = cache.read(missing.take(mine), out)  # another process may have stored it since the look-up
                if len(fresh):
                    self.remote.read(shards, fresh.shard, fresh.offset, fresh.length, out, fresh.at)
                    self._traffic_of(fetched_bytes=int(fresh.length.sum()))
                    places.append(fresh.at)
                    cache.keep(fresh, out)
            finally:
                claims.release()
            left = np.ones(len(missing), dtype=bool)
            left[mine] = False
            missing = missing.take(np.flatnonzero(left))
        return np.concatenate(places)

    @staticmethod
    def _claim(cache: RangeCache, claims: Claims, missing: Ranges) -> Ids:
        """Claim what is free, or wait for the first; returns the numbers of what may now be downloaded."""
        alone = np.flatnonzero(missing.begin < 0)  # never cached, so no process waits for it
        shared = np.flatnonzero(missing.begin >= 0)
        begin, length = missing.begin[shared], missing.length[shared]
        high, _, _, base = cache.files.owners(begin)
        first = (high >> np.uint64(3)).astype(np.int64) + begin - base
        taken = claims.take(first, length)
        if not len(alone) and not len(taken):
            claims.wait(int(first[0]), int(length[0]))
            taken = np.zeros(1, dtype=np.int64)
        return np.sort(np.concatenate([alone, shared[taken]]))

    def _ranges(self, cache: RangeCache, shards: Shards, shard: Ids, offset: Ids, length: Ids, at: Ids) -> Ranges:
        base = self._bases_of(cache, shards).of(shard)
        return Ranges(shard, offset, length, at, np.where(base < 0, base, base + offset))

    def _bases_of(self, cache: RangeCache, shards: Shards) -> Bases:
        with self._lock:
            found = self._bases.get(shards)
            if found is None or found.files is not cache.files:  # another thread may have opened the cache before
                found = self._bases[shards] = Bases(cache.files, shards, self._identity)
            return found

    def _count(self, wanted: Ranges, fetched: Ids) -> None:
        """Count ranges: those with a downloaded place are misses."""
        if not len(fetched):
            self._traffic_of(hits=int(np.count_nonzero(wanted.length)), hit_bytes=int(wanted.length.sum()))
            return
        some = wanted.length > 0
        turn = np.argsort(wanted.at[some], kind="stable")
        missed = distinct(np.searchsorted(wanted.at[some][turn], fetched, side="right") - 1)
        missed_bytes = int(wanted.length[some][turn][missed].sum())
        hits, hit_bytes = int(some.sum()) - len(missed), int(wanted.length.sum()) - missed_bytes
        self._traffic_of(hits=hits, misses=len(missed), hit_bytes=hit_bytes)

    def _traffic_of(self, **more: int) -> None:
        with self._lock:
            self._traffic = replace(
                self._traffic, **{name: getattr(self._traffic, name) + n for name, n in more.items()}
            )

    def _count_readers(self, more: int) -> None:
        with self._lock:
            self._reading += more


class _Forecast:
    """When pieces are needed next, from forecasts of shards."""

    def __init__(self, bases: Bases, shards: Shards, next_use: NextUse) -> None:
        self._bases, self._shards, self._next_use = bases, shards, next_use
        self._sorted: tuple[Ids, Ids] | None = None

    @property
    def margin_s(self) -> float:
        """See `policy.Forecast`: the duration of an epoch.

        An epoch needs every piece once. Evicting one for another saves no request, costs a write, and piles up an epoch's
        requests at its end.
        """
        return self._next_use.epoch_s

    def __call__(self, begin: Ids) -> Expected:
        """See `policy.Forecast`."""
        if self._sorted is None:
            base = self._bases.of(np.arange(len(self._shards)))
            known = np.flatnonzero(base >= 0)
            turn = known[np.argsort(base[known], kind="stable")]
            self._sorted = base[turn], turn
        base, shard = self._sorted
        found = np.full(len(begin), np.nan)
        if len(base):
            place = np.maximum(np.searchsorted(base, begin, side="right") - 1, 0)
            offset = begin - base[place]
            mine = np.flatnonzero((offset >= 0) & (offset < self._shards.sizes[shard[place]]))
            found[mine] = self._next_use(shard[place[mine]], offset[mine])
        return found


def _anew(remote: Uncached, cache: tuple[str, int] | None, by_default: bool, identity: str) -> CachedStorage:
    opened = None if cache is None else open_cache(*cache)
    return CachedStorage(remote, opened, by_default=by_default, identity=identity)
