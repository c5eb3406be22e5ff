"""How ranks find out, before the first batch, that they would train on different data or plans.

Each rank writes a digest of what its loader will do into the process group's key-value store, where others read it. No collective and no device: a rank
that makes no such loader keeps nobody waiting forever, and loaders may be begun in any order. Which loader of another rank is meant says the place in
the code where it was made, with all its callers, and how many were made there before.

    penstock/WHERE/SIZE/RANK   digest of what this rank's loader does; "~" before it until the first pass; "!" and a text where its ranks are wrong, "?" where it could not be made
    penstock/about/DIGEST      the same in full
    penstock/same/DIGEST/RANK  set where this rank has any such loader
    penstock/begun/RANK        digest of the loader that it began last
"""

from __future__ import annotations

import hashlib
import inspect
import time
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from penstock.core.errors import PlanError
from penstock.core.warnings import warn

#: How long a rank waits for the others to make their loaders, after what time it takes any equal loader of theirs for its own's
#: counterpart, and how long a rank that fails waits until the others have read why.
_AGREE_S, _EQUAL_S, _READ_S = 20.0, 2.0, 5.0
_FIRST_POLL_S, _LAST_POLL_S = 0.002, 0.25
_MOST_NAMED, _MOST_SHOWN = 8, 2

_made: Counter[str] = Counter()


class GroupStore(Protocol):
    """The key-value store of a process group: `torch.distributed.Store`."""

    def set(self, key: str, value: str) -> None:
        """Store a value under the key."""

    def get(self, key: str) -> bytes:
        """The value of the key."""

    def check(self, keys: list[str]) -> bool:
        """Whether all these keys have values."""

    def add(self, key: str, amount: int) -> int:
        """Add to a counter; returns its sum so far."""


class Members(NamedTuple):
    """Who must agree: this rank, all of them, and their store."""

    me: int
    ranks: Sequence[int]
    store: GroupStore


class RankStatement(Protocol):
    """What a rank says of its loader."""

    @property
    def text(self) -> str:
        """All that must be the same on all ranks."""

    def difference(self, other: str) -> tuple[str, bool]:
        """What differs in another rank's text, in words, "" for what may differ; and whether that is an error."""


class WrongError(Exception):
    """Another rank's arguments are wrong; str(error) says how."""


class Agreement:
    """A loader's part in it. Make one for each loader, where the loader is made."""

    def __init__(self) -> None:
        self._where = _where_made()
        self._has_left = self._has_waited = False

    def announce(self, members: Members, text: str, *, is_final: bool = False) -> str:
        """Say what the loader will do, so that nobody waits for its first pass; returns the digest. Not final, other weights may still be set."""
        digest, store = _digest(text), members.store
        store.set(f"penstock/about/{digest}", text)
        store.set(f"penstock/same/{digest}/{members.me}", "")
        store.set(self._key(members, members.me), digest if is_final else f"~{digest}")
        return digest

    def report(self, members: Members, wrong: str, *, is_of_ranks: bool) -> None:
        """Say why this rank has no loader, and wait a little until the others have read it."""
        members.store.set(self._key(members, members.me), f"{'!' if is_of_ranks else '?'}{wrong}")
        self._leave(members)

    def agree(self, members: Members, said: RankStatement) -> bool:
        """Whether all ranks make the same; False if some did not say so in time. Then the next pass asks again, and does not wait.

        Raises PlanError on all ranks where they do not, with the difference, or where one could not be made; WrongError where the ranks that
        were passed are wrong.
        """
        mine = self.announce(members, said.text, is_final=True)
        members.store.set(f"penstock/begun/{members.me}", mine)
        found, missing = self._wait(members, mine)
        for rank in missing:
            if (digest := self._of_other_loader(members, rank)) is not None:
                found[rank] = digest
        for rank, text in found.items():
            if text[:1] in ("!", "?"):
                self._leave(members)
                if text[0] == "!":
                    raise WrongError(text[1:])
                raise PlanError(f"Loader: not made on rank {rank}: {text[1:]}")
        notes, is_wrong = _compared(members, {rank: digest for rank, digest in found.items() if digest != mine}, said)
        if is_wrong:
            self._leave(members)
            raise PlanError(
                f"Loader: the ranks do not agree on data and plan: {notes}. Give all ranks the same files, code and arguments; ranks that shall get "
                f"data of their own need a process_group of their own"
            )
        if notes:
            warn(f"Loader: the ranks' functions hold other values: {notes}; each rank continues with its own")
        if missing and not self._has_waited:
            self._has_waited = True
            warn(
                f"Loader: {_named(missing)} of {len(members.ranks)} did not make this loader within {_AGREE_S:g} s, so whether the data is the "
                f"same there is not known; a loader of one rank alone needs a process_group of its own"
            )
        return not missing

    def _key(self, members: Members, rank: int) -> str:
        return f"penstock/{self._where}/{len(members.ranks)}/{rank}"

    def _wait(self, members: Members, mine: str) -> tuple[dict[int, str], list[int]]:
        """What each rank said, and the ranks that said nothing; returns at the first difference, once others had time to say theirs."""
        store, began = members.store, time.monotonic()
        until, poll_s = began + (0 if self._has_waited else _AGREE_S), _FIRST_POLL_S
        found: dict[int, str] = {}
        other: dict[int, str] = {}  # of ranks whose loaders may still become like this one
        missing = [*members.ranks]
        while True:
            late = _absent(store, {rank: self._key(members, rank) for rank in missing})
            arrived = [rank for rank in missing if rank not in late]
            for rank, value in zip(
                arrived, _values(store, [self._key(members, rank) for rank in arrived]), strict=True
            ):
                digest = value.removeprefix("~")
                (found if digest in (value, mine) else other)[rank] = digest
            missing = [rank for rank in missing if rank not in found]
            if any(value != mine for value in found.values()):
                until = min(until, time.monotonic() + _READ_S)
            if missing and time.monotonic() > began + _EQUAL_S:
                missing = _absent(store, {rank: f"penstock/same/{mine}/{rank}" for rank in missing})
            if not missing or time.monotonic() > until:
                found.update({rank: other[rank] for rank in missing if rank in other})
                return found, [rank for rank in missing if rank not in other]
            time.sleep(poll_s)
            poll_s = min(_LAST_POLL_S, poll_s * 1.5)

    def _of_other_loader(self, members: Members, rank: int) -> str | None:
        """The digest of what a rank began instead of this loader; None if it began none, or one that is here as well."""
        store, key = members.store, f"penstock/begun/{rank}"
        if not store.check([key]):
            return None
        digest = store.get(key).decode()
        return None if store.check([f"penstock/same/{digest}/{members.me}"]) else digest

    def _leave(self, members: Members) -> None:
        """Wait until the others have read, once: one of these ranks holds the store, and takes it along."""
        if self._has_left:
            return
        self._has_left = True
        key = f"penstock/{self._where}/{len(members.ranks)}/left"
        left, until = members.store.add(key, 1), time.monotonic() + _READ_S
        while left < len(members.ranks) and time.monotonic() < until:
            time.sleep(_FIRST_POLL_S * 10)
            left = members.store.add(key, 0)


def _absent(store: GroupStore, keys: dict[int, str]) -> list[int]:
    """The ranks whose keys have no values: by halves, since on a thousand ranks one question for each would be a million."""
    if not keys or store.check([*keys.values()]):
        return []
    if len(keys) == 1:
        return [*keys]
    ranks, half = [*keys], len(keys) // 2
    return [
        rank for part in (ranks[:half], ranks[half:]) for rank in _absent(store, {rank: keys[rank] for rank in part})
    ]


def _values(store: GroupStore, keys: list[str]) -> list[str]:
    """The values of keys that have some, in one request where the store can do that."""
    has_many = getattr(store, "has_extended_api", bool)()
    found = store.multi_get(keys) if has_many and keys else map(store.get, keys)  # type: ignore[attr-defined]
    return [value.decode() for value in found]


def _compared(members: Members, differing: dict[int, str], said: RankStatement) -> tuple[str, bool]:
    """How the ranks of other digests differ from this one, in words, and whether one of them must not."""
    ranks_of: dict[str, list[int]] = {}
    for rank, digest in sorted(differing.items()):
        ranks_of.setdefault(digest, []).append(rank)
    found: dict[bool, list[str]] = {True: [], False: []}
    for digest, ranks in ranks_of.items():
        text, is_wrong = said.difference(members.store.get(f"penstock/about/{digest}").decode())
        if text:
            found[is_wrong].append(f"from {_named(ranks)} to this one, rank {members.me}: {text}")
    is_wrong = bool(found[True])
    more = [f"and {len(found[is_wrong]) - _MOST_SHOWN} more"] if len(found[is_wrong]) > _MOST_SHOWN else []
    return "; ".join([*found[is_wrong][:_MOST_SHOWN], *more]), is_wrong


def _named(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:_MOST_NAMED])) + (
        f" and {len(ranks) - _MOST_NAMED} more" if len(ranks) > _MOST_NAMED else ""
    )
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _where_made() -> str:
    """A name of the place in the user's code where a loader is made, by its callers' names and lines: paths may differ among machines."""
    frame, callers = inspect.currentframe(), list[str]()
    while frame is not None:
        if not str(frame.f_globals.get("__name__", "")).startswith("penstock."):
            callers.append(f"{frame.f_code.co_name} {frame.f_lineno}")
        frame = frame.f_back
    where = _digest("\n".join(callers))[:16]
    _made[where] += 1
    return f"{where}-{_made[where]}"
