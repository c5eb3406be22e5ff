"""The actors that make a loader's batches, which it shares with all that want the same: how they are found, begun, replaced and left."""

from __future__ import annotations

import _thread
import os
import platform
import time
import uuid
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import ray

from penstock.core.errors import ProcessError
from penstock.processes.raised import Raised, error_of
from penstock.ray.actor import CONTROL, StepMaker
from penstock.ray.digests import SentPlan
from penstock.ray.messages import Told, User, versions

#: The namespace of the actors' names.
NAMESPACE = "penstock"
#: Items that one loader has at an actor at a time: one that is made, one that waits, one on its way.
OF_ACTOR = 3
#: Threads of an actor, of which one waits for each item that loaders have there.
_THREADS, _CONTROL_THREADS = 64, 4
#: How often actors are asked how they are; and seconds without a sign of life after which another takes the place of one that is late.
_ASK_S, LOST_S = 2.0, 60.0
#: An actor so many times slower than others gets an item only now and then; and how often.
_SLOW, _SLOW_S, _NOW_AND_THEN = 4.0, 0.25, 16
#: So many times as many actors as there are may be lost before an item comes.
_MOST_LOST = 50
#: How long the end of actors is waited for, and whether they have begun.
_LEAVE_S, _JOINED_S = 3.0, 0.5


class NoActorsError(Exception):
    """No actor makes items any more."""


@dataclass(eq=False)
class Actor:
    """One actor, as a loader sees it. slot: its number in the pool. joined: its answer to being used, told: what it said last, asked: its next answer.

    has: items that this loader has there. late_since: when it did not give an item that was due, and owes: that item; None where it did since.
    took_s: seconds for an item, lately. heard_at: when it said something last.
    passed_over: how often it was, since it is slow. is_checked: whether an item of it is compared.
    """

    slot: int
    handle: Any
    joined: Any
    told: Told | None = None
    asked: Any = None
    has: int = 0
    late_since: float | None = None
    owes: Any = None
    took_s: float = 0.0
    heard_at: float = field(default_factory=time.perf_counter)
    passed_over: int = 0
    is_checked: bool = False

    @property
    def node(self) -> str:
        """Where it runs, once that is known."""
        return "" if self.told is None else self.told.node


def cluster_cpus() -> int:
    """CPUs of the cluster, which begins on this machine where there is none yet."""
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def store_bytes() -> tuple[int, int]:
    """Memory of the object stores of all nodes, and of this one's."""
    rooms = {
        node["NodeID"]: int(node["Resources"].get("object_store_memory", 0)) for node in ray.nodes() if node["Alive"]
    }
    every = sum(rooms.values())
    return every, rooms.get(ray.get_runtime_context().get_node_id(), every)


class ActorPool:
    """Actors in numbered slots. Their names are the digest of all that decides what they make, with the slot: whoever wants the same finds the same ones.

    A pool is as large as the user that asks for most of it says; the actor in slot 0 tells the others. One that its last user left, or whose users have died, ends itself.
    """

    def __init__(self, sent: SentPlan, actor_options: dict[str, Any]) -> None:
        self._sent, self._options = sent, actor_options
        self._name = uuid.uuid4().hex
        self._ref: Any = None  # of what is sent
        self._alive: Any = None  # an object that this process owns, which goes with it
        self._agreed = 1
        self._asked_at = 0.0
        self.asks = 1
        self.actors: dict[int, Actor] = {}
        #: Actors that were lost so far, and since an item came.
        self.lost = self.lost_in_a_row = 0
        #: Called with an actor that is gone, whose items others must make, and by what it is.
        self.on_lost: Callable[[Actor, Exception], None] = _nothing
        self._process = os.getpid()
        self._finalizer = weakref.finalize(self, _leave_later, self.actors, self._name, self._process)
        self._finalizer.atexit = False  # Ray tells actors that this process is gone

    @property
    def user(self) -> User:
        """This loader, as actors know it."""
        return User(self._name, self.asks, platform.node(), versions())

    # Which actors there are

    def begin(self) -> None:
        """Has actors in all slots."""
        if not ray.is_initialized():
            raise NoActorsError("Ray was shut down")
        if self._ref is None:
            self._put()
        wanted = max(self.asks, self._agreed)
        for slot in range(wanted):
            if slot not in self.actors:
                self._start(slot)
        for slot in [slot for slot, actor in self.actors.items() if slot >= wanted and not actor.has]:
            _leave([self.actors.pop(slot)], self._name)

    def _put(self) -> None:
        try:
            self._alive, self._ref = ray.put(self._name), ray.put(self._sent)
        except (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError) as error:
            size_bytes = len(self._sent.pickled) + sum(large.nbytes for large in self._sent.buffers)
            raise NoActorsError(
                f"Ray's object store has no room for the plan and its data, {size_bytes:,} bytes (read files instead, or give the store more memory)"
            ) from error

    def _start(self, slot: int) -> None:
        options = {
            "num_cpus": 1,
            **self._options,
            "name": f"{self._sent.digest}-{slot}",
            "namespace": NAMESPACE,
            "get_if_exists": True,
            "lifetime": "detached",
            "max_restarts": 0,
            "max_concurrency": _THREADS,
        }
        kind = ray.remote(concurrency_groups={CONTROL: _CONTROL_THREADS})(StepMaker)
        handle = kind.options(**options).remote(self._ref)
        self.actors[slot] = Actor(slot, handle, handle.join.remote(self.user, [self._alive], self._sent.digest))

    def look(self) -> None:
        """Hears what actors say; nothing is waited for. A late one that has made what it owes works again; one that says nothing for long is replaced."""
        now = time.perf_counter()
        for actor in [*self.actors.values()]:
            self._hear(actor, now)
        for actor in [*self.late]:
            assert actor.late_since is not None
            if ray.wait([actor.owes], num_returns=1, timeout=0)[0]:
                actor.late_since = actor.owes = None
            elif now - max(actor.late_since, actor.heard_at) > LOST_S:
                with suppress(ray.exceptions.RayError, ValueError):
                    ray.kill(actor.handle)
                self.replace(actor, ProcessError(f"it said nothing for {LOST_S:g} s"))
        if now - self._asked_at > _ASK_S:
            self._asked_at = now
            for actor in self.actors.values():
                if actor.told is not None and actor.asked is None:
                    actor.asked = actor.handle.renew.remote(self.user)

    def _hear(self, actor: Actor, now: float) -> None:
        answer = actor.joined if actor.told is None else actor.asked
        if answer is None or not ray.wait([answer], num_returns=1, timeout=0)[0]:
            return
        try:
            told: Told | Raised = ray.get(answer)
        except ray.exceptions.RayError as error:
            self.replace(actor, error)
            return
        if isinstance(told, Raised):
            raise error_of(told, "an actor of Ray")
        actor.told, actor.asked, actor.heard_at = told, None, now
        if actor.slot == 0:
            self._agreed = told.actors

    # Which of them makes what

    @property
    def at_work(self) -> list[Actor]:
        """Those that have begun, by their slots."""
        return [actor for _, actor in sorted(self.actors.items()) if actor.told is not None]

    @property
    def users(self) -> int:
        """How many loaders share them, this one among them."""
        return max([1, *(actor.told.users for actor in self.actors.values() if actor.told is not None)])

    @property
    def late(self) -> list[Actor]:
        """Those that owe an item that was due."""
        return [actor for actor in self.actors.values() if actor.late_since is not None]

    def of(self, number: int) -> Actor:
        """The actor that makes an item, by the item's number: all loaders ask the same one, as long as it is neither late nor slow for them."""
        actors = self.at_work or [actor for _, actor in sorted(self.actors.items())]
        usual_s = median(actor.took_s for actor in actors)
        for turn in range(len(actors)):
            actor = actors[(number + turn) % len(actors)]
            if actor.late_since is None and not self._is_passed_over(actor, usual_s):
                return actor
        return self.freest()

    def _is_passed_over(self, actor: Actor, usual_s: float) -> bool:
        if actor.took_s <= max(_SLOW_S, _SLOW * usual_s):
            return False
        actor.passed_over = (actor.passed_over + 1) % _NOW_AND_THEN
        return actor.passed_over != 0

    def freest(self, *, than: tuple[Actor, ...] = ()) -> Actor:
        """The actor that can help soonest, another one than these if there is one; one that is late, or has not begun, only where there is no other."""
        other = [actor for actor in self.actors.values() if actor not in than] or [*self.actors.values()]
        return min(other, key=lambda actor: (actor.late_since is not None, actor.told is None, actor.has))

    def replace(self, gone: Actor, error: Exception) -> None:
        """Another actor in the place of one that is gone; its items go to others."""
        if self.actors.get(gone.slot) is not gone:
            return
        if getattr(error, "actor_init_failed", False) or isinstance(error, ray.exceptions.RayTaskError):
            raise ProcessError(
                f"an actor of Ray cannot make batches: {last_line(error)}; give its machine the same Penstock, packages and paths as this one"
            ) from error
        del self.actors[gone.slot]
        _hear_last(gone)
        self.lost, self.lost_in_a_row = self.lost + 1, self.lost_in_a_row + 1
        if self.lost_in_a_row > _MOST_LOST * max(1, self.asks):
            raise NoActorsError(f"{self.lost_in_a_row} actors of Ray were lost, the last one by {last_line(error)}")
        self.begin()
        self.on_lost(gone, error)

    # The end

    def close(self) -> None:
        """Leaves all actors; those that nobody else uses end."""
        actors = [*self.actors.values()]
        self.actors.clear()
        self._agreed = 1
        if actors and ray.is_initialized() and os.getpid() == self._process:
            with suppress(ray.exceptions.RayError):
                left = _leave(actors, self._name)
                ray.wait(left, num_returns=len(left), timeout=_LEAVE_S) if left else None
        self._ref = self._alive = None


def _nothing(_: Actor, __: Exception) -> None:
    return


def _hear_last(gone: Actor) -> None:
    """What an actor said before it went: where that was soon after it had begun, nobody has heard it yet."""
    if gone.told is None and ray.wait([gone.joined], num_returns=1, timeout=0)[0]:
        with suppress(ray.exceptions.RayError):
            told: Told | Raised = ray.get(gone.joined)
            gone.told = told if isinstance(told, Told) else None


def _leave(actors: list[Actor], name: str) -> list[Any]:
    """A loader uses actors no more. One that does not say that it has begun may never begin, and would be begun for nobody: it is ended."""
    joined = [actor.joined for actor in actors]
    ready, _ = ray.wait(joined, num_returns=len(joined), timeout=_JOINED_S)
    left = []
    for actor in actors:
        with suppress(ray.exceptions.RayError, ValueError):
            if actor.told is not None or actor.joined in ready:
                left.append(actor.handle.leave.remote(name))
            else:
                ray.kill(actor.handle)
    return left


def _leave_later(actors: dict[int, Actor], name: str, process: int) -> None:
    """A loader was dropped, perhaps in the midst of a call of Ray's: another thread tells its actors."""
    if actors and os.getpid() == process:
        with suppress(RuntimeError):
            _thread.start_new_thread(_leave_now, ([*actors.values()], name))


def _leave_now(actors: list[Actor], name: str) -> None:
    with suppress(Exception):
        if ray.is_initialized():
            _leave(actors, name)


def last_line(error: Exception) -> str:
    """The last line of an error's text, which says most."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__
