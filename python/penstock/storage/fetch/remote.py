"""Remote files: turns a store's calls (list, one request) into the engine's (many ranges at once)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import pyarrow.compute as pc

from penstock.core.cancel import LOOK_S, StoppedError, is_stopped
from penstock.core.columns.spec import Bytes, Ids
from penstock.core.errors import StorageError
from penstock.core.files.shards import Shards
from penstock.core.files.traffic import Traffic
from penstock.core.finalizers import when_gone
from penstock.core.warnings import warn
from penstock.storage.fetch.native import open_client
from penstock.storage.fetch.pace import Pace
from penstock.storage.fetch.plan import plan
from penstock.storage.fetch.retry import Retry, TransientError, WrongAnswerError, with_retries
from penstock.storage.fetch.scheduler import Scheduler
from penstock.storage.fetch.transport import Transport

_T = TypeVar("_T")

#: Clients that make first tries, the best one first: each opens a transport for the stores that it knows, and returns None for others.
CLIENTS: list[Callable[[Any], Callable[[Scheduler], Transport] | None]] = [
    open_client,
]

#: Opening a dataset reports a missing store soon; a running training waits longer.
LIST_RETRY = Retry(deadline_s=20.0)
READ_RETRY = Retry(deadline_s=120.0)


class Store(Protocol):
    """One kind of store; neither of its calls retries."""

    @property
    def root(self) -> str:
        """The prefix of every file's name."""

    def list(self, where: str) -> Shards:
        """Files with their sizes and ETags; TransientError for errors worth a retry."""

    def get(self, path: str, etag: str, size: int, start: int, length: int) -> Any:
        """A buffer of `length` bytes from `start`; DataError if the file is another than was listed."""


@dataclass(frozen=True)
class _Get:
    """Makes one request for bytes of a shard; see `queue.Get`."""

    store: Store
    shards: Shards

    def __call__(self, shard: int, start: int, length: int) -> Any:
        shards = self.shards
        return self.store.get(shards.path(shard), self._etag(shard), int(shards.sizes[shard]), start, length)

    def target(self, shard: int) -> tuple[str, str, int]:
        """See `queue.Get`."""
        name = self.shards.path(shard)[len(self.store.root) :]
        return name, self._etag(shard), int(self.shards.sizes[shard])

    def _etag(self, shard: int) -> str:
        etags = self.shards.etags
        return "" if etags is None else str(etags[shard])


class RemoteStorage:
    """Reads ranges of a store's files by planned, paced, retried and hedged requests."""

    def __init__(self, store: Store, *, list_retry: Retry = LIST_RETRY, read_retry: Retry = READ_RETRY) -> None:
        self._store, self._list_retry, self._has_warned = store, list_retry, False
        self._read_retry = read_retry
        opened = (client(store) for client in CLIENTS)
        self._scheduler = Scheduler(Pace(), read_retry, next(filter(None, opened), None))
        when_gone(self, self._scheduler.close)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process makes its own requests."""
        return _anew, (self._store, self._list_retry, self._read_retry)

    @property
    def root(self) -> str:
        """The prefix of every file's name: the bucket or server."""
        return self._store.root

    def list(self, where: str) -> Shards:
        """The files that a path, folder or glob names, with or without the root; SourceError if there are none."""
        where, stop = where.removeprefix(self.root), threading.Event()
        found = _final(
            lambda: _in_a_thread(lambda: with_retries(lambda: self._store.list(where), self._list_retry, stop), stop)
        )
        self._warn_of_versions(found)
        return found

    def _warn_of_versions(self, shards: Shards) -> None:
        """Warn once if a store does not distinguish versions of a file."""
        without = -1 if self._has_warned or shards.etags is None else pc.index(shards.etags, "").as_py()
        if without < 0:
            return
        self._has_warned = True
        warn(
            f"{shards.path(without)}: the store sends neither an ETag nor a modification time. If the file is replaced by "
            "another of the same size while it is read, old and new bytes mix unnoticed, and it is not "
            "cached; configure the server to send ETag or Last-Modified"
        )

    def read(self, shards: Shards, shard: Ids, offset: Ids, length: Ids, out: Bytes, at: Ids) -> None:
        """See `core.files.byte_ranges.ByteRanges`; StorageError after a timeout."""
        longest_bytes = self._scheduler.longest_bytes(int(length.sum()))
        requests = plan(shard, offset, length, at, longest_bytes=longest_bytes)
        _final(lambda: self._scheduler.fetch(_Get(self._store, shards), requests, out))

    @property
    def traffic(self) -> Traffic:
        """Requests and bytes so far."""
        return self._scheduler.pace.report()


def _final(call: Callable[[], _T]) -> _T:
    """The call's result; an error that remains after all retries is a StorageError."""
    try:
        return call()
    except WrongAnswerError as error:
        raise StorageError(f"{error}") from None
    except TransientError as error:
        raise StorageError(
            f"{error}; the last retry failed: check that the store is reachable and not overloaded"
        ) from None


def _in_a_thread(call: Callable[[], _T], stop: threading.Event) -> _T:
    """The call's result. Ctrl-C and the end of a run do not wait for it: they set `stop`, and the thread ends by itself."""
    result: Future[_T] = Future()

    def work() -> None:
        try:
            result.set_result(call())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=work, name="penstock-list", daemon=True).start()
    try:
        while not wait((result,), LOOK_S).done:
            if is_stopped():
                raise StoppedError
        return result.result()
    finally:
        stop.set()


def _anew(store: Store, list_retry: Retry, read_retry: Retry) -> RemoteStorage:
    return RemoteStorage(store, list_retry=list_retry, read_retry=read_retry)
