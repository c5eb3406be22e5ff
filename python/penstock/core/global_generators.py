"""The global random generators of `random`, NumPy and torch, lent to users' functions so that what they draw repeats.

A function that draws from a global generator on a thread of the pipeline would give other rows from run to run, and change
the random numbers of the training loop. So its calls run one at a time, while the loop waits for a batch: the generators
are saved, seeded for the row or batch, and restored. Whether a function draws is read from its code (`mentions_generators`), and
seen by watching its calls number 1, 2, 4, 8, …; a function that does not draw runs on all threads, unwatched but for these.

Not covered: generators on GPUs, and those that a function makes without a seed (`numpy.random.default_rng()`).
"""

from __future__ import annotations

import random
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from itertools import count
from typing import Any, Protocol, TypeVar

import numpy as np

from penstock.core.random_use import mentions_generators

_T = TypeVar("_T")

#: Starts the global generators anew, before a call of a user's function: what it draws is a function of the number.
Seed = Callable[[int], None]

_alone: ContextVar[Callable[[], AbstractContextManager[None]]] = ContextVar("penstock_alone", default=nullcontext)
_draw_key: ContextVar[int] = ContextVar("penstock_draw_key", default=0)
_one_at_a_time = threading.RLock()


def hold_consumer_with(alone: Callable[[], AbstractContextManager[None]]) -> None:
    """On this thread, `alone()` is entered while generators are lent: it keeps the training loop waiting."""
    _alone.set(alone)


def set_draw_key(key: int) -> None:
    """What objects draw that are read on this thread is a function of this key; see `draw_key`."""
    _draw_key.set(key)


def draw_key() -> int:
    """The key of the epoch that this thread reads for; 0 outside of a pipeline."""
    return _draw_key.get()


class SeededCalls:
    """Runs a user's function, seeded where it draws from global generators.

    calls = SeededCalls("map augment", augment, "…")
    calls.run(lambda: augment(batch), lambda seed: (seed(7), augment(batch))[1], rows=32)  # by 7 alone, on any thread

    The first call that draws gives a warning which says what that costs, by `name`, and what is faster, by `instead`.
    """

    def __init__(self, name: str, function: Any, instead: str) -> None:
        self._name, self._instead = name, instead
        self._draws = mentions_generators(function)
        self._warned = False
        self._quiet = False  # a call was watched, and did not draw
        self._count = count(1)

    def run(self, plain: Callable[[], _T], seeded: Callable[[Seed], _T], *, rows: int) -> _T:
        """What `plain()` returns if that draws nothing, else what `seeded(seed)` does, which seeds before each call."""
        number = next(self._count)
        if self._quiet and not self._draws and number & (number - 1):
            return plain()
        with _alone.get()(), _one_at_a_time:
            if not self._draws:
                made, self._draws = _watched(plain)
                if not self._draws:
                    self._quiet = True
                    return made
            began_at = time.perf_counter()
            with _lent() as generators:
                made = seeded(lambda key: _seed(generators, key))
        if not self._warned:
            self._warn(time.perf_counter() - began_at, rows)
        return made

    def _warn(self, took_s: float, rows: int) -> None:
        self._warned = True
        late = " Earlier calls were not seen to draw; what they drew does not repeat." if self._quiet else ""
        warnings.warn(
            f"penstock: {self._name} draws from the global generators of random, NumPy or torch. Penstock seeds them, so that "
            f"batches repeat and the training loop's random numbers stay its own; therefore it runs one call at a time, and "
            f"only while the loop waits for a batch ({took_s * 1000:,.1f} ms for {rows:,} rows). {self._instead}{late}",
            stacklevel=2,
        )


def _watched(call: Callable[[], _T]) -> tuple[_T, bool]:
    """What a call returns, and whether it drew."""
    with _lent() as generators:
        before = [generator.look() for generator in generators]
        made = call()
        drew = before != [generator.look() for generator in generators]
        return made, drew or len(generators) < len(_generators())  # torch may have been imported, and drawn from


def _seed(generators: list[_Generator], key: int) -> None:
    for generator in generators:
        generator.seed(key)


class _Generator(Protocol):
    """A global generator."""

    def get(self) -> Any:
        """Its state, to be set again."""

    def set(self, state: Any) -> None:
        """Gives it a state back."""

    def seed(self, number: int) -> None:
        """Starts it anew."""

    def look(self) -> Any:
        """Its state as plain values, to be compared."""


class _Python:
    def get(self) -> Any:
        return random.getstate()

    def set(self, state: Any) -> None:
        random.setstate(state)

    def seed(self, number: int) -> None:
        random.seed(number)

    look = get


#: Its functions for the global generator are legacy to linters, and some unknown to its stubs.
_numpy: Any = np.random


class _NumPy:
    """NumPy's; users may have put a bit generator in its place that cannot be seeded."""

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


def _generators() -> list[_Generator]:
    """Those of modules that somebody has imported."""
    torch = sys.modules.get("torch")
    return [_Python(), _NumPy(), *([_Torch(torch)] if hasattr(torch, "default_generator") else [])]


@contextmanager
def _lent() -> Iterator[list[_Generator]]:
    generators = _generators()
    before = [generator.get() for generator in generators]
    try:
        yield generators
    finally:
        for generator, state in zip(generators, before, strict=True):
            generator.set(state)
