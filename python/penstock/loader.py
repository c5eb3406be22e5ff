"""Loader: lowers a plan for one rank, runs it, and holds the position (epoch, step)."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Never, Self

from penstock.dataset import Dataset
from penstock.deliver import find_ranks, open_deliver, ranks_here
from penstock.engine.ahead import Ahead
from penstock.engine.free_memory import default_memory
from penstock.engine.lower import Lowered, lower
from penstock.engine.ordering import Where
from penstock.engine.run import Run
from penstock.engine.slots import Slots
from penstock.engine.stage import Item
from penstock.engine.tune import Depth
from penstock.engine.workers import usable_cpus
from penstock.errors import DataError, PlanError, ProcessError, StateError
from penstock.observe.report import report_text
from penstock.observe.stats import no_stats, run_stats
from penstock.observe.store import store_figures
from penstock.order.cursor import Position, Work
from penstock.order.sharing import explain_sharing
from penstock.plan.check import check_positional, find
from penstock.plan.nodes import Shard, is_whole, of_all_ranks
from penstock.plan.saved import STATE_VERSION, check_state, state_of
from penstock.spec import Ids
from penstock.storage import traffic_of
from penstock.storage.cached import CachedStorage
from penstock.traffic import Traffic


class Loader:
    """Batches of a dataset, as dicts of columns. One pass is one epoch; the next pass is the next epoch.

    to: "numpy" or "torch"; device: for torch, e.g. "cuda:1"; "cuda" is the one that is current now. rank, world_size: this
    process's share; found from torch.distributed or torchrun's environment if not given. memory: bytes that this loader
    holds at most: what is read ahead and in flight, blocks of open windows, batches made ahead and memory to be used again, but no batches
    that you hold (default: an eighth of what is free, shared by the ranks of this machine). cpus: threads for kernels (default: what the process may use). prefetch:
    batches made ahead (default: tunes itself). epochs: how many passes there will be, if that is known: nothing is read
    ahead for more (default: the next pass's first batches are read while this one ends). More passes may be made all the
    same.

    After a pass that was broken off, `state_dict` says where, and a new pass begins the next epoch. After `load_state_dict` or
    `set_epoch` the next pass begins there. Raises PlanError for what cannot work, DataError for damaged data, with the place.
    """

    def __init__(
        self,
        dataset: Dataset,
        *misplaced: Never,
        to: str = "numpy",
        device: Any = None,
        rank: int | None = None,
        world_size: int | None = None,
        memory: int | None = None,
        cpus: int | None = None,
        prefetch: int | None = None,
        epochs: int | None = None,
    ) -> None:
        if not isinstance(dataset, Dataset):
            raise PlanError(
                f"Loader({type(dataset).__name__}): takes a Dataset; make one with penstock.read, from_arrays, from_dataset or "
                f"from_iterable"
            )
        check_positional("Loader", misplaced, "the batch is the dataset's: Loader(dataset.batch(size))")
        self.dataset = dataset
        self.rank, self.world_size = find_ranks(rank, world_size)
        for name, value, why in (
            ("cpus", cpus, "at least one thread must work"),
            ("prefetch", prefetch, "at least one batch must be made ahead"),
            ("epochs", epochs, "at least one pass must be made"),
        ):
            if value is not None and (not is_whole(value) or value < 1):
                raise PlanError(f"{name}={value!r}; {why}, and a whole number")
        if memory is not None and memory < 1:
            raise PlanError(f"memory={memory}; batches made ahead take some bytes")
        where = Where(rank=self.rank, world_size=self.world_size, cpus=cpus or usable_cpus())
        self._deliver = open_deliver(to, device)
        first, last = ranks_here(self.rank, self.world_size)
        self._memory = memory or default_memory(max(1, last - first))
        self._lowered: Lowered = lower(
            dataset.source, dataset.read_ranges, dataset.nodes, self._deliver, where, memory_bytes=self._memory
        )
        self._prefetch, self._epochs = prefetch, epochs
        self._until = math.inf  # the run's first epoch that it does not make
        self._epoch, self._step = 0, 0
        self._chosen = True  # the position was set, not reached by a pass
        self._pass = 0
        self._one_by_one = False
        self._first_batch_s = 0.0
        self._last_stats = no_stats()
        self._traffic: Traffic | None = None
        self._runs: list[tuple[Run, list[Position]]] = []
        self._ahead = self._ahead_of(dataset)
        weakref.finalize(self, _close_runs, self._runs, self._lowered.slots, self._ahead)

    def _ahead_of(self, dataset: Dataset) -> Ahead | None:
        if not isinstance(dataset.storage, CachedStorage):
            return None
        rank, world_size = self._place
        here = (0, world_size) if self._node else ranks_here(rank, world_size)
        return Ahead(
            dataset.storage, dataset.source.manifest, self._lowered.order, rank, world_size, here, self._epochs
        )

    @property
    def _place(self) -> tuple[int, int]:
        """The rank among those that share the order, and how many these are: all, or those of a node with files of its own."""
        return self._lowered.where.rank, self._lowered.where.world_size

    @property
    def _node(self) -> dict[str, int]:
        """The number of this node, where nodes have files of their own."""
        ranks = self._lowered.where.world_size
        return {} if find(self.dataset.nodes, Shard) is None else {"node": self.rank // ranks}

    # One pass

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if not self._chosen and self._step:
            self._epoch, self._step = self._epoch + 1, 0
        self._pass += 1
        self._chosen = self._one_by_one = False
        return self._batches(self._pass, len(self))

    def _batches(self, this_pass: int, steps: int) -> Iterator[dict[str, Any]]:
        ended = False
        try:
            self._check_pass(this_pass)
            while self._step < steps:
                item = self._next_item()
                parts, together = self._split(item), item.steps
                del item
                for _ in range(together):
                    self._step += 1
                    yield {name: take() for name, take in parts}
                    if this_pass != self._pass:
                        self._check_pass(this_pass)
            self._epoch, self._step = self._epoch + 1, 0
            ended = True
        finally:
            if not ended and this_pass == self._pass:
                self.close()

    def _split(self, item: Item) -> list[tuple[str, Callable[[], Any]]]:
        """For each column what gives its part of one step after the other; nothing is cut where there is one step."""
        columns, rows = self._deliver.receive(item.delivered), item.rows_per_step
        parts = self._deliver.parts if item.steps > 1 else lambda column, _: [column].pop
        return [(name, parts(column, rows)) for name, column in columns.items()]

    def _check_pass(self, this_pass: int) -> None:
        if this_pass != self._pass:
            raise ProcessError("this pass has ended: another pass, set_epoch or load_state_dict came after it")

    def _next_item(self) -> Item:
        run, position = self._run()
        try:
            item = next(run)
        except DataError:
            if self._one_by_one or self._lowered.steps_per_item == 1:
                raise
            # Steps that are made together fail together: again, one by one, so that all before the bad one come first.
            self.close()
            self._one_by_one = True
            return self._next_item()
        position[0] = Position(item.epoch, item.step + item.steps)
        if not self._first_batch_s:
            self._first_batch_s = time.perf_counter() - run.started_at
        return item

    def _run(self) -> tuple[Run, list[Position]]:
        """The run that goes on at the loader's position; a new one if there is none."""
        if self._runs:
            run, position = self._runs[0]
            if self._normal(position[0]) == self._here and self._epoch < self._until:
                return run, position
            self.close()
        depth = self._depth()
        if self._epochs is not None:
            self._until = max(self._epochs, self._epoch + 1)
        work = self._lowered.work_from(self._here, one_by_one=self._one_by_one, epochs=self._epochs)
        self._traffic = traffic_of(self.dataset.read_ranges)
        if self._ahead is not None:
            work = self._ahead.follow(work)
        self._lowered.check_memory()
        run = Run(self._lowered.stages, self._lowered.budget.follow(work), depth, self._lowered.budget)
        self._first_batch_s = 0.0
        self._runs.append((run, [self._here]))
        return self._runs[0]

    def _normal(self, position: Position) -> Position:
        return position if position.step < len(self) else Position(position.epoch + 1)

    def _depth(self) -> Depth:
        item_bytes = max(1, self._lowered.item_bytes * self._lowered.steps_per_item)
        most = max(1, min(8, self._memory // item_bytes - len(self._lowered.stages)))
        if self._prefetch is not None:
            items = max(1, -(-self._prefetch // self._lowered.steps_per_item))
            return Depth(out=items, between=1, most=items, fixed=True)
        return Depth(out=min(2, most), between=min(2, most), most=most)

    def __len__(self) -> int:
        """Steps in an epoch, the same on every rank."""
        return self._lowered.order.steps_per_epoch

    @property
    def batch_size(self) -> int:
        """Rows of a full batch on this rank."""
        return self._lowered.order.batch_size // self._place[1]

    # Position and state

    @property
    def _here(self) -> Position:
        return Position(self._epoch, self._step)

    @property
    def epoch(self) -> int:
        """The epoch of the next batch."""
        return self._epoch

    @property
    def step(self) -> int:
        """The step of the next batch in its epoch."""
        return self._step

    @property
    def sampler(self) -> Loader:
        """The loader itself, for trainers that call `loader.sampler.set_epoch`."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """The next pass is this epoch, from its beginning."""
        if not is_whole(epoch) or epoch < 0:
            raise PlanError(f"set_epoch({epoch!r}): epochs are counted from 0, in whole numbers")
        self._move_to(Position(epoch))

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands: less than 1 KiB of plain JSON, the same on every rank and for any number of them."""
        order = self._lowered.order
        position = self._normal(self._here)
        return {
            "version": STATE_VERSION,
            "data": self.dataset.source.manifest.digest,
            "samples": order.samples,
            "plan": [state_of(node) for node in of_all_ranks(self.dataset.nodes, self.world_size)],
            "epoch": position.epoch,
            "step": position.step,
            **self._node,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next pass goes on where the state was taken; StateError if the data or the plan is another one."""
        check_state(state, self.state_dict())
        try:
            position = Position(int(state["epoch"]), int(state["step"]))
        except (TypeError, ValueError):
            raise StateError(
                f"the state says epoch {state['epoch']!r}, step {state['step']!r}; it was changed"
            ) from None
        if position.epoch < 0 or not 0 <= position.step <= len(self):
            raise StateError(
                f"the state says {position}, but epochs have the steps 0 … {len(self) - 1}; it was changed"
            )
        self._move_to(self._normal(position))

    def _move_to(self, position: Position) -> None:
        self._pass += 1
        self._epoch, self._step = position.epoch, position.step
        self._chosen = True

    def sample_ids(self, epoch: int, step: int) -> Ids:
        """The sample ids (int64) of this rank's rows at a step; arithmetic alone, nothing is read."""
        self._check_step(epoch, step)
        return self._lowered.order.ids(epoch, step, 1, *self._place)

    def batch_at(self, epoch: int, step: int) -> dict[str, Any]:
        """The batch of any step, made at once in the calling thread; the loader's position stays."""
        self._check_step(epoch, step)
        lowered = lower(
            self.dataset.source,
            self.dataset.read_ranges,
            self.dataset.nodes,
            self._deliver,
            Where(rank=self.rank, world_size=self.world_size, cpus=usable_cpus()),
        )
        made: Any = Work(epoch, step, 1)
        for stage in lowered.stages:
            made = stage.work(made)
        return self._deliver.receive(made.delivered)

    def _check_step(self, epoch: int, step: int) -> None:
        if not is_whole(epoch) or epoch < 0:
            raise PlanError(f"epoch {epoch!r}: epochs are counted from 0, in whole numbers")
        if not is_whole(step) or not 0 <= step < len(self):
            raise PlanError(f"step {step!r}: an epoch has the steps 0 … {len(self) - 1}")

    # Telling

    def stats(self) -> dict[str, Any]:
        """Figures since the running pipeline was started, or of the last that ran.

        Of the whole, under "stages" of each stage, and under "storage" (None for local files) of the store: requests, bytes,
        retries, hedges, latency in seconds, cache hits.
        """
        running = self._runs[:1]  # another thread may close it meanwhile
        if not running:
            return self._last_stats
        run = running[0][0]
        elapsed_s = time.perf_counter() - run.started_at
        return run_stats(
            run.meters,
            elapsed_s=elapsed_s,
            waited_s=run.waited_s,
            first_batch_s=self._first_batch_s,
            decoders=self._lowered.pictures(),
            storage=self._storage_figures(elapsed_s),
            memory=self._lowered.budget.figures(),
        )

    def _storage_figures(self, elapsed_s: float) -> dict[str, Any] | None:
        """What the store did since the run began; other loaders' requests to the same dataset are counted too."""
        traffic, manifest = traffic_of(self.dataset.read_ranges), self.dataset.source.manifest
        if traffic is None or self._traffic is None:
            return None
        file_bytes = float(manifest.shards.sizes.sum()) / max(1, len(manifest.shards))
        return store_figures(traffic.since(self._traffic), elapsed_s, file_bytes)

    def report(self) -> str:
        """The bottleneck in words, then the figures of every stage."""
        return "\n\n".join([report_text(self.stats()), *explain_sharing(self._lowered.order, self._place[1])])

    # The end

    def close(self) -> None:
        """Stops all threads and lets memory go; a new pass starts them again.

        Pinned memory, which CUDA copies from, goes to PyTorch's cache of it, and stays in the process for other loaders.
        """
        self._last_stats = self.stats()
        _close_runs(self._runs, (), self._ahead)
        for slots in self._lowered.slots:
            slots.drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _close_runs(runs: list[tuple[Run, list[Position]]], slots: tuple[Slots, ...], ahead: Ahead | None) -> None:
    for run, _ in [*runs]:
        run.close()
    if ahead is not None:
        ahead.stop()
    runs.clear()
    for ring in slots:
        ring.clear()
