"""Braces in paths, as in shells and WebDataset: names that are counted instead of listed."""

from __future__ import annotations

import re
from itertools import pairwise

from penstock.core.errors import SourceError

#: The most paths that one pattern may expand to.
MOST_PATHS = 1_000_000

_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?")


def expand_braces(pattern: str) -> list[str]:
    """Every path that a pattern expands to, in order; without braces the pattern itself.

    expand_braces("{08..10}.tar") == ["08.tar", "09.tar", "10.tar"]; expand_braces("{a,b{1..2}}") == ["a", "b1", "b2"].
    Raises SourceError for more than a million paths.
    """
    found = _first_group(pattern)
    if found is None:
        return [pattern]
    start, commas, end = found
    rests = expand_braces(pattern[end + 1 :])
    cuts = [start, *commas, end]
    parts = [pattern[low + 1 : high] for low, high in pairwise(cuts)]
    middles = [path for part in parts for path in expand_braces(part)] if commas else _counted(parts[0])
    if len(middles) * len(rests) > MOST_PATHS:
        raise _too_many(pattern)
    return [pattern[:start] + middle + rest for middle in middles for rest in rests]


def _first_group(pattern: str) -> tuple[int, list[int], int] | None:
    """The positions of the first opening brace, its commas and its closing brace; None if there are none."""
    start, depth, commas = -1, 0, list[int]()
    for place, letter in enumerate(pattern):
        if letter == "{":
            if depth == 0:
                start, commas = place, []
            depth += 1
        elif letter == "}" and depth:
            depth -= 1
            if depth == 0:
                return start, commas, place
        elif letter == "," and depth == 1:
            commas.append(place)
    return None


def _counted(text: str) -> list[str]:
    """The numbers of "first..last" or "first..last..step"; other text keeps its braces."""
    found = _RANGE.fullmatch(text)
    if found is None:
        return ["{" + inner + "}" for inner in expand_braces(text)]
    first, last = int(found[1]), int(found[2])
    step = abs(int(found[3] or 1)) or 1
    if abs(last - first) // step >= MOST_PATHS:
        raise _too_many(text)
    padded = any(re.fullmatch(r"-?0\d+", number) for number in (found[1], found[2]))
    width = max(len(found[1]), len(found[2])) if padded else 0
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    return [f"{number:0{width}d}" for number in numbers]


def _too_many(pattern: str) -> SourceError:
    return SourceError(f"{pattern}: the braces expand to more than {MOST_PATHS:,} paths; use a glob (*) instead")
