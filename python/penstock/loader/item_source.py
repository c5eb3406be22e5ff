"""Who makes a loader's items: the stages of this process (`here`), or a child process (`in_child`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.deliver import Deliver
from penstock.loader.options import LoaderOptions
from penstock.loader.share import RankShare
from penstock.observe.bad_samples import BadSamples
from penstock.observe.recorder import Recorder
from penstock.observe.snapshot import Snapshot
from penstock.order.steps.cursor import Position
from penstock.runtime.stage import Delivered
from penstock.stages.lanes.states import Place

#: Where each lane of this rank stands.
LanePlaces = dict[int, list[Place]]


class WokenError(Exception):
    """`interrupt` ended the wait for an item; who asks again gets it."""


class MakesSource(Protocol):
    """Makes the source of a loader. recorder: is told of every item. with_ids: whether a ledger wants the rows of items."""

    def __call__(  # noqa: D102
        self, options: LoaderOptions, deliver: Deliver, bad_samples: BadSamples, recorder: Recorder, *, with_ids: bool
    ) -> ItemSource: ...


class ItemSource(Protocol):
    """Makes the items of a rank's share, ahead of those that are taken. The position is the consumer's: it says where it stands when it asks.

    A source must not hold the loader: a loader that nobody holds any more ends its threads and processes.
    """

    def begin(self, share: RankShare) -> None:
        """Items of this share come next: a pass begins, or in the midst of one the share is another."""

    def next_item(self, here: Position, about_stall: Callable[[], str]) -> Delivered | None:
        """The item that begins at a position: one made ahead, or the first of those made from there on; None where the data says that the epoch has ended there.

        about_stall: what the log tells of a long wait.
        """

    def interrupt(self) -> None:
        """From any thread: nothing is made ahead, and who waits for an item gets WokenError. The next item that is asked for begins anew."""

    def end_pass(self, here: Position) -> None:
        """All items of a pass were taken; raises what was put off until then."""

    def places(self, here: Position) -> LanePlaces:
        """Where lanes stand at a position to which items were taken."""

    def stats(self) -> Snapshot:
        """Figures since items began to be made, or of the last time that they were: then the same object each time."""

    def stats_at_once(self) -> Snapshot:
        """The same from any thread, as far as they are known without waiting for another process."""

    def stop(self, here: Position) -> None:
        """Nothing is made until the next item is asked for. Processes stay, since some take seconds to start."""

    def close(self, here: Position) -> None:
        """The same, and ends processes."""
