"""Lends the global random generators of `random`, NumPy and torch to users' functions, so that their numbers repeat.

A function that draws from a global generator on a pipeline thread would give other rows in every run, and change the random
numbers of the training loop. So its calls run one at a time, while the loop waits for a batch. The generators are saved,
seeded for the row or batch, and restored. Whether a function draws is read from its code (`mentions_generators`), and checked
in its calls number 1, 2, 4, 8, …, but for async functions. A function that does not draw runs on all threads.

Not covered: generators on GPUs, and those that a function makes without a seed (`numpy.random.default_rng()`).
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from itertools import count
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from penstock.core.functions.event_loop import is_async
from penstock.core.functions.random_use import mentions_generators
from penstock.core.warnings import warn

_T = TypeVar("_T")

#: Seeds the global generators with a number, before a call of a user's function.
Seed = Callable[[int], None]

_alone: ContextVar[Callable[[], AbstractContextManager[None]]] = ContextVar("penstock_alone", default=nullcontext)
_draw_key: ContextVar[int] = ContextVar("penstock_draw_key", default=0)
#: Held while generators are lent. What a function starts meanwhile, such as a loader with functions of its own, has a lock of its own: it is waited for.
_one_at_a_time: ContextVar[AbstractContextManager[object]] = ContextVar("penstock_lent", default=threading.RLock())  # noqa: B039  # it is meant to be one


def hold_consumer_with(alone: Callable[[], AbstractContextManager[None]]) -> None:
    """Enter `alone()` on this thread while generators are lent; it makes the training loop wait."""
    _alone.set(alone)


def set_draw_key(key: int) -> None:
    """Seed what objects that are read on this thread draw with this key; see `draw_key`."""
    _draw_key.set(key)


def draw_key() -> int:
    """The key of the epoch that this thread reads for; 0 outside of a pipeline."""
    return _draw_key.get()


@contextmanager
def _nested() -> Iterator[None]:
    before = _alone.set(nullcontext), _one_at_a_time.set(threading.RLock())
    try:
        yield
    finally:
        _alone.reset(before[0])
        _one_at_a_time.reset(before[1])


class Calls(Protocol):
    """Runs a user's function, seeded if it draws from global generators."""

    def run(self, plain: Callable[[], _T], seeded: Callable[[Seed], _T], *, rows: int) -> _T:
        """What `plain()` returns if it draws nothing, else what `seeded(seed)` returns, which seeds before each call."""


class SeededCalls:
    """Runs a user's function, seeded if it draws from global generators.

    calls = SeededCalls("map augment", augment, "…")
    calls.run(lambda: augment(batch), lambda seed: (seed(7), augment(batch))[1], rows=32)  # depends on 7 alone

    The first call that draws warns, with `name`, of the cost, and says with `instead` what is faster.
    """

    def __init__(self, name: str, function: Any, instead: str) -> None:
        self._name, self._instead = name, instead
        self._draws = mentions_generators(function)
        self._warned = False
        self._is_watched = not is_async(function)  # while one is awaited, others run
        self._quiet = False  # a call was watched, and did not draw
        self._count = count(1)

    @property
    def draws(self) -> bool:
        """Whether the function draws, as far as its code and its calls have shown."""
        return self._draws

    def run(self, plain: Callable[[], _T], seeded: Callable[[Seed], _T], *, rows: int) -> _T:
        """What `plain()` returns if it draws nothing, else what `seeded(seed)` returns, which seeds before each call."""
        number = next(self._count)
        if not self._draws and (not self._is_watched or (self._quiet and number & (number - 1))):
            return plain()
        with _alone.get()(), _one_at_a_time.get(), _nested():
            began_at, is_made, is_one = time.perf_counter(), False, cast("object", plain) is seeded
            if not self._draws:
                # Where both are one call, it is made once and seeded: a function may change its input in place.
                made, self._draws, is_seeded = watched(seeded if is_one else lambda _: plain())
                if not self._draws:
                    self._quiet = True
                    return made
                is_made = is_seeded and is_one
            if not is_made:
                with _lent() as generators:
                    made = seeded(lambda key: seed_all(generators, key))
        if not self._warned:
            self._warn(time.perf_counter() - began_at, rows)
        return made

    def _warn(self, took_s: float, rows: int) -> None:
        self._warned = True
        late = " What earlier, unchecked calls drew does not repeat." if self._quiet else ""
        warn(
            f"penstock: {self._name} draws from the global generators of random, NumPy or torch. Penstock seeds them, so that "
            f"batches repeat and the training loop's random numbers stay the same. Therefore it runs one call at a time, "
            f"only while the loop waits for a batch ({took_s * 1000:,.1f} ms for {rows:,} rows). {self._instead}{late}"
        )


def watched(call: Callable[[Seed], _T]) -> tuple[_T, bool, bool]:
    """What a call returns, whether it drew, and whether all was seeded that it may have drawn from: it may have imported torch."""
    with _lent() as generators:
        before, drew = [generator.look() for generator in generators], False

        def seed(key: int) -> None:
            nonlocal before, drew
            drew = drew or before != [generator.look() for generator in generators]
            seed_all(generators, key)
            before = [] if drew else [generator.look() for generator in generators]

        made = call(seed)
        is_seeded = len(generators) == len(generators_now())
        drew = drew or not is_seeded or before != [generator.look() for generator in generators]
        return made, drew, is_seeded


def seed_all(generators: list[Generator], key: int) -> None:
    """Seeds each with a number."""
    for generator in generators:
        generator.seed(key)


class Generator(Protocol):
    """A global generator."""

    def get(self) -> Any:
        """The state, for `set`."""

    def set(self, state: Any) -> None:
        """Restore a state."""

    def seed(self, number: int) -> None:
        """Seed the generator with a number."""

    def look(self) -> Any:
        """The state as plain values, for comparison."""


class _Python:
    def get(self) -> Any:
        return random.getstate()

    def set(self, state: Any) -> None:
        random.setstate(state)

    def seed(self, number: int) -> None:
        random.seed(number)

    look = get


#: Any, since linters call the functions for the global generator legacy, and the stubs lack some.
_numpy: Any = np.random


class _NumPy:
    """NumPy's global generator; users may have replaced its bit generator with one that cannot be seeded."""

    def get(self) -> Any:
        return _numpy.get_bit_generator(), _numpy.get_state(legacy=False)

    def set(self, state: Any) -> None:
        bits, inner = state
        if _numpy.get_bit_generator() is not bits:
            _numpy.set_bit_generator(bits)
        _numpy.set_state(inner)

    def seed(self, number: int) -> None:
        if not isinstance(_numpy.get_bit_generator(), np.random.MT19937):
            _numpy.set_bit_generator(np.random.MT19937())
        _numpy.seed(number & 0xFFFFFFFF)

    def look(self) -> Any:
        return _plain(_numpy.get_state(legacy=False))


def _plain(state: Any) -> Any:
    if isinstance(state, dict):
        return {name: _plain(value) for name, value in state.items()}
    return state.tobytes() if isinstance(state, np.ndarray) else state


class _Torch:
    def __init__(self, torch: Any) -> None:
        self._generator = torch.default_generator

    def get(self) -> Any:
        return self._generator.get_state()

    def set(self, state: Any) -> None:
        self._generator.set_state(state)

    def seed(self, number: int) -> None:
        self._generator.manual_seed(number)

    def look(self) -> Any:
        return self.get().numpy().tobytes()


def generators_now() -> list[Generator]:
    """The global generators of the modules that are imported."""
    torch = sys.modules.get("torch")
    return [_Python(), _NumPy(), *([_Torch(torch)] if hasattr(torch, "default_generator") else [])]


@contextmanager
def _lent() -> Iterator[list[Generator]]:
    generators = generators_now()
    before = [generator.get() for generator in generators]
    try:
        yield generators
    finally:
        for generator, state in zip(generators, before, strict=True):
            generator.set(state)
