"""How `penstock top` looks: lines for a screen of any size, the most important ones where there is little room."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from rich.table import Table
from rich.text import Text

from penstock.core.messages import counted, printable
from penstock.observe.figure_groups import StorageFigures
from penstock.observe.live import SILENT_S, AllSeen, LoaderSeen, Recent
from penstock.observe.rules.seen import ENOUGH, MUCH
from penstock.observe.run_words import bytes_words, gain_of, gpu_words, limit_words, ranks_words
from penstock.observe.snapshot import Snapshot, StageFigures
from penstock.observe.svg import duration

_EIGHTHS = " ▏▎▍▌▋▊▉█"
#: Letters of a bar and of a stage's name, and the width from which on names are longer and there is more to see.
_BAR, _NAME, _WIDE = 10, 14, 100
#: Stages that a block shows where there is room, GPUs likewise.
_STAGES, _GPUS = 12, 8


@dataclass(frozen=True)
class _BlockLine:
    """A line of a block. rank: the greater, the sooner it is left out."""

    text: Text
    rank: int


class TopScreen:
    """Draws what was seen. is_plain: for a terminal that has ASCII only."""

    def __init__(self, recent: Recent, *, is_plain: bool = False) -> None:
        self._recent, self._is_plain = recent, is_plain

    # The whole screen

    def lines(self, found: AllSeen, width: int, height: int) -> list[Text]:
        """At most `height` lines of at most `width` letters."""
        head, foot = self._head(found, width), self._foot(found)
        room = max(0, height - 1 - len(foot))
        shown = [head, *self._blocks(found.loaders, width, room), *foot][: max(1, height)]
        for line in shown:
            line.truncate(width, overflow="crop" if self._is_plain else "ellipsis")
        return shown

    def _head(self, found: AllSeen, width: int) -> Text:
        head = Text.assemble(
            ("penstock top", "bold"), f"  {time.strftime('%H:%M:%S')}  {counted(len(found.loaders), 'loader')}"
        )
        machine = next((one.snapshot.machine for one in found.loaders if one.snapshot.machine.cores), None)
        if machine is not None:
            head.append(f"  CPUs {machine.cpu:.0%} of {machine.cores}")
        hint = "q quits"
        return head.append(" " * max(2, width - head.cell_len - len(hint))).append(hint, "dim")

    def _foot(self, found: AllSeen) -> list[Text]:
        foot = []
        if not found.loaders:
            foot += [Text(line) for line in nothing_words(found)]
        if found.ignored:
            path, why = found.ignored[0]
            more = f", and {len(found.ignored) - 1:,} more files" if len(found.ignored) > 1 else ""
            foot.append(Text(printable(f"ignored: {path.name}: {why}{more}"), "dim"))
        return foot

    def _blocks(self, loaders: Sequence[LoaderSeen], width: int, room: int) -> Iterator[Text]:
        """Each loader has an equal part of the room, and what others do not need."""
        shown = loaders[: max(1, room - (len(loaders) > room))]
        blocks = [[*self._block(one, width)] for one in shown]
        gaps = len(blocks) * 5 <= room  # a line between them
        left, counts = room, dict[int, int]()
        for done, place in enumerate(sorted(range(len(blocks)), key=lambda place: len(blocks[place]))):
            part = left // (len(blocks) - done)
            counts[place] = min(len(blocks[place]) + gaps, part)
            left -= counts[place]
        for place, block in enumerate(blocks):
            for row in _fitting(block, counts[place] - gaps if gaps else counts[place]):
                yield row.text
            if gaps and counts[place]:
                yield Text()
        if len(loaders) > len(shown):
            yield Text(
                f"and {counted(len(loaders) - len(shown), 'loader')} more: penstock top PID shows those of one process",
                "dim",
            )

    # One loader

    def _block(self, seen: LoaderSeen, width: int) -> Iterator[_BlockLine]:
        now = seen.snapshot
        style = "green" if now.bottleneck in {"consumer", "nothing"} else "yellow"
        first, *others = wrap(printable(now.verdict), max(20, width - 4))[:3] or [""]
        yield _BlockLine(self._title(seen), 0)
        yield _BlockLine(Text(f"  {first}", style), 1)
        for place, more in enumerate(others):
            yield _BlockLine(Text(f"  {more}", style), 20 + place)
        yield _BlockLine(self._times(now), 2)
        busy = sorted(now.stages, key=lambda stage: (stage.name != now.bottleneck, -stage.busy))[:_STAGES]
        for stage in now.stages:
            if stage in busy:
                yield _BlockLine(
                    self._stage(stage, width, is_slowest=stage.name == now.bottleneck), 3 + 2 * busy.index(stage)
                )
        if said := ranks_words(now):
            yield _BlockLine(Text(f"  {printable(said)}", "bold" if "wait for" in said else ""), 4)
        yield _BlockLine(Text(f"  {'  '.join(_resources(now))}"), 6)
        for place, gpu in enumerate(now.gpus[:_GPUS]):
            yield _BlockLine(
                Text(f"  GPU {gpu.index} {printable(gpu.name)}: {gpu_words(gpu)}"), 5 if not place else 30 + place
            )
        if now.storage:
            yield _BlockLine(Text(f"  {_storage(now.storage)}"), 6)
        for one in now.advice[:1]:
            gain = f" ({gain_of(one)})" if gain_of(one) else ""
            yield _BlockLine(
                Text(f"  {'->' if self._is_plain else '→'} {printable(one.change or one.remedy)}{gain}", "cyan"), 4
            )

    def _title(self, seen: LoaderSeen) -> Text:
        now, loader = seen.snapshot, seen.snapshot.loader
        rate, waited, is_now = self._recent.rates(seen)
        style = "green" if waited < ENOUGH else "yellow" if waited < MUCH else "red"
        title = Text.assemble((f"{_cut(loader.name or 'a loader', 28)}", "bold"), f"  {loader.pid}")
        if loader.world_size > 1:
            title.append(f"  rank {loader.rank} of {loader.world_size:,}")
        title.append(f"  {rate:,.0f} samples/s", "bold").append("" if is_now else " since its start").append(
            "  waited "
        ).append(f"{waited:.0%}", style)
        if seen.age_s > SILENT_S:
            title.append(f"  no news for {duration(round(seen.age_s))}", "bold red")
        return title.append(f"  epoch {now.epoch}, step {now.step_number:,}")

    def _times(self, now: Snapshot) -> Text:
        times = (
            f"{word} {duration(took.p50_s)} p95 {duration(took.p95_s)}"
            for word, took in (("step", now.step), ("wait", now.wait))
        )
        return Text.assemble("  ready ", self._bar(now.ready, "green"), f" {now.ready:4.0%}  {'  '.join(times)}")

    def _stage(self, stage: StageFigures, width: int, *, is_slowest: bool) -> Text:
        long = _NAME if width < _WIDE else 2 * _NAME
        line = Text.assemble(
            (f"  {_cut(stage.name, long):<{long}} ", "bold" if is_slowest else ""),
            self._bar(stage.busy, "yellow" if is_slowest else "blue"),
            (f" {stage.busy:4.0%}", "bold" if is_slowest else ""),
            f" in {stage.waiting_for_input:4.0%} out {stage.waiting_for_output:4.0%} {duration(stage.item_s.p50_s):>7}",
        )
        if width >= _WIDE:
            line.append(f" p95 {duration(stage.item_s.p95_s):>7}")
        queue = f"{stage.queue_depth}/{stage.queue_limit}" if stage.queue_limit else f"{stage.queue_depth}"
        return line.append(f" {stage.threads:>2} thr q {queue}")

    def _bar(self, share: float, style: str) -> Text:
        filled = min(1.0, max(0.0, share)) * _BAR
        if self._is_plain:
            return Text(f"[{'#' * round(filled):<{_BAR}}]", style)
        whole, part = divmod(round(8 * filled), 8)
        bar = "█" * whole + (_EIGHTHS[part] if part else "")
        return Text.assemble((bar, style), ("░" * (_BAR - len(bar)), "dim"))

    # Where there is no terminal

    def table(self, found: AllSeen) -> Table:
        """All of it as one table."""
        shown = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        for head in ("process", "loader", "rank", "epoch", "at"):
            shown.add_column(head, overflow="fold", no_wrap=head != "loader", min_width=6 if head == "loader" else None)
        for head in ("samples/s", "waited", "ready", "step"):
            shown.add_column(head, justify="right", no_wrap=True)
        shown.add_column("limited by", overflow="fold", min_width=12)
        for seen in found.loaders:
            now, (rate, waited, _) = seen.snapshot, self._recent.rates(seen)
            loader = now.loader
            limit = limit_words(now)
            cells = (
                str(loader.pid),
                loader.name,
                f"{loader.rank} of {loader.world_size}",
                f"{now.epoch}",
                f"{now.step_number:,}",
            )
            figures = (f"{rate:,.0f}", f"{waited:.0%}", f"{now.ready:.0%}", duration(now.step.p50_s))
            late = f" (no news for {duration(round(seen.age_s))})" if seen.age_s > SILENT_S else ""
            shown.add_row(*(Text(printable(cell)) for cell in (*cells, *figures, f"{limit}{late}")))
        return shown


def nothing_words(found: AllSeen) -> list[str]:
    """Where there is no loader."""
    places = ", ".join(map(str, found.looked_in))
    return [
        "No loader of this user runs on this machine.",
        printable(f"Looked in {places}; a loader tells from its first pass on, twice a second."),
    ]


def _fitting(block: Sequence[_BlockLine], room: int) -> list[_BlockLine]:
    """As many as there is room for, in their order, without those that matter least."""
    kept = sorted(range(len(block)), key=lambda place: (block[place].rank, place))[: max(1, room)]
    return [block[place] for place in sorted(kept)]


def _resources(now: Snapshot) -> Iterator[str]:
    if now.memory:
        held, budget = (now.memory.held_bytes, now.memory.budget_bytes)
        yield f"memory {bytes_words(held)}{f' of {bytes_words(budget)}' if budget else ''}"
    if now.machine.cores:
        yield f"CPUs {now.machine.process_cpu:.0%} by this process, {now.machine.cpu:.0%} in all"
    if bad := now.errors.samples:
        yield f"bad samples {bad:,}"
    if now.stalls:
        yield f"stalls {now.stalls:,}"


def _storage(store: StorageFigures) -> str:
    flight = f"{store.in_flight:.0f} of {store.in_flight_limit} in flight"
    times = f"p50 {duration(store.latency_p50_s)}, p99 {duration(store.latency_p99_s)}"
    looked_up = store.cache_hits + store.cache_misses
    cached = f", {store.cache_hits / looked_up:.0%} from the cache" if looked_up else ""
    return f"store {store.bytes_per_s / 1e6:,.0f} MB/s, {flight}, {times}, {store.retries:,} again{cached}"


def _cut(name: str, most: int) -> str:
    shown = printable(name)
    return shown if len(shown) <= most else f"{shown[: most - 1]}~"
