"""How two plans differ, in words: which verb, what it was and what it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from penstock.core.messages import quoted
from penstock.plan.function_parts import FunctionPart

#: The name under which the details of a function say where it stands.
PLACE = "@"
_MOST = 6


@dataclass(frozen=True, kw_only=True)
class Described:
    """A verb of here, with all its parts; place: of a function its name, file and line."""

    verb: str
    place: str
    parts: tuple[FunctionPart, ...]

    @property
    def recorded(self) -> list[tuple[str, str]]:
        """Names and texts as a state holds them."""
        place = [(PLACE, self.place)] if self.place else []
        return [*place, *((part.name, part.shown) for part in self.parts)]


def differences(
    saved: Sequence[str], details: Mapping[str, Mapping[str, Any]], here: Sequence[str], described: Sequence[Described]
) -> list[str]:
    """A sentence for every verb that differs: "verb 3, map of crop, train.py:31: `size` was 224 and is 256"."""
    was = [_name(verb, details.get(str(number), {}).get(PLACE)) for number, verb in enumerate(saved, 1)]
    now = [_name(verb, mine.place) for verb, mine in zip(here, described, strict=True)]
    found: list[str] = []
    for kind, first, end, mine, mine_end in SequenceMatcher(None, saved, here, autojunk=False).get_opcodes():
        if kind == "delete":
            found.append(f"verb {first + 1}, {_some(was[first:end])}, is gone")
        elif kind == "insert":
            found.append(f"verb {mine + 1}, {_some(now[mine:mine_end])}, is new")
        elif end - first == mine_end - mine:
            pairs = zip(range(first, end), range(mine, mine_end), strict=True) if kind == "replace" else ()
            found += [
                _of_verb(one, saved[one], details.get(str(one + 1), {}), here[two], described[two])
                for one, two in pairs
            ]
        elif kind == "replace":
            found.append(
                f"from verb {first + 1} on, {_some(was[first:end])} was there, and is now {_some(now[mine:mine_end])}"
            )
    return found


def _of_verb(number: int, was: str, details: Mapping[str, Any], now: str, mine: Described) -> str:
    verb = f"verb {number + 1}, {mine.verb}{f' of {mine.place}' if mine.place else ''}"
    if was.partition(" ")[0] != mine.verb:
        return f"verb {number + 1} was {_name(was, details.get(PLACE))} and is {_name(now, mine.place)}"
    if not mine.parts:
        return f"verb {number + 1} was {quoted(was)} and is {quoted(now)}"
    found = [*_of_parts(details, mine)]
    if not found:
        return f"{verb}: it differs, and the state does not say in what"
    return f"{verb}: {_some(found)}"


def _some(found: Sequence[str]) -> str:
    more = [f"and {len(found) - _MOST} more"] if len(found) > _MOST else []
    return ", ".join([*found[:_MOST], *more])


def _name(verb: str, place: Any) -> str:
    return f"{verb.partition(' ')[0]} of {place}" if place else repr(verb)


def _of_parts(details: Mapping[str, Any], mine: Described) -> Iterator[str]:
    known = {part.name: part for part in mine.parts}
    for name, was in details.items():
        if name in known and known[name].shown != was:
            yield _changed(known[name], str(was))
        elif name not in known and name not in (PLACE, "…"):
            yield f"`{name}` is gone{_in_clear(' (it was {})', str(was))}"
    complete = bool(details) and "…" not in details
    for part in mine.parts:
        if complete and part.name not in details:
            yield f"`{part.name}` is new{_in_clear(' ({})', part.shown)}"


def _changed(part: FunctionPart, was: str) -> str:
    if part.is_code:
        return f"its {part.name} changed" if part.name == "code" else f"the {part.name} changed"
    if was.startswith("#") or part.shown.startswith("#"):
        return f"the value of `{part.name}` changed"
    return f"`{part.name}` was {was} and is {part.shown}"


def _in_clear(text: str, shown: str) -> str:
    return "" if shown.startswith("#") else text.format(shown)
