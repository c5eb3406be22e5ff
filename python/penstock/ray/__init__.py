"""`penstock.ray.Loader`: the batches of a loader, made by actors of Ray on any machines of its cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from penstock.core.arguments import is_whole
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.dataset import Dataset
from penstock.deliver import Deliver
from penstock.loader import Loader as LocalLoader
from penstock.loader.child.sent import check_sendable
from penstock.loader.item_source import ItemSource
from penstock.loader.options import BatchT, LoaderOptions
from penstock.observe.bad_samples import BadSamples
from penstock.observe.recorder import Recorder
from penstock.ray.on_ray import OnRay
from penstock.ray.pool import cluster_cpus

__all__ = ["Loader"]


class Loader(LocalLoader[BatchT]):
    """The batches that `penstock.Loader` gives, byte for byte and with the same states, made by actors of Ray.

    Ray is started on this machine where it was not yet (`ray.init()`). An actor that dies is replaced, one that is slow is helped by another, and where none is left batches are made in
    this process, with a warning: whatever happens, they are the same. The machines must reach the data by the same paths or URLs, and have the same Penstock and Python.

    Loaders of the same plan, data and options share actors and what these make: the ranks of a training, and several trainings of one cluster, each at its own position.

    Plans with stages whose rows depend on the data (`filter` by a function, `flat_map`, `pack`) are made in this process.

    Args:
        dataset: what to read and how it is batched, as for `penstock.Loader`.
        workers: actors, each with one CPU, or "auto": one more while the consumer waits for more than 5 % of the time, up to the cluster's CPUs, and one fewer where it does not wait. Default: "auto".
        actor_options: what Ray is told of each actor, such as {"resources": {"cpu_node": 1}}. Default: one CPU, anywhere.
        compare_every: the first item of each node, and then one of so many, is made by two machines and compared; a difference is an error that names the node. None compares nothing. Default: 128.
        **options: those of `penstock.Loader`, without `isolation`.

    Raises:
        PlanError: for what cannot be sent to another machine, and as `penstock.Loader`.

    Example:
        def train(dataset):
            import penstock.ray

            with penstock.ray.Loader(dataset.shuffle(seed=0).batch(64), workers=8) as loader:
                for batch in loader:
                    ...
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        workers: int | Literal["auto"] = "auto",
        actor_options: dict[str, Any] | None = None,
        compare_every: int | None = 128,
        **options: Any,
    ) -> None:
        if workers != "auto" and (not is_whole(workers) or workers < 1):
            raise PlanError(f"workers={quoted(workers)}; at least one actor must work, and a whole number, or 'auto'")
        if compare_every is not None and (not is_whole(compare_every) or compare_every < 1):
            raise PlanError(
                f"compare_every={quoted(compare_every)}; give one of how many items is compared, as a whole number, or None"
            )
        if options.get("isolation") is not None:
            raise PlanError("isolation= is for penstock.Loader; actors of Ray are processes of their own")
        self._asked_workers = None if workers == "auto" else int(workers)
        self._actor_options, self._compare_every = _checked(actor_options or {}), compare_every
        super().__init__(dataset, **options)

    def _item_source(
        self, options: LoaderOptions, deliver: Deliver, bad_samples: BadSamples, recorder: Recorder, *, with_ids: bool
    ) -> ItemSource:
        check_sendable(self.dataset, "penstock.ray.Loader", "use penstock.Loader")
        cluster_cpus()  # which starts Ray
        return OnRay(
            self.dataset,
            options,
            deliver,
            bad_samples,
            recorder,
            workers=self._asked_workers,
            actor_options=self._actor_options,
            compare_every=self._compare_every,
        )


#: What the loader says of actors itself.
_OURS = ("name", "namespace", "get_if_exists", "lifetime", "max_restarts", "max_concurrency", "concurrency_groups")


def _checked(actor_options: Any) -> dict[str, Any]:
    if not isinstance(actor_options, Mapping):
        raise PlanError(f"actor_options={quoted(actor_options)}; give a dict of Ray's options of actors")
    for name in _OURS:
        if name in actor_options:
            raise PlanError(f"actor_options: {name} is not yours to choose, since loaders share actors; leave it out")
    return dict(actor_options)
