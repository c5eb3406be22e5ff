"""Braces in paths, as in shells and WebDataset: names that are counted instead of listed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from penstock.core.errors import SourceError

#: The most paths that one pattern may expand to, and their characters together.
MOST_PATHS = 1_000_000
_MOST_CHARACTERS = 1 << 30
#: How deep braces may be nested.
_DEEPEST = 64
#: Numbers of more digits count further than anybody does.
_MOST_DIGITS = 18

_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?")


@dataclass(frozen=True)
class _BraceGroup:
    """Where the braces of a group lie, and the commas directly within them."""

    start: int
    commas: tuple[int, ...]
    end: int


def expand_braces(pattern: str) -> list[str]:
    """Every path that a pattern expands to, in order; without braces the pattern itself.

    expand_braces("{08..10}.tar") == ["08.tar", "09.tar", "10.tar"]; expand_braces("{a,b{1..2}}") == ["a", "b1", "b2"].
    Raises SourceError for more than a million paths, and for braces nested deeper than 64.
    """
    groups = _groups(pattern)
    if not groups:
        return [pattern]
    parts, last, count, longest = list[Sequence[str]](), 0, 1, len(pattern)
    for group in groups:
        chosen = _choices(pattern, group)
        parts += [pattern[last : group.start]], chosen
        last, count, longest = group.end + 1, count * len(chosen), longest + max(map(len, chosen))
        if count > MOST_PATHS or count * longest > _MOST_CHARACTERS:
            raise _too_many(pattern)
    parts.append([pattern[last:]])
    return ["".join(path) for path in product(*parts)]


def _groups(pattern: str) -> list[_BraceGroup]:
    """The outermost groups; an opening brace that is never closed begins none, nor does what stands behind it."""
    found, commas = list[_BraceGroup](), list[int]()
    start, depth, deepest = -1, 0, 0
    for place in (found.start() for found in re.finditer(r"[{},]", pattern)):
        letter = pattern[place]
        if letter == "{":
            start, commas = (start, commas) if depth else (place, [])
            depth += 1
            deepest = max(deepest, depth)
        elif letter == "}" and depth:
            depth -= 1
            if not depth:
                found.append(_BraceGroup(start, tuple(commas), place))
        elif letter == "," and depth == 1:
            commas.append(place)
    if found and deepest > _DEEPEST:
        raise SourceError(f"{pattern}: braces are nested deeper than {_DEEPEST}; use a glob (*) instead")
    return found


def _choices(pattern: str, group: _BraceGroup) -> list[str]:
    cuts = [group.start, *group.commas, group.end]
    parts = [pattern[low + 1 : high] for low, high in pairwise(cuts)]
    if not group.commas:
        return _counted(parts[0])
    found = list[str]()
    for part in parts:
        found += expand_braces(part)
        if len(found) > MOST_PATHS:
            raise _too_many(pattern)
    return found


def _counted(text: str) -> list[str]:
    """The numbers of "first..last" or "first..last..step"; other text keeps its braces."""
    found = _RANGE.fullmatch(text)
    if found is None:
        return ["{" + inner + "}" for inner in expand_braces(text)]
    if max(map(len, found.groups(""))) > _MOST_DIGITS:
        raise _too_many(text)
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
