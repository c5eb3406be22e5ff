"""Map-style Python objects: anything with `__getitem__` and `__len__`, as PyTorch's datasets are.

`__getitems__(list of numbers)` is used where there is one: it may give a list of items, as PyTorch's does, or a dict of
columns, which saves the work per item.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from penstock.core import kernels
from penstock.core.columns.spec import Columns, Ids, Spans, Spec
from penstock.core.errors import DataError, PlanError, SourceError
from penstock.core.functions.global_generators import Seed, SeededCalls, draw_key
from penstock.core.functions.held_generators import HeldGenerators
from penstock.core.picklable_lock import PicklableLock
from penstock.core.verbs.options import Asked
from penstock.inputs.items import Items, learn_columns, learn_items, rows_together
from penstock.source.manifest import Manifest, StatedManifest, digest_of
from penstock.source.protocol import Access, Allocate

#: Items that take less are asked for twice to see how long one takes, since the first call warms up.
_QUICK_S = 0.001
_SHOWN = 8


@dataclass(frozen=True, eq=False)
class Objects:
    """A user's object as a source: its items are asked for when they are needed.

    rows_together: how many rows are worth asking for at once, so that slow items come one batch at a time.
    """

    manifest: Manifest
    data: Any = field(repr=False)
    items: Items
    threads: int
    rows_together: int
    calls: SeededCalls = field(repr=False)
    held: HeldGenerators = field(repr=False)
    access: Access = Access.MEMORY
    _turn: PicklableLock = field(default_factory=PicklableLock, repr=False)

    @property
    def spec(self) -> Spec:
        """The columns that the first item has."""
        return self.items.spec

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """Items `samples[i]`; an exception of the object keeps its traceback and gets a note with the sample id."""
        numbers = samples.tolist()
        found = self._found(numbers)
        if (length := len(self.data)) != self.manifest.samples:
            raise DataError(
                f"{type(self.data).__qualname__}: {length:,} items now, {self.manifest.samples:,} when it was opened; its "
                f"length must stay, so open it again"
            )
        if isinstance(found, Mapping):
            if missing := [column.feature for column in self.items.columns if column.feature not in found]:
                raise PlanError(f"__getitems__ returned no {', '.join(missing)} this time; it must always return them")
            return self.items.join(found, len(numbers), allocate)
        if len(found) != len(numbers):
            raise PlanError(f"__getitems__ returned {len(found)} items for {len(numbers)} numbers; return one each")
        return self.items.stack(found, allocate)

    def _found(self, numbers: list[int]) -> Any:
        plain: Callable[..., Any] = partial(self._fetch, numbers)
        seeded = self.held.around(partial(self._fetch_each, numbers))
        if self.held:
            plain = seeded
        try:
            return self.calls.run(plain, seeded, rows=len(numbers))
        except DataError as error:
            if error.sample is not None:
                error.row = numbers.index(error.sample)
            raise

    def _fetch(self, numbers: list[int]) -> Any:
        if self.threads == 1:
            with self._turn:
                return fetch(self.data, numbers)
        share = -(-len(numbers) // self.threads)
        parts = [numbers[first : first + share] for first in range(0, len(numbers), share)]
        return _joined(list(self._pool.map(lambda part: fetch(self.data, part), parts)))

    def _fetch_each(self, numbers: list[int], seed: Seed) -> Any:
        """What items draw from global generators is a function of `draw_key()` and their numbers."""
        found = []
        for number in numbers:
            seed(kernels.mix([draw_key(), number]))
            found.append(fetch(self.data, [number]))
        return _joined(found)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads, thread_name_prefix="penstock-items")


def _joined(found: list[Any]) -> Any:
    """What several calls of `fetch` gave, as if it were one."""
    if isinstance(found[0], Mapping):
        return {name: np.concatenate([np.asarray(part[name]) for part in found]) for name in found[0]}
    return [item for part in found for item in part]


def fetch(data: Any, numbers: list[int]) -> Any:
    """Items of these numbers: a list of them, or a dict of columns if the object's `__getitems__` gives that."""
    together = getattr(data, "__getitems__", None)
    found: list[Any] = []
    try:
        if together is not None:
            return together(numbers)
        for number in numbers:
            found.append(data[number])  # noqa: PERF401 - an error must say how far it came
    except Exception as error:
        more = ", …" if len(numbers) > _SHOWN else ""
        failed = str(numbers[len(found)]) if together is None else ", ".join(map(str, numbers[:_SHOWN])) + more
        if isinstance(error, DataError) and together is None:
            error.sample = numbers[len(found)]
        error.add_note(f"penstock: sample {failed} of {type(data).__qualname__}")
        raise
    return found


def _length(data: Any, where: str) -> int:
    try:
        return len(data)
    except (TypeError, ValueError, OverflowError) as error:
        raise PlanError(f"{where}: its __len__ gives no number of items ({error}); let it return one") from error


def from_dataset(
    data: Any, *, columns: Asked = None, name: str | None = None, version: str = "", threads: int = 1
) -> Objects:
    """Opens a map-style object; PlanError for what is none, and for items that no batch can hold."""
    where = f"from_dataset({type(data).__qualname__})"
    for needed, instead in (("__getitem__", "pass a list, or an object with items"), ("__len__", "use from_iterable")):
        if not hasattr(data, needed):
            raise PlanError(f"{where}: it has no {needed}; {instead}")
    if threads < 1:
        raise PlanError(f"{where}: threads={threads}; at least one thread must ask for items")
    if (samples := _length(data, where)) == 0:
        raise SourceError(f"{where}: it has no items")
    getter = getattr(data, "__getitems__", data.__getitem__)
    calls = SeededCalls(
        where, getter, "Random transforms run on all threads as functions with a parameter `rng`, in `map`."
    )
    first, took_s = calls.run(partial(_timed_first, data), lambda _: _timed_first(data), rows=1)
    items = (
        learn_columns(first, columns, where) if isinstance(first, Mapping) else learn_items(first[0], columns, where)
    )
    called = name or f"{type(data).__module__}.{type(data).__qualname__}"
    digest = digest_of(f"objects {called} {version} {samples} {items.description}")
    manifest = StatedManifest.of("objects", samples, digest, samples * items.row_bytes)
    return Objects(manifest, data, items, threads, rows_together(took_s), calls, HeldGenerators(getter))


def _timed_first(data: Any) -> tuple[Any, float]:
    """The first item, and how many seconds one takes."""
    took_s = float("inf")
    for _ in range(2):
        began_at = time.perf_counter()
        first = fetch(data, [0])
        took_s = min(took_s, time.perf_counter() - began_at)
        if took_s > _QUICK_S:
            break
    return first, took_s
