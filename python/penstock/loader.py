"""Loader: lowers a plan for one rank, runs it, and holds the position (epoch, step)."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, wraps
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, Self, Unpack, cast, overload

import numpy as np
import numpy.typing as npt

from penstock.core.by_name import Function, options_by_name
from penstock.core.cache_dirs import size_of
from penstock.core.errors import PenstockError, PlanError, ProcessError, StateError, StorageError
from penstock.core.given import is_one_of, is_whole
from penstock.core.quoted import printable_lines, quoted
from penstock.core.spec import Ids
from penstock.core.tracebacks import users_part
from penstock.core.traffic import Traffic, sum_of
from penstock.core.warned import warn
from penstock.dataset import Dataset, with_kept_nulls
from penstock.deliver import open_deliver, with_conversions
from penstock.deliver.accelerate import Seen, is_at_work
from penstock.deliver.ranks import Ranks
from penstock.deliver.samplers import BatchIndices, BatchSampler, Sampler, batch_sampler_type, unsent
from penstock.deliver.structure import FRAMES, Structure
from penstock.loader_types import BatchT, LoaderOptions, Structures, To
from penstock.observe.bad_samples import BadSamples, OnError
from penstock.observe.cache_report import cache_advice, cache_lines
from penstock.observe.ledger.writer import Ledger
from penstock.observe.quarantine import Quarantine
from penstock.observe.report import pending_text, report_text
from penstock.observe.stats import all_meters, all_tuning, no_stats, run_stats
from penstock.observe.store import store_figures
from penstock.observe.torch_profiler import profiled
from penstock.order.cursor import Position
from penstock.order.lane_rows import LANE_ROWS
from penstock.order.progress import Progress
from penstock.order.sharing import explain_sharing
from penstock.order.token_batches import TokenBatches
from penstock.plan.between_ranks import PlanOfRank
from penstock.plan.changed_weights import ChangedWeights
from penstock.plan.nodes import Batch
from penstock.plan.saved import STATE_VERSION, SavedPlan, check_state
from penstock.plan.tree import find, leaves
from penstock.resolve.ordering import is_for_evaluation
from penstock.resolve.stream_state import check_streams, stream_entries
from penstock.runtime.run import Run
from penstock.runtime.slots import Slots
from penstock.runtime.stage import Delivered
from penstock.runtime.tune import Depth
from penstock.runtime.watchdog import Watchdog
from penstock.share import Share, SingleSteps, share_of
from penstock.stages.lanes.feeds import LaneFeeds
from penstock.stages.lanes.states import Place, checked_lanes, merge_states
from penstock.stages.read.ahead import Ahead
from penstock.storage.fetch.scheduler import pending_requests
from penstock.tools.explain import explain

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from tensordict import TensorDict


def _isolated_where_asked(init: Function) -> Function:
    """With isolation="process", makes of a loader one whose batches a child process makes; `__new__` would hide the arguments from tools."""

    @wraps(init)
    def begin(self: Loader[Any], *dataset: Any, **options: Any) -> None:
        if type(self) is Loader and is_one_of(options.get("isolation"), ("process",)):
            from penstock.isolated.loader import IsolatedLoader  # which is a Loader

            isolated: Any = IsolatedLoader
            self.__class__ = isolated
            isolated.__init__(self, *dataset, **options)
        else:
            init(self, *dataset, **options)

    return cast("Function", begin)


class Loader(Generic[BatchT]):
    """Batches of a dataset, as dicts of columns. One pass is one epoch; the next pass is the next epoch.

    A batch is a dict: write batch["image"], since `for image, label in loader` would bind the columns' names. A pass begins when its first batch is
    taken. After a pass that you leave early, `state_dict` says where, and a new pass begins the next epoch. After `load_state_dict` or `set_epoch` the
    next pass begins there.

    Args:
        dataset: what to read and how it is batched; it ends with `batch` or a verb like it.
        to: "numpy", "torch" or "jax".
        device: for torch, e.g. "cuda:1"; "cuda" is the one that is current now. For JAX a device, its name, or a sharding of the rows, which
            makes global arrays of batches. Default: the host's memory.
        pin_memory: for torch on the CPU, batches lie in pinned memory, from which a training that moves them itself copies fast, with
            `.to("cuda", non_blocking=True)`; with device="cuda" nothing is left to pin.
        convert: by column a dtype, such as "int64" for labels; "list" for text, bytes or ragged numbers as a list of rows; for torch also "nested", a
            jagged tensor of a ragged column, and "channels_last". A dtype that cannot hold a number is an error.
        structure: "dict"; "tuple", in the order of the columns; "namedtuple"; "tensordict"; "arrow", "pandas" or "polars" for frames; or a dataclass or
            NamedTuple class, whose fields must be the columns.
        rank: this process's share. Default: found from JAX, torch.distributed or the environment (torchrun, MPI, Horovod, SLURM), anew
            whenever a pass begins, so that the process group may come after the loader.
        world_size: the number of shares; goes with rank.
        process_group: the ranks that share the data, if these are not all. Ranks that differ in data or plan all fail at their first pass.
        mesh: a DeviceMesh that says which ranks get different rows.
        data_dims: the names of the mesh's dimensions along which ranks get different rows; along the others (tensor, pipeline, context parallel)
            they get the same.
        equal_parts: True to give all ranks equally many rows of an epoch's last step too, if that is short, some of them repeated: so that what ranks
            compute can be gathered, and cut to `real_rows`. Default: where Accelerate or Hugging Face's Trainer evaluates a plan without shuffle, which cut
            it so themselves.
        memory: what this loader holds at most, in bytes or as text like "4GB": what is read ahead and in flight, blocks of open windows,
            batches made ahead and memory to be used again, but not the batches that you hold. Default: a quarter of what the machine or the control
            group has, no more than half of what is free, shared by the ranks of this machine.
        cpus: threads for kernels and functions. Default: up to what the process may use, tuned; functions that wait may have more.
        prefetch: batches made ahead. Default: tuned.
        epochs: how many passes there will be, if that is known; nothing is read ahead for more. Default: the next pass's first batches are
            read while this one ends. You may make more passes all the same.
        watchdog: seconds. If you wait for a batch and no stage makes progress for so long, the log (logger "penstock") gets a warning that
            says what each stage does, with its stack; None for never.
        ledger: a folder in which each rank records the rows of every step that it takes; `penstock verify` proves from the ledgers of all ranks
            and restarts that none was lost or repeated.
        on_error: what becomes of bad samples (damaged images, records that cannot be parsed, rows for which a function of map_rows raises DataError):
            "raise" an error, "substitute" another row in their place, or "skip" them; the same on any number of ranks and after every restart.
        max_errors: how many different bad samples there may be, or as a float, which part of the rows.
        quarantine: a file to which a line of JSON is added for each bad sample; "{rank}" in it stands for the rank. `read(…, exclude=…)` leaves these out.
        isolation: with "process" one child process makes the batches, for training code that holds the interpreter: the same batches and states (see
            docs/performance.md).

    Raises:
        PlanError: for what cannot work.
        DataError: for damaged data, with the place; while you iterate.

    Example:
        for batch in ps.Loader(train.shuffle(seed=0).batch(256), to="torch", device="cuda"):
            loss = model(batch["image"], batch["label"])
    """

    # As of a DataLoader that works in its own process. Accelerate's skip_first_batches makes one of these, which then meets
    # `batch_sampler` and what that says, instead of a complaint about workers.
    num_workers, prefetch_factor = 0, None

    _open_deliver = staticmethod(open_deliver)
    _is_isolated = False

    @overload
    def __init__(
        self: Loader[dict[str, Any]],
        dataset: Dataset,
        *,
        structure: Literal["dict"] = "dict",
        **options: Unpack[LoaderOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Loader[tuple[Any, ...]],
        dataset: Dataset,
        *,
        structure: Literal["tuple"],
        **options: Unpack[LoaderOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Loader[TensorDict],
        dataset: Dataset,
        *,
        structure: Literal["tensordict"],
        **options: Unpack[LoaderOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Loader[pa.RecordBatch], dataset: Dataset, *, structure: Literal["arrow"], **options: Unpack[LoaderOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Loader[pd.DataFrame], dataset: Dataset, *, structure: Literal["pandas"], **options: Unpack[LoaderOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Loader[pl.DataFrame], dataset: Dataset, *, structure: Literal["polars"], **options: Unpack[LoaderOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Loader[Any], dataset: Dataset, *, structure: Literal["namedtuple"], **options: Unpack[LoaderOptions]
    ) -> None: ...
    @overload
    def __init__(self, dataset: Dataset, *, structure: type[BatchT], **options: Unpack[LoaderOptions]) -> None: ...
    @_isolated_where_asked
    @options_by_name("the batch is the dataset's: Loader(dataset.batch(size))", called="Loader")
    def __init__(
        self,
        dataset: Dataset,
        *,
        to: To = "numpy",
        device: Any = None,
        pin_memory: bool = False,
        convert: Mapping[str, Any] | None = None,
        structure: Structures | type[Any] = "dict",
        rank: int | None = None,
        world_size: int | None = None,
        process_group: Any = None,
        mesh: Any = None,
        data_dims: str | Sequence[str] | None = None,
        equal_parts: bool | None = None,
        memory: int | str | None = None,
        cpus: int | None = None,
        prefetch: int | None = None,
        epochs: int | None = None,
        watchdog: float | None = 60.0,
        ledger: str | PathLike[str] | None = None,
        on_error: OnError = "raise",
        max_errors: float = 1000,
        quarantine: str | PathLike[str] | None = None,
        isolation: Literal["process"] | None = None,
    ) -> None:
        if not isinstance(dataset, Dataset):
            raise PlanError(
                f"Loader({type(dataset).__name__}): takes a Dataset; make one with penstock.read, from_arrays, from_dataset or "
                f"from_iterable"
            )
        _check_isolation(isolation, is_isolated=self._is_isolated)
        self.dataset = dataset = (
            with_kept_nulls(dataset) if isinstance(structure, str) and structure in FRAMES else dataset
        )
        for name, value, why in (
            ("cpus", cpus, "at least one thread must work"),
            ("prefetch", prefetch, "at least one batch must be made ahead"),
            ("epochs", epochs, "at least one pass must be made"),
        ):
            if value is not None and (not is_whole(value) or value < 1):
                raise PlanError(f"{name}={quoted(value)}; {why}, and a whole number")
        if equal_parts is not None and not isinstance(equal_parts, bool):
            raise PlanError(f"equal_parts={quoted(equal_parts)}; choose True or False, or leave it out")
        self._wants_equal_parts = equal_parts
        memory_bytes = size_of(memory, "memory")
        if memory is not None and memory_bytes < 1:
            raise PlanError(f"memory={quoted(memory)}; batches made ahead take some bytes, for example '4GB'")
        self._deliver = with_conversions(self._open_deliver(to, device, pin_memory=pin_memory), to, convert)
        self._delivery = to if device is None else f"{to} on {device}"
        self._ranks, self._ranks_agree = (
            Ranks(
                rank=rank,
                world_size=world_size,
                process_group=process_group,
                mesh=mesh,
                data_dims=data_dims,
                framework=self._deliver.ranks,
            ),
            False,
        )
        self._saved_plan = SavedPlan.of(dataset.root)
        self._prefetch, self._epochs = prefetch, epochs
        self._watchdog = Watchdog(watchdog)
        self._ledger = None if ledger is None or not self._ranks.records else Ledger(ledger)
        self._until = math.inf  # the run's first epoch that it does not make
        self._progress, self._loaded_rows = Progress(), 0
        self._lane_places: Any = None  # as they were loaded
        self._one_by_one = False
        self._leave: tuple[BaseException, tuple[int, int]] | None = None
        self._first_batch_s = 0.0
        self._last_stats = no_stats()
        self._traffic: Traffic | None = None
        self._runs: list[tuple[Run, list[Position]]] = []
        self._weights = ChangedWeights.none(dataset.root)
        self._bad_samples = BadSamples(on_error, max_errors, None if quarantine is None else Quarantine(quarantine))
        self._share_with = partial(
            share_of,
            deliver=self._deliver,
            cpus=cpus,
            memory_bytes=memory_bytes or None,
            bad_samples=self._bad_samples,
        )
        self._single_steps, self._seen = SingleSteps(), Seen()
        self._place = self._ranks.place()
        try:
            self._take(self._new_share(self._place[:2], equal_parts=self._has_equal_parts(self._place.world_size)))
            if convert is not None:
                self._deliver.check(self._lowered.columns)
            self._structure = Structure(
                structure, None if self._lowered.columns is None else tuple(self._lowered.columns)
            )
        except PenstockError as error:
            self._ranks.fail(error)
            raise
        self._ranks.announce(self._plan_of_rank)

    # Whose share

    @property
    def rank(self) -> int:
        """The rank of this process as it is now, or as the pass that runs began with."""
        return self._share_now().rank

    @property
    def world_size(self) -> int:
        """The number of ranks as it is now, or as the pass that runs began with."""
        return self._share_now().world_size

    def _share_now(self) -> Share:
        """Lowers the plan again if the process group came, went or changed; not while a pass runs."""
        if self._progress.is_running:
            return self._share
        place = self._ranks.place()
        equal_parts = self._has_equal_parts(place.world_size)
        if (place, equal_parts) == (self._place, self._share.equal_parts):
            return self._share
        if (place[:2], equal_parts) != (self._share.ranks, self._share.equal_parts):
            share = self._new_share(place[:2], equal_parts=equal_parts)
            if self._lowered.lanes and self._progress.here != Position():
                self._lane_places = {**(self._lane_places or {}), **self._places_now()}
            self._stop()
            self._finalizer.detach()
            self._take(share)
        self._place, self._ranks_agree = place, False
        return self._share

    def _has_equal_parts(self, world_size: int) -> bool:
        """Whether ranks have equally many rows of a step that is not full, as passed, else where trainers gather them."""
        if self._wants_equal_parts is not None:
            return self._wants_equal_parts
        return is_at_work(world_size) and is_for_evaluation(self.dataset.root)

    def _plan_of_rank(self) -> PlanOfRank:
        """What must be the same on all ranks."""
        return PlanOfRank(
            plan=self._saved_plan.on(self._share.world_size),
            data=None if self._share.node else (self.dataset.digest, self._lowered.order.samples),
            options={
                "world_size": self._share.world_size,
                "division of rows": self._ranks.shown,
                "equal_parts": self._share.equal_parts,
                "on_error": self._bad_samples.on_error,
                **self._weights.entries,
            },
        )

    def _new_share(self, ranks: tuple[int, int], *, equal_parts: bool) -> Share:
        """The share of (rank, world size), by the weights that are set."""
        return self._share_with(Dataset(self._weights.applied(self.dataset.root)), ranks, equal_parts=equal_parts)

    def _take(self, share: Share) -> None:
        self._share, self._lowered, self._ahead = share, share.lowered, share.ahead(self._epochs)
        if self._lane_places is not None:
            self._lowered.lanes.begin(self._progress.here, self._places_here(self._lane_places))
        self._finalizer = weakref.finalize(
            self,
            _close_runs,
            self._runs,
            self._lowered.slots,
            self._ahead,
            self._lowered.lanes,
            self._lowered.workers.close,
        )

    def _places_now(self) -> dict[str, list[Place]]:
        """The places of this rank's lanes, as states have them."""
        places = self._lowered.lanes.places(self._progress.here) if self._lowered.lanes else {}
        return {str(lane): stages for lane, stages in places.items()}

    def _places_here(self, lanes: Any) -> dict[int, list[Place]]:
        """The places of this rank's lanes out of a state's; StateError where one is missing."""
        return checked_lanes(lanes, self._lowered.lanes.mine)

    # One pass

    def __iter__(self) -> Iterator[BatchT]:
        return self._batches(self._progress.announce_pass())

    def _batches(self, this_pass: int) -> Iterator[BatchT]:
        progress, ended = self._progress, False
        try:
            self._check_pass(this_pass)
            steps = self._begin()
            check_ranks = self._ranks.watch(self._place)
            while progress.step < steps:
                try:
                    with profiled("next batch"):
                        item = self._next_item()
                except Exception as error:
                    error.__traceback__ = users_part(error)
                    raise
                share = self._share
                take, steps_here = self._structure.taking(self._split(item)), item.steps
                if self._ledger is not None:
                    take = self._ledger.recording(self._share.rows_of(item), take)
                del item
                progress.untouched, step = False, progress.step
                for _ in range(steps_here):
                    check_ranks()
                    step += 1
                    progress.step = step
                    self._seen.take(is_last=step == steps)
                    yield take()  # of which nothing is held here: its memory is used again as soon as the consumer lets go
                    if this_pass != progress.newest_pass:
                        self._check_pass(this_pass)
                    if share is not self._share:
                        break  # other weights were set: what is left of the item was made by those before
            self._leave_if_due()
            progress.finish_pass()
            ended = True
        finally:
            if this_pass == progress.newest_pass:
                progress.is_running = False
                # At the interpreter's end modules are empty, and every run is closed.
                if _close_runs is not None:
                    self._seen.end()
                    if not ended:
                        self._stop(keep_processes=True)

    def _begin(self) -> int:
        """Begins a pass, for the rank as it is now; the number of steps in its epoch."""
        self._share_now()
        self._ranks_agree = self._ranks_agree or self._ranks.agree(self._plan_of_rank)
        if self._progress.untouched and self._progress.step and self._loaded_rows != self._lowered.order.batch_size:
            raise StateError(
                f"the state was loaded for steps of {self._loaded_rows} rows, and {self._share.world_size} ranks take "
                f"{self._lowered.order.batch_size}; call load_state_dict after init_process_group"
            )
        self._one_by_one, self._leave = False, None
        if self._runs and self._progress.is_broken_off:
            self._stop(keep_processes=True)  # where lanes stand counts from here
        self._progress.begin_pass()
        self._lane_places = None  # of lanes that other ranks have, they are out of date from now on
        if self._ledger is not None:
            here = self._normal(self._progress.here)
            self._ledger.begin(self._share.ledger_header(self._saved_plan), here.epoch, here.step)
        steps = len(self)
        if self._share.equal_parts and is_at_work(self._share.world_size):
            self._seen.begin(self._share.real_rows(self._progress.epoch, steps - 1) % self._lowered.order.batch_size)
        return steps

    def _split(self, item: Delivered) -> list[tuple[str, Callable[[], Any]]]:
        """For each column what gives its part of one step after the other; nothing is cut where there is one step."""
        columns, rows = self._deliver.receive(item.columns), item.rows_per_step
        parts = self._deliver.parts if item.steps > 1 else lambda column, _: [column].pop
        return [(name, parts(column, rows)) for name, column in columns.items()]

    def _check_pass(self, this_pass: int) -> None:
        if this_pass != self._progress.newest_pass:
            raise ProcessError(
                f"this iteration of the loader is over, since {self._progress.ended_by}; go on with a new `for batch in loader`"
            )

    def _next_item(self) -> Delivered:
        self._leave_if_due()
        run, position = self._run()
        try:
            feeds = self._lowered.lanes.feeds
            item = cast("Delivered", self._watchdog.next_item(run, feeds, self._about_stall))
        except BaseException as error:
            is_final = self._one_by_one or self._lowered.steps_per_item == 1
            if not run.has_failed or is_final or isinstance(error, (StorageError, ProcessError)):
                raise
            # Steps that are made together fail together: again, one by one, so that all before the bad one come first.
            self._stop(keep_processes=True)
            self._one_by_one = True
            if not isinstance(error, Exception):  # whoever wants to leave may want it once
                here = self._progress.here
                self._leave = error, (here.epoch, min(here.step + self._lowered.steps_per_item, len(self)))
            return self._next_item()
        position[0] = Position(item.epoch, item.step + item.steps)
        self._lowered.lanes.forget_before(Position(item.epoch, item.step))
        if self._bad_samples.has_news:
            self._bad_samples.warn()
        if not self._first_batch_s:
            self._first_batch_s = time.perf_counter() - run.started_at
        return item

    def _leave_if_due(self) -> None:
        """Raises the KeyboardInterrupt or SystemExit of a user's function, if it did not come again, behind the steps that it stopped."""
        here, left = self._progress.here, self._leave
        if left is not None and (here.epoch, here.step) >= left[1]:
            self._leave = None
            raise left[0]

    def _run(self) -> tuple[Run, list[Position]]:
        """The run that continues at the loader's position; a new one if there is none."""
        here = self._progress.here
        if self._runs:
            run, position = self._runs[0]
            if self._normal(position[0]) == here and here.epoch < self._until:
                return run, position
            self._stop(keep_processes=True)
        depth = self._depth()
        if self._epochs is not None:
            self._until = max(self._epochs, here.epoch + 1)
        position = [here]
        work = self._lowered.work_from(here, lambda: position[0], one_by_one=self._one_by_one, epochs=self._epochs)
        self._traffic = self._traffic_now()
        for ahead in self._ahead:
            work = ahead.follow(work)
        self._lowered.check_memory()
        self._lowered.lanes.move(here)
        budget, tuner = self._lowered.budget, self._lowered.tuner
        run = Run(self._lowered.stages, budget.follow(work), depth, budget, tuner, self._deliver.thread_setup())
        self._first_batch_s, self._watchdog.stalls = 0.0, 0
        self._runs.append((run, position))
        return self._runs[0]

    def _normal(self, position: Position) -> Position:
        return position if position.step < len(self) else Position(position.epoch + 1)

    def _depth(self) -> Depth:
        item_bytes = max(1, self._lowered.item_bytes * self._lowered.steps_per_item)
        most = max(1, min(8, self._lowered.budget.limit_bytes // item_bytes - len(self._lowered.stages)))
        if self._prefetch is not None:
            items = max(1, -(-self._prefetch // self._lowered.steps_per_item))
            return Depth(out=items, between=1, most=items, fixed=True)
        return Depth(out=min(2, most), between=min(2, most), most=most)

    def __repr__(self) -> str:
        position = self._normal(self._progress.here)
        up_to = "up to " if isinstance(self._lowered.order, TokenBatches) else ""
        return (
            f"Loader({self.dataset!r}, {self._shown_rank}: {len(self):,} steps of {up_to}{self.batch_size:,} rows an epoch, "
            f"to {self._delivery}; next is epoch {position.epoch}, step {position.step})"
        )

    @property
    def _shown_rank(self) -> str:
        share, origin = self._share_now(), self._place.origin
        return f"rank {share.rank} of {share.world_size}{f' ({origin})' if origin else ''}"

    def __len__(self) -> int:
        """Steps in an epoch, the same on every rank; with batch(…, per_rank=True) for as many ranks as there are now."""
        return self._share_now().lowered.order.steps_per_epoch

    @property
    def batch_size(self) -> int:
        """Rows of a full batch on this rank; with `batch_tokens`, the most of any batch."""
        _, ranks = self._share_now().place
        return self._lowered.order.batch_size // ranks

    # Position and state

    @property
    def epoch(self) -> int:
        """The epoch of the next batch."""
        return self._progress.epoch

    @property
    def step(self) -> int:
        """The step of the next batch in its epoch."""
        return self._progress.step

    @property
    def sampler(self) -> Sampler:
        """Not what draws the samples, but what trainers call `set_epoch` of."""
        return Sampler(self._set_epoch)

    @property
    def batch_sampler(self) -> BatchSampler:
        """Not what draws the batches, but what trainers ask for their size and number."""
        batch = find(self.dataset.root, Batch)
        assert batch is not None  # or the plan could not be lowered
        steps, ids = len(self), partial(self.sample_ids, self._progress.epoch)
        seen = () if self._lowered.lanes else BatchIndices(steps, ids)
        return batch_sampler_type()(self.sampler, self.batch_size, batch.drop_last, steps, seen)

    def set_epoch(self, epoch: int) -> None:
        """The next pass is this epoch, from its beginning; from where `load_state_dict` went in it, if nothing was taken since."""
        self._set_epoch(epoch)

    def _set_epoch(self, epoch: int, *, keep_later: bool = False) -> None:
        if not is_whole(epoch) or epoch < 0:
            raise PlanError(f"set_epoch({quoted(epoch)}): epochs are counted from 0, in whole numbers")
        if self._lowered.lanes and epoch != self._progress.epoch + self._progress.is_broken_off:
            raise PlanError(
                f"set_epoch({epoch}): this plan's lane stages go on from epoch to epoch, so where an epoch begins is known on the way only, and "
                f"the next one is {self._progress.epoch + self._progress.is_broken_off}; load a state to begin elsewhere"
            )
        self._progress.set_epoch(epoch, steps=len(self), keep_later=keep_later)

    def set_weights(self, weights: Sequence[float], *, mix: int = 0) -> None:
        """Other weights for a mix, from the next batch that you take on: set_weights([0.5, 0.5]).

        Every rank must call it at the same step, as it must `set_epoch`. Batches made ahead are made again. The mix must have rows=…; each of its
        datasets goes on where it was. The state remembers what was set, and when; it loads on any number of ranks. What was set holds
        from then on, in place of the plan's own schedule. mix: which one, where the plan has several, the outermost first.
        Raises PlanError for weights that do not fit, and where steps and rows of the mix do not go together.
        """
        here = self._progress.here
        self._use_weights(self._weights.changed(self.dataset.root, mix, here.epoch * len(self) + here.step, weights))

    def _use_weights(self, weights: ChangedWeights) -> None:
        if weights == self._weights:
            return
        before, self._weights = self._weights, weights
        try:
            share = self._new_share(self._share.ranks, equal_parts=self._share.equal_parts)
        except PlanError:
            self._weights = before
            raise
        if self._lowered.lanes:
            self._lane_places = self._places_now()
        self._stop()
        self._finalizer.detach()
        self._take(share)

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands: less than 4 KiB of plain JSON for a plan of 200 verbs, besides weights that were set, the same on every rank and for any number of them.

        With lane stages (a filter by a function, flat_map, pack) each rank knows the places of its own lanes, some bytes each:
        save every rank's state, and load `penstock.merge_states` of all; where there is one rank, its state is the whole.
        """
        if self._ledger is not None:
            self._ledger.flush()  # what a state counts as done is recorded
        order = self._lowered.order
        position = self._progress.here
        places = self._places_now()
        return {
            "version": STATE_VERSION,
            "data": self.dataset.digest,
            "samples": order.samples,
            **self._saved_plan.on(self._share.world_size).entries,
            "epoch": position.epoch,
            "step": position.step,
            **({"lanes": places} if places else {}),
            **self._weights.entries,
            **stream_entries(self.dataset.root),
            **self._share.node,
            **({} if self._bad_samples.on_error == "raise" else {"on_error": self._bad_samples.on_error}),
        }

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, strict: bool = True) -> None:
        """The next pass continues where the state was taken; StateError if the data or the plan is another one.

        state: what `state_dict` returned, or `penstock.merge_states`, or the list of all ranks' states, which are then merged.
        strict=False continues with a plan that differs in its columns, ops or functions, and warns of every difference; data and
        order (shuffle, shard, batch) must still be the same.
        """
        saved_plan = self._saved_plan.on(self._share_now().world_size)
        state = merge_states(state) if isinstance(state, (list, tuple)) else cast("Mapping[str, Any]", state)
        other_policy = self._check_policy(state)
        if begins_lanes := bool(other_policy) and self._bad_samples.on_error == "skip":
            state = {**state, "lanes": {}}
        notes = check_state(state, self.state_dict(), saved_plan, strict=strict)
        for note in [*notes, *([other_policy] if other_policy else [])]:
            warn(note)
        try:
            position = Position(int(state["epoch"]), int(state["step"]))
        except (TypeError, ValueError, OverflowError):
            raise StateError(
                f"the state says epoch {quoted(state['epoch'])}, step {quoted(state['step'])}; it was changed"
            ) from None
        if not 0 <= position.epoch < 2**63 or not 0 <= position.step <= len(self):
            raise StateError(
                f"the state says {quoted(position)}, but epochs have the steps 0 … {len(self) - 1}; it was changed"
            )
        if self._lowered.lanes and (position.epoch + 1) * len(self) * self._lowered.order.rows_per_lane >= LANE_ROWS:
            raise StateError(
                f"the state says epoch {position.epoch:,}, beyond the rows that a lane can count; it was changed"
            )
        check_streams(self.dataset.root, position)
        if begins_lanes:
            state = {**state, "lanes": self._share.places_at(position, self.dataset)}
        places = self._places_here(state["lanes"]) if self._lowered.lanes else {}
        self._use_weights(ChangedWeights.of_state(self.dataset.root, state))
        self._stop(keep_processes=True)
        self._progress.load(position, steps=len(self))
        self._lowered.lanes.begin(position, places)
        self._lane_places = state.get("lanes")
        if self._ledger is not None:
            self._ledger.load()
        self._loaded_rows = self._lowered.order.batch_size

    def _check_policy(self, state: Mapping[str, Any]) -> str:
        """What to say of a state whose run did otherwise about bad samples; StateError where this loader cannot go on with it."""
        here = self._bad_samples.on_error
        saved = state.get("on_error", "raise") if isinstance(state, Mapping) else here
        if saved == "skip" != here:
            raise StateError(
                f"the state was saved with on_error='skip', where lanes stand where no step of on_error={here!r} begins; load it with on_error='skip', "
                f"or start anew"
            )
        if saved == here:
            return ""
        return f"the state was saved with on_error={saved!r}; training continues with {here!r}, which gives other batches where a sample is bad"

    @property
    def is_real(self) -> npt.NDArray[np.bool_]:
        """Which rows of the batch that was taken last are not there only to fill it up, on this rank: bool (rows,).

        All of them, but in an epoch's last steps with `equal_parts`, `pad` or `wrap`: losses[loader.is_real].sum(). ProcessError before a pass's first batch.
        """
        return self._share.is_real(*self._taken_last("is_real"))

    @property
    def real_rows(self) -> int:
        """How many rows the step that was taken last has on all ranks, without those that only fill it up.

        With `equal_parts` these come first where ranks' results are joined in their order: torch.cat(gathered)[: loader.real_rows]. ProcessError before a pass's first batch.
        """
        return self._share.real_rows(*self._taken_last("real_rows"))

    def _taken_last(self, asked: str) -> tuple[int, int]:
        here = self._progress.here
        if not self._progress.is_broken_off:
            raise ProcessError(
                f"{asked} is of the batch that was taken last, and none was in this pass; ask inside the loop"
            )
        return here.epoch, here.step - 1

    def sample_ids(self, epoch: int, step: int) -> Ids:
        """The sample ids (int64) of this rank's rows at a step; arithmetic alone, nothing is read."""
        self._check_step(epoch, step)
        self._check_arithmetic("sample_ids")
        share = self._share_now()
        return share.lowered.order.ids(epoch, step, 1, *share.place)

    def batch_at(self, epoch: int, step: int) -> BatchT:
        """The batch of any step, made at once in the calling thread; the loader's position stays."""
        self._check_step(epoch, step)
        self._check_arithmetic("batch_at")
        share = self._share_now()
        new_share = partial(self._new_share, equal_parts=share.equal_parts)
        delivered = self._single_steps.make(new_share, share.ranks, epoch, step)
        batch: BatchT = self._structure.of(self._deliver.receive(delivered))
        return batch

    def _check_arithmetic(self, asked: str) -> None:
        if self._lowered.lanes:
            raise PlanError(
                f"{asked}: what a step holds is not known in advance, since a stage of this plan gives rows by what the data says"
            )

    def _check_step(self, epoch: int, step: int) -> None:
        if not is_whole(epoch) or epoch < 0:
            raise PlanError(f"epoch {quoted(epoch)}: epochs are counted from 0, in whole numbers")
        if not is_whole(step) or not 0 <= step < len(self):
            raise PlanError(f"step {quoted(step)}: an epoch has the steps 0 … {len(self) - 1}")

    # Telling

    def stats(self) -> dict[str, Any]:
        """Figures since the running pipeline was started, or of the last that ran.

        Of the whole, under "stages" of each stage, and under "storage" (None for local files) of the store: requests, bytes,
        retries, hedges, latency in seconds, cache hits. Under "tuning": for each number that is tuned its value, its limit and whether you fixed
        it, and the last decisions, each with time, old and new value and the reason.
        """
        running = self._runs[:1]  # another thread may close it meanwhile
        if not running:
            return self._last_stats
        run = running[0][0]
        elapsed_s = time.perf_counter() - run.started_at
        return run_stats(
            all_meters(run.meters, self._lowered.lanes.feeds),
            elapsed_s=elapsed_s,
            waited_s=run.waited_s,
            first_batch_s=self._first_batch_s,
            decoders=self._lowered.images(),
            storage=self._storage_figures(elapsed_s),
            memory=self._lowered.memory(),
            errors=self._bad_samples.figures(),
            stalls=self._watchdog.stalls,
            tuning=all_tuning(run, self._lowered.lanes.feeds),
            cache=[cached.rows.figures() for cached in self._lowered.caches],
            functions=[choice.figures() for choice in self._lowered.workers.choices.values()],
        )

    def _storage_figures(self, elapsed_s: float) -> dict[str, Any] | None:
        """What the store did since the run began; other loaders' requests to the same dataset are counted too."""
        traffic = self._traffic_now()
        if traffic is None or self._traffic is None:
            return None
        shards = [leaf.opened.source.manifest.shards for leaf in leaves(self.dataset.root)]
        file_bytes = sum(float(some.sizes.sum()) for some in shards) / max(1, sum(map(len, shards)))
        return store_figures(traffic.since(self._traffic), elapsed_s, file_bytes)

    def _traffic_now(self) -> Traffic | None:
        """What was asked so far of the storages of all sources; None if they are local files and memory."""
        found = {
            id(traffic): traffic
            for leaf in leaves(self.dataset.root)
            if (traffic := leaf.opened.read_ranges.traffic) is not None
        }
        return sum_of(found.values()) if found else None

    def report(self) -> str:
        """The bottleneck in words, then the figures of every stage."""
        stats, lowered = self.stats(), self._lowered
        advice = cache_advice(stats, lowered.cacheable, lowered.order.samples)
        sharing = explain_sharing(lowered.order, self._share.place[1])
        rank = [] if self._place == (0, 1, "") else [self._shown_rank]
        return "\n\n".join([report_text(stats), *rank, *cache_lines(stats), *advice, *sharing])

    def explain(self) -> str:
        """The plan as this loader runs it, in words: see `Dataset.explain`; and which ops the device does."""
        deliver = None if self._is_isolated else self._deliver  # the child delivers NumPy arrays
        return printable_lines(explain(self.dataset.root, self._share_now().world_size, deliver))

    def _about_stall(self) -> str:
        """What the watchdog tells beside the stages: where the loader stands, the report, and what stores did not answer."""
        found = [f"{self!r}", self.report(), pending_text(pending_requests())]
        return "\n\n".join(filter(None, found))

    # The end

    def close(self) -> None:
        """Stops all threads and lets memory go; a new pass starts them again.

        Pinned memory, which CUDA copies from, returns to PyTorch's cache of it, and stays in the process for other loaders.
        """
        self._stop()

    def _stop(self, *, keep_processes: bool = False) -> None:
        """Stops what makes batches; processes may stay for the next pass, since some take seconds to start."""
        self._last_stats = self.stats()
        lanes, was_running = self._lowered.lanes, bool(self._runs)
        places = lanes.places(self._progress.here) if lanes and was_running else {}
        workers = self._lowered.workers
        _close_runs(self._runs, (), self._ahead, lanes, workers.rest if keep_processes else workers.close)
        if was_running:
            lanes.begin(self._progress.here, places)
        self._single_steps.clear()
        self._deliver.wait()
        for slots in self._lowered.slots:
            slots.drop()
        self._bad_samples.close()
        if self._ledger is not None:
            self._ledger.flush()

    def __reduce__(self) -> Never:
        raise unsent()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_isolation(isolation: Any, *, is_isolated: bool) -> None:
    if isolation is not None and not is_one_of(isolation, ("process",)):
        raise PlanError(f"isolation={quoted(isolation)}; choose 'process', or leave it out")
    if (isolation is not None) != is_isolated:
        raise PlanError("isolation='process': a subclass of Loader works in its own process; use Loader itself")


def _close_runs(
    runs: list[tuple[Run, list[Position]]],
    slots: tuple[Slots, ...],
    prefetching: Sequence[Ahead],
    lanes: LaneFeeds,
    end_processes: Callable[[], None],
) -> None:
    lanes.close()
    for run, _ in [*runs]:
        run.close()
    end_processes()
    for ahead in prefetching:
        ahead.stop()
    runs.clear()
    for ring in slots:
        ring.clear()
