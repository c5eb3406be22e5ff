"""Items that are made a second time, by another machine, and compared: a machine that makes other bytes is found out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ray

from penstock.core.errors import ProcessError
from penstock.core.warnings import warn
from penstock.loader.child.messages import MadeItem, SentColumn
from penstock.order.steps.cursor import Work
from penstock.ray.digests import item_digest
from penstock.ray.messages import Wanted
from penstock.ray.pool import Actor, ActorPool

#: How long another machine's digest is waited for; then this process makes the item instead.
_ANSWERS_S = 10.0


@dataclass(eq=False)
class Recheck:
    """An item of `wanted` that is made a second time. by: the actor that does, None for this process; digest: what it will say. is_first: of its actor, and no other reason is there."""

    wanted: Wanted
    by: Actor | None
    digest: Any = None
    is_first: bool = False


class Rechecks:
    """Compares the first item of each node, and then one of so many, with what another actor makes, or else this process.

    every: one of how many; None for none. make_here: makes the columns of some steps in this process, anew each time.
    """

    def __init__(
        self, pool: ActorPool, every: int | None, make_here: Callable[[Wanted, Work], Mapping[str, SentColumn]]
    ) -> None:
        self._pool, self._every, self._make_here = pool, every, make_here
        self._has_warned = False
        self._nodes = set[str]()  # of which an item was compared
        #: Items that were compared.
        self.compared = 0

    def ask(self, actor: Actor, number: int, wanted: Wanted, work: Work) -> Recheck | None:
        """Has an item made a second time, if it is one of those. number: the item's."""
        if self._every is None:
            return None
        is_first = bool(number % self._every)
        if is_first and (actor.is_checked or actor.node in self._nodes):
            return None
        actor.is_checked = True
        other = self._pool.freest(than=(actor,))
        if other is actor or other.told is None or other.late_since is not None:
            return Recheck(wanted, None, is_first=is_first)
        return Recheck(wanted, other, other.handle.digest.remote(self._pool.user, wanted, work), is_first=is_first)

    def check(self, recheck: Recheck, made: MadeItem, actor: Actor) -> None:
        """ProcessError, with node and step, where an item is not the one that others make of the same step."""
        if recheck.is_first and recheck.by is None and actor.node in self._nodes:
            return  # many actors begin at a time, and this process would make an item of each
        self._nodes.add(actor.node)
        self.compared += 1
        mine, theirs = item_digest(made.columns), self._said(recheck)
        if theirs is None:
            theirs = item_digest(self._make_here(recheck.wanted, made.work))
        if mine != theirs:
            self._judge(recheck, made.work, mine, actor)

    def _said(self, recheck: Recheck) -> bytes | None:
        if recheck.digest is None or not ray.wait([recheck.digest], timeout=_ANSWERS_S)[0]:
            return None
        try:
            found: Any = ray.get(recheck.digest)
        except ray.exceptions.RayError:
            return None
        return found if isinstance(found, bytes) else None

    def _judge(self, recheck: Recheck, work: Work, mine: bytes, actor: Actor) -> None:
        """What is made here, twice, says which of both is wrong, or that the plan gives something else each time."""
        here, again = (item_digest(self._make_here(recheck.wanted, work)) for _ in range(2))
        if here != again:
            if not self._has_warned:
                self._has_warned = True
                warn(
                    "penstock.ray: a function of the plan gives something else when it is called again: let it draw random numbers from the rng that it is given; "
                    "or else batches depend on which machine makes them, and when"
                )
            return
        wrong = actor if mine != here or recheck.by is None else recheck.by
        raise ProcessError(
            f"node {wrong.node}: its batch of epoch {work.epoch}, step {work.step}, is not the one that this process makes; nothing of it was delivered. Look for other "
            "versions of packages that the plan uses, other data by the same path, or faulty memory there"
        )
