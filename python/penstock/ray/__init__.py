"""`penstock.ray.Loader`: the batches of a loader, made by actors of Ray on any machines of its cluster."""

from __future__ import annotations

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
from penstock.ray.on_ray import OnRay, cluster_cpus

__all__ = ["Loader"]


class Loader(LocalLoader[BatchT]):
    """The batches that `penstock.Loader` gives, byte for byte and with the same states, made by actors of Ray.

    Ray is started on this machine where it was not yet (`ray.init()`). An actor that dies is replaced, one that is slow is helped by another, and where none is left batches are made in
    this process, with a warning: whatever happens, they are the same. The machines must reach the data by the same paths or URLs, and have the same Penstock and Python.

    Plans with stages whose rows depend on the data (`filter` by a function, `flat_map`, `pack`) are made in this process.

    Args:
        dataset: what to read and how it is batched, as for `penstock.Loader`.
        workers: actors, each with one CPU, or "auto": one more while the consumer waits for more than 5 % of the time, up to the cluster's CPUs, and one fewer where it does not wait. Default: "auto".
        actor_options: what Ray is told of each actor, such as {"resources": {"cpu_node": 1}}. Default: one CPU, anywhere.
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
        **options: Any,
    ) -> None:
        if workers != "auto" and (not is_whole(workers) or workers < 1):
            raise PlanError(f"workers={quoted(workers)}; at least one actor must work, and a whole number, or 'auto'")
        if options.get("isolation") is not None:
            raise PlanError("isolation= is for penstock.Loader; actors of Ray are processes of their own")
        self._asked_workers, self._actor_options = (
            (None if workers == "auto" else int(workers)),
            dict(actor_options or {}),
        )
        super().__init__(dataset, **options)

    def _item_source(
        self, options: LoaderOptions, deliver: Deliver, bad_samples: BadSamples, *, with_ids: bool
    ) -> ItemSource:
        check_sendable(self.dataset)
        cluster_cpus()  # which starts Ray
        return OnRay(
            self.dataset, options, deliver, bad_samples, workers=self._asked_workers, actor_options=self._actor_options
        )
