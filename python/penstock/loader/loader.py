"""`Loader`: what users hold. What it does stands in the files beside this one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, Self, Unpack, overload

import numpy as np
import numpy.typing as npt

from penstock.core.arguments import is_whole, path_of
from penstock.core.columns.spec import Ids
from penstock.core.errors import PenstockError, PlanError
from penstock.core.messages import printable_lines, quoted
from penstock.core.verbs.options_by_name import options_by_name
from penstock.dataset import Dataset, with_kept_nulls
from penstock.deliver import Deliver, open_deliver, with_conversions
from penstock.deliver.accelerate import Seen
from penstock.deliver.samplers import BatchIndices, BatchSampler, Sampler, batch_sampler_type, unsent
from penstock.deliver.structure import Structure
from penstock.loader.headspace import Headspace
from penstock.loader.here import Here
from penstock.loader.in_child import InChild
from penstock.loader.item_source import ItemSource
from penstock.loader.options import BatchT, GivenOptions, LoaderOptions, shows_options
from penstock.loader.passes import EpochPass
from penstock.loader.preempt import Preemption, Save
from penstock.loader.rank import ThisRank
from penstock.loader.reports import write_report
from penstock.loader.state import load_state, state_of
from penstock.observe.bad_samples import BadSamples
from penstock.observe.recorder import Recorder
from penstock.observe.snapshot import Snapshot
from penstock.plan.nodes import Batch
from penstock.plan.tree import find
from penstock.tools.explain import explain

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from tensordict import TensorDict


class Loader(Generic[BatchT]):
    """Batches of a dataset, as dicts of columns. One pass is one epoch; the next pass is the next epoch.

    A batch is a dict: write batch["image"], since `for image, label in loader` would bind the columns' names. A pass begins when its first batch is
    taken. After a pass that you leave early, `state_dict` says where, and a new pass begins the next epoch. After `load_state_dict` or `set_epoch` the
    next pass begins there.

    Args:
        dataset: what to read and how it is batched; it ends with `batch` or a verb like it.
        to: "numpy", "torch" or "jax". Default: "numpy".
        device: for torch, e.g. "cuda:1" ("cuda": the current one); for JAX a device, its name, or a sharding of the rows. Default: the host's memory.
        pin_memory: True puts batches for torch on the CPU into pinned memory, for `.to("cuda", non_blocking=True)`. Default: False; device="cuda" needs no pinning.
        convert: by column a dtype ("int64"), "list" (a list of rows), and for torch "nested" (jagged) or "channels_last". A number that the dtype cannot hold is an error. Default: none.
        structure: "dict", "tuple", "namedtuple", "tensordict", "arrow", "pandas", "polars", or a dataclass or NamedTuple class with the columns as its fields. Default: "dict".
        rank: this process's share, from 0. Default: found from JAX, torch.distributed or the environment (torchrun, MPI, Horovod, SLURM) whenever a pass begins.
        world_size: the number of shares; goes with rank. Default: as rank.
        process_group: the ranks that share the data. Default: all. Ranks that differ in data or plan all fail at their first pass.
        mesh: a DeviceMesh that says which ranks get different rows. Default: none.
        data_dims: the names of the mesh's dimensions along which ranks get different rows; along the others (tensor, pipeline, context parallel) they get the same. Default: none.
        equal_parts: True repeats rows of a short last step, so that all ranks have equally many and can gather; cut to `real_rows`. Default: where Accelerate or Trainer evaluates without shuffle.
        memory: the most that the loader holds, in bytes or as "4GB": read ahead, open windows, batches made ahead; not batches that you hold. Default: a quarter of the machine's or control group's, at most half of what is free, shared by its ranks.
        cpus: threads for kernels and functions. Default: up to what the process may use, tuned; functions that wait may have more.
        prefetch: batches made ahead. Default: tuned.
        epochs: the number of passes, beyond which nothing is read ahead; more passes are possible. Default: unknown, so that a pass reads the next one's first batches.
        watchdog: seconds without progress of any stage, after which the log ("penstock") tells what each does, with its stack; None for never. Default: 60.
        ledger: a folder in which each rank records the rows of every step, from which `penstock verify` proves that none was lost or repeated. Default: none.
        on_error: for bad samples (damaged, unparsable, or a DataError of map_rows): "raise", "substitute" another row, or "skip"; alike on any number of ranks. Default: "raise".
        max_errors: different bad samples that may be met, or as a float the part of the rows. Default: 1000.
        quarantine: a file that gets a line of JSON for each bad sample; "{rank}" in it stands for the rank. `read(…, exclude=…)` leaves these out. Default: none.
        isolation: "process" makes the same batches in one child process, for training code that holds the interpreter (docs/performance.md). Default: none.
        observe: exporters of what is measured, by name ("jsonl:run.jsonl"), or objects with write and close; and those that $PENSTOCK_OBSERVE names (docs/observe.md). Default: ().

    Returns:
        An iterable of batches; each column has the batch's rows as its first dimension.

    Raises:
        PlanError: for what cannot work.
        DataError: for damaged data, with the place; while you iterate.

    Example:
        loader = ps.Loader(data.shuffle(seed=0).batch(4), memory="1GB")
        for epoch in range(2):
            for batch in loader:
                total = batch["x"].sum() + batch["label"].sum()
    """

    # Accelerate reads these. Its skip_first_batches makes a loader like this one, which then meets `batch_sampler` and what that says, instead of a
    # complaint about workers.
    num_workers, prefetch_factor = 0, None

    @overload
    def __init__(
        self: Loader[dict[str, Any]],
        dataset: Dataset,
        *,
        structure: Literal["dict"] = "dict",
        **options: Unpack[GivenOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Loader[tuple[Any, ...]], dataset: Dataset, *, structure: Literal["tuple"], **options: Unpack[GivenOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Loader[TensorDict], dataset: Dataset, *, structure: Literal["tensordict"], **options: Unpack[GivenOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Loader[pa.RecordBatch], dataset: Dataset, *, structure: Literal["arrow"], **options: Unpack[GivenOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Loader[pd.DataFrame], dataset: Dataset, *, structure: Literal["pandas"], **options: Unpack[GivenOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Loader[pl.DataFrame], dataset: Dataset, *, structure: Literal["polars"], **options: Unpack[GivenOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Loader[Any], dataset: Dataset, *, structure: Literal["namedtuple"], **options: Unpack[GivenOptions]
    ) -> None: ...
    @overload
    def __init__(self, dataset: Dataset, *, structure: type[BatchT], **options: Unpack[GivenOptions]) -> None: ...
    @shows_options
    @options_by_name("the batch is the dataset's: Loader(dataset.batch(size))", called="Loader")
    def __init__(self, dataset: Dataset, **options: Any) -> None:
        if not isinstance(dataset, Dataset):
            raise PlanError(
                f"Loader({type(dataset).__name__}): takes a Dataset; make one with penstock.read, from_arrays, from_dataset or "
                f"from_iterable"
            )
        told = self._told = LoaderOptions.of(options)
        if told.isolation is not None and type(self) is not Loader:
            raise PlanError("isolation='process': a subclass of Loader works in its own process; use Loader itself")
        self.dataset = with_kept_nulls(dataset) if told.is_frame else dataset
        delivery = open_deliver(told.to, told.device, pin_memory=told.pin_memory)
        self._deliver = with_conversions(delivery, told.to, told.convert)
        ranks = told.ranks(self._deliver.ranks)
        self._rank, self._seen = ThisRank(self.dataset, told, self._deliver, ranks, self._item_source), Seen()
        self._preemptions: list[Preemption] = []
        try:
            self._rank.take_first_share()
            columns = self._rank.share.lowered.columns
            if told.convert is not None:
                self._deliver.check(columns)
            self._structure = Structure(told.structure, None if columns is None else tuple(columns))
        except PenstockError as error:
            ranks.fail(error)
            raise
        self._rank.announce()
        self._rank.open_exporters()

    def _item_source(
        self, options: LoaderOptions, deliver: Deliver, bad_samples: BadSamples, recorder: Recorder, *, with_ids: bool
    ) -> ItemSource:
        """What makes the items."""
        if options.isolation is None:
            return Here(options, deliver, bad_samples, recorder)
        return InChild(self.dataset, options, deliver, bad_samples, recorder, with_ids=with_ids)

    @property
    def rank(self) -> int:
        """The rank of this process as it is now, or as the pass that runs began with."""
        return self._rank.share_now().rank

    @property
    def world_size(self) -> int:
        """The number of ranks as it is now, or as the pass that runs began with."""
        return self._rank.share_now().world_size

    def __len__(self) -> int:
        """Steps in the epoch of the next batch, the same on every rank; with batch(…, per_rank=True) for as many ranks as there are now.

        TypeError, as of iterables, where the data says how many and that is not known yet.
        """
        steps = self._rank.steps_of(self.epoch)
        if steps is None:
            raise TypeError(
                f"len(loader): epoch {self.epoch:,} ends where the data does, and how many steps that gives is not known yet; count them ahead with the dataset's count_rows(), or say batch(…, steps=…)"
            )
        return steps

    @property
    def batch_size(self) -> int:
        """Rows of a full batch on this rank; with `batch_tokens`, the most of any batch."""
        return self._rank.share_now().batch_size

    # Passes

    def __iter__(self) -> Iterator[BatchT]:
        number = self._rank.progress.announce_pass()
        one_pass = EpochPass[BatchT](
            rank=self._rank, deliver=self._deliver, structure=self._structure, seen=self._seen, number=number
        )
        return one_pass.batches()

    @property
    def epoch(self) -> int:
        """The epoch of the next batch."""
        return self._rank.progress.epoch

    @property
    def step(self) -> int:
        """The step of the next batch in its epoch."""
        return self._rank.progress.step

    @property
    def sampler(self) -> Sampler:
        """Not what draws the samples, but what trainers call `set_epoch` of."""
        return Sampler(self._rank.set_epoch)

    @property
    def batch_sampler(self) -> BatchSampler:
        """Not what draws the batches, but what trainers ask for their size and number."""
        batch = find(self.dataset.root, Batch)
        assert batch is not None  # or the plan could not be lowered
        steps, ids = self._rank.steps_of(self.epoch), partial(self.sample_ids, self.epoch)
        seen = () if self._rank.share.lowered.lanes or steps is None else BatchIndices(steps, ids)
        return batch_sampler_type()(self.sampler, self.batch_size, batch.drop_last, steps, seen)

    def set_epoch(self, epoch: int) -> None:
        """The next pass is this epoch, from its beginning; from where `load_state_dict` went in it, if nothing was taken since.

        Args:
            epoch: counted from 0.

        Raises:
            PlanError: with lane stages (filter by a function, flat_map, pack) for another epoch than the next one.

        Example:
            loader = ps.Loader(data.batch(4))
            loader.set_epoch(3)
        """
        self._rank.set_epoch(epoch)

    def set_weights(self, weights: Sequence[float], *, mix: int = 0) -> None:
        """Other weights for a mix, from the next batch that you take on, in place of the plan's own schedule.

        Every rank must call it at the same step, as it must `set_epoch`. Batches made ahead are made again. The mix must have rows=…; each of its
        datasets continues where it was. The state remembers what was set, and when; it loads on any number of ranks.

        Args:
            weights: one for each dataset of the mix.
            mix: which one, where the plan has several, the outermost first. Default: 0.

        Raises:
            PlanError: for weights that do not fit, and where steps and rows of the mix do not go together.

        Example:
            loader = ps.Loader(ps.mix([data, data], weights=[0.9, 0.1], rows=100).batch(10))
            loader.set_weights([0.5, 0.5])
        """
        rank, here = self._rank, self._rank.here
        if rank.share.lowered.lanes.has_ends:
            raise PlanError(
                "set_weights: an epoch of this plan ends where its data does, so which step follows which is known on the way only; say how many steps an epoch has, batch(…, steps=…)"
            )
        step = here.epoch * len(self) + here.step
        rank.use_weights(rank.share.changed.weights.changed(self.dataset.root, mix, step, weights))

    # State

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands: less than 4 KiB of plain JSON for a plan of 200 verbs, besides weights that were set, the same on every rank and for any number of them.

        With lane stages (a filter by a function, flat_map, pack) each rank knows the places of its own lanes, some bytes each:
        save every rank's state, and load `penstock.merge_states` of all; where there is one rank, its state is the whole.
        """
        return state_of(self._rank)

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, strict: bool = True) -> None:
        """The next pass continues where the state was taken.

        Args:
            state: what `state_dict` returned, or `penstock.merge_states`, or the list of all ranks' states, which are then merged.
            strict: False continues with a plan that differs in its columns, ops or functions, and warns of every difference; data and order
                (shuffle, shard, batch) must still be the same. Default: True.

        Raises:
            StateError: if the data or the plan is another one.

        Example:
            loader, other = ps.Loader(data.batch(4)), ps.Loader(data.batch(4))
            other.load_state_dict(loader.state_dict())
        """
        load_state(self._rank, state, strict=strict)

    def on_preempt(
        self,
        save: Save | None = None,
        *,
        state_file: str | PathLike[str] | None = None,
        signals: Sequence[str | int] = ("SIGTERM", "SIGUSR1"),
        ends: bool = True,
    ) -> Preemption:
        """Saves when the job is about to end: a signal of SLURM, Kubernetes, torchrun or a spot machine comes. docs/cluster.md has launch files.

        At once, even during a long step, the ledger and `state_file` are written, and nothing more is made ahead. When the loop asks for its next batch, `save` is called, in the
        loop's thread. Then what handled the signal before is called: by default the process ends.

        Args:
            save: called with the loader's state between two batches: the place to save the model, too. Default: none.
            state_file: where the state is written as JSON at once; "{rank}" in it stands for the rank. Default: nowhere.
            signals: by name or number. Default: SIGTERM and SIGUSR1.
            ends: False lets the loop go on where nobody handled the signal before; ask `requested` of what this returns. Default: True.

        Returns:
            A context manager; its `close` restores what was there before, `requested` says whether a signal came, and `request()` does what a signal does.

        Raises:
            PlanError: outside of the main thread, and for what cannot be handled or written.

        Example:
            loader, saved = ps.Loader(data.batch(4)), []
            with loader.on_preempt(saved.append):
                for batch in loader:
                    ...
        """
        self._preemptions.append(Preemption(self._rank, save, state_file, signals, ends=ends))
        return self._preemptions[-1]

    @property
    def is_real(self) -> npt.NDArray[np.bool_]:
        """Which rows of the batch that was taken last are not there only to fill it up, on this rank: bool (rows,).

        All of them, but in an epoch's last steps with `equal_parts`, `pad` or `wrap`: losses[loader.is_real].sum(). ProcessError before a pass's first batch.
        """
        return self._rank.share.is_real(*self._rank.taken_last("is_real"))

    @property
    def real_rows(self) -> int:
        """How many rows the step that was taken last has on all ranks, without those that only fill it up.

        With `equal_parts` these come first where ranks' results are joined in their order: torch.cat(gathered)[: loader.real_rows]. ProcessError before a pass's first batch.
        """
        return self._rank.share.real_rows(*self._rank.taken_last("real_rows"))

    def sample_ids(self, epoch: int, step: int) -> Ids:
        """The sample ids of this rank's rows at a step; arithmetic alone, nothing is read.

        Args:
            epoch: counted from 0.
            step: in the epoch, counted from 0.

        Returns:
            An array (rows,) of int64.

        Raises:
            PlanError: if there is no such step, and with lane stages, whose rows depend on the data.

        Example:
            ids = ps.Loader(data.shuffle(seed=0).batch(4)).sample_ids(epoch=1, step=0)
        """
        share = self._rank.share_of_known_rows("sample_ids", epoch, step)
        return share.lowered.order.ids(epoch, step, 1, *share.place)

    def batch_at(self, epoch: int, step: int) -> BatchT:
        """The batch of any step, made at once in the calling thread; the loader's position stays.

        Args:
            epoch: counted from 0.
            step: in the epoch, counted from 0.

        Returns:
            What a pass gives at that step.

        Raises:
            PlanError: as `sample_ids`.

        Example:
            batch = ps.Loader(data.shuffle(seed=0).batch(4)).batch_at(epoch=1, step=0)
        """
        delivered = self._rank.single_step(epoch, step)
        batch: BatchT = self._structure.of(self._deliver.receive(delivered))
        return batch

    def draws(self, epoch: int, step: int) -> dict[str, Any]:
        """What the ops of `transform` draw in any step: which part a crop takes, whether an image is flipped, λ of MixUp.

        The step is made once more, as by `batch_at`. Not told: what functions draw with their `rng`, and transforms below a `cache()` that is filled.

        Args:
            epoch: counted from 0.
            step: in the epoch, counted from 0.

        Returns:
            By column, op and parameter, an array (rows,) of float64: NaN for rows for which an op draws nothing. Ops are named by place and class, those inside others behind
            these, "2 RandomApply / 0 RandomInvert". Ops on whole batches stand beside the columns, with one number a parameter.

        Raises:
            PlanError: as `sample_ids`.

        Example:
            I = ps.image
            photos = ps.read("photos").transform(image=[I.Decode(), I.RandomResizedCrop(64), I.RandomHorizontalFlip()])
            drawn = ps.Loader(photos.batch(4)).draws(epoch=0, step=0)["image"]
            (list(drawn), list(drawn["1 RandomResizedCrop"])) == (["1 RandomResizedCrop", "2 RandomHorizontalFlip"], ["top", "left", "height", "width"])
        """
        return self._rank.drawn(epoch, step)

    # Reporting

    def stats(self) -> Snapshot:
        """Figures since the running pipeline was started, or of the last that ran.

        Of the whole, in `stages` of each stage, and in `storage` (None for local files) of the store: requests, bytes,
        retries, hedges, latency in seconds, cache hits. In `tuning`: for each number that is tuned its value, its limit and whether you fixed
        it, and the last decisions, each with time, old and new value and the reason.

        Returns:
            A `penstock.observe.snapshot.Snapshot`: stats.samples_per_s, or by name stats["samples_per_s"]; `as_dict()` gives plain values.

        Example:
            with ps.Loader(data.batch(4)) as loader:
                for batch in loader:
                    ...
                stats = loader.stats()
            (stats.batches, stats["loader"]["rank"]) == (len(loader), 0)
        """
        return self._rank.stats()

    def report(self, *, html: str | PathLike[str] | None = None) -> str:
        """The bottleneck in words, then the figures of every stage.

        Args:
            html: a file for the same as a page, with the rate over time and what the tuner did: one file of at most 300 KB, without any script, that needs nothing else. Default: none.

        Returns:
            The text.

        Raises:
            PlanError: where the page cannot be written.

        Example:
            with ps.Loader(data.batch(4)) as loader:
                for batch in loader:
                    ...
                text = loader.report(html="run.html")
        """
        stats = self.stats()
        if html is not None:
            write_report(path_of("html", html), self._rank.recorder.history, stats)
        return self._rank.now().report(stats)

    def headspace(self, steps: int = 50) -> Headspace[BatchT]:
        """How much faster data would make training at most: your loop runs on real batches, then on some of them again, for which nobody waits.

        Do in each step what training does, and on a GPU something that waits for it (`loss.item()`). The loader's position moves by the real batches.

        Args:
            steps: measured ones, with data and as many without. Default: 50.

        Returns:
            An iterable of batches; after the loop its `gain` is the rate without waits by the rate with them, `room` has the figures, and `print` says them.

        Raises:
            PlanError: for steps below 1.

        Example:
            loader = ps.Loader(data.batch(4))
            headspace = loader.headspace(steps=8)
            for batch in headspace:
                batch["x"].mean()
            str(headspace).startswith("at most ")
        """
        if not is_whole(steps) or steps < 1:
            raise PlanError(f"headspace(steps={quoted(steps)}): at least one step must be measured, and a whole number")
        return Headspace(self, int(steps))

    def explain(self) -> str:
        """The plan as this loader runs it, in words: see `Dataset.explain`; and which ops the device does."""
        deliver = None if self._told.isolation else self._deliver  # the child delivers NumPy arrays
        return printable_lines(explain(self._rank.plan_now, self.world_size, deliver, self._told.memory_bytes))

    def __repr__(self) -> str:
        self._rank.share_now()
        return str(self._rank.now())

    # The end

    def close(self) -> None:
        """Stops all threads and lets memory go; a new pass starts them again.

        Pinned memory, which CUDA copies from, returns to PyTorch's cache of it, and stays in the process for other loaders.
        """
        while self._preemptions:
            self._preemptions.pop().close()
        self._rank.close()

    def __reduce__(self) -> Never:
        raise unsent()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
