"""A loader as it is seen from outside: its snapshots, and where they go."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from typing import Any

from penstock.core.files.setup_times import setup_times
from penstock.core.finalizers import when_gone
from penstock.core.messages import printable
from penstock.core.warnings import warn
from penstock.dataset import Dataset
from penstock.loader.item_source import ItemSource
from penstock.loader.options import LoaderOptions
from penstock.loader.plan_facts import plan_facts
from penstock.loader.progress import Progress
from penstock.loader.share import RankShare
from penstock.observe.exporters.protocol import Exporter
from penstock.observe.figure_groups import ExporterFigures
from penstock.observe.folder import host_name
from penstock.observe.gpu import gpus_seen
from penstock.observe.outlets import Outlet
from penstock.observe.process_start import process_ticks
from penstock.observe.recorder import Recorder
from penstock.observe.reporter import Reporter, ReporterFigures, identity_number, reporter
from penstock.observe.snapshot import Identity, PlanFacts, Snapshot
from penstock.observe.training import training_id
from penstock.observe.verdict import judged
from penstock.plan.tree import leaves

_NAME_LETTERS = 60


class Observing:
    """Makes a loader's snapshots whole, and has the reporter tell them while it runs. owner: a weak reference to what lives as long as the loader."""

    share: RankShare  # of the rank, since its first one

    def __init__(
        self,
        owner: weakref.ref[Any],
        dataset: Dataset,
        options: LoaderOptions,
        recorder: Recorder,
        items: ItemSource,
        progress: Progress,
    ) -> None:
        self._owner, self._options, self._items, self._progress = owner, options, items, progress
        #: What is told of every item.
        self.recorder = recorder
        self._identity = Identity(
            pid=os.getpid(),
            host=host_name(),
            number=identity_number(),
            name=loader_name(dataset),
            started_at=time.time(),
            training=training_id(),
            process_ticks=process_ticks(os.getpid()),
        )
        self._reporter: Reporter | None = None
        self._number = -1
        self._outlets = dict[str, Outlet]()
        self._was_ended = False
        self._facts_of: tuple[RankShare, PlanFacts] | None = None
        self._made: Snapshot | None = None
        self._whole: Snapshot | None = None

    # What is told

    def snapshot(self) -> Snapshot:
        """The figures, from any thread and at once."""
        return self.whole(self._items.stats_at_once())

    def whole(self, made: Snapshot) -> Snapshot:
        """A snapshot of what makes items, with what the consumer, the machine and exporters say. made: the same object once nothing runs."""
        if made is self._made and self._whole is not None and not self._is_running:
            return replace(self._whole, exporters=self._exporters())  # some end after what they were told last
        share, here = self.share, self._progress.here
        consumer, machine = self.recorder.consumer, self.recorder.machine
        now = consumer.now((here.epoch, here.step))
        told = ReporterFigures() if self._reporter is None else self._reporter.figures(self._number)
        found = replace(
            made,
            at=made.at or time.time(),
            plan=self._facts(share),
            loader=replace(self._identity, rank=share.rank, world_size=share.world_size),
            epoch=here.epoch,
            step_number=here.step,
            samples=now.taken.samples,
            samples_per_s=now.taken.samples / made.elapsed_s if made.elapsed_s else 0.0,
            batches=now.taken.batches,
            waited=now.waited,
            waited_s=consumer.waited_now_s(),
            wait=now.wait,
            step=consumer.step.times(),
            step_cpu=consumer.step_cpu,
            ready=now.ready,
            steady_s=now.steady_s,
            steady_samples_per_s=now.taken.steady_samples / now.steady_s if now.steady_s else 0.0,
            machine=machine.look(),
            gpus=gpus_seen(),
            ranks=told.ranks,
            exporters=self._exporters(),
            lost_events=told.lost_events,
        )
        self._made, self._whole = made, judged(found)
        return self._whole

    def _exporters(self) -> dict[str, ExporterFigures]:
        return {name: outlet.figures() for name, outlet in self._outlets.items()}

    def _facts(self, share: RankShare) -> PlanFacts:
        if self._facts_of is None or self._facts_of[0] is not share:
            self._facts_of = share, plan_facts(share, self._options)
        return replace(self._facts_of[1], setup=setup_times())

    # Where it goes

    @property
    def _is_running(self) -> bool:
        return self._reporter is not None and self._reporter.is_running(self._number)

    def open(self, rank: int) -> None:
        """Opens the exporters, in the calling thread: what cannot be opened is said where the loader is made. PlanError, or what the exporter raises."""
        pid = os.getpid()  # another one in a fork
        self._identity = replace(self._identity, pid=pid, process_ticks=process_ticks(pid))
        opened = self._opened(rank)
        self._reporter = reporter()
        self._number = self._reporter.watch(self, opened)
        self._outlets |= {outlet.name: outlet for outlet in self._reporter.outlets(self._number)}
        if (owner := self._owner()) is not None:
            when_gone(owner, self._reporter.end, self._number, waits=False).atexit = False

    def _opened(self, rank: int) -> list[tuple[str, Exporter]]:
        """Those that were passed, then those that the environment names; of these, one that cannot be opened is left out with a warning.

        Objects that were passed are closed with the loader, and take nothing of it afterwards.
        """
        found, passed = list[tuple[str, Exporter]](), self._options.exporters()
        try:
            for one in passed:
                if isinstance(one, str):
                    found.append((printable(one), _open(one, rank)))
                elif not self._was_ended:
                    found.append((_name_of(one), one))
        except BaseException:
            for _, exporter in found:
                if not any(exporter is one for one in passed):
                    with suppress(Exception):
                        exporter.close()
            raise
        return [*found, *self._of_environment(rank, passed)]

    def _of_environment(self, rank: int, passed: Sequence[str | Exporter]) -> Iterator[tuple[str, Exporter]]:
        named = map(str.strip, os.environ.get("PENSTOCK_OBSERVE", "").split(","))
        for name in dict.fromkeys(filter(None, named)):
            if name in [one for one in passed if isinstance(one, str)]:
                continue
            try:
                yield printable(name), _open(name, rank)
            except Exception as error:
                warn(
                    f"PENSTOCK_OBSERVE: {printable(name)} cannot be opened, and training goes on without it: {printable(str(error))}"
                )

    def begin(self, rank: int) -> None:
        """A pass begins."""
        if self._reporter is None or not self._reporter.go_on(self._number):
            self.open(rank)
            assert self._reporter is not None
            self._reporter.go_on(self._number)

    def pause(self) -> None:
        """The pipeline stops."""
        if self._reporter is not None:
            self._reporter.pause(self._number)

    def end(self) -> None:
        """The loader is closed."""
        if self._reporter is not None:
            self._reporter.end(self._number)
            self._was_ended = True


def loader_name(dataset: Dataset) -> str:
    """What a loader reads: the last part of each path, without folders, and without what URLs carry besides."""
    names = (
        leaf.where.split("?")[0].rstrip("/\\").replace("\\", "/").rpartition("/")[2] for leaf in leaves(dataset.root)
    )
    return printable(", ".join(dict.fromkeys(names)))[:_NAME_LETTERS]


def _open(text: str, rank: int) -> Exporter:
    found: Exporter = import_module("penstock.observe.exporters").open_exporter(text, rank=rank)
    return found


def _name_of(exporter: Exporter) -> str:
    return f"{type(exporter).__name__} {id(exporter):x}"
