"""Has a loader's items made by actors of Ray, on any machines of its cluster."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import ray

from penstock.core.errors import DataError, ProcessError
from penstock.core.warnings import warn
from penstock.dataset import Dataset
from penstock.deliver import Deliver
from penstock.loader.child.messages import MadeItem, SentColumn
from penstock.loader.child.sent import Setup
from penstock.loader.here import Here
from penstock.loader.item_source import LanePlaces
from penstock.loader.options import LoaderOptions
from penstock.loader.share import RankShare
from penstock.observe.bad_samples import BadSamples
from penstock.observe.stats import no_stats
from penstock.order.steps.cursor import Position, Work
from penstock.processes.raised import Raised, error_of
from penstock.ray.actor import MadeSteps, StepMaker, Wanted, versions
from penstock.runtime.slots import Slots
from penstock.runtime.stage import Delivered

#: Items that an actor has at a time: one that is made, one that waits, one on its way.
_OF_ACTOR = 3
#: Seconds for which an item that is due is waited for before another actor gets it as well; or as many times longer than items took so far.
_PATIENCE_S, _LONGER = 5.0, 4.0
#: Seconds without a sign of life after which another actor takes the place of one that is late.
_LOST_S = 60.0
#: Seconds within which a first actor must begin.
_START_S = 60.0
#: "auto" looks so often, in seconds, and asks for actors where the consumer waits for more than this part of the time, and gives them back below the other.
_LOOK_S, _WAITS, _RESTS = 2.0, 0.05, 0.01
#: Bytes of items on their way at most.
_MOST_BYTES = 1 << 30


@dataclass(eq=False)
class _Actor:
    """One actor. begun: its answer to being made. has: its items. late_since: when it did not give an item that was due, and owes: that item; None where it did since. node: where it runs, once that is known."""

    handle: Any
    begun: Any
    has: int = 0
    late_since: float | None = None
    owes: Any = None
    node: str = ""


@dataclass(eq=False)
class _Lease:
    """An item that actors make: usually one, more where the first is slow."""

    work: Work
    refs: dict[Any, _Actor] = field(default_factory=dict)
    due_at: float | None = None
    sent_at: float = field(default_factory=time.perf_counter)


def cluster_cpus() -> int:
    """CPUs of the cluster, which begins on this machine where there is none yet."""
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


class OnRay:
    """An `ItemSource`: items are leased to actors in their order, and taken in that order, whoever made them first.

    A batch is a function of its step, so that an item may be made twice, or by another actor than the one that was asked first: it has the same bytes.
    Where no actor is left, items are made here, by `Here`, from the position on.
    """

    _share: RankShare  # since `begin`

    def __init__(
        self,
        dataset: Dataset,
        options: LoaderOptions,
        deliver: Deliver,
        bad_samples: BadSamples,
        *,
        workers: int | None,
        actor_options: dict[str, Any],
    ) -> None:
        self._options, self._deliver = options, deliver
        self._is_tuned, self._workers = workers is None, workers or 1
        self._looked_at = self._waited_before = 0.0
        self._bad_samples = bad_samples
        self._here = Here(options, deliver, bad_samples)
        self._setup = Setup(dataset=dataset, options={**options.sent, "with_ids": False}, log_level=30)
        self._actor_options = {"num_cpus": 1, "max_concurrency": _OF_ACTOR + 2, **actor_options}
        self._sent: Any = None
        self._actors: list[_Actor] = []
        self._leases: deque[_Lease] = deque()
        self._works: Iterator[Work] = iter(())
        self._expected: Position | None = None
        self._is_local = False
        self._slots = Slots(new_memory=deliver.new_memory)
        self._figures, self._node_bytes = {"lost_actors": 0, "leased_twice": 0}, Counter[str]()
        self._took_s = 0.0  # an item, lately
        self._begun_at = self._first_batch_s = self._waited_s = 0.0
        self._samples = 0

    def begin(self, share: RankShare) -> None:
        """See `ItemSource`."""
        self._share = share
        self._here.begin(share)
        if share.lowered.lanes and not self._is_local:
            self._leave("rows of this plan depend on what the rows before are, so that they are made in one process")

    def next_item(self, here: Position, about_stall: Callable[[], str]) -> Delivered | None:
        """See `ItemSource`."""
        if not self._is_local:
            try:
                return self._next_made(here)
            except _NoActorsError as error:
                self._leave(str(error))
        return self._here.next_item(here, about_stall)

    def _next_made(self, here: Position) -> Delivered:
        if self._expected != here:
            self._begin_stream(here)
        asked_at = time.perf_counter()
        try:
            made = self._head()
        except BaseException:
            self._drop_leases()
            raise
        self._waited_s += time.perf_counter() - asked_at
        self._first_batch_s = self._first_batch_s or time.perf_counter() - self._begun_at
        self._expected = self._share.normal(Position(made.work.epoch, made.work.step + made.work.steps))
        self._tune()
        self._fill()
        return self._delivered(made)

    def _begin_stream(self, here: Position) -> None:
        self._drop_leases()
        self._works = self._share.lowered.work_from(here, epochs=self._options.epochs)
        self._begun_at, self._first_batch_s, self._waited_s, self._samples = time.perf_counter(), 0.0, 0.0, 0
        self._looked_at, self._waited_before = self._begun_at, 0.0
        self._fill()

    # Leases

    def _head(self) -> MadeItem:
        """The item that is due, from the actor that has it first."""
        self._fill()
        while self._leases:
            lease = self._leases[0]
            lease.due_at = lease.due_at or time.perf_counter()
            ready, _ = ray.wait([*lease.refs], num_returns=1, timeout=max(_PATIENCE_S, _LONGER * self._took_s))
            if not ready:
                self._help(lease)
                continue
            made = self._got(lease, ready[0])
            if made is None:
                continue
            self._done(self._leases.popleft())
            if isinstance(made, MadeSteps):
                for bad in made.bad:
                    self._bad_samples.note(bad, DataError(f"{bad.where}: {bad.found}; {bad.do}"), self._share.rank)
                return made.item
            if lease.work.steps == 1:
                raise error_of(made, "an actor of Ray")
            # Steps that are made together fail together: again, one by one, so that all before the bad one come first.
            work = lease.work
            for step in reversed(range(work.step, work.step + work.steps)):
                self._leases.appendleft(self._leased(Work(work.epoch, step, 1)))
        raise ProcessError("a batch beyond the last one was asked for")

    def _got(self, lease: _Lease, ref: Any) -> MadeSteps | Raised | None:
        """What an actor made; None where it is lost, and others have its items by then."""
        actor = lease.refs[ref]
        try:
            made: MadeSteps | Raised = ray.get(ref)
        except ray.exceptions.RayError as error:
            self._replace(actor, error)
            return None
        if not actor.node:
            actor.node = _checked(ray.get(actor.begun))
        actor.late_since = actor.owes = None
        self._took_s += 0.2 * (time.perf_counter() - lease.sent_at - self._took_s)
        if isinstance(made, MadeSteps):
            self._node_bytes[actor.node] += sum(column.nbytes for column in made.item.columns.values())
        return made

    def _fill(self) -> None:
        """Leases what may be on its way."""
        self._start_actors()
        self._look_after_late()
        lowered = self._share.lowered
        item_bytes = max(1, lowered.item_bytes * lowered.steps_per_item)
        actors = (
            len(self._actors) if not self._is_tuned else self._workers
        )  # one that is to be given back gets nothing more
        most = max(actors, min(_OF_ACTOR * actors, _MOST_BYTES // item_bytes))
        while len(self._leases) < most:
            work = next(self._works, None)
            if work is None:
                return
            self._leases.append(self._leased(work))

    def _leased(self, work: Work) -> _Lease:
        lease = _Lease(work)
        self._send(lease, self._freest())
        return lease

    def _freest(self) -> _Actor:
        """The actor with least to do; one that is late gets nothing while there are others."""
        return min(self._actors, key=lambda actor: (actor.late_since is not None, actor.has))

    def _send(self, lease: _Lease, actor: _Actor) -> None:
        share = self._share
        wanted = Wanted(ranks=share.ranks, equal_parts=share.equal_parts, weights=share.weights)
        lease.refs[actor.handle.make.remote(wanted, lease.work)] = actor
        actor.has += 1

    def _help(self, due: _Lease) -> None:
        """An item that is due does not come: others get it too, and all that the late actors have. One that is late for long is replaced."""
        now = time.perf_counter()
        assert due.due_at is not None  # it is waited for
        if now - due.due_at > _START_S and not self._has_begun(self._actors):
            raise _NoActorsError(f"no actor of Ray began within {_START_S:g} s")
        for ref, actor in due.refs.items():
            if actor.late_since is None and self._has_begun([actor]):
                actor.late_since, actor.owes = now, ref
        self._look_after_late()
        for lease in self._leases:
            helper = self._freest()
            if (
                helper.late_since is None
                and helper not in lease.refs.values()
                and all(actor.late_since is not None or not self._has_begun([actor]) for actor in lease.refs.values())
            ):
                self._figures["leased_twice"] += 1
                self._send(lease, helper)

    @property
    def _late(self) -> list[_Actor]:
        return [actor for actor in self._actors if actor.late_since is not None]

    def _look_after_late(self) -> None:
        """A late actor that has made what it owes gets items again; one that is late for long is ended, and another takes its place."""
        for actor in self._late:
            assert actor.late_since is not None
            if ray.wait([actor.owes], num_returns=1, timeout=0)[0]:
                actor.late_since = actor.owes = None
            elif time.perf_counter() - actor.late_since > _LOST_S:
                ray.kill(actor.handle)
                self._replace(actor, ProcessError(f"nothing came of it for {_LOST_S:g} s"))

    def _has_begun(self, actors: list[_Actor]) -> bool:
        return bool(ray.wait([actor.begun for actor in actors], num_returns=1, timeout=0)[0])

    def _done(self, lease: _Lease) -> None:
        for actor in lease.refs.values():
            actor.has -= 1
        lease.refs.clear()

    def _drop_leases(self) -> None:
        for lease in self._leases:
            self._done(lease)
        self._leases.clear()
        self._expected = None

    # Actors

    def _start_actors(self) -> None:
        if not ray.is_initialized():
            raise _NoActorsError("Ray was shut down")
        if self._sent is None:
            self._sent = ray.put(self._setup)
        while len(self._actors) < self._workers:
            handle = ray.remote(StepMaker).options(**self._actor_options).remote(self._sent)
            self._actors.append(_Actor(handle, handle.begin.remote()))

    def _tune(self) -> None:
        """More actors where the consumer waits for them, fewer where it does not."""
        now = time.perf_counter()
        elapsed_s = now - self._looked_at
        if not self._is_tuned or elapsed_s < _LOOK_S or not ray.is_initialized():
            return
        waits = (self._waited_s - self._waited_before) / elapsed_s
        self._looked_at, self._waited_before = now, self._waited_s
        if waits > _WAITS and all(actor.node for actor in self._actors):  # those that were asked for are at work
            self._workers = min(cluster_cpus(), self._workers + max(1, self._workers // 4))
        elif waits < _RESTS and self._workers > 1:
            idle = next((actor for actor in self._actors if not actor.has), None)
            self._workers -= 1
            if idle is not None:
                self._actors.remove(idle)
                ray.kill(idle.handle)

    def _replace(self, lost: _Actor, error: Exception) -> None:
        """Another actor in the place of one that is lost; the items of this go to others."""
        if lost in self._actors:
            if getattr(error, "actor_init_failed", False) or isinstance(error, ray.exceptions.RayTaskError):
                raise ProcessError(
                    f"an actor of Ray cannot make batches: {_last_line(error)}; give its machine the same Penstock, packages and paths as this one"
                ) from error
            self._actors.remove(lost)
            self._figures["lost_actors"] += 1
            if self._figures["lost_actors"] > _MOST_LOST * max(1, self._workers):
                raise _NoActorsError(
                    f"{self._figures['lost_actors']} actors of Ray were lost, the last one by {_last_line(error)}"
                )
            self._start_actors()
        for lease in self._leases:
            lease.refs = {ref: actor for ref, actor in lease.refs.items() if actor is not lost}
            if not lease.refs:
                self._send(lease, self._freest())

    # Items

    def _delivered(self, made: MadeItem) -> Delivered:
        """An item as it comes from stages of this process."""
        cursor_ids = partial(self._ids_of, made.work)
        columns = {name: self._converted(column) for name, column in made.columns.items()}
        self._samples += made.rows_per_step * made.work.steps
        self._bad_samples.count(made.rows_per_step * made.work.steps)
        if self._bad_samples.has_news:
            self._bad_samples.warn()
        return Delivered(
            work=made.work,
            rows_per_step=made.rows_per_step,
            find_ids=cursor_ids,
            find_draws=partial(self._draws_of, made.work),
            columns=self._deliver.finish(columns, made.rows_per_step, self._slots.take),
        )

    def _ids_of(self, work: Work) -> Any:
        return self._share.lowered.order.ids(work.epoch, work.step, work.steps, *self._share.place)

    def _draws_of(self, work: Work) -> Any:
        return self._share.lowered.order.draws(work.epoch, work.step, work.steps, *self._share.place)

    def _converted(self, column: SentColumn) -> Any:
        """A column in the framework's types, in memory of this loader: Ray's is read-only, and held by whoever reads it."""
        values = column.values
        if isinstance(values, np.ndarray) and values.dtype != object:
            own = self._slots.take(values.nbytes).view(values.dtype).reshape(values.shape)
            np.copyto(own, values)
            values = own
        return self._deliver.convert(values, column.field)

    # Where it stands, and the end

    def interrupt(self) -> None:
        """See `ItemSource`; actors go on with what they have, and who waits for them waits on."""
        self._here.interrupt()

    def end_pass(self, here: Position) -> None:
        """See `ItemSource`."""
        self._here.end_pass(here)

    def places(self, here: Position) -> LanePlaces:
        """See `ItemSource`."""
        return self._here.places(here)

    def stats(self) -> dict[str, Any]:
        """See `ItemSource`; `ray` says how many actors there are, what is leased, and bytes by node."""
        if self._is_local:
            return self._here.stats()
        elapsed_s = time.perf_counter() - self._begun_at if self._begun_at else 0.0
        return {
            **no_stats(),
            "samples": self._samples,
            "elapsed_s": elapsed_s,
            "samples_per_s": self._samples / elapsed_s if elapsed_s else 0.0,
            "first_batch_s": self._first_batch_s,
            "waited": self._waited_s / elapsed_s if elapsed_s else 0.0,
            "errors": self._bad_samples.figures(),
            "ray": {
                "actors": len(self._actors),
                "late_actors": len(self._late),
                "leases": len(self._leases),
                "bytes_by_node": dict(self._node_bytes),
                **self._figures,
            },
        }

    def stop(self, here: Position) -> None:
        """See `ItemSource`; actors stay."""
        self._drop_leases()
        self._here.stop(here)
        self._slots.drop()

    def close(self, here: Position) -> None:
        """See `ItemSource`; ends actors."""
        self.stop(here)
        self._here.close(here)
        self._end_actors()

    def _end_actors(self) -> None:
        actors, self._actors = self._actors, []
        if ray.is_initialized():
            for actor in actors:
                ray.kill(actor.handle)
        self._sent = None

    def _leave(self, why: str) -> None:
        """Items are made here from now on."""
        self._is_local = True
        warn(f"penstock.ray: {why}; batches are made in this process from now on, and are the same")
        self._drop_leases()
        self._end_actors()


class _NoActorsError(Exception):
    """No actor makes items any more."""


#: So many times as many actors as there are may be lost.
_MOST_LOST = 50


def _last_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__


def _checked(told: tuple[dict[str, str], str, int]) -> str:
    """The node of an actor; ProcessError where it has other versions than this process."""
    theirs, node, _ = told
    for name, version in versions().items():
        if theirs.get(name) != version:
            raise ProcessError(
                f"node {node}: its {name} is {theirs.get(name)}, and this one's {version}; install the same, since batches are made by both"
            )
    return node
