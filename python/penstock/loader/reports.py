"""What a loader says of itself: its `repr`, its report, and what the watchdog tells of a stall."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.core.files.whole import write_whole
from penstock.core.messages import plain_signs
from penstock.dataset import Dataset
from penstock.loader.options import LoaderOptions
from penstock.loader.share import RankShare
from penstock.observe.cache_report import cache_advice, cache_lines
from penstock.observe.history import History
from penstock.observe.report import pending_text, report_text
from penstock.observe.snapshot import Snapshot
from penstock.order.sharing import explain_sharing
from penstock.order.steps.cursor import Position
from penstock.storage.fetch.scheduler import pending_requests


@dataclass(frozen=True, kw_only=True)
class LoaderNow:
    """A loader at one moment. origin: who says which rank this is, "" for the user."""

    dataset: Dataset
    options: LoaderOptions
    share: RankShare
    here: Position
    origin: str

    def __str__(self) -> str:
        options, share, here = self.options, self.share, self.share.normal(self.here)
        up_to = "up to " if share.lowered.order.rows_vary else ""
        steps = share.steps_of(here.epoch)
        count = "as many" if steps is None else f"{steps:,}"
        delivery = options.to if options.device is None else f"{options.to} on {options.device}"
        return plain_signs(
            f"Loader({self.dataset!r}, {self._rank}: {count} steps of {up_to}{share.batch_size:,} rows {'as the data gives in ' if steps is None else ''}an epoch, "
            f"to {delivery}; next is epoch {here.epoch}, step {here.step})"
        )

    def report(self, stats: Snapshot) -> str:
        """The bottleneck in words, then the figures of every stage."""
        lowered, is_alone = self.share.lowered, (*self.share.ranks, self.origin) == (0, 1, "")
        advice = cache_advice(stats, lowered.cacheable, lowered.order.samples)
        sharing = explain_sharing(lowered.order, self.share.place[1])
        rank = [] if is_alone else [self._rank]
        return plain_signs("\n\n".join([report_text(stats), *rank, *cache_lines(stats), *advice, *sharing]))

    def about_stall(self, stats: Snapshot) -> str:
        """Where the loader stands, the report, and what stores did not answer; the watchdog tells of the stages."""
        found = [str(self), self.report(stats), pending_text(pending_requests())]
        return "\n\n".join(filter(None, found))

    @property
    def _rank(self) -> str:
        origin = f" ({self.origin})" if self.origin else ""
        return f"rank {self.share.rank} of {self.share.world_size}{origin}"


def write_report(path: str, history: History, stats: Snapshot) -> None:
    """A loader's page. history: what its snapshots said, to which `stats`, the figures now, is added. PlanError where it cannot be written."""
    from penstock.observe.page import page_of
    from penstock.observe.run_html import run_parts

    parts = run_parts([history.with_now(stats)])
    write_whole(Path(path), page_of(stats.loader.name or "Loader", parts).encode(errors="replace"))
