"""The first verbs of a long plan as one text, so that the state of a mix of a hundred datasets is no larger than of one.

    folded 197 order=… parts=… code=…

says how many verbs these are, with digests of those that decide the order, of all but the code of functions, and of all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

from penstock.plan.plain_values import digest_of

_FOLDED = "folded"

Decides = Callable[[str], bool]


def folded(plan: Sequence[str], room: int, decides: Decides) -> list[str]:
    """The plan's verbs, the first ones as one text where all are more than `room` bytes of JSON; decides: whether a verb decides the order."""
    if len(json.dumps(plan)) <= room:
        return [*plan]
    count = next(count for count in range(1, len(plan) + 1) if len(json.dumps(_with(plan, count, decides))) <= room)
    return _with(plan, count, decides)


def unfolded(saved: Sequence[str], here: Sequence[str], decides: Decides) -> list[str]:
    """All verbs of a saved plan: folded ones as those of here, where their digests are; others say that they are not recorded."""
    if not saved or saved[0].partition(" ")[0] != _FOLDED:
        return [*saved]
    was = saved[0].split(" ")
    count = int(was[1]) if was[1:2] and was[1].isdigit() else 1
    now = _text(here[:count], decides).split(" ")
    is_same = dict(zip(("order", "parts", "code"), map(str.__eq__, was[2:], now[2:]), strict=False))
    gone = ["verbs (not recorded)"] * (len(here) < count)
    return [*(_recalled(verb, is_same, decides) for verb in here[:count]), *gone, *saved[1:]]


def _with(plan: Sequence[str], count: int, decides: Decides) -> list[str]:
    return [_text(plan[:count], decides), *plan[count:]]


def _text(verbs: Sequence[str], decides: Decides) -> str:
    order, parts = filter(decides, verbs), map(_without_code, verbs)
    return f"{_FOLDED} {len(verbs)} order={_digest(order)} parts={_digest(parts)} code={_digest(verbs)}"


def _digest(verbs: Iterable[str]) -> str:
    return digest_of(verb.encode() for verb in verbs).hex()


def _without_code(verb: str) -> str:
    """Of a map, which does not decide the order, its name and the values that its function closes over."""
    words = verb.split(" ")
    return " ".join([words[0], "?", *words[2:]]) if words[0].startswith("map") else verb


def _recalled(verb: str, is_same: dict[str, bool], decides: Decides) -> str:
    if not is_same.get("order" if decides(verb) else "parts"):
        return f"{verb.partition(' ')[0]} (not recorded)"
    return verb if is_same.get("code") else _without_code(verb)
