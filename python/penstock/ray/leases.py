"""Step leases: which items are asked of which actors, and the one that is due, whoever made it first."""

from __future__ import annotations

import time
import weakref
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

import ray

from penstock.core.errors import ProcessError
from penstock.loader.item_source import WokenError
from penstock.order.steps.cursor import Work
from penstock.processes.raised import Raised, error_of
from penstock.ray.messages import Answer, MadeSteps, Wanted
from penstock.ray.pool import OF_ACTOR, Actor, ActorPool, NoActorsError, last_line, store_bytes
from penstock.ray.rechecks import Recheck, Rechecks
from penstock.ray.window import LeaseWindow

#: Seconds for which an item that is due is waited for before another actor gets it as well, or as many times longer than items took so far; where its actor has not begun, and others have.
_PATIENCE_S, _LONGER, _NOT_BEGUN_S = 5.0, 4.0, 1.0
#: Seconds within which a first actor must begin.
_START_S = 60.0
#: Seconds after which an item that no actor gives is made here.
_GIVE_UP_S = 300.0
#: How often actors are looked after while an item is awaited, and whether somebody ends the wait.
_LOOK_S, _WAKE_S = 0.5, 0.05
#: Seconds after which an item that is made and does not come is fetched before all else, and beside a store of this node that is full; and for which that is tried at a time.
_FETCHES_S = 2.0
#: Actors that may end while they make the item that is due; the next one would do the same, and this process must not.
_MOST_ENDED = 8


@dataclass(eq=False)
class LeasedItem:
    """An item that actors make: usually one, more where the first is slow. refs: what they will give. due_at: when it was waited for, or help was asked for last. is_ready: whether it was seen to be made. recheck: where it is made a second time. ended: actors that ended while it was due there."""

    work: Work
    refs: dict[Any, Actor] = field(default_factory=dict)
    due_at: float | None = None
    first_due_at: float = 0.0
    sent_at: float = field(default_factory=time.perf_counter)
    is_ready: bool = False
    recheck: Recheck | None = None
    ended: int = 0


class Leases:
    """Items on their way, in their order. A batch is a function of its step: an item that two actors make is the same item."""

    def __init__(self, pool: ActorPool, rechecks: Rechecks) -> None:
        self._pool, self._rechecks = pool, rechecks
        pool.on_lost = _without_holding(self._send_again)
        self._leases: deque[LeasedItem] = deque()
        self._works: Iterator[Work] = iter(())
        self._wanted: Wanted | None = None
        self._steps_per_item, self._room = 1, (0, 0)
        self.window = LeaseWindow()
        self.leased_twice = 0
        #: Set by any thread: who waits for an item gets WokenError.
        self.is_woken = False
        self.node_bytes, self.node_items = Counter[str](), Counter[str]()
        self.node_waited_s: defaultdict[str, float] = defaultdict(float)

    def __len__(self) -> int:
        return len(self._leases)

    def begin(self, wanted: Wanted, works: Iterator[Work], *, steps_per_item: int, item_bytes: int) -> None:
        """Items of this work come next."""
        self.drop()
        self._wanted, self._works, self._steps_per_item = wanted, works, steps_per_item
        self.window.begin(item_bytes * steps_per_item)
        self._pool.begin()
        self._room = store_bytes()
        self.fill()

    def fill(self) -> None:
        """Leases what may be on its way."""
        pool = self._pool
        pool.begin()
        pool.look()
        self._note_ready()
        self.window.has_room(*self._room, pool.users)
        actors = max(1, len(pool.actors) - len(pool.late))
        while len(self._leases) < self.window.items(OF_ACTOR * actors):
            work = next(self._works, None)
            if work is None:
                return
            lease, number = LeasedItem(work), self._number(work)
            self._leases.append(lease)
            actor = pool.of(number)
            self._send(lease, actor)
            lease.recheck = self._rechecks.ask(actor, number, self._wanted_now, work)

    @property
    def _wanted_now(self) -> Wanted:
        assert self._wanted is not None  # or nothing would be leased
        return self._wanted

    def _number(self, work: Work) -> int:
        """The item's number, the same for all that want the same; those of other ranks go to other actors at a time."""
        wanted = self._wanted_now
        items = -(-wanted.steps_per_epoch // self._steps_per_item)
        return work.epoch * items + work.step // self._steps_per_item + wanted.ranks[0]

    def _send(self, lease: LeasedItem, actor: Actor) -> None:
        lease.refs[actor.handle.make.remote(self._pool.user, self._wanted, lease.work)] = actor
        actor.has += 1

    def _note_ready(self) -> None:
        """Notes what was made by now. Ray brings it to this node meanwhile."""
        near = islice(self._leases, self.window.here)
        waiting = {ref: lease for lease in near if not lease.is_ready for ref in lease.refs}
        if not waiting:
            return
        ready, _ = ray.wait([*waiting], num_returns=len(waiting), timeout=0)
        now = time.perf_counter()
        for ref in ready:
            lease = waiting[ref]
            actor = lease.refs[ref]
            lease.is_ready = True
            actor.took_s += 0.2 * ((now - lease.sent_at) / OF_ACTOR - actor.took_s)

    # The item that is due

    def head(self) -> MadeSteps:
        """The item that is due, from the actor that gave it first. Raises what it failed by."""
        self.fill()
        while self._leases:
            lease = self._leases[0]
            answer, actor = self._answer(lease)
            if not self._leases or self._leases[0] is not lease:
                raise _was_closed()
            self._done(self._leases.popleft())
            if isinstance(answer, MadeSteps):
                self._pool.lost_in_a_row = 0
                _check(answer, lease, actor)
                self.window.note(answer.nbytes)
                self.node_bytes[actor.node] += answer.nbytes
                self.node_items[actor.node] += 1
                if lease.recheck is not None:
                    self._rechecks.check(lease.recheck, answer.item, actor)
                return answer
            if lease.work.steps == 1:
                raise error_of(answer, f"an actor of Ray on node {actor.node}")
            # Steps that are made together fail together: again, one by one, so that all before the bad one come first.
            work = lease.work
            for step in reversed(range(work.step, work.step + work.steps)):
                alone = LeasedItem(Work(work.epoch, step, 1))
                self._leases.appendleft(alone)
                self._send(alone, self._pool.of(self._number(work)))
        raise ProcessError("a batch beyond the last one was asked for")

    def _answer(self, lease: LeasedItem) -> tuple[Answer, Actor]:
        asked_at = looked_at = time.perf_counter()
        if lease.due_at is None:
            lease.due_at = lease.first_due_at = asked_at
        while True:
            if self.is_woken:
                raise WokenError
            if not (refs := [*lease.refs]):
                raise _was_closed()
            ready, _ = ray.wait(refs, num_returns=1, timeout=_WAKE_S)
            if (now := time.perf_counter()) - looked_at > _LOOK_S:
                looked_at = now
                self._pool.look()
                self._help_if_due(lease)
                if not ready and now - asked_at > _FETCHES_S:
                    ready, _ = ray.wait(refs, num_returns=1, timeout=0, fetch_local=False)
            if not ready or ready[0] not in lease.refs:
                continue
            actor = lease.refs[ready[0]]
            answer = self._got(ready[0], actor)
            if answer is not None:
                self.node_waited_s[actor.node] += time.perf_counter() - asked_at
                return answer, actor

    def _got(self, ref: Any, actor: Actor) -> Answer | None:
        """What an actor made; None where it is lost, and others have its items by then."""
        try:
            answer: MadeSteps | Raised = ray.get(ref, timeout=_FETCHES_S)
        except ray.exceptions.GetTimeoutError:
            return None  # it is still on its way
        except (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError) as error:
            self._too_much(ref, error)
            return None
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError)):
                self._too_much(ref, error)
            else:
                self._pool.replace(actor, error)
            return None
        except ray.exceptions.ObjectLostError:
            self._send_ref_again(ref)  # its copy is gone, and perhaps not the actor
            return None
        except ray.exceptions.RayError as error:
            self._pool.replace(actor, error)
            self._send_ref_again(ref)  # where another one has its place already
            return None
        actor.late_since = actor.owes = None
        if actor.told is None:
            self._pool.look()
        return answer

    def _too_much(self, ref: Any, error: Exception) -> None:
        """Ray's store has no room: less is on its way from now on. NoActorsError where not even one item has room."""
        if not self.window.shrink():
            raise NoActorsError(f"Ray's object store has no room for one item ({last_line(error)})")
        later: deque[Work] = deque()
        while len(self._leases) > self.window.items(len(self._leases)):
            lease = self._leases.pop()
            later.appendleft(lease.work)
            self._done(lease)
        self._works = chain(later, self._works)
        self._send_ref_again(ref)

    # Where an item is late

    def _help_if_due(self, due: LeasedItem) -> None:
        now = time.perf_counter()
        assert due.due_at is not None  # it is waited for
        waited_s, at_work = now - due.due_at, self._pool.at_work
        if not at_work:
            if waited_s > _START_S:
                raise NoActorsError(f"no actor of Ray began within {_START_S:g} s")
            return
        has_begun = any(actor.told is not None for actor in due.refs.values())
        usual_s = max((actor.took_s for actor in due.refs.values()), default=0.0)
        if now - due.first_due_at > _GIVE_UP_S:
            where = ", ".join(sorted({actor.node for actor in due.refs.values()}))
            raise NoActorsError(
                f"epoch {due.work.epoch}, step {due.work.step} did not come from {where} within {_GIVE_UP_S:g} s"
            )
        if waited_s > (max(_PATIENCE_S, _LONGER * usual_s) if has_begun else _NOT_BEGUN_S):
            self._help(due, now)

    def _help(self, due: LeasedItem, now: float) -> None:
        """An item that is due does not come: others get it too, and all that the late actors have."""
        due.due_at = now
        for ref, actor in due.refs.items():
            if actor.late_since is None and actor.told is not None:
                actor.late_since, actor.owes = now, ref
        for lease in self._leases:
            if (lease.is_ready and lease is not due) or not all(
                actor.late_since is not None or actor.told is None for actor in lease.refs.values()
            ):
                continue
            helper = self._pool.freest(than=tuple(lease.refs.values()))
            if helper.late_since is None and helper.told is not None and helper not in lease.refs.values():
                self.leased_twice += 1
                self._send(lease, helper)

    def _send_again(self, gone: Actor, error: Exception) -> None:
        """What an actor had is asked of others, unless these have it already. ProcessError where actors end again and again while they make what is due."""
        if self._leases and gone.told is not None and gone in (due := self._leases[0]).refs.values():
            due.ended += due.due_at is not None
            if due.ended >= _MOST_ENDED:
                raise ProcessError(
                    f"epoch {due.work.epoch}, step {due.work.step}: {due.ended} actors of Ray ended while they made it, or what follows it, the last one on node "
                    f"{gone.node} ({last_line(error)}); look for a function that ends its process, or for too little memory there"
                )
        for ref in [ref for lease in self._leases for ref, actor in lease.refs.items() if actor is gone]:
            self._send_ref_again(ref)

    def _send_ref_again(self, lost: Any) -> None:
        for lease in self._leases:
            actor = lease.refs.pop(lost, None)
            if actor is None:
                continue
            actor.has -= 1
            lease.is_ready = False
            if not lease.refs:
                self._send(lease, self._pool.of(self._number(lease.work)))

    # The end

    def _done(self, lease: LeasedItem) -> None:
        for actor in lease.refs.values():
            actor.has -= 1
        lease.refs.clear()

    def drop(self) -> None:
        """Nothing is wanted any more of what is on its way."""
        for lease in self._leases:
            self._done(lease)
        self._leases.clear()
        self._wanted = None


def _without_holding(method: Callable[[Actor, Exception], None]) -> Callable[[Actor, Exception], None]:
    """Calls a method of what is still there: a pool that held its leases, which hold it, would leave its actors at the next collection only."""
    held = weakref.WeakMethod(method)

    def call(actor: Actor, error: Exception) -> None:
        if (found := held()) is not None:
            found(actor, error)

    return call


def _was_closed() -> ProcessError:
    return ProcessError("the loader was closed while a batch was awaited; begin a new pass")


def _check(made: MadeSteps, lease: LeasedItem, actor: Actor) -> None:
    """ProcessError where an actor gave other steps than it was asked for."""
    if made.item.work != lease.work:
        raise ProcessError(
            f"node {actor.node}: it gave epoch {made.item.work.epoch}, step {made.item.work.step}, and was asked for epoch {lease.work.epoch}, step {lease.work.step}"
        )
