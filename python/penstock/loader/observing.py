"""A loader as it is seen from outside: its snapshots, and where they go."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module

from penstock.core.files.setup_times import setup_times
from penstock.core.messages import printable
from penstock.dataset import Dataset
from penstock.loader.options import LoaderOptions
from penstock.loader.plan_facts import plan_facts
from penstock.loader.share import RankShare
from penstock.observe.exporters.protocol import Exporter
from penstock.observe.folder import host_name
from penstock.observe.recorder import Recorder
from penstock.observe.reporter import GetObserved, Opening, Reporter, identity_number, reporter
from penstock.observe.snapshot import Identity, PlanFacts, Snapshot
from penstock.observe.training import training_id
from penstock.observe.verdict import judged
from penstock.order.steps.cursor import Position
from penstock.plan.tree import leaves

_NAME_LETTERS = 60


class Observing:
    """Makes a loader's snapshots whole, and has the reporter tell them while it runs. get: the loader, as long as it lives."""

    def __init__(self, dataset: Dataset, options: LoaderOptions, recorder: Recorder, get: GetObserved) -> None:
        self._options, self._openings = options, openings(options.exporters())
        self._recorder, self._get = recorder, get
        self._identity = Identity(
            pid=os.getpid(),
            host=host_name(),
            number=identity_number(),
            name=loader_name(dataset),
            started_at=time.time(),
            training=training_id(),
        )
        self._reporter: Reporter | None = None
        self._number = -1
        self._facts_of: tuple[RankShare, PlanFacts] | None = None
        self._made: Snapshot | None = None
        self._whole: Snapshot | None = None

    # What is told

    def whole(self, made: Snapshot, share: RankShare, here: Position) -> Snapshot:
        """A snapshot of what makes items, with what the consumer, the machine and exporters say. made: the same object once nothing runs."""
        if made is self._made and self._whole is not None and not self._is_running:
            return self._whole
        consumer, machine = self._recorder.consumer, self._recorder.machine
        active_s = max(1e-9, made.elapsed_s - consumer.rested_now_s())
        waited_s, steady_s = consumer.waited_now_s(), consumer.wait.sum_s + consumer.step.sum_s
        exporters, lost = ({}, 0) if self._reporter is None else self._reporter.figures(self._number)
        found = replace(
            made,
            plan=self._facts(share),
            loader=replace(self._identity, rank=share.rank, world_size=share.world_size),
            epoch=here.epoch,
            step_number=here.step,
            batches=consumer.batches,
            waited=min(1.0, waited_s / active_s),
            waited_s=waited_s,
            wait=consumer.wait.times(),
            step=consumer.step.times(),
            step_cpu=consumer.step_cpu,
            ready=consumer.ready,
            steady_s=steady_s,
            steady_samples_per_s=consumer.steady_samples / steady_s if steady_s else 0.0,
            machine=machine.look(),
            exporters=exporters,
            lost_events=lost,
        )
        self._made, self._whole = made, judged(found)
        return self._whole

    def _facts(self, share: RankShare) -> PlanFacts:
        if self._facts_of is None or self._facts_of[0] is not share:
            self._facts_of = share, plan_facts(share, self._options)
        return replace(self._facts_of[1], setup=setup_times())

    # Where it goes

    @property
    def _is_running(self) -> bool:
        return self._reporter is not None and self._reporter.is_running(self._number)

    def begin(self) -> None:
        """A pass begins."""
        if self._reporter is None or not self._reporter.go_on(self._number):
            self._reporter = reporter()
            self._number = self._reporter.watch(self._get, self._recorder, self._openings)
            if (rank := self._get()) is not None:
                weakref.finalize(rank, self._reporter.end, self._number).atexit = False

    def pause(self) -> None:
        """The pipeline stops."""
        if self._reporter is not None:
            self._reporter.pause(self._number)

    def end(self) -> None:
        """The loader is closed."""
        if self._reporter is not None:
            self._reporter.end(self._number)


def openings(observe: Sequence[str | Exporter]) -> list[Opening]:
    """Exporters by their names, and what opens them: those that were passed, and those that $PENSTOCK_OBSERVE names."""
    named = [one.strip() for one in os.environ.get("PENSTOCK_OBSERVE", "").split(",") if one.strip()]
    found = dict[str, Callable[[], Exporter]]()
    for one in [*observe, *named]:
        if isinstance(one, str):
            found[printable(one)] = partial(_opened, one)
        else:
            found[f"{type(one).__name__} {id(one):x}"] = partial(_itself, one)
    return [*found.items()]


def loader_name(dataset: Dataset) -> str:
    """What a loader reads: the last part of each path, without folders, and without what URLs carry besides."""
    names = (
        leaf.where.split("?")[0].rstrip("/\\").replace("\\", "/").rpartition("/")[2] for leaf in leaves(dataset.root)
    )
    return printable(", ".join(dict.fromkeys(names)))[:_NAME_LETTERS]


def _opened(name: str) -> Exporter:
    found: Exporter = import_module("penstock.observe.exporters").open_exporter(name)
    return found


def _itself(exporter: Exporter) -> Exporter:
    return exporter
