"""How ranks do one task together that each of them could do alone: they meet in the process group's key-value store, and tell each other what they made.

No collective: a rank that never comes keeps nobody waiting for longer than `_MEET_S`. The first to come leads: it says who takes part, and whoever comes later gets what these made.

    penstock/together/TASK/came         how many came
    penstock/together/TASK/here/RANK    set where a rank came
    penstock/together/TASK/parts        the ranks that take part, as JSON
    penstock/together/TASK/alive/RANK   counts as long as a rank works
    penstock/together/TASK/WHAT/RANK    what it made
    penstock/together/TASK/failed       the first rank that could not, and why, as JSON
    penstock/together/TASK/left         how many have read all
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from penstock.core.errors import ProcessError
from penstock.deliver.agreement import Members

#: How long the first rank waits for the others to come; after what time without a sign of life a rank is taken for lost; how long a rank that is done waits until all have read.
_MEET_S, _LOST_S, _READ_S = 5.0, 60.0, 5.0
_ALIVE_S, _FIRST_POLL_S, _LAST_POLL_S = 1.0, 0.002, 0.25

_tasks: Counter[str] = Counter()


class Together:
    """A task of some ranks. parts: those that take part, in order; me: this one, also if it came too late for that."""

    def __init__(self, members: Members, task: str, parts: Sequence[int]) -> None:
        self.parts, self._me, self._store, self._task = [*parts], members.me, members.store, task

    @property
    def part(self) -> int | None:
        """This rank's number among those that take part; None where it only gets what they make."""
        return self.parts.index(self._me) if self._me in self.parts else None

    def exchange(self, what: str, mine: str = "") -> list[str]:
        """What each of those that take part made, in their order. mine: of this rank. ProcessError where one of them could not, or is lost."""
        if self.part is not None:
            self._store.set(self._key(what, self._me), mine)
        for rank in self.parts:
            self._await(self._key(what, rank), rank)
        return [self._get(self._key(what, rank)) for rank in self.parts]

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """While it works, others see that it is alive; where it fails, they fail, too."""
        if self.part is None:
            yield
            return
        done = threading.Event()
        thread = threading.Thread(target=self._show_life, args=(done,), name="penstock-together", daemon=True)
        thread.start()
        try:
            yield
        except BaseException as error:
            with contextlib.suppress(RuntimeError):  # the store is gone
                if not self._store.check([self._key("failed")]):
                    self._store.set(self._key("failed"), json.dumps([self._me, f"{type(error).__name__}: {error}"]))
                if isinstance(error, Exception):  # else somebody wants to leave at once
                    self._leave()
            raise
        else:
            self._leave()
        finally:
            done.set()
            thread.join()

    def _show_life(self, done: threading.Event) -> None:
        with contextlib.suppress(RuntimeError):
            while not done.wait(_ALIVE_S):
                self._store.add(self._key("alive", self._me), 1)

    def _await(self, key: str, rank: int) -> None:
        """Until there is a value."""
        poll_s, sign, sign_at = _FIRST_POLL_S, -1, time.monotonic()
        while not self._store.check([key]):
            if self._store.check([self._key("failed")]):
                failed, words = json.loads(self._get(self._key("failed")))
                raise ProcessError(f"rank {failed} could not do its part: {words}")
            now = self._store.add(self._key("alive", rank), 0)
            if now != sign:
                sign, sign_at = now, time.monotonic()
            elif time.monotonic() - sign_at > _LOST_S:
                raise ProcessError(
                    f"rank {rank} has given no sign of life for {_LOST_S:g} s, and its part is missing; look at what became of it, and start anew"
                )
            time.sleep(poll_s)
            poll_s = min(_LAST_POLL_S, poll_s * 1.5)

    def _leave(self) -> None:
        """Waits until the others have read what is here: one of these ranks holds the store, and takes it along."""
        left, until = self._store.add(self._key("left"), 1), time.monotonic() + _READ_S
        while left < len(self.parts) and time.monotonic() < until:
            time.sleep(_FIRST_POLL_S * 5)
            left = self._store.add(self._key("left"), 0)

    def _key(self, what: str, rank: int | str = "") -> str:
        return _key(self._task, what, rank)

    def _get(self, key: str) -> str:
        return self._store.get(key).decode()


def meet(members: Members, task: str, wait_s: float | None = None) -> Together:
    """The ranks that do a task, as the first that came says; it waits so long for the others, or as long as is usual. Call it on every rank as often for one task."""
    _tasks[task] += 1
    task, store = f"{task}/{_tasks[task]}", members.store
    store.set(_key(task, "here", members.me), "")
    is_first = store.add(_key(task, "came"), 1) == 1
    patience_s = _MEET_S if wait_s is None else wait_s
    until = time.monotonic() + (patience_s if is_first else _MEET_S + _LOST_S)
    poll_s, those = _FIRST_POLL_S, _key(task, "parts")
    while True:
        came = store.add(_key(task, "came"), 0)
        if is_first and (came >= len(members.ranks) or time.monotonic() > until):
            parts = [rank for rank in members.ranks if store.check([_key(task, "here", rank)])]
            store.set(those, json.dumps(parts))
            return Together(members, task, parts)
        if not is_first and store.check([those]):
            return Together(members, task, json.loads(store.get(those)))
        if time.monotonic() > until:
            raise ProcessError(
                "the rank that came first to do this together with others says nothing any more; look at what became of it, and start anew"
            )
        time.sleep(poll_s)
        poll_s = min(_LAST_POLL_S, poll_s * 1.5)


def _key(task: str, what: str, rank: int | str = "") -> str:
    return f"penstock/together/{task}/{what}{'' if rank == '' else f'/{rank}'}"
