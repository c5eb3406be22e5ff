"""Whether all ledgers of a training run together prove that every row was taken once, in the same batches whatever the number of ranks.

Every recording of a step is put in its places of the global batch, whichever rank, start and number of ranks it is of. So steps that were
taken again after a resume must have the same rows, and what no recording fills is missing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, compress, groupby, pairwise

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.core.errors import SourceError
from penstock.observe.ledger.counts import RowCounts
from penstock.observe.ledger.coverage import Coverage, Gap
from penstock.observe.ledger.findings import EpochFound, Finding, Report, Wrong
from penstock.observe.ledger.format import LedgerHeader, StepsHead
from penstock.observe.ledger.grid import Conflict, by_epoch, grids
from penstock.observe.ledger.reader import LedgerFile, ledger_paths, read_ledger
from penstock.observe.ledger.sizes import EpochSizes
from penstock.observe.ledger.timeline import broken_off, jumps, missing_ledgers, overlaps, resumes_of, stretches

#: Reports progress: (done, total), in bytes read and then in steps.
Progress = Callable[[int, int], None]
#: Ids that a finding names.
_SHOWN = 5


def verify(paths: Sequence[str], progress: Progress | None = None) -> Report:
    """What the ledgers at these paths prove; SourceError where there are none, DataError where one is damaged."""
    files, notes = _read(ledger_paths(paths), progress or _silent)
    if not files:
        raise SourceError(
            f"{', '.join(paths)}: no ledger has a whole header; nothing was taken, so there is nothing to verify"
        )
    report = Report(files=len(files), is_numbered=not all(file.header.sources for file in files), notes=notes)
    report.world_sizes = sorted({file.header.world_size for file in files})
    if other := _other_plans(files):
        report.wrong.append(other)
        return report
    report.wrong += _missing_nodes(files)
    files.sort(key=lambda file: (-1 if file.header.node is None else file.header.node, file.header.started_ns))
    nodes = [_Node([*of_node], report) for _, of_node in groupby(files, key=lambda file: file.header.node)]
    done, steps = 0, sum(node.steps for node in nodes)
    for node in nodes:
        for more in node.verify():
            done += more
            (progress or _silent)(done, steps)
    return report


def _silent(_: int, __: int) -> None:
    """No progress is wanted."""


def _read(paths: Sequence[str], progress: Progress) -> tuple[list[LedgerFile], list[str]]:
    total, done, files, notes = sum(map(os.path.getsize, paths)), 0, [], []
    for path in paths:
        file = read_ledger(path)
        if file is None:
            notes.append(f"{os.path.basename(path)}: the process was killed before it took a step")
        else:
            files.append(file)
        if file is not None and file.torn_bytes:
            notes.append(
                f"{file.name}: the last record was cut off by a kill; its {file.torn_bytes:,} bytes are left out"
            )
        done += os.path.getsize(path)
        progress(done, max(1, total))
    return files, notes


def _other_plans(files: Sequence[LedgerFile]) -> Finding | None:
    """Files that cannot be of one training run."""
    first: dict[int | None, LedgerFile] = {}
    for file in files:
        one = first.setdefault(file.header.node, file)
        for what, mine, other in _identity(file.header, one.header):
            if mine != other:
                return Finding(
                    wrong=Wrong.OTHER_PLAN,
                    words=f"{file.name} is of {what} {mine}, and {one.name} of {other}: not one training run; pass the ledgers of each by themselves",
                )
    return None


def _identity(one: LedgerHeader, other: LedgerHeader) -> list[tuple[str, object, object]]:
    return [
        ("data with the digest", one.data, other.data),
        ("a plan with the digest", one.plan, other.plan),
        ("global batches of so many rows:", one.batch_size, other.batch_size),
        ("steps an epoch:", one.steps, other.steps),
        ("rows an epoch:", one.rows, other.rows),
        ("ids, with how often each comes,", one.runs, other.runs),
    ]


def _missing_nodes(files: Sequence[LedgerFile]) -> list[Finding]:
    """Nodes with files of their own of which there is no ledger."""
    header, found = files[0].header, {file.header.node for file in files}
    numbers = range(header.world_size // header.places) if header.node is not None else ()
    words = "node {} of {} has no ledger, and its ranks take a part of every batch; pass its ledgers too"
    return [
        Finding(wrong=Wrong.MISSING_LEDGER, words=words.format(number, len(numbers)))
        for number in numbers
        if number not in found
    ]


class _Node:
    """The ledgers of ranks that share one order: of all, or of a node with files of its own."""

    def __init__(self, files: Sequence[LedgerFile], report: Report) -> None:
        self._report, self._header, self._sizes = report, files[0].header, EpochSizes(files)
        self._name = "" if self._header.node is None else f"node {self._header.node}, "
        sizes = self._sizes
        found = [one for file in files for one in stretches(file, sizes)]
        report.wrong += [*sizes.wrong, *overlaps(found), *missing_ledgers(found)]
        report.wrong += [*chain.from_iterable(jumps(file, sizes) for file in files)]
        if not report.resumes:  # nodes start together
            report.resumes = resumes_of(found, sizes)
        self._left = broken_off(found)
        self._files = [self._in_place(file) for file in files]
        self._records = by_epoch(self._files)
        self._epochs = sorted(self._records)
        self._begin = min(((epoch, records[0].step) for epoch, records in self._records.items()), default=(0, 0))

    @property
    def steps(self) -> int:
        """How many steps there are to verify, about."""
        return sum(max(one.end for one in records) - records[0].step for records in self._records.values())

    def verify(self) -> Iterator[int]:
        """Goes through all epochs; after some steps, how many these were."""
        if self._begin > (0, 0):
            where = f"epoch {self._begin[0]}, step {self._begin[1]:,}"
            self._report.notes.append(f"{self._name}the ledgers begin at {where}; what came before cannot be verified")
        if not self._header.sources:
            self._report.notes.append(
                f"{self._name}the rows come out of a filter by a function, flat_map or pack: it is verified which of its rows were taken, and not what they were made of"
            )
        counts = RowCounts(self._header)
        for before, epoch in pairwise([self._begin[0] - 1, *self._epochs]):
            if epoch > before + 1:
                self._skipped(before + 1, epoch)
            yield from self._verify_epoch(epoch, counts, is_last=epoch == self._epochs[-1])
            counts.end_epoch()

    def _wrong(
        self, wrong: Wrong, words: str, *, epoch: int, step: int | None = None, rows: int = 0, ids: Sequence[int] = ()
    ) -> None:
        words = f"{self._name}epoch {epoch}{words}"
        self._report.wrong.append(Finding(wrong=wrong, words=words, epoch=epoch, step=step, rows=rows, ids=tuple(ids)))

    # Steps in their places

    def _in_place(self, file: LedgerFile) -> LedgerFile:
        """The file without steps that stand in other places than its rank has."""
        good = [found.head is None or self._has_place(found.head, file.header) for found in file.records]
        if all(good):
            return file
        head = file.records[good.index(False)].head
        assert head is not None
        self._wrong(
            Wrong.OTHER_PLACES,
            f", step {head.step:,}: {file.name} has rows of the places {head.at:,} … {head.at + head.rows - 1:,}, which are not those of "
            f"rank {file.header.rank} of {file.header.world_size}",
            epoch=head.epoch,
            step=head.step,
            rows=head.rows,
        )
        return replace(file, records=tuple(compress(file.records, good)))

    def _has_place(self, head: StepsHead, header: LedgerHeader) -> bool:
        last, size = head.step + head.steps - 1, self._size(head.epoch, head.step)
        begin, end = header.place * size // header.places, (header.place + 1) * size // header.places
        equal = -(-size // header.places)  # rows of each rank, where all have equally many
        is_one = (head.at, head.rows) in ((begin, end - begin), (header.place * equal, equal))
        return last < self._sizes.of(head.epoch).steps and self._size(head.epoch, last) == size and is_one

    def _size(self, epoch: int, step: int) -> int:
        """Rows of a step's global batch."""
        of_epoch = self._sizes.of(epoch)
        return of_epoch.last_rows if step == of_epoch.steps - 1 else self._header.batch_size

    # An epoch

    def _verify_epoch(self, epoch: int, counts: RowCounts, *, is_last: bool) -> Iterator[int]:
        of_epoch, first = self._sizes.of(epoch), self._begin[1] if epoch == self._begin[0] else 0
        steps, size, last_rows = of_epoch.steps, self._header.batch_size, of_epoch.last_rows
        covered = Coverage(first=first, steps=steps, size=size, last_rows=last_rows)
        conflicts: list[Conflict] = []
        for grid, found in grids(self._header, self._files, self._records[epoch]):
            conflicts += found
            covered.add(grid.first, grid.is_missing(steps - grid.first, last_rows), grid.is_taken)
            counts.add(epoch, *grid.rows())
            yield len(grid.ids)
        self._check_conflicts(epoch, conflicts)
        left = self._left.get(epoch)
        has_more = covered.end < steps and (is_last or self._sizes.steps(epoch) is None)
        until = left if left is not None else covered.reached if has_more else steps
        if covered.end > until:
            until = self._check_ahead(epoch, covered, until)
        for gap in covered.gaps(until):
            self._missing(epoch, gap)
        self._check_rows(epoch, counts, is_whole=covered.complete == steps)
        found_here = EpochFound(
            epoch=epoch,
            node=self._header.node,
            steps=self._sizes.steps(epoch),
            complete_steps=covered.complete,
            rows=counts.rows,
            first_step=first,
            broken_off=left,
        )
        self._report.epochs.append(found_here)

    def _check_ahead(self, epoch: int, covered: Coverage, until: int) -> int:
        """Some ranks were ahead of the others when they stopped. Up to where all steps must be there: further on where a rank has no ledger at all."""
        size = self._header.batch_size
        has_ledger = np.zeros(size, dtype=bool)
        for header in (file.header for file in self._files):
            has_ledger[header.place * size // header.places : (header.place + 1) * size // header.places] = True
        if not all(has_ledger[gap.low : gap.high].all() for gap in covered.gaps(covered.end)):
            return covered.end
        more = covered.end - until
        self._report.notes.append(
            f"{self._name}epoch {epoch}: all ranks took the steps before {until:,}, and some of them up to {more:,} more"
        )
        return until

    def _check_conflicts(self, epoch: int, conflicts: Sequence[Conflict]) -> None:
        if conflicts:
            first, rows = min(conflicts, key=lambda one: one.step), sum(one.rows for one in conflicts)
            self._wrong(
                Wrong.DIFFERENT_ROWS,
                f", step {first.step:,}: {first.files[0]} and {first.files[1]} have different rows in the same place "
                f"({self._row(first.ids[0])} and {self._row(first.ids[1])}); {rows:,} such rows in this epoch",
                epoch=epoch,
                step=first.step,
                rows=rows,
                ids=first.ids,
            )

    def _skipped(self, first: int, last: int) -> None:
        known, rows, more = self._sizes.known(first, last), (last - first) * self._header.rows, ""
        if self._header.has_ends:
            rows, unknown = sum(size.rows for size in known), last - first - len(known)
            if not unknown and not any(size.steps for size in known):
                return  # epochs of no step
            more = f", besides those of {unknown:,} whose end is not recorded" if unknown else ""
        what = "was" if last == first + 1 else f"to {last - 1} were"
        self._wrong(Wrong.MISSING_STEPS, f" {what} not taken: {rows:,} rows lost{more}", epoch=first, step=0, rows=rows)

    def _missing(self, epoch: int, gap: Gap) -> None:
        steps = f"step {gap.begin:,} is" if gap.end == gap.begin + 1 else f"steps {gap.begin:,} … {gap.end - 1:,} are"
        who = "" if gap.high - gap.low >= self._size(epoch, gap.begin) else f" {self._whose(epoch, gap)}"
        of_epoch = self._sizes.of(epoch)
        has_fewer = of_epoch.rows <= (of_epoch.steps - 1) * self._header.batch_size and not self._header.has_ends
        up_to = "up to " if has_fewer else ""  # some places have none
        words = f": {steps} missing{who}, {up_to}{gap.rows:,} rows lost"
        self._wrong(Wrong.MISSING_STEPS, words, epoch=epoch, step=gap.begin, rows=gap.rows)

    def _whose(self, epoch: int, gap: Gap) -> str:
        """The rank that has these places, by any number of ranks that there was; else the places."""
        size = self._size(epoch, gap.begin)
        for ranks in sorted({file.header.places for file in self._files}):
            rank, equal = -(-gap.low * ranks // size), -(-size // ranks)
            if (rank * size // ranks, (rank + 1) * size // ranks) == (gap.low, gap.high):
                return f"of rank {rank} of {ranks}"
            if gap.low % equal == 0 and gap.high == min(size, gap.low + equal):
                return f"of rank {gap.low // equal} of {ranks}"
        return f"in the places {gap.low:,} … {gap.high - 1:,}"

    # Rows

    def _check_rows(self, epoch: int, counts: RowCounts, *, is_whole: bool) -> None:
        if len(repeated := counts.repeated):
            self._rows_wrong(Wrong.REPEATED_ROWS, epoch, repeated, "came more often than the plan says")
        foreign = np.concatenate([counts.unknown(epoch), *counts.foreign])
        if len(foreign):
            self._rows_wrong(Wrong.FOREIGN_ROWS, epoch, foreign, "are none that the plan chooses from")
        if not is_whole:
            return
        lost = counts.lacking(epoch)
        if len(lost):
            self._rows_wrong(Wrong.LOST_ROWS, epoch, lost, "did not come, in an epoch of which every step was taken")
        elif counts.rows < (wanted := self._sizes.of(epoch).rows):
            rows = wanted - counts.rows
            self._wrong(
                Wrong.LOST_ROWS,
                f": {counts.rows:,} rows came, and an epoch has {wanted:,}",
                epoch=epoch,
                rows=rows,
            )

    def _rows_wrong(self, wrong: Wrong, epoch: int, ids: Ids, what: str) -> None:
        shown = ids[:_SHOWN].tolist()
        names = ", ".join(map(self._row, shown)) + (", …" if len(ids) > _SHOWN else "")
        self._wrong(wrong, f": {len(ids):,} rows {what}: {names}", epoch=epoch, rows=len(ids), ids=shown)

    def _row(self, row: int) -> str:
        """A row's name: its sample id, and its source where there are several."""
        sources = self._header.sources
        if len(sources) < 2 or row >= self._header.samples:
            return f"row {row:,}"
        ends = np.cumsum(sources)
        source = int(np.searchsorted(ends, row, side="right"))
        return f"row {row - int(ends[source]) + sources[source]:,} of source {source}"
