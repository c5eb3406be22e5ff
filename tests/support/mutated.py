"""Values of JSON and bytes with something changed: what damage, another version or an attacker may have made of them."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

#: What may stand in the place of any value.
HOSTILE: list[Any] = [
    None, True, False, 0, -1, 1, 7, 2**31, 2**53 + 1, 2**62, 2**63, -(2**63), 2**64, 10**30, 0.5, -1.5, 1e300, float("inf"), float("nan"),
    "", "0", "a", "é" * 40, "\ud800", "\0", [], {}, [0], [[]], [[[[]]]], {"a": 1}, {"": None}, [2**62] * 3, "x" * 2_000,
]  # fmt: skip


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) in a value of JSON."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from places(inner)


def mutated(value: Any, rng: random.Random) -> Any:
    """A copy with one to three values replaced, moved, left out or added."""
    made = copy.deepcopy(value)
    for _ in range(rng.choice([1, 1, 2, 3])):
        found = list(places(made))
        if not found:
            return rng.choice(HOSTILE)
        _change(*rng.choice(found), found, rng)
    return made


def _change(container: Any, key: Any, found: list[tuple[Any, Any]], rng: random.Random) -> None:
    kind = rng.randrange(6)
    if kind == 0:
        del container[key]
    elif kind == 1:
        other, where = rng.choice(found)
        container[key] = copy.deepcopy(other[where]) if where in other or isinstance(other, list) else None
    elif kind == 2 and isinstance(container[key], int):
        container[key] += rng.choice([-1, 1, 1 << 16, 1 << 40, -(1 << 40)])
    elif kind == 3 and isinstance(container, dict):
        container[rng.choice(["", "extra", "\ud800", "version"])] = copy.deepcopy(rng.choice(HOSTILE))
    elif kind == 4 and isinstance(container, list):
        container.append(copy.deepcopy(rng.choice(HOSTILE)))
    else:
        container[key] = copy.deepcopy(rng.choice(HOSTILE))


def flipped(content: bytes, rng: random.Random) -> bytes:
    """The bytes with some changed, cut, doubled or made a number that is far off."""
    made = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        at = rng.randrange(len(made)) if made else 0
        kind = rng.randrange(5)
        if kind == 0:
            made[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            width = rng.choice([2, 4, 8])
            number = rng.choice([0, 1, (1 << 8 * width) - 1, 1 << (8 * width - 1), rng.getrandbits(8 * width)])
            made[at : at + width] = number.to_bytes(width, rng.choice(["little", "big"]))
        elif kind == 2:
            made[at : at + rng.randrange(16)] = made[:4] if rng.random() < 0.1 else b""
        elif kind == 3:
            made[at:at] = made[at : at + rng.randrange(1, 32)]
        elif made:
            made[at] ^= 1 << rng.randrange(8)
    return bytes(made)
