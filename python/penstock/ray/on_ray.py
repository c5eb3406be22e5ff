"""Has a loader's items made by actors of Ray, on any machines of its cluster."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import replace
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
from penstock.observe.recorder import Recorder
from penstock.observe.snapshot import Snapshot
from penstock.order.steps.cursor import Position, Work
from penstock.ray.digests import packed
from penstock.ray.figures import judged, ray_figures
from penstock.ray.leases import Leases
from penstock.ray.messages import Wanted, versions
from penstock.ray.pool import ActorPool, NoActorsError, cluster_cpus, last_line
from penstock.ray.rechecks import Rechecks
from penstock.ray.streams import made_once
from penstock.ray.wanting import Wanting
from penstock.runtime.slots import Slots
from penstock.runtime.stage import Delivered

#: Options of a loader that actors must know; the others are of the trainer.
_OF_ACTORS = ("memory", "cpus", "prefetch", "on_error")


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
        recorder: Recorder,
        *,
        workers: int | None,
        actor_options: dict[str, Any],
        compare_every: int | None,
    ) -> None:
        self._options, self._deliver, self._bad_samples = options, deliver, bad_samples
        self._here, self._recorder = Here(options, deliver, bad_samples, recorder), recorder
        told = {name: value for name, value in options.sent.items() if name in _OF_ACTORS}
        setup = Setup(dataset=dataset, options=told, log_level=30)
        place = repr(sorted((name, repr(value)) for name, value in actor_options.items()))
        sent = packed(setup, repr(versions()), place, str(ray.get_runtime_context().runtime_env))
        self._pool = ActorPool(sent, actor_options)
        self._rechecks = Rechecks(self._pool, compare_every, partial(made_once, dataset, LoaderOptions(**told)))
        self._leases = Leases(self._pool, self._rechecks)
        self._wanting = Wanting(workers)
        self._expected: Position | None = None
        self._until = math.inf  # the first epoch that is not leased
        self._is_local = False
        self._process = os.getpid()
        self._slots = Slots(new_memory=deliver.new_memory)
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
            if os.getpid() != self._process:
                raise ProcessError(
                    "this loader was made before a fork, and Ray knows the parent only; make a new Loader in the child, or start children with the 'spawn' method"
                )
            try:
                return self._next_made(here)
            except NoActorsError as error:
                self._leave(str(error))
            except ray.exceptions.RayError as error:
                self._leave(f"Ray does not work ({last_line(error)})")
        return self._here.next_item(here, about_stall)

    def _next_made(self, here: Position) -> Delivered:
        asked_at = time.perf_counter()
        self._leases.is_woken = False
        try:
            if self._expected != here or here.epoch >= self._until:
                self._begin_stream(here)
            made = self._leases.head()
        except BaseException:
            self._drop_leases()
            raise
        now = time.perf_counter()
        self._waited_s += now - asked_at
        self._first_batch_s = self._first_batch_s or now - self._begun_at
        work = made.item.work
        self._expected = self._share.normal(Position(work.epoch, work.step + work.steps))
        for bad in made.bad:
            self._bad_samples.note(bad, DataError(f"{bad.where}: {bad.found}; {bad.do}"), self._share.rank)
        self._tune(now)
        self._leases.fill()
        return self._delivered(made.item)

    def _begin_stream(self, here: Position) -> None:
        self._drop_leases()
        share = self._share
        lowered = share.lowered
        self._begun_at, self._first_batch_s, self._waited_s, self._samples = time.perf_counter(), 0.0, 0.0, 0
        self._recorder.begin_run()
        self._until = math.inf if self._options.epochs is None else max(self._options.epochs, here.epoch + 1)
        self._wanting.begin(self._begun_at)
        self._pool.asks = self._wanting.asks
        self._leases.begin(
            Wanted(
                ranks=share.ranks,
                equal_parts=share.equal_parts,
                changed=share.told,
                steps_per_epoch=share.steps,
            ),
            lowered.work_from(here, epochs=self._options.epochs),
            steps_per_item=lowered.steps_per_item,
            item_bytes=lowered.item_bytes,
        )

    def _tune(self, now: float) -> None:
        """More actors where the consumer waits for them, fewer where it does not."""
        pool, wanting = self._pool, self._wanting
        if wanting.is_due(now) and ray.is_initialized():  # or asking for the cluster's CPUs would begin one
            wanting.look(now, self._waited_s, self._samples, at_work=len(pool.at_work), most=cluster_cpus())
            pool.asks = wanting.asks

    # Items

    def _delivered(self, made: MadeItem) -> Delivered:
        """An item as it comes from stages of this process."""
        columns = {name: self._converted(column) for name, column in made.columns.items()}
        self._samples += made.rows_per_step * made.work.steps
        self._bad_samples.count(made.rows_per_step * made.work.steps)
        if self._bad_samples.has_news:
            self._bad_samples.warn()
        return Delivered(
            work=made.work,
            rows_per_step=made.rows_per_step,
            find_ids=partial(self._ids_of, made.work),
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
        """See `ItemSource`; actors go on with what they have, and keep it."""
        self._leases.is_woken = True
        self._here.interrupt()

    def end_pass(self, here: Position) -> None:
        """See `ItemSource`."""
        self._here.end_pass(here)

    def places(self, here: Position) -> LanePlaces:
        """See `ItemSource`."""
        return self._here.places(here)

    def stats(self) -> Snapshot:
        """See `ItemSource`; `ray` says how many actors there are, what is leased, and waits and bytes by node."""
        figures = ray_figures(self._pool, self._leases, self._rechecks)
        if self._is_local:
            return replace(self._here.stats(), ray=figures)
        elapsed_s = time.perf_counter() - self._begun_at if self._begun_at else 0.0
        waited = self._waited_s / elapsed_s if elapsed_s else 0.0
        text, bottleneck = judged(figures, waited) if self._samples else (Snapshot().verdict, "nothing")
        return replace(
            Snapshot(),
            at=time.time(),
            samples=self._samples,
            elapsed_s=elapsed_s,
            samples_per_s=self._samples / elapsed_s if elapsed_s else 0.0,
            first_batch_s=self._first_batch_s,
            waited=waited,
            waited_s=self._waited_s,
            verdict=text,
            bottleneck=bottleneck,
            errors=self._bad_samples.figures(),
            ray=figures,
        )

    def stats_at_once(self) -> Snapshot:
        """See `ItemSource`; actors tell of themselves when they are asked for items."""
        return self.stats()

    def _drop_leases(self) -> None:
        self._leases.drop()
        self._expected = None

    def stop(self, here: Position) -> None:
        """See `ItemSource`; actors stay."""
        self._drop_leases()
        self._here.stop(here)
        self._slots.drop()

    def close(self, here: Position) -> None:
        """See `ItemSource`; leaves the actors, which end where nobody else uses them."""
        self.stop(here)
        self._here.close(here)
        self._pool.close()

    def _leave(self, why: str) -> None:
        """Items are made here from now on."""
        self._is_local = True
        warn(f"penstock.ray: {why}; batches are made in this process from now on, and are the same")
        self._drop_leases()
        self._pool.close()
