"""Users' functions in a process whose global random generators nobody else draws from."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import numpy as np

from penstock.core.functions.global_generators import Seed, generators_now, seed_all, watched
from penstock.core.functions.random_use import mentions_generators

_T = TypeVar("_T")

#: Any, since the stubs lack some.
_numpy: Any = np.random
#: Bytes of NumPy's Mersenne Twister: 624 words, and the place of the next.
_TWISTER_BYTES = 4 * 625


class OwnGenerators:
    """Gives the numbers that `SeededCalls` gives. Calls need not wait for each other, and each is watched."""

    #: What the generators showed after the last call of any function; None where it drew.
    _shown: ClassVar[list[Any] | None] = None

    def __init__(self, function: Any) -> None:
        self._draws = mentions_generators(function)
        self._quiet = False  # a call was watched, and did not draw

    def run(self, plain: Callable[[], _T], seeded: Callable[[Seed], _T], *, rows: int) -> _T:
        """See `SeededCalls.run`."""
        before, OwnGenerators._shown = OwnGenerators._shown, None
        if not self._draws and self._quiet:
            before = before or _fresh()
            made, after = plain(), _shown()
            if after == before:
                OwnGenerators._shown = after
                return made
            self._draws = True
        elif not self._draws:
            made, self._draws, is_seeded = watched(seeded)
            self._quiet = not self._draws
            if self._quiet or is_seeded:
                return made
        return seeded(lambda key: seed_all(generators_now(), key))


def _fresh() -> list[Any]:
    """The same, after NumPy forgot the normal number that it may hold: taking that one changes nothing that is shown."""
    seed_all(generators_now(), 0)
    return _shown()


def _shown() -> list[Any]:
    """What changes when a number is drawn. NumPy's state takes 30 µs by its own functions."""
    bits = _numpy.get_bit_generator()
    if not isinstance(bits, np.random.MT19937):
        return [one.look() for one in generators_now()]
    python, _, *others = generators_now()
    return [python.look(), ctypes.string_at(bits.ctypes.state_address, _TWISTER_BYTES), *(one.look() for one in others)]
